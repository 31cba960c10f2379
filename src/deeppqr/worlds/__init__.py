"""Synthetic worlds with known rewards, values and policies, computed exactly."""

from ._amount import AmountWorld as AmountWorld
from ._app import AppWorld as AppWorld
from ._firms import FirmWorld as FirmWorld
from ._linear_quadratic import LinearQuadratic as LinearQuadratic
from ._paper import PaperWorld as PaperWorld
from ._samq_bus import SamqBus as SamqBus
from ._smooth import SmoothWorld as SmoothWorld
from ._tabular import KnownCostBus as KnownCostBus
from ._tabular import TabularWorld as TabularWorld
from ._tabular import random_tabular as random_tabular

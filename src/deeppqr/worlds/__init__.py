"""Synthetic worlds whose truth is a field."""

from ._paper import PaperWorld as PaperWorld
from ._tabular import TabularWorld as TabularWorld
from ._tabular import random_tabular as random_tabular

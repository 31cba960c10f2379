"""Which solver of the anchor's equation a name or an object stands for."""

from typing import Any

from .._stage_names import ANCHOR_VALUES
from ..learners._sklearn import is_regressor, resolve_part
from ._auto import Auto
from ._averager import Averager
from ._exact import Exact
from ._fitted import Fitted
from ._linear import Linear
from ._problem import AbstractAnchorSolver
from ._structure import Exit, Renewal, SelfLoop

_CLASSES = (Auto, Exact, Linear, Averager, Fitted, Exit, SelfLoop, Renewal)
NAMES = dict(zip(ANCHOR_VALUES, _CLASSES, strict=True))


def resolve(anchor_value: Any) -> AbstractAnchorSolver:
    """The solver behind a name, a solver of ours, or a scikit-learn regressor (FQI-I)."""
    role = "anchor_value"
    # A regressor alone means the paper's iteration with it.
    wrap = lambda part: Fitted(regressor=part) if is_regressor(part, role) else None
    kinds = "a solver from `deeppqr.anchor` or a scikit-learn regressor"
    return resolve_part(anchor_value, role, NAMES, AbstractAnchorSolver, wrap, kinds)

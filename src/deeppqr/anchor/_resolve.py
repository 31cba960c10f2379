"""Which solver of the anchor's equation a name or an object stands for."""

from typing import Any

from .._errors import DataError
from .._stage_names import ANCHOR_VALUES
from ..learners._sklearn import refuse_class, refuse_classifier
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
    refuse_class(anchor_value, "anchor_value")
    if isinstance(anchor_value, str) and anchor_value in NAMES:
        return NAMES[anchor_value]()
    if isinstance(anchor_value, AbstractAnchorSolver):
        return anchor_value
    # A regressor alone means the paper's iteration with it.
    if hasattr(anchor_value, "fit") and hasattr(anchor_value, "predict"):
        refuse_classifier(anchor_value, "anchor_value")
        return Fitted(regressor=anchor_value)
    raise DataError(
        f"`anchor_value` must be one of {sorted(NAMES)}, a solver from `deeppqr.anchor` "
        f"or a scikit-learn regressor, but {anchor_value!r} arrived."
    )

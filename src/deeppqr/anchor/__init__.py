"""Q: the anchor's one-action Bellman equation, solved; then Q and V for every action."""

from typing import Any

from .._basis import Indicators as Indicators
from .._basis import RandomFeatures as RandomFeatures
from .._errors import DataError
from .._sklearn import refuse_class, refuse_classifier
from ._anchor_reward import AnchorReward as AnchorReward
from ._anchor_reward import resolve_anchor_reward as resolve_anchor_reward
from ._auto import Auto as Auto
from ._averager import Averager as Averager
from ._averager import AveragerFunction as AveragerFunction
from ._averager import Forest as Forest
from ._averager import Neighbours as Neighbours
from ._exact import Exact as Exact
from ._exact import TableFunction as TableFunction
from ._exact import solve_anchor_q as solve_anchor_q
from ._fitted import Fitted as Fitted
from ._fitted import NetworkFunction as NetworkFunction
from ._fitted import RegressorFunction as RegressorFunction
from ._known import Known as Known
from ._known import KnownTransition as KnownTransition
from ._known import resolve_transition as resolve_transition
from ._law import KnownLaw as KnownLaw
from ._law import RolledFunction as RolledFunction
from ._linear import Linear as Linear
from ._linear import LinearFunction as LinearFunction
from ._problem import AbstractAnchorSolver as AbstractAnchorSolver
from ._problem import AbstractStateFunction as AbstractStateFunction
from ._problem import AnchorProblem as AnchorProblem
from ._problem import AnchorSolution as AnchorSolution
from ._problem import Surprise as Surprise
from ._structure import ConstantFunction as ConstantFunction
from ._structure import Exit as Exit
from ._structure import Renewal as Renewal
from ._structure import SelfLoop as SelfLoop
from ._structure import SelfLoopFunction as SelfLoopFunction
from ._structure import Structure as Structure
from ._structure import recognise as recognise
from ._value import AbstractValue as AbstractValue
from ._value import AnchoredValue as AnchoredValue
from ._value import Evaluated as Evaluated
from ._value import anchor_problem as anchor_problem

NAMES = {
    "auto": Auto,
    "exact": Exact,
    "linear": Linear,
    "averager": Averager,
    "fitted": Fitted,
    "exit": Exit,
    "self-loop": SelfLoop,
    "renewal": Renewal,
}


def resolve(anchor_value: Any) -> AbstractAnchorSolver:
    """The solver behind a name, a solver of ours, or a scikit-learn regressor (FQI-I)."""
    refuse_class(anchor_value, "anchor_value")
    if isinstance(anchor_value, str) and anchor_value in NAMES:
        return NAMES[anchor_value]()
    if isinstance(anchor_value, AbstractAnchorSolver):
        return anchor_value
    if hasattr(anchor_value, "fit") and hasattr(anchor_value, "predict"):
        refuse_classifier(anchor_value, "anchor_value")
        return Fitted(regressor=anchor_value)
    raise DataError(
        f"`anchor_value` must be one of {sorted(NAMES)}, a solver from `deeppqr.anchor` "
        f"or a scikit-learn regressor, but {anchor_value!r} arrived."
    )

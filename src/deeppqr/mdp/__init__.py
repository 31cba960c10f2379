"""The forward problem: decision models, their soft optimum, and simulation."""

from typing import TYPE_CHECKING, Any

from ._law import Law as Law
from ._simulate import policy_log_likelihood as policy_log_likelihood
from ._simulate import simulate_choices as simulate_choices
from ._soft_q import SoftQLearning as SoftQLearning
from ._tabular import TabularMDP as TabularMDP
from ._tabular import solve_soft as solve_soft

if TYPE_CHECKING:
    from ._gymnasium import FittedReward as FittedReward
    from ._gymnasium import WorldEnv as WorldEnv
    from ._gymnasium import rollout as rollout


def __getattr__(name: str) -> Any:
    # Gymnasium is optional: these load when they are first used.
    if name in ("FittedReward", "WorldEnv", "rollout"):
        from . import _gymnasium

        return getattr(_gymnasium, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

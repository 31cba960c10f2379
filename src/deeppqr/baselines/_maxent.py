"""Deep maximum-entropy IRL: the energies of the policy, taken as the reward."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._random import check_seed
from .._shapes import PerAction, States
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel, action_index, require_panel
from ..policy._policy import AbstractPolicy
from ..policy._resolve import resolve as resolve_policy
from ._baseline import NOTHING, AbstractBaseline, BaselineFit, fit_policy


@dataclass(frozen=True)
class MaxEntIRL(AbstractBaseline):
    r"""Maximum-entropy IRL: maximum-likelihood energies, taken as the reward.

    $$\hat r(s,a) = \alpha\log\hat\pi(a|s) = \hat Q(s,a) - \hat V(s).$$

    The likelihood identifies Q up to any function of the state; we take the energies
    whose log-sum-exp is zero in every state. As a reward this is right where nothing
    follows (discount zero) and the anchor's reward is known.

    Parameters
    ----------
    temperature
        $\alpha$, the scale of the agent's randomness.
    policy
        Whose likelihood is maximised: `"network"` for the deep energies of the paper, or
        anything that `PQR` takes.
    q_at_origin
        (state, action label, value): the true Q at one pair, the paper's grounding,
        $\hat Q(s,a) - \hat Q(0,0) + Q(0,0)$. It moves all estimates by one constant.

    References
    ----------
    [ziebart2008]; [wulfmeier2015]; [geng2020pqr], Algorithm "MaxEnt-IRL with Grounding
    Procedure".
    """

    temperature: float = 1.0
    policy: Any = "network"
    q_at_origin: Any = None
    seed: int = 0

    def __post_init__(self):
        check_preferences(0.0, self.temperature)
        check_seed(self.seed)
        resolve_policy(self.policy)
        _check_origin(self.q_at_origin)

    def fit(self, panel):
        require_panel(panel)
        policy, note = fit_policy(self.policy, panel, seed=self.seed)
        energy = EnergyReward(policy, self.temperature)
        fit = BaselineFit(
            "MaxEnt-IRL", NOTHING, panel.actions, panel.encoding, energy, policy, note
        )
        if self.q_at_origin is None:
            return fit
        state, label, q = self.q_at_origin
        # One constant for all states: the paper's grounding, weaker than `grounded`.
        found = energy(_one_state(state, panel))[0, action_index(panel.actions, label)]
        return replace(
            fit,
            given="the true Q at one state and action",
            reward_function=replace(energy, level=float(q - found)),
            grounding=f"Q = {float(q):g} at state {np.ravel(state).tolist()}, {label!r}",
        )


@dataclass(frozen=True, eq=False)
class EnergyReward:
    """The temperature times log pi, and a constant."""

    policy: AbstractPolicy
    temperature: float
    level: float = 0.0

    def __call__(self, state: States) -> PerAction:
        return self.temperature * self.policy.log_prob(state) + self.level


def _one_state(state: Any, panel: Panel) -> Float[np.ndarray, "1 state_feature"]:
    return panel.encoding.encode_any(np.atleast_1d(np.asarray(state, dtype=object))[None])


def _check_origin(origin: Any) -> None:
    if origin is None:
        return
    triple = isinstance(origin, (tuple, list)) and len(origin) == 3
    number = triple and isinstance(origin[2], (int, float, np.number))
    if not number or not np.isfinite(origin[2]):
        raise DataError(
            "`q_at_origin` must be a state, an action's label and the finite value of Q "
            f"there, as in ([0.0, 0.0], 0, 17.3), but {origin!r} arrived."
        )

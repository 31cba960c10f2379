"""Deep maximum-entropy IRL and behavioural cloning: energies taken as the reward."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._errors import DataError
from .._shapes import PerAction, States
from ..panel._panel import Panel, action_index, require_panel
from ..policy._policy import AbstractPolicy
from ._baseline import NOTHING, AbstractBaseline, BaselineFit, check_settings, fit_policy


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
        check_settings(self)
        _check_origin(self.q_at_origin)

    def fit(self, panel):
        require_panel(panel)
        fit = _energies("MaxEnt-IRL", self, panel)
        energy: Any = fit.reward_function
        if self.q_at_origin is None:
            return fit
        state, label, q = self.q_at_origin
        row = np.atleast_1d(np.asarray(state, dtype=object))[None]
        found = fit.reward(row)[0, action_index(panel.actions, label)]
        return replace(
            fit,
            given="the true Q at one state and action",
            reward_function=partial(energy, level=float(q - found)),
            grounding=f"Q = {float(q):g} at state {np.ravel(state).tolist()}, {label!r}",
        )


@dataclass(frozen=True)
class BehaviouralCloning(AbstractBaseline):
    r"""The imitating policy's log-odds against the anchor.

    $$\hat r(s,a) = \alpha\{\log\hat\pi(a|s) - \log\hat\pi(a^A|s)\} = Q(s,a) - Q(s,a^A).$$

    It is the static logit of discrete choice: what the reward would be if agents did not
    look ahead. MaxEnt-IRL on the same policy, grounded at the anchor, is the same.

    Parameters
    ----------
    anchor
        Label of the action that the others are compared with.
    temperature
        $\alpha$, the scale of the agent's randomness.
    policy
        Anything that `PQR` takes.
    """

    anchor: Any
    temperature: float = 1.0
    policy: Any = "auto"
    seed: int = 0

    def __post_init__(self):
        check_settings(self)

    def fit(self, panel):
        require_panel(panel)
        panel.action_index(self.anchor)
        fit = _energies("behavioural cloning", self, panel)
        return replace(fit.grounded(self.anchor), grounding="log-odds against the anchor")


def _energies(method: str, settings: Any, panel: Panel) -> BaselineFit:
    """The fit whose reward is the temperature times log pi."""
    policy, note = fit_policy(settings.policy, panel, seed=settings.seed)
    reward = partial(energy_reward, policy, settings.temperature)
    return BaselineFit(method, NOTHING, panel.actions, panel.encoding, reward, policy, note)


def energy_reward(
    policy: AbstractPolicy, temperature: float, state: States, *, level: float = 0.0
) -> PerAction:
    """The temperature times log pi, and a constant."""
    return temperature * policy.log_prob(state) + level


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

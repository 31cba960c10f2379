r"""The two regressions of a fit, as losses on any decisions of the paper's world.

FQI-I regresses $V(s')$ on the states where the anchor was taken, RE on all states and
actions. What a fit makes of them follows from its Q, V and r, whatever its stages are:
$$E[V(s')|s,a] = \{Q(s,a) - r(s,a)\}/\gamma.$$
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from deeppqr._fit import Fit
from deeppqr.panel import Panel


class Regression(NamedTuple):
    """Rows of a regression, its target V(s') and what the fit foresees of it."""

    state: Float[np.ndarray, "row state_feature"]
    action: Int[np.ndarray, " row"]
    target: Float[np.ndarray, " row"]
    foreseen: Float[np.ndarray, " row"]
    next_state: Float[np.ndarray, "row state_feature"]

    @property
    def loss(self) -> float:
        return float(np.mean((self.target - self.foreseen) ** 2))


def anchor_regression(fit: Fit, panel: Panel) -> Regression:
    """FQI-I's, at the last round: targets are those that the estimate itself implies."""
    anchor = fit.estimate.anchor
    rows = panel.has_next & (panel.action == anchor)
    here = fit.estimate(panel.state[rows])
    ahead = (here.q[:, anchor] - here.anchor_reward) / fit.discount
    return _regression(fit, panel, rows, ahead)


def reward_regression(fit: Fit, panel: Panel) -> Regression:
    """RE's, before the anchor's reward is replaced by the known one."""
    rows = panel.has_next
    state, action = panel.state[rows], panel.action[rows]
    taken = np.arange(len(state)), action
    reward = fit.reward_function(state, fit.estimate)
    ahead = (fit.estimate(state).q - reward)[taken] / fit.discount
    return _regression(fit, panel, rows, ahead)


def _regression(fit: Fit, panel: Panel, rows: np.ndarray, ahead: np.ndarray) -> Regression:
    following = panel.next_state[rows]
    target = fit.estimate(following).value
    return Regression(panel.state[rows], panel.action[rows], target, ahead, following)


def noise(world: Any, fit: Fit, regression: Regression) -> float:
    """The part of V(s') that nobody can foresee, as its expected mean square.

    Inside the box the next state is certain; a jump lands anywhere in it.
    """
    jumps = world.transition.common
    share = np.zeros(len(regression.action))
    for index, label in enumerate(world.actions):
        rows = regression.action == index
        share[rows] = world.transition.outcomes(regression.state[rows], label).rest
    return float(share.mean() * np.var(fit.estimate(jumps).value))

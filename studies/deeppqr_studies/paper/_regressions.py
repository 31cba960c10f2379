r"""The two regressions of a fit, their losses, and the complexity of their labels.

FQI-I regresses $V(s')$ on the states where the anchor was taken, RE on all states and
actions. Their predictions follow from the Q, V and r of a fit, whatever its stages are:
$$E[V(s')|s,a] = \{Q(s,a) - r(s,a)\}/\gamma.$$
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve

import deeppqr


class Regression(NamedTuple):
    """Rows of a regression, its target V(s') and what the fit predicts of it."""

    state: Float[np.ndarray, "row state_feature"]
    action: Int[np.ndarray, " row"]
    target: Float[np.ndarray, " row"]
    predicted: Float[np.ndarray, " row"]
    next_state: Float[np.ndarray, "row state_feature"]

    @property
    def loss(self) -> float:
        return float(np.mean((self.target - self.predicted) ** 2))


def anchor_regression(fit: deeppqr.Fit, panel: deeppqr.Panel) -> Regression:
    """FQI-I's, at the last round: targets are those that the estimate itself implies."""
    anchor = fit.estimate.anchor
    rows = panel.has_next & (panel.action == anchor)
    here = fit.estimate(panel.state[rows])
    continuation = (here.q[:, anchor] - here.anchor_reward) / fit.discount
    return _regression(fit, panel, rows, continuation)


def reward_regression(fit: deeppqr.Fit, panel: deeppqr.Panel) -> Regression:
    """RE's, before the anchor's reward is replaced by the known one."""
    rows = panel.has_next
    state, action = panel.state[rows], panel.action[rows]
    taken = np.arange(len(state)), action
    reward = fit.reward_function(state, fit.estimate)
    continuation = (fit.estimate(state).q - reward)[taken] / fit.discount
    return _regression(fit, panel, rows, continuation)


def _regression(
    fit: deeppqr.Fit, panel: deeppqr.Panel, rows: np.ndarray, continuation: np.ndarray
) -> Regression:
    following = panel.next_state[rows]
    target = fit.estimate(following).value
    return Regression(
        panel.state[rows], panel.action[rows], target, continuation, following
    )


def noise(world: Any, fit: deeppqr.Fit, regression: Regression) -> float:
    """The part of V(s') that no state and action predict, as its expected mean square.

    Inside the box the next state is certain; a jump lands anywhere in it.
    """
    jumps = world.transition.common
    share = np.zeros(len(regression.action))
    for index, label in enumerate(world.actions):
        rows = regression.action == index
        share[rows] = world.transition.outcomes(regression.state[rows], label).rest
    return float(share.mean() * np.var(fit.estimate(jumps).value))


def unit_norm(inputs: Float[np.ndarray, "row input"]) -> Float[np.ndarray, "row input"]:
    """The direction of every input."""
    return inputs / np.linalg.norm(inputs, axis=1, keepdims=True)


def relu_kernel(inputs: Float[np.ndarray, "row input"]) -> Float[np.ndarray, "row row"]:
    r"""The kernel of a two-layer ReLU network of infinite width, inputs at unit norm.

    $$H^\infty_{ij} = \frac{x_i^\top x_j\,\{\pi - \arccos(x_i^\top x_j)\}}{2\pi}.$$

    References
    ----------
    [arora2019fine]; [geng2020pqr], Theorem 2.
    """
    unit = unit_norm(inputs)
    cosine = np.clip(unit @ unit.T, -1.0, 1.0)
    np.fill_diagonal(cosine, 1.0)
    return cosine * (np.pi - np.arccos(cosine)) / (2 * np.pi)


def kernel_complexity(
    inputs: Float[np.ndarray, "row input"], target: Float[np.ndarray, " row"]
) -> float:
    r"""$\sqrt{2\,y^\top (H^\infty)^{-1} y / n}$, the term of Theorem 2 for one regression.

    Inputs are brought to unit norm, as the theorem has them. They must be distinct then:
    two labels at one input would make it infinite.
    """
    solved = cho_solve(cho_factor(relu_kernel(inputs)), target)
    return float(np.sqrt(2 * target @ solved / len(target)))

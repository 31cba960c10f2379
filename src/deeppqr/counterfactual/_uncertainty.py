"""From gradients by the reward to standard errors, by the delta method."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .._errors import NoInfluenceFunction
from .._shapes import PerAction
from ..panel._clusters import clustered_covariance
from ..panel._panel import Panel
from ..reward._joint_reward import JointReward
from ._problem import Setting

if TYPE_CHECKING:
    from .._fit import Fit

NO_ERRORS = (
    "standard errors in closed form come with the default reward, and with counted tables "
    "where the panel is given; resample units otherwise: fit.bootstrap(panel, lambda fit: "
    "fit.counterfactual(panel, ...).changes)"
)


def covariance_of(
    setting: Setting, gradients: Sequence[PerAction], panel: Panel | None
) -> tuple[Float[np.ndarray, "figure figure"], str]:
    """The covariance of figures with these gradients by the fit's reward at the nodes.

    NaN where the fit has no errors in closed form; what they rest on, in words.
    """
    fit = setting.fit
    stacked = np.stack([np.zeros_like(setting.reward), *gradients])[1:]
    if isinstance(fit.reward_function, JointReward):
        return joint_covariance(fit, setting.state, stacked), "delta method"
    if setting.cells is not None and panel is not None:
        from ..inference._influence import reward_influence

        try:
            found = reward_influence(fit, panel)
        except NoInfluenceFunction:
            pass
        else:
            # Nodes without decisions have gradient zero in a table of decisions.
            at = setting.cells.require(found.cells.states)
            used = stacked[:, at].reshape(len(stacked), -1)
            moved = np.nan_to_num(found.influence).reshape(len(found.influence), -1)
            return clustered_covariance(moved @ used.T), f"delta method, {found.note}"
    unknown = np.full((len(gradients), len(gradients)), np.nan)
    return unknown, NO_ERRORS


def joint_covariance(
    fit: "Fit", state: np.ndarray, by_reward: Float[np.ndarray, "figure row action"]
) -> Float[np.ndarray, "figure figure"]:
    """The covariance of figures of a jointly estimated reward."""
    slopes = coefficient_gradients(fit, state, by_reward)
    assert isinstance(fit.reward_function, JointReward)
    return slopes @ fit.reward_function.covariance @ slopes.T


def coefficient_gradients(
    fit: "Fit", state: np.ndarray, by_reward: Float[np.ndarray, "figure row action"]
) -> Float[np.ndarray, "figure coefficient"]:
    """By the coefficients of a jointly estimated reward."""
    reward = fit.reward_function
    assert isinstance(reward, JointReward)
    columns = reward.basis.columns(state)
    found = np.zeros((len(by_reward), len(reward.theta)))
    for action in range(by_reward.shape[2]):
        slopes, used = reward.basis.slopes(columns, action)
        found[:, used] += by_reward[:, :, action] @ slopes
    return fit.temperature * found

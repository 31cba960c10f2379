r"""A reward over amounts as a linear form of features of the state and the action.

At the decisions of the panel $\hat r - g$ is regressed on the features, so that the form is
the best linear approximation where actions were taken. Fitted rewards are linear in their
coefficients, $\hat r - g = \psi\hat\theta$, and so is the answer:
$\hat\beta = (F'WF)^{-1}F'W\psi\,\hat\theta$, whose covariance follows from theirs.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError, NoInfluenceFunction
from .._messages import counted, plain
from ..continuous._anchor import actions_at
from ..continuous._reward import AmountReward
from ..panel._panel import Panel, require_panel
from ._projection import Projection

if TYPE_CHECKING:
    from .._fit import Fit

# A feature counts as zero at the anchor up to this share of its size elsewhere.
ZERO = 1e-6


def project_amounts(
    fit: "Fit", features: Any, panel: Panel, *, names: Sequence[str] | None = None
) -> Projection:
    """The best linear form at the decisions of a panel, with clustered errors.

    `features` is a function of arrays of the states and of the actions, a row each, that
    returns a column for each feature; all are zero at the anchor, whose reward is known.
    """
    require_panel(panel, amounts=True)
    if panel.space != fit.space or panel.encoding != fit.encoding:
        raise DataError(
            "The panel must have the states and actions of the fit, "
            f"{fit.encoding.names} and {fit.space}, but it has {panel.encoding.names} and "
            f"{panel.space or 'finitely many actions'}. Pass the panel that was fitted."
        )
    reward = fit.reward_function
    if not isinstance(reward, AmountReward):
        raise NoInfluenceFunction(
            "This fit's reward was estimated in stages and has no errors in closed form: "
            f"{fit.stages['reward'].split(';')[0]}. Fit with the default reward, or "
            "resample units: fit.bootstrap(panel, statistic)."
        )
    if not callable(features):
        raise DataError(
            "Over amounts `features` must be a function of the states and the actions, "
            "such as lambda states, actions: np.column_stack([actions, actions**2]), but "
            f"{plain(features)} arrived."
        )
    space = reward.shapes.space
    actions = actions_at(panel.amount, space, len(panel))
    columns = _columns(features, panel, actions)
    anchor = np.repeat(reward.shapes.anchor_action[None], len(panel), axis=0)
    at_anchor = np.abs(_columns(features, panel, anchor)).max(axis=0)
    size = np.sqrt((columns**2).mean(axis=0))
    wrong = np.flatnonzero(at_anchor > ZERO * np.maximum(size, 1e-300))
    if len(wrong):
        raise DataError(
            f"`features` must be zero at the anchor {fit.anchor}, whose reward is known, "
            f"but feature {wrong[0]} is up to {at_anchor[wrong[0]]:.3g} there "
            f"({counted(len(wrong), 'such feature')}). Take what it is there from it."
        )
    labels = _names(names, columns.shape[1])
    weighted = columns * panel.weight[:, None]
    gram = columns.T @ weighted
    if np.linalg.matrix_rank(gram / np.outer(size, size)) < len(gram):
        raise DataError(
            f"The {counted(len(gram), 'feature')} are collinear at the decisions of the "
            "panel: leave one out."
        )
    slopes = reward.basis.average(reward.basis.columns(panel.state), reward.shapes(actions))
    map_to_form = fit.temperature * np.linalg.solve(gram, weighted.T @ slopes)
    known = reward.anchor_reward(panel.state)
    beyond = reward.reward_at(panel.state, actions, fit.temperature) - known
    theta = np.linalg.solve(gram, weighted.T @ beyond)
    left = beyond - columns @ theta
    share = float(panel.weight @ left**2) / float(panel.weight @ beyond**2)
    facts = {
        "decisions": f"{len(panel):,}",
        "units": f"{panel.num_units:,}",
        "anchor": str(fit.anchor),
        "discount": f"{fit.discount:g}",
        "left unexplained": f"{share:.1%}",
    }
    note = (
        "Least squares of the fitted reward, beyond the anchor's, at the decisions taken; "
        "errors from the covariance of its coefficients. The form is not tested: the share "
        "left unexplained says how far the fitted reward is from it."
    )
    covariance = map_to_form @ reward.covariance @ map_to_form.T
    return Projection(labels, theta, covariance, None, facts, note)


def _columns(features: Callable, panel: Panel, actions: np.ndarray) -> np.ndarray:
    states = panel.encoding.decode(panel.state)
    given = actions[:, 0] if actions.shape[1] == 1 else actions
    found = np.asarray(features(states, given.copy()))
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or len(found) != len(panel) or found.dtype.kind not in "iufb":
        raise DataError(
            "`features` must return a row of numbers for each state and action, "
            f"{len(panel):,}, but an array of {found.dtype} with shape {found.shape} "
            "arrived."
        )
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
        raise DataError(f"`features` must be finite, but row {row} has {found[row]}.")
    return found


def _names(names: Sequence[str] | None, number: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"feature {index}" for index in range(number))
    if len(names) != number:
        raise DataError(
            f"`names` must have one for each of {counted(number, 'feature')}, but there "
            f"are {len(names)}."
        )
    return tuple(map(str, names))

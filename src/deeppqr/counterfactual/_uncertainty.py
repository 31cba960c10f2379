"""From gradients by the reward to standard errors, by the delta method."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .._errors import NoInfluenceFunction
from .._shapes import PerAction, States
from ..continuous._uncertainty import AmountUncertainty

if TYPE_CHECKING:
    from .._fit import Fit

NO_ERRORS = (
    "none in closed form; resample units: fit.bootstrap(panel, lambda fit: "
    "fit.counterfactual(panel, ...).changes)"
)


def covariance_of(
    fit: "Fit", state: States, gradients: Sequence[PerAction]
) -> tuple[Float[np.ndarray, "figure figure"], str]:
    """The covariance of figures with these gradients by the fit's reward at some states.

    Where actions are amounts the gradients are by the rewards at the quadrature's nodes.
    NaN where the fit has no errors in closed form; what they rest on, in words.
    """
    try:
        uncertainty = fit._errors()
    except NoInfluenceFunction:
        return np.full((len(gradients), len(gradients)), np.nan), NO_ERRORS
    if isinstance(uncertainty, AmountUncertainty):
        shapes = uncertainty.reward.shapes
        at_nodes = shapes(shapes.space.nodes().action)
        pull = (each @ at_nodes for each in gradients)
        root = uncertainty.pulled_by_shape(state, pull, fit.temperature)
    else:
        root = uncertainty.pulled(state, np.stack(gradients), fit.estimate)
    return root @ root.T, "delta method"

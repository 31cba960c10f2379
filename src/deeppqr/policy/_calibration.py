"""One factor on all energies, which corrects over- and underconfidence."""

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax


def calibrate(
    energy: Float[np.ndarray, "row action"], action: np.ndarray, weight: np.ndarray
) -> float:
    """The factor on held-out energies that maximises their likelihood."""

    def loss(log_factor: float) -> float:
        scores = log_softmax(np.exp(log_factor) * energy, axis=1)
        return -float(np.average(scores[np.arange(len(action)), action], weights=weight))

    best = minimize_scalar(loss, bounds=(-3.0, 2.0), method="bounded")
    return float(np.exp(best.x))

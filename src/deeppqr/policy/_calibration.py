"""Temperature scaling: one factor that corrects over- and underconfident scores."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from .._shapes import PerAction


def calibrate(energy: PerAction, action: np.ndarray, weight: np.ndarray) -> float:
    """The factor on held-out energies that maximises their likelihood."""

    # In logs, so that factors of 1/2 and 2 are equally far from one.
    def loss(log_factor: float) -> float:
        scores = log_softmax(np.exp(log_factor) * energy, axis=1)
        return -float(np.average(scores[np.arange(len(action)), action], weights=weight))

    # Factors from 1/20 to 7.4. Estimates at a bound mean that the scores predict nothing
    # (all shrunk), or that they separate the held-out rows.
    best = minimize_scalar(loss, bounds=(-3.0, 2.0), method="bounded")
    return float(np.exp(best.x))

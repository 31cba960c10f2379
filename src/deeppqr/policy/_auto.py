"""The policy by evidence: a table where states repeat, else the best on held-out units."""

from dataclasses import dataclass
from math import comb

import numpy as np

from ..panel import Panel, few_states
from ._frequency import Frequency
from ._logit import Logit
from ._network import Network
from ._policy import AbstractPolicyEstimator, PolicyFit

ROWS_PER_CELL = 30
MAX_MONOMIALS = 300
MIN_NETWORK_ROWS = 500


@dataclass(frozen=True)
class Auto(AbstractPolicyEstimator):
    """Frequencies where distinct states repeat often enough to be counted; otherwise the
    candidate with the highest log-likelihood on held-out units."""

    def fit(self, panel, *, key):
        if few_states(panel.state, rows_per_cell=ROWS_PER_CELL * panel.num_actions):
            return Frequency().fit(panel, key=key)
        fits = {name: model.fit(panel, key=key) for name, model in _candidates(panel)}
        scores = {
            name: float(np.average(fit.held_out, weights=panel.weight))
            for name, fit in fits.items()
        }
        best = max(scores, key=scores.__getitem__)
        chosen = fits[best]
        ranking = sorted(scores.items(), key=lambda item: -item[1])
        return PolicyFit(chosen.policy, chosen.held_out, chosen.note, tuple(ranking))


def _candidates(panel: Panel) -> list[tuple[str, AbstractPolicyEstimator]]:
    candidates: list[tuple[str, AbstractPolicyEstimator]] = [("logit", Logit())]
    if comb(panel.state.shape[1] + 2, 2) - 1 <= MAX_MONOMIALS:
        candidates.append(("quadratic logit", Logit(degree=2)))
    if len(panel) >= MIN_NETWORK_ROWS:
        candidates.append(("network", Network()))
    return candidates

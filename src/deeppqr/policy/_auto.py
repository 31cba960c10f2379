"""The default policy: a frequency table, or the best of several on held-out units."""

from dataclasses import dataclass, replace
from math import comb

import numpy as np
from jaxtyping import PRNGKeyArray

from ..panel._cells import COUNTED, few_states, fewest_rows
from ..panel._panel import Panel
from ._boosted import Boosted
from ._frequency import Frequency
from ._logit import Logit
from ._network import Network
from ._policy import AbstractPolicyEstimator, draw_folds, score_without

# A quadratic logit is a candidate up to 23 state columns (299 monomials), and up to this
# many rows times monomials, beyond which it takes longer than all others together.
MAX_MONOMIALS = 300
MAX_PRODUCTS = 4_000_000
# With fewer rows networks and boosted trees are not tried: a fifth of them is held out, and
# a hundred rows do not rank such models.
MIN_FLEXIBLE_ROWS = 500


@dataclass(frozen=True)
class Auto(AbstractPolicyEstimator):
    """Frequencies where states are few and every action was taken in each; otherwise the
    candidate with the highest log-likelihood on held-out units.

    Candidates are a logit, a quadratic logit, networks and boosted trees. Where states are
    few but some action was never taken in some of them, they are frequencies and logits: a
    count of zero says little about log pi, and a logit borrows from other states.
    A candidate is fitted once on the units outside the first fold, networks and boosted
    trees with a single member of their ensemble, and scored on that fold. The best one is
    then fitted on all units.
    """

    def fit(self, panel, *, key):
        counted = few_states(panel.state, rows_per_cell=COUNTED * panel.num_actions)
        # Not compared with others: a full table has no bias, and its noise is in the s.e.
        if counted and fewest_rows(panel.state, panel.action, panel.num_actions) > 0:
            return Frequency().fit(panel, key=key)
        candidates = _candidates(panel, counted)
        scores = {
            name: _score_on_first_fold(model, panel, key=key)
            for name, model in candidates.items()
        }
        ranking = sorted(scores.items(), key=lambda item: -item[1])
        chosen = candidates[ranking[0][0]].fit(panel, key=key)
        return replace(chosen, evidence=tuple(ranking))


Candidate = Frequency | Logit | Network | Boosted


def _candidates(panel: Panel, counted: bool) -> dict[str, Candidate]:
    candidates: dict[str, Candidate] = {"logit": Logit()}
    # Of degree one and two in d variables: (d + 2 choose 2), less the constant.
    num_monomials = comb(panel.state.shape[1] + 2, 2) - 1
    affordable = len(panel) * num_monomials <= MAX_PRODUCTS
    if num_monomials <= MAX_MONOMIALS and affordable:
        candidates["quadratic logit"] = Logit(degree=2)
    if counted:
        candidates["frequencies"] = Frequency()
    elif len(panel) >= MIN_FLEXIBLE_ROWS:
        candidates["network"] = Network()
        candidates["boosted trees"] = Boosted()
    return candidates


def _score_on_first_fold(model: Candidate, panel: Panel, *, key: PRNGKeyArray) -> float:
    """The mean log-likelihood on the first fold of one fit on the others."""
    # One fold and not five: it ranks the candidates at a fifth of the cost, and the choice
    # matters little where two are close.
    first = draw_folds(panel, key=key) == 0
    if isinstance(model, (Frequency, Logit)):
        fit = model.tabulate if isinstance(model, Frequency) else model.maximise
        held_out = score_without(fit, panel, first)
    else:
        # A single member trains outside the first fold.
        if isinstance(model, Network):
            single = replace(model, training=replace(model.training, members=1))
        else:
            single = replace(model, members=1)
        held_out = single.fit(panel, key=key).held_out[first]
    return float(np.average(held_out, weights=panel.weight[first]))

"""The default policy: a frequency table, or a smooth logit."""

from dataclasses import dataclass

from ..panel._cells import COUNTED, few_states, fewest_rows
from ._frequency import Frequency
from ._policy import AbstractPolicyEstimator
from ._smooth import SmoothLogit


@dataclass(frozen=True)
class Auto(AbstractPolicyEstimator):
    """Frequencies where states are few and every action was taken in each; otherwise a
    logit on smooth terms of the state.

    With the default reward this policy is where estimation starts and what the reward is
    checked against; the fit's own policy follows from the reward. Networks and boosted
    trees are for who asks for them by name.
    """

    def fit(self, panel, *, key):
        counted = few_states(panel.state, rows_per_cell=COUNTED * panel.num_actions)
        # Not compared with others: a full table has no bias, and its noise is in the s.e.
        if counted and fewest_rows(panel.state, panel.action, panel.num_actions) > 0:
            return Frequency().fit(panel, key=key)
        return SmoothLogit().fit(panel, key=key)

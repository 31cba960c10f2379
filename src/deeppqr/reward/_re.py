"""RE, the paper's reward estimator, in the form that the data allow."""

from dataclasses import dataclass

from ..panel._cells import Cells, few_states
from ._regression import Linear
from ._reward import AbstractRewardEstimator
from ._table import Table


@dataclass(frozen=True)
class RE(AbstractRewardEstimator):
    """Means where every action was taken in every distinct state, else linear."""

    def fit(self, panel, value, *, key):
        if few_states(panel.state, rows_per_cell=2 * panel.num_actions):
            rows = panel.is_transition
            # A table with an empty cell would leave rewards NaN; regression fills them.
            cells = Cells.of(panel.state)
            if cells.tally(panel.state[rows], panel.action[rows], panel.num_actions).all():
                return Table().fit(panel, value, key=key)
        return Linear().fit(panel, value, key=key)

"""RE on a table: the continuation as a mean over each state and action's rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .._stored import stored
from ..anchor._known import KnownTransition
from ..law._table import Table as CountedTransition
from ..law._transition import Steps
from ..mdp._law import Law
from ..panel._cells import Cells
from ._reward import AbstractReward, AbstractRewardEstimator, RewardFit


@dataclass(frozen=True)
class Table(AbstractRewardEstimator):
    """The mean of V(s') in each cell; NaN where the pair was never seen.

    A pair (state, action) without rows has no continuation and so no reward: nothing in
    the data says where it leads.
    """

    def fit(self, panel, value, *, key):
        del key
        cells = Cells.of(panel.state)
        law = CountedTransition(cells, Steps.of(panel).pooled())
        table = law.ahead(lambda state: value(state).value[:, None]).table[:, :, 0]
        note = f"means in {len(cells):,} states"
        if law.num_unseen:
            note += f"; {law.num_unseen} of {table.size} (state, action) pairs never seen"
        return RewardFit(TableReward(cells, table, value.discount, law), note)


@dataclass(frozen=True)
class Known(AbstractRewardEstimator):
    """The continuation under a known transition law: an exact expectation."""

    transition: KnownTransition

    def fit(self, panel, value, *, key):
        del panel, key
        cells = self.transition.cells
        table = self.transition.probability @ value(cells.states).value
        note = f"exact expectation over {len(cells):,} states"
        return RewardFit(TableReward(cells, table, value.discount), note)


@dataclass(frozen=True)
class KnownLaw(AbstractRewardEstimator):
    """The continuation under a law given as a function."""

    transition: Law

    def fit(self, panel, value, *, key):
        del key
        # Once for all states: the common draw does not depend on the state.
        common = self.transition.common_mean(lambda state: value(state).value)
        reward = LawReward(self.transition, panel.actions, common, value.discount)
        how = "exact expectation under the known law"
        if self.transition.draws is not None:
            how = f"mean over {self.transition.draws} draws from the known law"
        return RewardFit(reward, how)


@stored
@dataclass(frozen=True, eq=False)
class LawReward(AbstractReward):
    """RE with expectations taken under a known law."""

    transition: Law
    actions: tuple[Any, ...]
    common_value: float
    """Mean of V over the law's common draw."""
    discount: float

    def __call__(self, state, value):
        ahead = [
            self.transition.expect(
                lambda after: value(after).value,
                state,
                action,
                common_value=self.common_value,
            )
            for action in self.actions
        ]
        return value(state).q - self.discount * np.stack(ahead, axis=1)


@stored
@dataclass(frozen=True, eq=False)
class TableReward(AbstractReward):
    """RE with a tabulated continuation."""

    cells: Cells
    continuation: Float[np.ndarray, "cell action"]
    discount: float
    law: CountedTransition | None = None
    """Where actions lead, for problems solved again; None if it was not counted."""

    def __call__(self, state, value):
        # States outside the table raise: nothing is known of where actions lead there.
        ahead = self.continuation[self.cells.require(state)]
        return value(state).q - self.discount * ahead

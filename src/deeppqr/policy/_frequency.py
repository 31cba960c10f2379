"""The policy as a table of frequencies, for panels with few distinct states."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._stored import stored
from ..panel._cells import Cells
from ..panel._panel import Panel
from ._policy import AbstractPolicy, AbstractPolicyEstimator, cross_validated, log_shares


@dataclass(frozen=True)
class Frequency(AbstractPolicyEstimator):
    r"""How often each action was taken in each distinct state, smoothed.

    $$\hat\pi(a|s) = \frac{n(s,a) + c\,\bar\pi(a)}{n(s) + c},$$
    where $\bar\pi$ are the overall shares and `smoothing` is $c$: that many pseudo-rows
    of average behaviour per state. States without decisions get the overall shares.
    """

    # One pseudo-row bounds log pi for actions never taken in a state, and vanishes as
    # counts grow. Doubling it moves a probability by about 1/n(s).
    smoothing: float = 1.0

    def __post_init__(self):
        if not 0 <= self.smoothing < np.inf:
            raise DataError(
                "`Frequency(smoothing=...)` must be a number of rows, zero or more, but it "
                f"is {self.smoothing!r}."
            )

    def fit(self, panel, *, key):
        note = f"frequencies in {len(Cells.of(panel.state)):,} distinct states"
        return cross_validated(self.tabulate, panel, note, key=key)

    def tabulate(self, panel: Panel) -> "FrequencyPolicy":
        """The table of a panel, without cross-validation."""
        cells = Cells.of(panel.state)
        count = cells.tally(panel.state, panel.action, panel.num_actions, panel.weight)
        shares = np.exp(log_shares(panel))
        smoothed = count + self.smoothing * shares
        # Without smoothing an action never taken has log-probability -inf, see `clip`.
        with np.errstate(divide="ignore"):
            table = np.log(smoothed / smoothed.sum(axis=1, keepdims=True))
        return FrequencyPolicy(cells, table, np.log(shares), self.smoothing)


@stored
@dataclass(frozen=True, eq=False)
class FrequencyPolicy(AbstractPolicy):
    """A table of log-probabilities; `elsewhere` serves states outside it."""

    cells: Cells
    table: Float[np.ndarray, "cell action"]
    elsewhere: Float[np.ndarray, " action"]
    smoothing: float = 0.0
    """The `smoothing` it was fitted with, which its influence function needs."""

    def log_prob(self, state):
        # Not `require`: next states in which nobody decided need a policy as well.
        cell = self.cells.locate(state)
        return np.where(cell[:, None] >= 0, self.table[cell], self.elsewhere)

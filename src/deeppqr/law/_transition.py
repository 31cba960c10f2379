"""The interface of learned laws: expectations of functions of the next state."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._shapes import Codes, Mask, PerRow, States
from .._stored import stored
from ..learners._chunks import in_chunks
from ..panel._cells import Cells
from ..panel._panel import Panel

# Numbers in the steps that a fit keeps, 8 MB: 70,000 steps of five columns, all of them in
# most panels. With fewer, laws by regression of what is kept are rougher than the fit's.
MAX_KEPT = 1_000_000

StateFunction = Callable[[np.ndarray], np.ndarray]
"""States to columns of values, (row, column)."""


class AbstractAhead(ABC):
    """E[f(s') | s, a] of one function f, at any state and for every action."""

    @abstractmethod
    def __call__(self, state: States) -> Float[np.ndarray, "row action column"]: ...

    def of_taken(self, state: States, action: Codes) -> Float[np.ndarray, "row column"]:
        """The expectation for each row's own action."""
        return self(state)[np.arange(len(state)), action]


class AbstractTransition(ABC):
    """A learned law of the next state, known through the expectations it gives."""

    @abstractmethod
    def ahead(self, function: StateFunction) -> AbstractAhead:
        """The expectation of `function` at the next state; zero once the process ended."""

    def kept(self) -> "AbstractTransition":
        """This law as a fit keeps it, of bounded size, for problems solved again."""
        return self


class AbstractSampledTransition(AbstractTransition):
    """A law that can also be drawn from: what a simulation needs."""

    @abstractmethod
    def survival(self, state: States, action: Codes) -> PerRow:
        """The chance of each row that the process goes on after its action."""

    @abstractmethod
    def land(self, state: States, action: Codes, rng: np.random.Generator) -> States:
        """A draw of each row's next state, given that the process goes on.

        Its mean is the law's. A column of zeros and ones may hold a probability instead.
        """

    def draw(
        self, state: States, action: Codes, rng: np.random.Generator
    ) -> tuple[States, Mask]:
        """A next state of each row, and whether the process ended instead."""
        ends = rng.random(len(state)) >= self.survival(state, action)
        return self.land(state, action, rng), ends


@stored
@dataclass(frozen=True, eq=False)
class Steps:
    """The rows of a panel that show where an action led."""

    state: States
    action: Codes
    next_state: States
    """Where `ends`, a copy of the state: it is never used."""
    ends: Mask
    weight: PerRow
    num_actions: int

    @classmethod
    def of(cls, panel: Panel) -> "Steps":
        rows = panel.is_transition
        ends = panel.terminal[rows]
        state = panel.state[rows]
        next_state = np.where(ends[:, None], state, panel.next_state[rows])
        return cls(
            state,
            panel.action[rows],
            next_state,
            ends,
            panel.weight[rows],
            panel.num_actions,
        )

    def select(self, rows: Mask) -> "Steps":
        return Steps(
            self.state[rows],
            self.action[rows],
            self.next_state[rows],
            self.ends[rows],
            self.weight[rows],
            self.num_actions,
        )

    def thinned(self) -> "Steps":
        """Every so many steps, so that `MAX_KEPT` numbers are not exceeded."""
        every = -(-self.state.size * 2 // MAX_KEPT)
        if every <= 1:
            return self
        return self.select(np.arange(len(self.state)) % every == 0)

    def pooled(self) -> "Steps":
        """Equal rows merged, with their weights added."""
        every = np.column_stack([self.state, self.action, self.next_state, self.ends])
        distinct = Cells.of(every.astype(np.float64))
        weight = np.bincount(distinct.locate(every), self.weight, len(distinct))
        dim, rows = self.state.shape[1], distinct.states
        return Steps(
            rows[:, :dim],
            rows[:, dim].astype(np.int64),
            rows[:, dim + 1 : -1],
            rows[:, -1] > 0,
            weight,
            self.num_actions,
        )

    def follow(self, function: StateFunction) -> Float[np.ndarray, "row column"]:
        """The function at each row's next state; zero where the process ended."""
        # Also where the process ended, for a plain array; overwritten below.
        values = in_chunks(function, self.next_state)
        values[self.ends] = 0.0
        return values

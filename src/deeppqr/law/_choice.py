"""Chooses the law of the next state that predicts held-out units best."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from .._errors import DataError
from .._shapes import Codes, PerRow, States
from ..learners._ridges import Ridges
from ..panel._cells import COUNTED, few_states
from ..panel._panel import Panel
from ._moves import Moves
from ._regression import Regression
from ._table import Table
from ._transition import AbstractTransition, Steps

# Units are split into five folds and one is held out. With ten the choices on the paper
# world, the firms and Rust's group 4 are the same.
FOLDS = 5
# Standard errors, clustered by unit, by which a costlier law must be better. A rule of 2 %
# used to stand here: on the smooth world it took a law whose errors were 1.4 % larger,
# which was six standard errors, and mean rewards were off by four of theirs. On the paper's
# world, the firms and Rust's buses all costlier laws are worse or within one.
CLEARLY = 2.0
# Ridges of the next state that a law is judged by, beside the state itself.
NUM_FORESEEN = 15
# Steps, of evenly spaced units, that the choice is made on; the chosen law is learned on
# all. Candidates differ by more than 2 % or by nothing that matters.
CHOICE_STEPS = 20_000


@dataclass(frozen=True, eq=False)
class Learned:
    """A law of the next state and the evidence for it."""

    law: AbstractTransition
    name: str
    evidence: tuple[tuple[str, float], ...]
    """Candidates with the share of the next state's variance that they leave
    unexplained in held-out units, best first; none where there was nothing to compare."""

    @property
    def note(self) -> str:
        compared = ", ".join(f"{name} {score:.4g}" for name, score in self.evidence)
        judged = f" (held-out error: {compared})" if compared else ""
        return f"next states by {self.name}{judged}"


def learn_transition(panel: Panel, *, moves: bool = True) -> Learned:
    """Learn the law of the next state by every method that applies; keep the best.

    A law is judged by its squared error, in units it was not fitted on, for the next state
    and smooth functions of it, because values are such functions. Nothing here is random:
    every fifth unit is held out. Without `moves` the law of typical steps is not tried.
    """
    steps = Steps.of(panel)
    # Two rows per state and action are enough to try a table, COUNTED to trust it untested.
    table = _full_table(steps)
    if table is not None and few_states(
        steps.state, rows_per_cell=COUNTED * steps.num_actions
    ):
        return Learned(table, "table", ())
    judged = judged_rows(panel)[panel.is_transition]
    out = held_out_rows(panel)[panel.is_transition]
    inside, outside = steps.select(judged & ~out), steps.select(judged & out)
    if not (inside.weight.any() and outside.weight.any()):
        # A handful of steps: nothing is left to judge by, and the cheapest law is taken.
        name, law = next(_candidates(steps, tabular=table is not None, moves=moves))
        return Learned(law, name, ())
    ahead_of = foreseen(steps.state)
    truth = outside.follow(ahead_of)
    # Scales over all units: a variable may happen not to vary in the held-out fold.
    spread = np.concatenate([truth, inside.follow(ahead_of)]).var(axis=0)
    spread = spread + 1e-12 * np.maximum(1.0, spread.max())
    candidates = partial(_candidates, tabular=table is not None, moves=moves)
    losses = {}
    for name, law in candidates(inside):
        try:
            expected = law.ahead(ahead_of).of_taken(outside.state, outside.action)
        except DataError:  # a held-out state is not in the table
            continue
        losses[name] = ((truth - expected) ** 2 / spread).mean(axis=1)
    scores = {
        name: float(np.average(loss, weights=outside.weight))
        for name, loss in losses.items()
    }
    lowest = losses[min(scores, key=lambda name: scores[name])]
    unit = panel.unit[panel.is_transition][judged & out]
    # Candidates come in the order of their cost: a costlier one must be clearly better.
    best = next(
        name
        for name, loss in losses.items()
        if not clearly_worse(loss - lowest, outside.weight, unit)
    )
    # Learned again on all units: the held-out fold was only for the choice.
    law = next(law for name, law in candidates(steps) if name == best)
    ranking = sorted(scores.items(), key=lambda item: item[1])
    return Learned(law, best, tuple(ranking))


def clearly_worse(excess: PerRow, weight: PerRow, unit: Codes) -> bool:
    """Whether a law's excess loss is beyond chance."""
    by_unit = np.bincount(unit, weight * excess)
    return bool(by_unit.sum() > CLEARLY * np.sqrt((by_unit**2).sum()))


def foreseen(state: States) -> "_Foreseen":
    """The functions of the next state that laws are judged by."""
    return _Foreseen(Ridges.of(state, NUM_FORESEEN))


@dataclass(frozen=True, eq=False)
class _Foreseen:
    """What laws are judged by: the state and tanh ridges of it."""

    ridges: Ridges

    def __call__(self, state: np.ndarray) -> np.ndarray:
        return self.ridges(state)[:, 1:]


def judged_rows(panel: Panel) -> np.ndarray:
    """Rows of every so many blocks of five units, or of rows where units are few."""
    every = max(1, round(int(panel.is_transition.sum()) / CHOICE_STEPS))
    if panel.num_units >= 2 * FOLDS * every:
        return panel.unit // FOLDS % every == 0
    return np.arange(len(panel)) // 100 % every == 0


def held_out_rows(panel: Panel) -> np.ndarray:
    """Rows of every fifth unit, or the last fifth of the rows where units are few."""
    if panel.num_units >= FOLDS:
        return panel.unit % FOLDS == FOLDS - 1
    return np.arange(len(panel)) * FOLDS // len(panel) == FOLDS - 1


def _full_table(steps: Steps) -> Table | None:
    """The table, where states are few and every pair of state and action was seen."""
    if not few_states(steps.state, rows_per_cell=2 * steps.num_actions):
        return None
    return Table.learn(steps)


def _candidates(
    steps: Steps, *, tabular: bool, moves: bool
) -> Iterator[tuple[str, AbstractTransition]]:
    """Every law that applies to these steps, the cheapest first; learned on demand."""
    table = Table.learn(steps) if tabular else None
    if table is not None:
        yield "table", table
    if moves:
        typical = Moves.learn(steps)
        yield "moves", typical
    yield "regression", Regression.learn(steps)
    if moves:
        yield "moves and regression", Regression.learn(steps, base=typical)

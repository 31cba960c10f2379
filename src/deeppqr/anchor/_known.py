"""The anchor's equation with transitions that the user gives, as a table or a function.

A table is solved exactly. A function with finitely many outcomes is followed: all states
that the anchor can lead to are enumerated, until no new ones appear or discounting makes
the rest negligible, and the equation on them is one sparse linear system. With sampled
outcomes it is projected on features (LSTD).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from .._errors import DataError
from .._messages import counted
from .._shapes import Codes, Mask, States
from .._stored import stored
from ..learners._basis import RandomFeatures, penalty
from ..mdp._law import Law
from ..mdp._simulate import draw
from ..mdp._tabular import (
    ROUNDING,
    absorbing_states,
    as_floats,
    check_transition,
    looks_rounded,
    solve_bellman,
    warn_of_absorbing,
    warn_of_rounded_table,
    warn_of_rounding,
)
from ..panel._cells import Cells
from ..panel._panel import Panel
from ._exact import solve_table
from ._linear import solve_features
from ._problem import (
    AbstractAnchorSolver,
    AbstractStateFunction,
    AnchorProblem,
    AnchorSolution,
)

# States that are enumerated: two million with two outcomes each take about 100 MB, and
# their sparse LU factors several times that.
MAX_STATES = 2_000_000
PROBED = 200  # rows at which a function's probabilities are added up, for each action


@dataclass(frozen=True, eq=False)
class KnownTransition:
    """The law of the next state on a table: who can go where, with what probability."""

    cells: Cells
    """States in which something is decided; to go elsewhere is an end."""
    probability: Float[np.ndarray, "cell action next_cell"]

    @property
    def end(self) -> Float[np.ndarray, "cell action"]:
        """The probability that the process ends."""
        return 1 - self.probability.sum(axis=2)

    def draw(
        self, state: States, action: Codes, rng: np.random.Generator
    ) -> tuple[States, Mask]:
        """A next state of each row, and whether the process ended instead."""
        chance = self.probability[self.cells.require(state), action]
        end = 1 - chance.sum(axis=1)
        chance = np.column_stack([chance, np.where(end > ROUNDING, end, 0)])
        picked, number = draw(chance, rng), len(self.cells)
        return self.cells.states[np.minimum(picked, number - 1)], picked == number


def resolve_transition(transition: Any, panel: Panel) -> KnownTransition | Law:
    """The law behind `transition`: a function, an array, or a pair (states, array).

    An array alone is over the states 0, 1, 2, ... of a single state column. The process
    ends with the probability that a row lacks to one; the panel must not contradict that.
    """
    if not (callable(transition) or isinstance(transition, Law)):
        if not isinstance(transition, tuple):
            law = np.atleast_1d(as_floats("transition", transition))
            transition = (np.arange(float(len(law)))[:, None], law)
        if len(transition) != 2:
            raise DataError(
                "`transition` must be an array, a pair (states, array) or a function, but "
                f"a tuple of {len(transition)} arrived."
            )
        states, table = transition
        return resolve_table(states, table, panel)
    named = [str(c) for c in panel.encoding.columns if c.kind == "categorical"]
    if named:
        raise DataError(
            f"A `transition` given as a function needs numeric states, but {named} are "
            "categorical. Number the categories."
        )
    law = transition if isinstance(transition, Law) else Law(transition)
    if law.draws is None:  # draws may miss an end that is rare
        _check_ends(law, panel)
        _warn_of_rounded_outcomes(law, panel)
    return law


def resolve_table(states: Any, table: Any, panel: Panel) -> KnownTransition:
    """The law of a table of probabilities between `states`, without the ends."""
    probability = as_floats("transition", table)
    num_states, num_actions = probability.shape[:1], panel.num_actions
    num_states = num_states[0] if num_states else 0
    if probability.shape != (num_states, num_actions, num_states):
        raise DataError(
            "`transition` must have the shape (state, action, next_state) with "
            f"{num_actions} actions, but its shape is {probability.shape}."
        )
    check_transition(probability)
    encoded = panel.encoding.encode_any(states)
    if not len(Cells.of(encoded)) == len(encoded) == num_states:
        raise DataError(
            f"`transition` has {num_states} states, but its table of states has "
            f"{len(encoded)} rows, {len(Cells.of(encoded))} of them distinct."
        )
    _check_known(encoded, panel)
    ends = _ends(encoded, probability, panel)
    warn_of_absorbing(np.where(ends, 0.0, probability), stacklevel=5)
    cells = Cells.of(encoded[~ends])
    # Cells are sorted, the user's states may not be.
    order = np.flatnonzero(~ends)[np.argsort(cells.locate(encoded[~ends]))]
    known = KnownTransition(cells, probability[order][:, :, order])
    _check_ends(known, panel)
    over = panel.terminal
    missing = 1 - probability[order].sum(axis=2)
    # Terminal rows of the panel say that such an end is one.
    if not looks_rounded(missing[cells.require(panel.state[over]), panel.action[over]]):
        warn_of_rounded_table(probability, stacklevel=5)
    return known


def _warn_of_rounded_outcomes(law: Law, panel: Panel) -> None:
    """Rounding in the probabilities that a function gives, at some of the panel's rows."""
    rows = np.arange(len(panel))[:: max(1, len(panel) // PROBED)]
    missing = np.array([law.missing(panel.state[rows], a) for a in panel.actions])
    if panel.terminal.any() or not looks_rounded(missing):
        return
    index, row = np.argwhere(missing > ROUNDING)[0]
    warn_of_rounding(
        missing,
        f"the first at the state {panel.state[rows[row]]} under "
        f"{panel.actions[index]!r}, which sum to {1 - missing[index, row]:.6g}",
        stacklevel=5,
        remedy="divide them by their sum in the function",
    )


def _check_known(states: States, panel: Panel) -> None:
    """Refuse a panel with decisions in states that the table does not have."""
    unknown = np.flatnonzero(Cells.of(states).locate(panel.state) < 0)
    if len(unknown):
        raise DataError(
            f"`transition` has {counted(len(states), 'state')}, and the panel's row "
            f"{unknown[0]}, in the state {panel.state[unknown[0]]}, is in none of them "
            f"({counted(len(unknown), 'row')} in all). An array alone is over the states "
            "0, 1, 2, ...; name others by a pair, `transition=(states, array)`."
        )


def _ends(states: States, probability: np.ndarray, panel: Panel) -> np.ndarray:
    """States in which the process is over: they do not occur in the panel and are cut off
    from the others or, where the panel has terminal rows, never left."""
    ends = ~probability.any(axis=(0, 1)) & ~probability.any(axis=(1, 2))
    if panel.terminal.any():
        ends = ends | absorbing_states(probability)
    seen = Cells.of(np.concatenate([panel.state, panel.next_state[panel.has_next]]))
    return ends & (seen.locate(states) < 0)


def _check_ends(known: KnownTransition | Law, panel: Panel) -> None:
    """Refuse a terminal row where the law says that the process goes on."""
    for index in np.unique(panel.action[panel.terminal]):
        rows = np.flatnonzero(panel.terminal & (panel.action == index))
        state, label = panel.state[rows], panel.actions[index]
        if isinstance(known, Law):
            outcomes = known.outcomes(state, label)
            chance = 1 - outcomes.probability.sum(axis=1) - outcomes.rest
        else:
            chance = known.end[known.cells.require(state), index]
        wrong = rows[chance <= ROUNDING]
        if len(wrong):
            raise DataError(
                f"Under `transition` the process goes on after {label!r} in the state "
                f"{panel.state[wrong[0]]}, but the panel has {len(wrong)} terminal rows in "
                "such states. Leave the chance of an end out of the probabilities, "
                "`transition[state, action] *= 1 - end`, or `terminal` out of the panel."
            )


@dataclass(frozen=True)
class Known(AbstractAnchorSolver):
    """The anchor's equation under a known transition law: exact, no regression."""

    transition: KnownTransition
    anchor: int

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        cells = self.transition.cells
        note = f"exact solve with the known transitions of {len(cells):,} states"
        ends = self.transition.end > ROUNDING
        note += f", ends after {ends.sum():,} of {ends.size:,} pairs" if ends.any() else ""
        moves = self.transition.probability[:, self.anchor]
        return solve_table(problem, cells, moves, note)


@dataclass(frozen=True)
class KnownLaw(AbstractAnchorSolver):
    """The anchor's equation solved by following the law from wherever it is asked."""

    transition: Law
    tol: float = 1e-12

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        if self.transition.draws is not None:
            return self._project(problem, key)
        label, law = problem.anchor_label, self.transition
        rolled = RolledFunction(law, problem.bonus, label, problem.discount, 0.0, self.tol)
        if law.common is not None:
            rolled = rolled.with_common_value()
        note = "exact under the known law, followed from each state"
        return AnchorSolution(rolled, residual=self.tol, note=note)

    def _project(self, problem: AnchorProblem, key) -> AnchorSolution:
        """LSTD with the next features averaged over draws, at all states of the panel."""
        state = np.unique(problem.query_states, axis=0)
        state = state[:: max(1, len(state) // 20_000)]
        features = RandomFeatures().fit(state, problem.log_prob, key=key)
        evaluate = lambda at: features(at, problem.log_prob(at))
        here = evaluate(state)
        outcomes = self.transition.outcomes(state, problem.anchor_label)
        there, bonus = np.zeros_like(here), np.zeros(len(state))
        for sample in range(outcomes.states.shape[1]):
            weight = outcomes.probability[:, sample]
            there += weight[:, None] * evaluate(outcomes.states[:, sample])
            bonus += weight * problem.bonus(outcomes.states[:, sample])
        # One pseudo-row, where the regression on data has 100: the law is known, so the
        # penalty only has to keep the system regular.
        system = here.T @ (here - problem.discount * there) + penalty(here.shape[1], 1.0)
        note = f"direct solve on {len(system)} features, {self.transition.draws} draws"
        return solve_features(features, system, here.T @ bonus, len(here), note)


@stored
@dataclass(frozen=True, eq=False)
class RolledFunction(AbstractStateFunction):
    """h at any state, by following the anchor from it."""

    transition: Law
    bonus: Callable[[np.ndarray], np.ndarray]
    anchor_label: Any
    discount: float
    common_value: float
    """E[bonus + discount h] over the law's common draw."""
    tol: float

    def __call__(self, state, log_prob):
        level, slope = self._affine(state)
        return level + slope * self.common_value

    def with_common_value(self) -> "RolledFunction":
        """Solve for the common draw's own value: one scalar equation."""
        common = self.transition.common
        assert common is not None
        level, slope = self._affine(common)
        start = self.bonus(common).mean() + self.discount * level.mean()
        value = start / (1 - self.discount * slope.mean())
        return replace(self, common_value=float(value))

    def _affine(self, state: States) -> tuple[np.ndarray, np.ndarray]:
        """h = level + slope * (value of the common draw) at each state."""
        queried = Cells.of(state)
        states, moves, rest = self._follow(queried.states)
        target = np.stack([moves @ self.bonus(states), rest], axis=1)
        solved = solve_bellman(moves, target, discount=self.discount)
        level, slope = solved[queried.locate(state)].T
        return level, slope

    def _follow(self, state: np.ndarray):
        """Every state the anchor can lead to, the queried ones first, and the moves."""
        known, rest, sources, targets, weights = state, [], [], [], []
        expanded, remaining = 0, 1.0
        while expanded < len(known):
            frontier, first = known[expanded:], expanded
            expanded, remaining = len(known), remaining * self.discount
            if remaining < self.tol:  # states beyond change h by less than the tolerance
                rest.append(np.zeros(len(frontier)))
                break
            outcomes = self.transition.outcomes(frontier, self.anchor_label)
            row, outcome = np.nonzero(outcomes.probability)
            landed = outcomes.states[row, outcome] + 0.0
            new = landed[Cells(known).locate(landed) < 0]
            known = np.concatenate([known, Cells.of(new).states]) if len(new) else known
            rest.append(outcomes.rest)
            sources.append(first + row)
            targets.append(Cells(known).locate(landed))
            weights.append(outcomes.probability[row, outcome])
            if len(known) > MAX_STATES:
                raise DataError(
                    f"Following the anchor leads to more than {MAX_STATES:,} states. Give "
                    "the law as samples instead: deeppqr.mdp.Law(function, draws=64)."
                )
        join = lambda parts: np.concatenate([np.zeros(0), *parts])
        shape = (len(known), len(known))
        pairs = (join(sources).astype(np.int64), join(targets).astype(np.int64))
        moves = sparse.coo_array((join(weights), pairs), shape=shape).tocsc()
        return known, moves, join(rest)

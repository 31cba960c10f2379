"""Anchors with closed-form values: exits, self-loops and renewals, and their tests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from .._errors import DataError
from .._shapes import Codes, Mask
from .._stored import stored
from ..learners._basis import penalty
from ..learners._scaling import Scaling, spread
from ..panel._cells import Cells
from ._averager import Neighbours
from ._problem import (
    AbstractAnchorSolver,
    AbstractStateFunction,
    AnchorProblem,
    AnchorSolution,
    LogProbBonus,
)

# What these constants decide was measured on eleven panels: a random table, the paper world
# (p = 2 and 5; 2,000 to 20,000 decisions), firms that exit, Rust's buses (group 4; 1-4), a
# bus with known costs (with and without two irrelevant variables) and SAmQ's bus (600 and
# 5,000 decisions). Doubling ROUNDING, MIN_DRAWS, CONTRADICTION or BLOCKS changes none.
# Differences below this share of a column's standard deviation count as zero.
ROUNDING = 1e-8
# Fewest anchor rows that show a self-loop, or one next state for all. Twice as many leave
# the renewal of Rust's group 4 (33 replacements) unrecognised.
MIN_ROWS = 20
# Fewest anchor rows that show a random renewal.
MIN_DRAWS = 50
# Probability, at most, with which a random renewal is rejected by chance. At 0.2 that of
# the bus with irrelevant variables is (its score is 2.25 and the limit falls below).
LEVEL = 0.1
# A correlation of this over the root of the number of rows is nearly always detected. At
# 12 the renewal of SAmQ's bus is not accepted with 1,731 anchor rows.
VISIBLE = 6.0
# Largest dependence that may go undetected, in standard deviations of the states. At 0.5
# the renewal of SAmQ's bus is already accepted with 204 anchor rows.
MAX_MISSED = 0.25
# Standard errors of dependence that refute a renewal which the user claims.
CONTRADICTION = 5.0
# Consecutive parts of the rows; each is predicted from those before it.
BLOCKS = 10


@dataclass(frozen=True)
class Exit(AbstractAnchorSolver):
    """The anchor ends the process, so nothing follows it: h = 0.

    Refuses data in which the process continues after the anchor.
    """

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        goes = ~problem.ends & (problem.weight > 0)
        if goes.any():
            raise DataError(
                f'anchor_value="exit" says that the anchor {problem.anchor_label!r} ends '
                f"the process, but it continues in {int(goes.sum()):,} of "
                f"{_number(problem)} anchor rows. Mark rows that end as terminal, or use "
                'anchor_value="auto".'
            )
        note = f"exit: nothing follows the anchor, {_number(problem)} anchor rows"
        return AnchorSolution(ConstantFunction(0.0), residual=0.0, note=note)


@dataclass(frozen=True)
class SelfLoop(AbstractAnchorSolver):
    r"""The anchor leaves the state as it is, so what it adds is added forever:
    $$h(s) = \frac{\text{bonus}(s)}{1 - \gamma}.$$

    Exact, but errors of the policy grow by $1/(1-\gamma)$, as under any solver here.
    Refuses data in which the anchor moves the state or ends the process.
    """

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        problem = _counted(problem)
        moved = ~_leads_to(problem, problem.state)
        if moved.any():
            row, show = int(np.flatnonzero(moved)[0]), partial(np.array2string, precision=4)
            raise DataError(
                f'anchor_value="self-loop" says that the anchor {problem.anchor_label!r} '
                f"leaves the state as it is, but in {int(moved.sum()):,} of "
                f"{_number(problem)} anchor rows it does not; the first leads from "
                f"{show(problem.state[row])} to {show(problem.next_state[row])}. Use "
                'anchor_value="auto".'
            )
        gain, bonus = 1 / (1 - problem.discount), problem.bonus
        # log pi at a state is an argument of the function, so it need not be stored; g is.
        own = (bonus.anchor, None) if isinstance(bonus, LogProbBonus) else (None, bonus)
        here, there = bonus(problem.state), problem.next_bonus()
        residual = np.abs(gain * here - (1 + problem.discount * gain) * there)
        return AnchorSolution(
            SelfLoopFunction(gain, *own),
            residual=float(residual.max()),
            note=f"self-loop: bonus / (1 - discount), {_number(problem)} anchor rows",
        )


@dataclass(frozen=True)
class Renewal(AbstractAnchorSolver):
    r"""Where the anchor leads does not depend on the state, so h is one number.

    With $\bar b$ the mean over the anchor rows of the next state's bonus, zero where the
    process ends, and $q$ the share of rows after which it continues,
    $$h = \bar b + \gamma q h = \frac{\bar b}{1 - \gamma q}.$$
    It cancels in rewards but for $(1 - \gamma q) h$: no error grows by $1/(1-\gamma)$.

    Parameters
    ----------
    check
        Whether to refuse data that clearly contradict it: rows whose next state can be
        predicted from the state, beyond five standard errors.
    """

    check: bool = True

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        if self.check:
            self._refuse_dependence(problem)
        weight, follows = problem.weight, problem.weight * ~problem.ends
        # One scalar equation, whose slope 1 - discount q is positive for any data.
        lasting = weight.sum() - problem.discount * follows.sum()
        level = float((weight @ problem.next_bonus()) / lasting)
        ahead = problem.next_bonus() + problem.discount * level * ~problem.ends
        return AnchorSolution(
            ConstantFunction(level),
            residual=float(abs(np.average(ahead, weights=weight) - level)),
            note=f"renewal: one continuation for all, {_number(problem)} anchor rows",
        )

    def _refuse_dependence(self, problem: AnchorProblem) -> None:
        counted = _counted(problem)
        one_state = _leads_to(counted, counted.next_state[0]).all()
        if one_state or (~counted.ends).sum() < MIN_DRAWS:
            return
        found = dependence(counted)
        if found.score > CONTRADICTION:
            raise DataError(
                'anchor_value="renewal" says that where the anchor '
                f"{problem.anchor_label!r} leads does not depend on the state, but "
                f"{found.target} is predictable from it in {_number(problem)} anchor rows "
                f"({found.score:.1f} standard errors, correlation "
                f'{found.correlation:.2f}). Use anchor_value="auto", or '
                "deeppqr.anchor.Renewal(check=False) to insist."
            )


@stored
@dataclass(frozen=True, eq=False)
class ConstantFunction(AbstractStateFunction):
    """The same number in every state."""

    level: float

    def __call__(self, state, log_prob):
        return np.full(len(state), self.level)


@stored
@dataclass(frozen=True, eq=False)
class SelfLoopFunction(AbstractStateFunction):
    """A multiple of what the anchor adds in a state."""

    gain: float
    anchor: int | None
    """The action whose -log-probability is added; None where `bonus` is."""
    bonus: Callable[[np.ndarray], np.ndarray] | None

    def __call__(self, state, log_prob):
        if self.anchor is not None:
            return -self.gain * log_prob[:, self.anchor]
        assert self.bonus is not None
        return self.gain * self.bonus(state)


class Structure(NamedTuple):
    """A special anchor found in the data, and what shows it."""

    solver: Exit | SelfLoop | Renewal
    name: str
    why: str


def recognise(problem: AnchorProblem) -> Structure | None:
    """The special structure of the anchor's moves, or None.

    An exit, a self-loop and a single next state are read off the rows. A *random*
    renewal is accepted only if the next states cannot be predicted from the states (see
    `dependence`) and the rows are many enough to see a dependence that would matter.

    What it can miss: a correlation with the state below 6 / sqrt(rows), about, which may
    move a next state by at most a quarter of the states' spread and fades as rows grow;
    larger ones where one of twenty columns matters, or only products of many columns do;
    and next states whose mean is the same everywhere while their spread or tails are not,
    unless the policy's log-probabilities there show it. Mixtures, such as staying with
    some probability, are no renewals. The verdict does not depend on the bonus or the
    weights, so that both parts of the value have the same structure.
    """
    problem = _counted(problem)
    rows = f"{len(problem.state):,} anchor rows"
    if problem.ends.all():
        return Structure(Exit(), "exit", f"recognised: the process ends in all {rows}")
    # With a single state, staying there and returning there cannot be distinguished.
    if len(problem.state) < MIN_ROWS or len(Cells.of(problem.state)) < 2:
        return None
    if _leads_to(problem, problem.state).all():
        why = f"recognised: the anchor leaves the state as it is in all {rows}"
        return Structure(SelfLoop(), "self-loop", why)
    if _leads_to(problem, problem.next_state[0]).all():
        why = f"recognised: the anchor leads to one and the same state in all {rows}"
        return Structure(Renewal(check=False), "renewal", why)
    if (~problem.ends).sum() < MIN_DRAWS:
        return None
    found = dependence(problem)
    if found.score > found.limit or found.missed > MAX_MISSED:
        return None
    return Structure(
        Renewal(check=False),
        "renewal",
        "recognised: where the anchor leads does not depend on the state (held-out R2 "
        f"at most {found.correlation**2:.4f} in {rows}, {found.score:.1f} standard errors "
        f"against a limit of {found.limit:.1f}; a dependence of {found.missed:.2f} of the "
        "states' spread would show)",
    )


@dataclass(frozen=True)
class Dependence:
    """The strongest sign that the next state depends on the state."""

    limit: float
    """The score that chance exceeds once in ten times, over all targets."""
    missed: float
    """Size of a dependence that might not show, as a share of the states' spread."""
    score: float = 0.0
    """Standard errors by which held-out predictions are right; chance alone: below 2."""
    correlation: float = 0.0
    """Between prediction and outcome."""
    target: str = "nothing"


def dependence(problem: AnchorProblem) -> Dependence:
    """How well the state predicts where the anchor leads, on rows not yet seen.

    Each column of the next state, each log-probability there and the end of the process
    are predicted from the state: by a ridge regression on the state, its squares and the
    policy's log-probabilities, by one on ten steps of each column, and by nearest
    neighbours. Rows are taken in ten consecutive blocks and each is predicted from those
    *before* it. Under independence an outcome is then pure noise given everything that
    its prediction is made of, also along one path, where a next state is the next row's.
    """
    groups = [group for group in _targets(problem) if group.names]
    number = sum(len(group.names) for group in groups)
    found = Dependence(
        # Bonferroni over predictors and targets.
        limit=float(-ndtri(LEVEL / max(len(PREDICTORS) * number, 1))),
        missed=max((group.missed for group in groups), default=0.0),
    )
    state, log_prob = problem.state, problem.log_prob(problem.state)
    for predict, most in PREDICTORS:
        for group in groups:
            thin = slice(None, None, -(-len(group.rows) // most))
            rows, outcome = group.rows[thin], group.outcome[thin]
            score, correlation = _scores(predict, state[rows], log_prob[rows], outcome)
            top = int(np.argmax(score))
            if score[top] > found.score:
                found = replace(
                    found,
                    score=float(score[top]),
                    correlation=float(correlation[top]),
                    target=group.names[top],
                )
        if found.score > max(found.limit, CONTRADICTION):
            break  # dependence is established; the slower predictors cannot refute it
    return found


class _Targets(NamedTuple):
    """Outcomes to predict, seen in some of the anchor rows."""

    names: list[str]
    outcome: Float[np.ndarray, "row target"]
    rows: Codes
    missed: float
    """Size of a dependence that might not show, as a share of the states' spread."""


def _targets(problem: AnchorProblem) -> Iterator[_Targets]:
    """The end of the process, and what is seen at the next state where there is one.

    A target that does not vary is predicted perfectly by a constant, and left out.
    """
    follows = np.flatnonzero(~problem.ends)
    if len(follows) < len(problem.ends):
        ends = problem.ends[:, None] * 1.0
        missed = VISIBLE / np.sqrt(len(ends))
        yield _Targets(["the end"], ends, np.arange(len(ends)), float(missed))
    seen = lambda state: np.concatenate([state, problem.log_prob(state)], axis=1)
    # Log-probabilities too: values depend on the next state through them, and they show
    # a dependence in variances and tails that means of the columns do not.
    there = seen(problem.next_state[follows])
    anywhere = seen(problem.query_states[:: max(1, len(problem.query_states) // 10_000)])
    ratio = there.std(axis=0) / spread(np.concatenate([anywhere, there]))
    vary = np.flatnonzero(ratio > ROUNDING)
    width = problem.state.shape[1]
    names = [f"its column {i}" if i < width else f"log pi({i - width})" for i in vary]
    missed = VISIBLE * ratio[vary].max(initial=0.0) / np.sqrt(len(follows))
    yield _Targets(names, there[:, vary], follows, float(missed))


def _scores(predict, state, log_prob, outcome) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors and correlations of the predictions of each block from the past."""
    edges = np.arange(1, BLOCKS + 1) * len(outcome) // BLOCKS
    predicted, centred = np.zeros_like(outcome), np.zeros_like(outcome)
    for first, last in pairwise(edges):
        past, block = slice(0, first), slice(first, last)
        guess = predict(state, log_prob, outcome - outcome[past].mean(axis=0), past, block)
        # Weighted by the length of the past: every pair of rows then counts alike.
        predicted[block] = first * (guess - guess.mean(axis=0))
        centred[block] = outcome[block] - outcome[block].mean(axis=0)
    # A martingale under independence: each block's errors have mean zero given the past,
    # so the sum over its root sum of squares is standard normal, without a variance model.
    product = predicted * centred
    norm = np.sqrt(np.sum(predicted**2, axis=0) * np.sum(centred**2, axis=0))
    size = np.sqrt(np.sum(product**2, axis=0))
    total, some = product.sum(axis=0), size > 0
    return total * some / np.where(some, size, 1), total * some / np.where(some, norm, 1)


def _smooth(state, log_prob, outcome, past: slice, block: slice) -> np.ndarray:
    columns = np.concatenate([state, log_prob], axis=1)
    scaled = Scaling.of(columns[past])(columns)
    squares = scaled[:, : state.shape[1]] ** 2
    return _ridge(np.concatenate([scaled, squares], axis=1), outcome, past, block)


def _steps(state, log_prob, outcome, past: slice, block: slice) -> np.ndarray:
    # Ten steps per column, additive, for thresholds that squares cannot follow.
    cuts = np.quantile(state[past], np.arange(1, 10) / 10, axis=0)
    above = (state[:, None, :] > cuts).reshape(len(state), -1)
    return _ridge(above.astype(np.float64), outcome, past, block)


def _ridge(columns, outcome, past: slice, block: slice) -> np.ndarray:
    ones = np.ones((len(columns), 1))
    columns = np.concatenate([ones, Scaling.of(columns[past])(columns)], axis=1)
    here = columns[past]
    # A strong ridge: only the direction of the prediction matters for the score, and
    # overfitted coefficients would hide a weak dependence in noise.
    system = here.T @ here + penalty(here.shape[1], 10.0 * here.shape[1])
    return columns[block] @ np.linalg.solve(system, here.T @ outcome[past])


def _neighbours(state, log_prob, outcome, past: slice, block: slice) -> np.ndarray:
    # Means over a fiftieth of the past, for interactions that the other two miss.
    number = len(outcome[past])
    shape = Neighbours.grow(state[past], min(number, max(20, number // 50)))
    where, weight = shape.locate(state[block]), np.ones(number)
    means = [shape.average(shape.pool(y, weight), where) for y in outcome[past].T]
    return np.stack(means, axis=1)


# Predictors, the fastest first, and the most rows that each is given, which bounds their
# time. Twice the rows change no verdict on the panels above.
PREDICTORS = ((_smooth, 100_000), (_steps, 20_000), (_neighbours, 5_000))


def _leads_to(problem: AnchorProblem, state: np.ndarray) -> Mask:
    """Rows whose next state is this one, or that row of these, up to rounding."""
    gap = np.abs(problem.next_state - state)
    return ~problem.ends & (gap <= ROUNDING * spread(problem.query_states)).all(axis=1)


def _counted(problem: AnchorProblem) -> AnchorProblem:
    """The rows that have weight."""
    rows = problem.weight > 0
    by_row = ("state", "next_state", "ends", "weight")
    return replace(problem, **{name: getattr(problem, name)[rows] for name in by_row})


def _number(problem: AnchorProblem) -> str:
    return f"{int((problem.weight > 0).sum()):,}"

r"""Laws of the next state that are smooth in the action, chosen by held-out error.

A law gives $E[f(s')|s,a] = \sum_k f_k(s)\,\tau_k(a)$ with the first of the shapes of
`_shapes.py`; the coefficients $f_k(s)$ take the place that an action has in laws for
finitely many, and so does their storage.

Three are tried. Shifts: $s' = m(s,a) + e$ with the errors e drawn independently of s and
a, so that f is averaged over them; regression of f(s') on products of ridges of the state
and shapes; and regression of what shifts leave.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._shapes import Mask, PerRow, States
from .._stored import stored
from ..actions._space import Amounts
from ..law import _transition
from ..law._choice import Learned, clearly_worse, foreseen, held_out_rows, judged_rows
from ..law._regression import RegressedAhead
from ..law._transition import AbstractAhead, AbstractTransition, StateFunction
from ..learners._chunks import in_chunks
from ..learners._ridges import Ridges, penalised_least_squares
from ..panel._panel import Panel
from ._shapes import ActionShapes

# Ridges of the state in products with the constant and lines of the action, and with
# shapes of a higher degree, whose effects are smaller.
NUM_RIDGES, NUM_FEW = 100, 20
# Errors over which shifts average, whose mean and covariance are made those of all; fewer
# where more actions are looked at for each, but two for each state variable.
NUM_ERRORS, ERRORS_BY_KNOTS = 40, 280


@stored
@dataclass(frozen=True, eq=False)
class AmountSteps:
    """The rows of a panel that show where an amount led."""

    state: States
    action: Amounts
    next_state: States
    """Where `ends`, a copy of the state: it is never used."""
    ends: Mask
    weight: PerRow

    @classmethod
    def of(cls, panel: Panel) -> "AmountSteps":
        rows = panel.is_transition
        assert panel.amount is not None
        ends, state = panel.terminal[rows], panel.state[rows]
        after = np.where(ends[:, None], state, panel.next_state[rows])
        return cls(state, panel.amount[rows], after, ends, panel.weight[rows])

    def select(self, rows: Mask) -> "AmountSteps":
        return AmountSteps(
            self.state[rows],
            self.action[rows],
            self.next_state[rows],
            self.ends[rows],
            self.weight[rows],
        )

    def thinned(self) -> "AmountSteps":
        """Every so many steps, as `Steps.thinned`."""
        every = -(-self.state.size * 2 // _transition.MAX_KEPT)
        return self if every <= 1 else self.select(np.arange(len(self.state)) % every == 0)

    def follow(self, function: StateFunction) -> Float[np.ndarray, "row column"]:
        """The function at each row's next state; zero where the process ended."""
        values = in_chunks(function, self.next_state).astype(np.float64)
        values[self.ends] = 0.0
        return values


@stored
@dataclass(frozen=True, eq=False)
class AmountDesign:
    """Products of ridges of the state and shapes of the action, for least squares."""

    shapes: ActionShapes
    ridges: Ridges

    @classmethod
    def of(cls, shapes: ActionShapes, state: States) -> "AmountDesign":
        # One ridge for every ten rows at most, over all shapes.
        most = len(state) // (10 * shapes.num_law)
        return cls(shapes, Ridges.of(state, max(1, min(NUM_RIDGES, most))))

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Shape and ridge of each column, and how many have no penalty."""
        shapes, ridges, number = self.shapes, self.ridges, self.shapes.num_law
        degree = np.concatenate([np.zeros(shapes.num_atoms, int), shapes.degree])[:number]
        lines = [(k, j) for k in range(number) for j in range(ridges.linear)]
        free = [at for at in lines if degree[at[0]] <= 1 or at[1] == 0]
        rest = [at for at in lines if degree[at[0]] > 1 and at[1] > 0]
        for k in range(number):
            some = ridges.width if degree[k] <= 1 else ridges.linear + NUM_FEW
            last = min(some, ridges.width)
            rest += [(k, j) for j in range(ridges.linear, last)]
        shape, ridge = np.array(free + rest).T
        return shape, ridge, len(free)

    def regress(
        self, steps: AmountSteps, target: Float[np.ndarray, "row column"]
    ) -> Float[np.ndarray, "shape feature column"]:
        """Coefficients of the target by shapes and ridges."""
        shape, ridge, free = self.places
        columns = self.ridges(steps.state)[:, ridge] * self.shapes(steps.action)[:, shape]
        found = penalised_least_squares(columns, target, steps.weight, free)
        theta = np.zeros((self.shapes.num_law, self.ridges.width, target.shape[1]))
        theta[shape, ridge] = found
        return theta


@stored
@dataclass(frozen=True, eq=False)
class AmountRegression(AbstractTransition):
    """A regression of f(s'), or of what another law leaves of it."""

    steps: AmountSteps
    design: AmountDesign
    base: AbstractTransition | None = None

    def kept(self) -> "AmountRegression":
        return AmountRegression(self.steps.thinned(), self.design, self.base)

    def ahead(self, function: StateFunction) -> RegressedAhead:
        steps, base = self.steps, None
        target = steps.follow(function)
        if self.base is not None:
            base = self.base.ahead(function)
            target = target - at_actions(base, self.design.shapes, steps)
        theta = self.design.regress(steps, target)
        return RegressedAhead(self.design.ridges, theta, base)


@stored
@dataclass(frozen=True, eq=False)
class Shifts(AbstractTransition):
    """A mean that depends on the state and the action, and errors that do not."""

    mean: AbstractAhead
    error: Float[np.ndarray, "error state_feature"]
    knot: Float[np.ndarray, "knot shape"]
    """The law's shapes at some actions, by which functions of the action are fitted."""

    @classmethod
    def learn(cls, steps: AmountSteps, design: AmountDesign) -> "Shifts":
        step = steps.next_state - steps.state
        theta = design.regress(steps, step)
        mean = RegressedAhead(design.ridges, theta, None)
        error = step - at_actions(mean, design.shapes, steps)
        knot = design.shapes(_knots(design.shapes))[:, : design.shapes.num_law]
        number = max(2 * step.shape[1], min(NUM_ERRORS, ERRORS_BY_KNOTS // len(knot)))
        return cls(mean, typical_errors(error, steps.weight, number), knot)

    def ahead(self, function: StateFunction) -> "ShiftedAhead":
        return ShiftedAhead(function, self.mean, self.error, self.knot)


@stored
@dataclass(frozen=True, eq=False)
class ShiftedAhead(AbstractAhead):
    """E[f(m(s,a) + e)] at some actions, as a function of the action."""

    function: StateFunction
    mean: AbstractAhead
    error: Float[np.ndarray, "error state_feature"]
    knot: Float[np.ndarray, "knot shape"]

    def __call__(self, state):
        return in_chunks(self._expect, state)

    def _expect(self, state: np.ndarray) -> np.ndarray:
        # (row, knot, state_feature): where each action leads on average.
        aim = state[:, None] + np.einsum("rkd,nk->rnd", self.mean(state), self.knot)
        flat = aim.reshape(-1, state.shape[1])
        total = sum(self.function(flat + error) for error in self.error)
        mean = np.asarray(total) / len(self.error)
        values = mean.reshape(*aim.shape[:2], mean.shape[1])
        fitted = np.linalg.pinv(self.knot)
        return np.einsum("kn,rnc->rkc", fitted, values.astype(np.float64))


def _knots(shapes: ActionShapes) -> Amounts:
    """Actions at which functions of the next state are looked up."""
    space = shapes.space
    if space.dimensions <= 2:
        # A node more for each dimension than the degree asks for, and fitted, not
        # interpolated: what goes beyond the degree does less harm.
        degree = int(shapes.degree[shapes.num_law - shapes.num_atoms - 1])
        return space.nodes(degree + 2 if space.dimensions == 1 else degree + 1).action
    return space.nodes(2 * shapes.num_law).action


def typical_errors(error: np.ndarray, weight: PerRow, number: int) -> np.ndarray:
    """A few errors with the mean and covariance of all."""
    few = error[np.linspace(0, len(error) - 1, min(number, len(error))).astype(int)]
    if error.shape[1] == 1 and len(error) > number:
        # In one dimension quantiles stand for the whole distribution.
        few = np.quantile(error, (np.arange(number) + 0.5) / number, axis=0)
    center = np.average(error, axis=0, weights=weight)
    spread = _root(np.cov(error.T, aweights=weight))
    now = _root(np.cov(few.T))
    return center + (few - few.mean(axis=0)) @ np.linalg.pinv(now) @ spread


def _root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric root of a covariance."""
    size, axes = np.linalg.eigh(np.atleast_2d(covariance))
    return (axes * np.sqrt(np.maximum(size, 0.0))) @ axes.T


def at_actions(
    ahead: AbstractAhead, shapes: ActionShapes, steps: AmountSteps
) -> Float[np.ndarray, "row column"]:
    """The expectation for each row's own action."""
    found = []
    own = shapes(steps.action)[:, : shapes.num_law]
    for rows in np.array_split(np.arange(len(own)), -(-len(own) // 20_000) or 1):
        found.append(np.einsum("rk,rkc->rc", own[rows], ahead(steps.state[rows])))
    return np.concatenate(found)


def learn_law(panel: Panel, shapes: ActionShapes) -> Learned:
    """The law that predicts held-out units best, learned on all."""
    steps = AmountSteps.of(panel)
    judged = judged_rows(panel)[panel.is_transition]
    out = held_out_rows(panel)[panel.is_transition]
    inside, outside = steps.select(judged & ~out), steps.select(judged & out)
    ahead_of = foreseen(steps.state)
    truth = outside.follow(ahead_of)
    spread = np.concatenate([truth, inside.follow(ahead_of)]).var(axis=0)
    spread = spread + 1e-12 * np.maximum(1.0, spread.max())
    losses = {}
    for name, law in _candidates(inside, shapes):
        expected = at_actions(law.ahead(ahead_of), shapes, outside)
        losses[name] = ((truth - expected) ** 2 / spread).mean(axis=1)
    scores = {
        name: float(np.average(loss, weights=outside.weight))
        for name, loss in losses.items()
    }
    lowest = losses[min(scores, key=lambda name: scores[name])]
    unit = panel.unit[panel.is_transition][judged & out]
    best = next(
        name
        for name, loss in losses.items()
        if not clearly_worse(loss - lowest, outside.weight, unit)
    )
    law = next(law for name, law in _candidates(steps, shapes) if name == best)
    return Learned(law, best, tuple(sorted(scores.items(), key=lambda item: item[1])))


def _candidates(steps: AmountSteps, shapes: ActionShapes):
    """Every law that applies, the one with the fewest unknowns first."""
    design = AmountDesign.of(shapes, steps.state)
    if not steps.ends.any():  # an end is no shift
        shifts = Shifts.learn(steps, design)
        yield "shifts", shifts
    yield "regression", AmountRegression(steps, design)
    if not steps.ends.any():
        yield "shifts and regression", AmountRegression(steps, design, shifts)

r"""Joint estimation of a reward over amounts, its value and its policy.

As in `reward/_joint.py`: the reward is the anchor's and smooth terms that are zero at the
anchor, its value solves the agent's problem under a learned law, and the coefficients
maximise the likelihood of the actions taken, penalised as their evidence says. The start is
the density of actions by the same terms without a future. Nothing is random.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._shapes import Codes, PerRow, States
from ..actions._nodes import Nodes
from ..anchor._anchor_reward import AnchorReward
from ..law._choice import Learned
from ..learners._build_basis import smooth_basis
from ..learners._ridge_logit import best_penalty, penalty_diagonal
from ..learners._smooth_basis import SmoothBasis
from ..panel._panel import Panel
from ..progress import tell, track
from ..reward._held_out import verdict
from ..reward._rounds import Fitted, maximise, num_groups, warn_unless_converged
from ..reward._terms import asked_for, carry_over_coefficients, said_of, spaced
from ..reward._value_function import ValueFeatures, value_features
from ._covariance import amount_covariance
from ._held_out import AmountScores, judge
from ._law import learn_law
from ._problem import AmountProblem, PerShape, pose_amount_problem
from ._reward import AmountReward
from ._shapes import ActionShapes

# Rows of the first stage, where lines and terms are chosen.
FIRST_ROWS = 12_500
# Rows times nodes, and rows times features times shapes of the law, up to which decisions
# are used in rounds; beyond them one more step uses all.
MAX_NODE_NUMBERS, MAX_NUMBERS = 10_000_000, 150_000_000
# The same up to which where actions lead is kept in float64: 32 MB.
PRECISE_NUMBERS = 4_000_000
MAX_ROWS = 50_000
MAX_TURNS, TURN_GAIN = 3, 2.0
TURN_ROUNDS, LAST_ROUNDS = 3, 8
# States at which gradients of the reward are taken, to find its direction.
GRADIENTS = 3_000
# Newton's steps of the convex problems at the start.
START_STEPS = 25


@dataclass(frozen=True, eq=False)
class AmountEstimate:
    """The reward with what a fit says of how it was found."""

    reward: AmountReward
    log_density: PerRow
    """Of held-out actions, where they were judged; NaN elsewhere."""
    of_histogram: PerRow
    """The same of a histogram of all actions."""
    residual: float
    note: str
    value_note: str


def estimate_amounts(
    panel: Panel,
    shapes: ActionShapes,
    grid: np.ndarray,
    anchor_reward: AnchorReward,
    *,
    discount: float,
    temperature: float,
) -> AmountEstimate:
    """The reward over amounts with the value that follows from it."""
    with track("Reward and value", 5) as progress:
        progress.advance(note="where actions lead")
        learned = learn_law(panel, shapes)
        tell("law", learned.note)
        nodes = shapes.space.nodes()
        told = (panel, shapes, nodes, anchor_reward, discount, temperature, learned)
        task = _Task(*told)
        progress.advance(note="lines")
        found = task.first_stage()
        progress.advance(note="terms")
        found = task.curved_stage(found)
        tell("terms", said_of(found.fit, len(found.rows)))
        warn_unless_converged(found.fit, len(found.rows))
        progress.advance(note="held-out decisions")
        scores = judge(found.problem, found.fit, task.fold[found.rows])
        tell("held out", verdict(scores.log_density, scores.factor))
        if scores.factor < 1:
            found = task.shrunk(found, scores.factor)
        progress.advance(note="standard errors")
        return task.finish(found, scores, grid)


@dataclass(frozen=True, eq=False)
class _Found:
    """An estimate with the rows and the value it was found on."""

    problem: AmountProblem
    fit: Fitted
    rows: np.ndarray


@dataclass(frozen=True, eq=False)
class _Task:
    """The inputs that stay the same in all stages."""

    panel: Panel
    shapes: ActionShapes
    nodes: Nodes
    anchor_reward: AnchorReward
    discount: float
    temperature: float
    learned: Learned

    @property
    def fold(self) -> Codes:
        """Every fifth unit in turn; blocks of rows where units are few."""
        panel = self.panel
        if panel.num_units < 5:
            return np.arange(len(panel)) * 5 // len(panel)
        return panel.unit % 5

    def basis(self, state: States, **options: Any) -> SmoothBasis:
        own = self.shapes.of_reward()
        encoding = self.panel.encoding
        # In one dimension all shapes vary smoothly over states: errors on four box worlds
        # are 0 to 7 % smaller, and intervals hold 0.5 to 2.3 points more. In two dimensions
        # it would be ten shapes more.
        more = self.shapes.space.dimensions == 1
        return smooth_basis(state, (), 0, encoding, shapes_of=own, higher=more, **options)

    def features(self, state: States, rows: int, direction=None) -> ValueFeatures:
        """Features scaled on some states, to be used on so many rows."""
        found = value_features(state, direction=direction)
        # With a discount near one V is thousands of times what differs between states.
        few = rows * self.shapes.num_law * found.width <= PRECISE_NUMBERS
        if few:
            found = value_features(state, direction=direction, precise=True)
        return found

    def pose(self, rows: np.ndarray, features: ValueFeatures) -> AmountProblem:
        panel = self.panel
        assert panel.amount is not None
        state = panel.state[rows]
        return pose_amount_problem(
            state,
            panel.amount[rows],
            panel.weight[rows],
            self.learned.law,
            self.shapes,
            self.nodes,
            features,
            self.anchor_reward(state) / self.temperature,
            self.discount,
        )

    def first_stage(self) -> _Found:
        """Lines on few rows, from the density of actions."""
        rows = spaced(len(self.panel), min(FIRST_ROWS, MAX_NODE_NUMBERS // len(self.nodes)))
        state = self.panel.state[rows]
        problem = self.pose(rows, self.features(state, len(rows)))
        basis = self.basis(state)
        theta = start_from_density(problem, basis)
        return _Found(problem, maximise(problem, basis, theta, max_rounds=6), rows)

    def curved_stage(self, found: _Found) -> _Found:
        """Terms that the data ask for, on as many rows as memory allows."""
        size = self.shapes.num_law * found.problem.features.width
        most = min(MAX_ROWS, MAX_NODE_NUMBERS // len(self.nodes), MAX_NUMBERS // size)
        rows = spaced(len(self.panel), most)
        state = self.panel.state[rows]
        sample = state[:: max(1, len(state) // FIRST_ROWS)]
        found = self._turned(found, sample)
        direction = None
        if state.shape[1] > 1:
            direction = found.fit.basis.steepest(sample, found.fit.theta)
        features = self.features(sample, len(rows), direction)
        found = self._onto(found, rows, features)
        found = replace(found, fit=self._turn(found, sample, surface=True))
        if not found.fit.converged:
            fit = found.fit
            told = {"max_rounds": LAST_ROUNDS, "penalty": fit.penalty}
            fit = maximise(found.problem, fit.basis, fit.theta, **told)
            found = replace(found, fit=fit)
        return found

    def _turned(self, found: _Found, sample: States) -> _Found:
        """Curved terms without a surface, as their direction is turned."""
        best = -np.inf
        for _ in range(MAX_TURNS):
            found = replace(found, fit=self._turn(found, sample, surface=False))
            now = found.problem.log_likelihood()
            tilted = any("tilts" in term.kind for term in found.fit.basis.terms)
            if not tilted or now < best + TURN_GAIN:
                break
            best = now
        return found

    def _onto(self, found: _Found, rows: np.ndarray, features: ValueFeatures) -> _Found:
        """An estimate carried over to other rows and features."""
        problem = self.pose(rows, features)
        basis, theta = found.fit.basis, found.fit.theta
        reward = problem.default + basis.combine(problem.columns(basis), theta)
        # The old value gives the new rows' policy to start from.
        weight = problem.closest_weights(found.problem.value_function(None))
        problem.q = reward + self.discount * problem.project(weight)
        problem.evaluate(reward, rounds=3)
        return _Found(problem, found.fit, rows)

    def _turn(self, found: _Found, sample: States, *, surface: bool) -> Fitted:
        """All terms with the steepest direction so far; those not asked for dropped."""
        problem, fit = found.problem, found.fit
        reached = problem.log_likelihood()
        before = problem.q, problem.left, problem.value_weight
        direction = slope = None
        if self.panel.state.shape[1] > 1:
            few = sample[:: max(1, len(sample) // GRADIENTS)]
            direction = fit.basis.steepest(few, fit.theta)
            slope = fit.basis.slope_along(few, fit.theta, direction)
        told = {"surface": None if surface else 0, "direction": direction, "slope": slope}
        basis = self.basis(sample, curved=True, **told)
        theta = carry_over_coefficients(basis, fit, sample)
        columns = problem.columns(basis)
        successor = problem.successor_weights(basis, columns)
        gradient, information = problem.derivatives(basis, columns, successor)
        kept, left = asked_for(basis, information, information @ theta + gradient).pruned()
        problem.keep_columns(kept, columns[:, left])
        theta = carry_over_coefficients(kept, fit, sample)
        tilted = any("tilts" in term.kind for term in kept.terms) and not surface
        rounds = TURN_ROUNDS if tilted else LAST_ROUNDS
        turned = maximise(problem, kept, theta, max_rounds=rounds)
        if problem.log_likelihood() >= reached - 0.5 * len(kept):
            return turned
        # Of a density that is much narrower than the box, no part can be left out.
        problem.q, problem.left, problem.value_weight = before
        return maximise(problem, fit.basis, fit.theta, max_rounds=rounds)

    def shrunk(self, found: _Found, factor: float) -> _Found:
        """Penalised coefficients multiplied by what held-out decisions prefer."""
        theta = found.fit.theta.copy()
        theta[found.fit.basis.group >= 0] *= factor
        problem = found.problem
        problem.evaluate(problem.default + found.fit.basis(problem.state, theta), rounds=8)
        return replace(found, fit=found.fit.moved_to(theta))

    def finish(self, found: _Found, scores: AmountScores, grid) -> AmountEstimate:
        """The reward as a function, with its errors and what is said of it."""
        problem, fit, panel = found.problem, found.fit, self.panel
        known = None
        if not self.anchor_reward.is_zero:
            anchor = self.shapes(self.shapes.anchor_action[None])[0]
            earned = self.anchor_reward(problem.state)
            known = problem.weights_of_repeating(anchor, earned)
        reward = AmountReward(
            fit.basis,
            fit.theta,
            amount_covariance(panel, found.rows, problem, fit),
            self.learned.law.ahead(problem.value_function(known)),
            self.shapes,
            grid,
            self.anchor_reward,
            self.discount,
            self.temperature,
            self.learned.law.kept(),
        )
        if len(found.rows) == len(panel):
            reward.keep(panel.state, problem.continuations(known))
        log_density, simple = np.full((2, len(panel)), np.nan)
        log_density[found.rows] = scores.log_density
        simple[found.rows] = scores.of_histogram
        made = said_of(fit, len(found.rows))
        note = f"joint over amounts, {made}{scores.note}; {self.learned.note}"
        value_note = f"follows from the reward, {problem.features.width} features"
        told = (reward, log_density, simple, problem.residual, note, value_note)
        return AmountEstimate(*told)


def start_from_density(problem: AmountProblem, basis: SmoothBasis) -> np.ndarray:
    """Coefficients by two convex problems; sets `q`.

    First the density of actions, Q itself being a sum of the basis' terms; then the reward
    with V as it is under that density, the first round of nested pseudo-likelihood.
    """
    columns = problem.columns(basis)
    nothing = np.zeros((problem.features.width, len(basis)))
    theta, q = _climb(problem, basis, columns, nothing, np.zeros_like(problem.q))
    problem.q = q
    base = problem.default + problem.discount * problem.project(
        problem.value_under_policy()
    )
    successor = problem.successor_weights(basis, columns)
    theta, problem.q = _climb(problem, basis, columns, successor, base)
    return theta


def _climb(
    problem: AmountProblem, basis: SmoothBasis, columns, successor, base: PerShape
) -> tuple[np.ndarray, PerShape]:
    """Newton's steps for a Q that is linear in the coefficients."""

    def along(theta: np.ndarray) -> PerShape:
        after = problem.project(successor @ theta)
        return basis.combine(columns, theta) + problem.discount * after

    def fit(q: PerShape) -> float:
        return float(problem.weight @ problem.taken_log_density(q))

    theta, penalty = np.zeros(len(basis)), np.ones(num_groups(basis))
    q = base
    for _ in range(START_STEPS):
        problem.q = q
        gradient, information = problem.derivatives(basis, columns, successor)
        right = information @ theta + gradient
        penalty, effective = best_penalty(information, right, basis.group, penalty, 40)
        diagonal = penalty_diagonal(penalty, basis.group)
        step = np.linalg.solve(information + np.diag(diagonal), right) - theta
        slope = float(step @ (gradient - diagonal * theta))
        change, now, length = along(step), fit(q) - 0.5 * diagonal @ theta**2, 1.0
        while length > 1e-3:
            moved = theta + length * step
            if fit(q + length * change) - 0.5 * diagonal @ moved**2 >= now + 1e-4 * slope:
                break
            length /= 2
        theta, q = theta + length * step, q + length * change
        if slope < max(0.5, 2e-2 * effective.sum()):
            break
    return theta, q

r"""Joint estimation: the reward by likelihood, with the value that follows from it.

The reward is $r_\theta(s,a) = r_0(s,a) + \psi(s,a)'\theta$ with $\psi(s,a^A) = 0$ and $r_0$
the anchor's reward; its value solves the agent's problem under a law learned from the panel
(`_value_problem.py`), and $\theta$ maximises the likelihood of the decisions
(`_rounds.py`), penalised as its evidence says. One model gives reward, Q, V and policy.

The reward's terms are lines, bends, products and ridges of the state by action; those that
the data do not ask for are dropped. Stages go from few rows and lines to all rows and all
terms, each starting from the one before. Nothing is random.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._errors import DataError
from .._shapes import States
from ..anchor._anchor_reward import AnchorReward
from ..anchor._problem import AnchorSolution
from ..law._choice import Learned, learn_transition
from ..law._moves import Moves
from ..law._survival import Survival
from ..law._table import Table
from ..learners._build_basis import smooth_basis
from ..learners._ridge_logit import best_penalty
from ..learners._row_threads import over_blocks
from ..learners._smooth_basis import SmoothBasis
from ..panel._cells import Cells
from ..panel._panel import Panel
from ..panel.scan._rows import AllRows, InMemory
from ..policy._policy import AbstractPolicy
from ..progress import tell, track
from ._decisions import Decisions
from ._given_basis import GivenBasis
from ._held_out import HeldOut, judge, verdict
from ._joint_covariance import coefficient_covariance
from ._joint_reward import JointReward, implied_value
from ._reward import AbstractRewardEstimator, RewardFit
from ._rounds import (
    Agent,
    Fitted,
    LastStep,
    maximise,
    num_groups,
    penalised_likelihood,
    started,
    warn_unless_converged,
)
from ._terms import (
    LARGE,
    PER_PENALTY,
    asked_for,
    carry_over_coefficients,
    evidence,
    said_of,
    spaced,
)
from ._value_function import ValueFeatures, value_features
from ._value_problem import ValueProblem

# Rows of the first stage, where lines and terms are chosen.
FIRST_ROWS = 12_500
# Fewer where there are many actions and columns: numbers in the likelihood's regressors.
FIRST_NUMBERS, MIN_FIRST = 80_000_000, 2_500
# Numbers in E[phi(s')|s,a], kept in float32: 600 MB.
MAX_NUMBERS = 150_000_000
# Up to which they are kept in float64: 96 MB; 480 MB with a discount above 0.9.
PRECISE_NUMBERS, PRECISE_NUMBERS_FAR = 12_000_000, 60_000_000
# Turns of the learned direction, each worth at least this many nats.
MAX_TURNS, TURN_GAIN = 4, 2.0
# Rounds after each turn, and after the last.
TURN_ROUNDS, LAST_ROUNDS = 3, 8
# Components of the surface by which it is decided whether all of them are tried: those
# that vary most, where a smooth function shows first.
SCREENED_COMPONENTS = 16
# States at which gradients of the reward are taken, to find its direction.
GRADIENTS = 3_000
# Evidence, in nats, for a penalty on every variable's lines over one on all.
OWN_PENALTIES = 3.0


@dataclass(frozen=True)
class Joint(AbstractRewardEstimator):
    """The reward by maximum likelihood, with its value, its policy and standard errors.

    Parameters
    ----------
    features
        What the reward is known to be linear in: a function of an array of the state
        columns to (row, action, feature), actions in the order of the panel's. The
        anchor's are not used. Without it the reward is a sum of smooth terms.
    rows
        Decisions on which rounds are made; beyond them one more step uses all.
    moves
        Whether a law of typical steps, walls and resets is among those tried for the next
        state. The paper's synthetic world moves in just this way.

    References
    ----------
    [aguirregabiria2002npl]; [rust1987bus]; [mackay1992evidence].
    """

    features: Callable[[np.ndarray], Any] | None = None
    rows: int = 50_000
    moves: bool = True

    def __post_init__(self):
        if self.rows < 1:
            raise DataError(f"`rows` must be at least 1, but it is {self.rows}.")

    def fit(self, panel, value, *, key):
        del key
        return self.estimate(
            panel,
            value.policy,
            value.anchor_reward,
            value.anchor,
            discount=value.discount,
            temperature=value.temperature,
        )[0]

    def estimate(
        self,
        panel: Panel,
        policy: AbstractPolicy,
        anchor_reward: AnchorReward,
        anchor: int,
        *,
        discount: float,
        temperature: float,
        everyone: AllRows | None = None,
        watch: Callable[[Any, Any, HeldOut], None] | None = None,
    ) -> tuple[RewardFit, AnchorSolution]:
        """The reward with the value that follows from it, started at a policy.

        Where the panel is a part of larger data the last step is one on all rows. `watch`
        is shown what was found where, and how it was judged: replicates start from it.
        """
        with track("Reward and value", 6) as progress:
            progress.advance(note="where actions lead")
            learned = learn_transition(panel, moves=self.moves)
            tell("law", learned.note)
            known = anchor_reward, anchor, discount, temperature
            task = _Task(panel, *known, learned, self.features, everyone)
            progress.advance(note="lines")
            found = task.first_stage(policy)
            tell("lines", said_of(found.fit, len(found.rows)))
            progress.advance(note="terms")
            found = task.curved_stage(found, self.rows)
            tell("terms", said_of(found.fit, len(found.rows)))
            warn_unless_converged(found.fit, len(found.rows))
            progress.advance(note="all decisions")
            found = task.final_step(found)
            if found.note:
                tell("decisions", f"the rounds above{found.note}")
            progress.advance(note="held-out decisions")
            held_out = judge(found.problem, found.fit, task.decisions.fold[found.rows])
            tell("held out", verdict(held_out.scores, held_out.factor))
            if watch is not None:
                watch(task, found, held_out)
            if held_out.factor < 1:
                found = task.shrunk(found, held_out)
            progress.advance(note="standard errors")
            return task.finish(found, held_out)


@dataclass(frozen=True, eq=False)
class _Found:
    """An estimate with the rows and the value it was found on."""

    problem: ValueProblem
    fit: Fitted
    rows: np.ndarray
    note: str = ""


@dataclass(frozen=True, eq=False)
class _Task:
    """The inputs that stay the same in all stages."""

    panel: Panel
    anchor_reward: AnchorReward
    anchor: int
    discount: float
    temperature: float
    learned: Learned
    features: Callable | None
    everyone: AllRows | None = None
    """All rows, where the panel is a part of them."""

    def __post_init__(self):
        panel = self.panel
        # Every fifth unit in turn; blocks of rows where units are few.
        fold = panel.unit % 5
        if panel.num_units < 5:
            fold = np.arange(len(panel)) * 5 // len(panel)
        taken = (panel.action == self.anchor) & panel.is_transition
        ends = bool(taken.any() and panel.terminal[taken].mean() > 0.5)
        law = self.learned.law
        cells = law.cells if isinstance(law, Table) else None
        object.__setattr__(self, "decisions", Decisions.of(panel, fold))
        object.__setattr__(self, "anchor_ends", ends)
        object.__setattr__(self, "cells", cells)

    decisions: Decisions = None  # type: ignore[assignment]
    anchor_ends: bool = False
    cells: Cells | None = None

    @property
    def agent(self) -> Agent:
        return Agent(
            self.learned.law,
            self.anchor_reward,
            self.anchor,
            self.panel.num_actions,
            self.discount,
            self.temperature,
            given_features=self.features is not None,
            anchor_ends=self.anchor_ends,
        )

    def pose(self, rows: np.ndarray, features: ValueFeatures):
        """The value's problem at some of the decisions."""
        part = self.decisions
        return self.agent.pose(
            part.state[rows], part.action[rows], part.weight[rows], features
        )

    def value_features(self, state: States, rows: int, direction=None) -> ValueFeatures:
        """Features scaled on some states, to be used on so many rows."""
        law, survival = self.learned.law, None
        if isinstance(law, Moves):
            survival = Survival(law, self.discount)
        told = {"direction": direction, "survival": survival, "cells": self.cells}
        found = value_features(state, **told)
        # With a discount near one V is thousands of times what differs between states.
        most = PRECISE_NUMBERS if self.discount <= 0.9 else PRECISE_NUMBERS_FAR
        few = rows * self.panel.num_actions * found.width <= most
        return value_features(state, **told, precise=True) if few else found

    def basis(self, state: States, **options: Any) -> SmoothBasis:
        panel = self.panel
        return smooth_basis(state, panel.actions, self.anchor, panel.encoding, **options)

    def first_stage(self, policy: AbstractPolicy) -> _Found:
        """Lines, or the user's features, on few rows."""
        every = self.decisions.state
        width = len(self.basis(every[:: max(1, len(every) // 2_000)]))
        most = max(MIN_FIRST, FIRST_NUMBERS // (width * self.panel.num_actions))
        rows = spaced(len(every), min(FIRST_ROWS, most))
        state = every[rows]
        problem = self.pose(rows, self.value_features(state, len(rows)))
        if self.features is not None:
            basis = GivenBasis.of(self.panel, self.features, self.anchor)
        else:
            basis = self.basis(state)
        fit = started(problem, basis, policy.log_prob(state))
        if not fit.converged:
            # A policy that extrapolates wildly is a bad start; the mean choice is safe.
            reached = penalised_likelihood(problem, fit)
            kept = problem.q, problem.left, problem.value_weight
            share = np.bincount(problem.action, problem.weight, self.panel.num_actions)
            log_prob = np.log(share / share.sum())
            again = started(problem, basis, np.repeat(log_prob[None], len(rows), axis=0))
            if penalised_likelihood(problem, again) > reached:
                fit = again
            else:
                problem.q, problem.left, problem.value_weight = kept
        if isinstance(basis, SmoothBasis):
            own = basis.with_own_penalties("lines")
            more = PER_PENALTY * (num_groups(own) - num_groups(basis))
            if evidence(fit, own) > evidence(fit, basis) + OWN_PENALTIES + more:
                fit = maximise(problem, own, fit.theta, max_rounds=6)
        return _Found(problem, fit, rows)

    def curved_stage(self, found: _Found, most: int) -> _Found:
        """Terms that the data ask for, on as many rows as memory allows."""
        size = self.panel.num_actions * found.problem.features.width
        rows = spaced(len(self.decisions.state), min(most, MAX_NUMBERS // size))
        state = self.decisions.state[rows]
        sample = state[:: max(1, len(state) // FIRST_ROWS)]
        if isinstance(found.fit.basis, GivenBasis):
            if len(rows) == len(found.rows):
                return found
            return self._onto(found, rows, found.problem.features)
        small = len(found.fit.theta) <= LARGE
        if small:
            found = self._turned(found, sample)
        # Where the first stage's rows see nothing of a surface, all rows are spared it.
        surface = len(rows) < 2 * len(found.rows) or self._sees_surface(found, sample)
        direction = found.fit.basis.steepest(sample, found.fit.theta)
        features = self.value_features(sample, len(rows), None if self.cells else direction)
        found = self._onto(found, rows, features)
        if small or not surface:
            # With more rows the direction is more accurate, and what follows depends on it.
            found = self._turned(found, sample)
        if surface:
            found = replace(found, fit=self._turn(found, sample, surface=True))
        if not found.fit.converged:
            fit = found.fit
            told = {"max_rounds": LAST_ROUNDS, "penalty": fit.penalty}
            fit = maximise(found.problem, fit.basis, fit.theta, **told)
            found = replace(found, fit=fit)
        return found

    def _sees_surface(self, found: _Found, sample: States) -> bool:
        """Whether the decisions so far ask for a surface."""
        problem = found.problem
        told = {"surface": SCREENED_COMPONENTS}
        basis, theta, columns = self._every_term(problem, found.fit, sample, **told)
        successor = problem.successor_weights(basis, columns)
        gradient, information = problem.derivatives(basis, columns, successor)
        kept = asked_for(basis, information, information @ theta + gradient)
        return any(term.kind == "surface" for term in kept.terms)

    def _turned(self, found: _Found, sample: States) -> _Found:
        """Curved terms without a surface, as their direction is turned."""
        best = -np.inf
        for _ in range(MAX_TURNS):
            # The surface would stand in for bends along a direction not yet right.
            found = replace(found, fit=self._turn(found, sample, surface=False))
            now = found.problem.log_likelihood()
            # Tilts that the data ask for say that the direction can still be improved.
            tilted = any("tilts" in term.kind for term in found.fit.basis.terms)
            if not tilted or now < best + TURN_GAIN:
                break
            best = now
        return found

    def _onto(self, found: _Found, rows: np.ndarray, features: ValueFeatures) -> _Found:
        """An estimate carried over to other rows and features."""
        problem = self.pose(rows, features)
        old, basis = found.problem, found.fit.basis
        theta = found.fit.theta
        reward = problem.default + basis.combine(problem.columns(basis), theta)
        # The old value gives the new rows' policy to start from.
        if len(rows) == len(found.rows):
            problem.q = old.q
        else:
            weight = problem.closest_weights(old.value_function(None))
            problem.q = reward + self.discount * problem.project(weight)
        problem.evaluate(reward, rounds=3)
        fit = found.fit
        if isinstance(basis, GivenBasis):  # no terms to choose: on with the rounds
            fit = maximise(problem, basis, fit.theta, max_rounds=6)
        return _Found(problem, fit, rows)

    def _turn(self, found: _Found, sample: States, *, surface: bool) -> Fitted:
        """All terms with the steepest direction so far; those not asked for dropped."""
        problem, told = found.problem, {"surface": None if surface else 0}
        basis, theta, columns = self._every_term(problem, found.fit, sample, **told)
        successor = problem.successor_weights(basis, columns)
        gradient, information = problem.derivatives(basis, columns, successor)
        kept, left = asked_for(basis, information, information @ theta + gradient).pruned()
        problem.keep_columns(kept, columns[:, left])
        theta = carry_over_coefficients(kept, found.fit, sample)
        # With tilts another turn follows, and rounds need not converge before it.
        tilted = any("tilts" in term.kind for term in kept.terms) and not surface
        rounds = TURN_ROUNDS if tilted else LAST_ROUNDS
        return maximise(problem, kept, theta, max_rounds=rounds)

    def _every_term(
        self, problem: ValueProblem, fit: Fitted, sample: States, *, surface: int | None
    ):
        """A basis of all terms, the coefficients closest to a fit, and its columns."""
        direction = slope = None
        if self.panel.state.shape[1] > 1:
            few = sample[:: max(1, len(sample) // GRADIENTS)]
            direction = fit.basis.steepest(few, fit.theta)
            slope = fit.basis.slope_along(few, fit.theta, direction)
        told = {"surface": surface, "direction": direction, "slope": slope}
        basis = self.basis(sample, curved=True, shared=True, **told)
        if num_groups(fit.basis) > len(fit.basis.terms):
            basis = basis.with_own_penalties("lines")
        theta = carry_over_coefficients(basis, fit, sample)
        return basis, theta, problem.columns(basis)

    def final_step(self, found: _Found) -> _Found:
        """One Newton step on all decisions, where the rounds used some of them."""
        part, everyone = self.decisions, self.everyone
        if everyone is None:
            if len(found.rows) == len(part.state):
                return found
            everyone = InMemory(part.state, part.action, part.weight)
        problem, fit = found.problem, found.fit
        work = LastStep.at(self.agent, problem, fit)
        gradient, information = everyone.sum(work, work.rows_at_once, over_blocks)
        right = information @ fit.theta + gradient
        penalty, effective = best_penalty(
            information, right, fit.basis.group, fit.penalty, 60
        )
        of_all = {"information": information, "gradient": gradient}
        fit = replace(fit, penalty=penalty, effective=effective, **of_all)
        theta = np.linalg.solve(information + np.diag(fit.diagonal), right)
        problem.evaluate(problem.default + fit.basis(problem.state, theta), rounds=6)
        note = f" and a step on all {everyone.rows:,}"
        return _Found(problem, fit.moved_to(theta), found.rows, note)

    def shrunk(self, found: _Found, held_out: HeldOut) -> _Found:
        """Penalised coefficients multiplied by what held-out decisions prefer."""
        theta = found.fit.theta.copy()
        theta[found.fit.basis.group >= 0] *= held_out.factor
        problem = found.problem
        problem.evaluate(problem.default + found.fit.basis(problem.state, theta), rounds=8)
        return replace(found, fit=found.fit.moved_to(theta))

    def finish(self, found: _Found, held_out: HeldOut) -> tuple[RewardFit, AnchorSolution]:
        """The reward as a function, with its value, its errors and what is said of it."""
        problem, fit, panel = found.problem, found.fit, self.panel
        known = None
        if not self.anchor_reward.is_zero:
            earned = self.anchor_reward(problem.state)
            known = problem.weights_of_repeating(self.anchor, earned)
        ahead = self.learned.law.ahead(problem.value_function(known))
        covariance, posterior = coefficient_covariance(
            panel, self.decisions, found.rows, problem, fit, self.everyone
        )
        reward = JointReward(
            fit.basis,
            fit.theta,
            covariance,
            ahead,
            self.anchor_reward,
            self.anchor,
            self.anchor_ends,
            self.discount,
            self.temperature,
            self.learned.law.kept(),
            posterior,
        )
        if len(found.rows) == len(panel) and not self.decisions.pooled:
            reward.keep(panel.state, self._continuations(problem, known))
        scores = np.full(len(panel), np.nan)
        place = np.full(len(self.decisions.state), -1)
        place[found.rows] = np.arange(len(found.rows))
        at = place[self.decisions.at]
        scores[self.decisions.panel_row[at >= 0]] = held_out.scores[at[at >= 0]]
        made = said_of(fit, len(found.rows), found.note)
        note = f"joint, {made}{held_out.note}; {self.learned.note}"
        value = implied_value(reward)
        solution = AnchorSolution(
            value.policy_continuation,
            problem.residual if problem.neighbours is None else 0.0,
            f"follows from the reward, {problem.features.width} features"
            + ("" if problem.neighbours is None else " and neighbours"),
        )
        return RewardFit(reward, note, value, scores), solution

    def _continuations(self, problem: ValueProblem, known: np.ndarray | None) -> np.ndarray:
        """E[V(s')|s,a], and E[G(s')|s,a] unless g is zero, in all rows."""
        found = [problem.continuation(problem.value_weight, problem.left)]
        if known is not None:
            found.append(problem.project(known))
        return np.stack(found, axis=2)

r"""Joint estimation: the reward by likelihood, with the value that follows from it.

$$\hat\theta = \arg\max_\theta \sum_i \log\,\mathrm{softmax}\{
[r_\theta(s_i,\cdot) + \gamma E[V_\theta(s')|s_i,\cdot]]/\alpha\}_{a_i},
\qquad r_\theta(s,a^A) = g(s),$$

where $V_\theta$ is the value of following the estimated policy and earning $r_\theta$.
$r_\theta$ is linear in $\theta$, hence so is $V_\theta$, and the likelihood is concave:
one linear solve and one multinomial logit, neither of which can diverge. An error in the
policy moves the value to second order only, because the policy maximises it.

What is not linear is learned in rounds between the solves: the direction of the state
along which the reward bends, from the gradients of the round before; and features of the
value, as the hidden units of networks trained on the value of the round before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._random import numpy_rng
from .._shapes import PerAction, States
from .._stored import stored
from ..anchor._value import AnchoredValue
from ..law._choice import learn_transition
from ..law._table import Table
from ..law._transition import AbstractTransition
from ..learners._basis import AbstractFeatures, HiddenFeatures, Indicators, RandomFeatures
from ..learners._chunks import in_chunks
from ..learners._network import Training, squared_error, train
from ..panel._clusters import unit_folds
from ..panel._panel import Panel
from ._complexity import choose_grouping, choose_level
from ._decisions import Decisions
from ._evaluation import OneStep, PolicyEvaluation, Projected
from ._refined import refine
from ._regression import RE
from ._reward import AbstractReward, AbstractRewardEstimator, RewardFit
from ._reward_basis import (
    GivenBasis,
    RewardBasis,
    bends_along,
    linear_basis,
    steepest_directions,
    with_random_bends,
)
from ._ridge_logit import Choices, fit_ridge_logit

# Folds of units on which the reward's complexity is chosen. With ten, rewards move by 0.002
# of their standard deviation on the paper world, 0.03 on the random table and 0.0003 on
# Rust's group 4; the firms get slopes in the state, which moves theirs by 0.27.
FOLDS = 5
# Numbers in the logit's design, which is 640 MB in float64 and is copied for each fold's
# fit; decisions beyond it are thinned out evenly, and the note says so.
MAX_ENTRIES = 80_000_000
# States at which the value's equation is solved, evenly spaced among the decisions. With
# 300 features this is 80 rows for each.
MAX_STATES = 25_000


@dataclass(frozen=True)
class Joint(AbstractRewardEstimator):
    """The reward by maximum likelihood, its value following from it over all rows.

    Parameters
    ----------
    features
        What the reward is known to be linear in: a function of an array of the state
        columns to (row, action, feature), actions in the order of the panel's. The
        anchor's are not used. Without it the reward is linear in the state, with bends
        along learned directions, as complex as held-out units support.
    rounds
        Rounds in which directions and features of the value are learned.
    rows
        Decisions used in these rounds; the last estimate uses all, unless the design
        would be too large for the memory: then some, evenly spaced, and the note says so.
    training
        The networks whose hidden units become features of the value; None for random
        features alone, which is several times faster.
    moves
        Whether a law of typical steps, walls and resets is among those tried for the next
        state. The paper's synthetic world moves in just this way.

    References
    ----------
    [aguirregabiria2002npl]; [adusumilli2019tdccp].
    """

    features: Callable[[np.ndarray], Any] | None = None
    # Four rounds move rewards on the paper world by 0.01 of their standard deviation, take
    # 2.2 times as long, and change nothing on the random table and Rust's group 4.
    rounds: int = 2
    rows: int = 12_500
    training: Training | None = field(default_factory=lambda: Training(members=2))
    moves: bool = True

    def __post_init__(self):
        if self.rounds < 1:
            raise DataError(f"`rounds` must be at least 1, but it is {self.rounds}.")

    @property
    def is_affine(self) -> bool:
        return self.features is None

    def known_part(self):
        return RE()

    def fit(self, panel, value, *, key):
        key_folds, key_law, key_features, key_bends, key_train = jr.split(key, 5)
        learned = learn_transition(panel, value.policy, key=key_law, moves=self.moves)
        fold = unit_folds(panel, FOLDS, rng=numpy_rng(key_folds))
        task = _Task(panel, value, learned.law, Decisions.of(panel, fold))
        exact = isinstance(learned.law, Table)
        # With few distinct states the random features already fit V, or a table is exact.
        training = None if exact or task.decisions.pooled else self.training
        start = (Indicators() if exact else RandomFeatures()).fit(
            panel.state, value.policy.log_prob, key=key_features
        )
        if self.features is not None:
            basis = GivenBasis.of(panel, self.features, value.anchor)
        else:
            basis = linear_basis(panel, value.anchor)
        problem = task.build_logit(basis, start, rows=self.rows)
        if isinstance(basis, RewardBasis):
            basis = choose_grouping(problem.choices, basis, problem.decisions.fold)
            problem = problem.narrowed(basis)
        for turn in range(self.rounds):
            fit = fit_ridge_logit(problem.choices, basis.group)
            columns = start
            if training is not None:
                hidden = task.train(problem, fit.theta, training, key_train, turn)
                columns = HiddenFeatures(start, hidden)
            if isinstance(basis, RewardBasis):
                direction = steepest_directions(basis, fit.theta, problem.decisions.state)
                basis = bends_along(basis, panel.state, direction)
            # Random directions join only in the last round: they have no part in finding
            # the learned one.
            last = turn == self.rounds - 1
            if last and isinstance(basis, RewardBasis):
                basis = with_random_bends(basis, panel.state, key=key_bends)
            problem = task.build_logit(basis, columns, rows=None if last else self.rows)
        chosen = choose_level(problem.choices, basis, problem.decisions.fold)
        reward = BasisReward(basis, chosen.theta)
        refined = refine(value, reward, problem.ahead(chosen.theta))
        held_out = np.full(len(panel), np.nan)
        held_out[problem.decisions.panel_row] = chosen.held_out[problem.decisions.at]
        used, there = len(problem.decisions.state), len(task.decisions.state)
        thinned = "" if used == there else f" on {used:,} of {there:,} decisions"
        note = f"joint{thinned}: {chosen.note}; {learned.note}"
        return RewardFit(reward, note, refined, held_out, problem.one_step(chosen.theta))


@stored
@dataclass(frozen=True, eq=False)
class BasisReward(AbstractReward):
    """A reward linear in features, in units of the temperature; the anchor earns g."""

    basis: RewardBasis | GivenBasis
    theta: Float[np.ndarray, " feature"]

    def __call__(self, state, value):
        reward = value.temperature * (self.basis(state) @ self.theta)
        reward[:, value.anchor] += value.anchor_reward(state)
        return reward


@stored
@dataclass(frozen=True, eq=False)
class RewardGains:
    """The expected flow of a step under the policy, in units of the temperature.

    A column for each feature of the reward and one for the rest: the policy's entropy
    and the anchor's known reward. With `theta`, their sum.
    """

    basis: RewardBasis | GivenBasis
    value: AnchoredValue
    theta: Float[np.ndarray, " feature"] | None = None

    def __call__(
        self, state: States, log_prob: PerAction
    ) -> Float[np.ndarray, "row column"]:
        value, prob = self.value, np.exp(log_prob)
        known = value.anchor_reward(state) / value.temperature
        rest = prob[:, value.anchor] * known - (prob * log_prob).sum(axis=1)
        features = np.einsum("ra,rak->rk", prob, self.basis(state))
        if self.theta is not None:
            return (features @ self.theta + rest)[:, None]
        return np.concatenate([features, rest[:, None]], axis=1)


@dataclass(frozen=True, eq=False)
class _Task:
    """The inputs that stay the same in all rounds."""

    panel: Panel
    value: AnchoredValue
    law: AbstractTransition
    decisions: Decisions

    @property
    def evaluation(self) -> PolicyEvaluation:
        state = self.decisions.state
        state = state[:: max(1, len(state) // MAX_STATES)]
        return PolicyEvaluation(self.value.policy, self.law, state, self.value.discount)

    def build_logit(
        self, basis: RewardBasis | GivenBasis, features: AbstractFeatures, *, rows
    ) -> "_LogitProblem":
        """The logit in which every feature of the reward comes with its continuation."""
        gains = RewardGains(basis, self.value)
        projected = self.evaluation.project(gains, features)
        ahead = self.law.ahead(self.evaluation.step(gains, projected))
        width = len(basis.group)
        most = MAX_ENTRIES // (self.panel.num_actions * width)
        decisions = self.decisions.thinned(min(most, rows or most))
        discount, anchor = self.value.discount, self.value.anchor

        def columns(state: np.ndarray) -> np.ndarray:
            found = discount * ahead(state)
            found[:, :, :-1] += basis(state)
            found[:, anchor, -1] += self.value.anchor_reward(state) / self.value.temperature
            # Differences to the anchor: softmax does not change, and its reward is known.
            return found - found[:, [anchor]]

        found = in_chunks(columns, decisions.state)
        choices = Choices(
            found[:, :, :-1], found[:, :, -1], decisions.action, decisions.weight
        )
        return _LogitProblem(self, basis, projected, decisions, choices)

    def train(self, problem: "_LogitProblem", theta, training: Training, key, turn: int):
        """Networks that imitate the value just found, for their hidden units."""
        state = self.panel.state
        target = in_chunks(problem.one_step(theta), state)[:, 0]
        # Standardised for float32; only hidden units are used, so no scale is undone.
        level, unit = float(target.mean()), float(target.std()) or 1.0
        return train(
            state,
            (target - level) / unit,
            self.panel.weight,
            # Rows and not units: the target is computed from the state, without noise
            # that the rows of a unit could share.
            np.arange(len(state)) % FOLDS,
            loss=squared_error,
            num_outputs=1,
            training=training,
            key=jr.fold_in(key, turn),
            label="Value features",
        )


@dataclass(frozen=True, eq=False)
class _LogitProblem:
    """A logit ready to be fitted, and the values that lead back from its coefficients."""

    task: _Task
    basis: RewardBasis | GivenBasis
    projected: Projected
    decisions: Decisions
    choices: Choices

    def one_step(self, theta: np.ndarray) -> OneStep:
        """V of the reward with these coefficients."""
        weight = self.projected.weight @ np.append(theta, 1.0)
        gains = RewardGains(self.basis, self.task.value, theta)
        projected = replace(self.projected, weight=weight[:, None])
        return self.task.evaluation.step(gains, projected)

    def ahead(self, theta: np.ndarray):
        """Its continuation."""
        return self.task.law.ahead(self.one_step(theta))

    def narrowed(self, basis: RewardBasis) -> "_LogitProblem":
        """The same logit on a basis without the free shapes, or with other groups."""
        assert isinstance(self.basis, RewardBasis)
        # V is linear in the features, so leaving some out needs no new solve.
        if len(basis.group) == len(self.basis.group):
            return replace(self, basis=basis)
        used = ~self.basis.is_free
        weight = self.projected.weight[:, np.append(used, True)]
        return replace(
            self,
            basis=basis,
            projected=replace(self.projected, weight=weight),
            choices=self.choices.use(used),
        )

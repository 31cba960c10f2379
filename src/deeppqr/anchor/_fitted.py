"""FQI-I, the paper's fitted Q iteration for the anchor's value."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax.random as jr
import numpy as np
from sklearn.base import clone

from .._errors import NotConvergedWarning
from .._shapes import PerRow
from .._stored import stored
from ..learners._network import Ensemble, Predict, Training, squared_error, train
from ..learners._sklearn import fit_weighted, seeded
from ..progress import track
from ._problem import (
    AbstractAnchorSolver,
    AbstractStateFunction,
    AnchorProblem,
    AnchorSolution,
)


@dataclass(frozen=True)
class Fitted(AbstractAnchorSolver):
    r"""Fitted Q iteration for the anchor alone (FQI-I).

    Each round regresses, on the states where the anchor was taken,
    $$y = g(s') - \alpha\log\pi(a^A|s') + \gamma h(s')$$
    and replaces $h$ by the regression. The contraction rate is $\gamma$: after $N$ rounds
    about $\gamma^N$ of the fixed point is missing, so high discounts want a direct solver.

    Parameters
    ----------
    regressor
        `"network"`, or any scikit-learn regressor, refitted each round.
    tol
        Stop when the root mean square change of h in a round is below this share of h's
        standard deviation; by default 1e-6, or 0.03 for a network, whose minibatches
        keep it moving.
    max_rounds
        N of the paper; by default as many as the contraction rate needs for `tol`.
    training
        The network; a round is `check_every` of its steps.

    References
    ----------
    [geng2020pqr], Algorithm FQI-I.
    """

    regressor: Any = "network"
    tol: float | None = None
    max_rounds: int | None = None
    training: Training = field(
        default_factory=lambda: Training(
            members=3, check_every=25, batch_size=4_096, decay=False
        )
    )

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        network = isinstance(self.regressor, str)
        name = "a network" if network else type(self.regressor).__name__
        tol = self.tol or (0.03 if network else 1e-6)
        rounds = _Rounds(
            problem, tol, self.max_rounds or _rounds_needed(problem.discount, tol)
        )
        iterate = self._iterate_network if network else self._iterate_regressor
        function = iterate(problem, rounds, key)
        # The contraction's bound: a geometric series of changes like the last one.
        missing = problem.discount / (1 - problem.discount) * rounds.change
        if not rounds.converged:
            warnings.warn(
                f"FQI-I stopped after {rounds.number} rounds with a change of "
                f"{rounds.change:.2e} per round, above the "
                f"{tol * _scale(rounds.here):.2e} asked for; up to {missing:.2e} of the "
                "fixed point may be missing. Raise `max_rounds`, or use "
                'anchor_value="linear", which solves the same equation directly.',
                NotConvergedWarning,
                stacklevel=4,
            )
        return AnchorSolution(
            function,
            residual=rounds.change,
            note=f"FQI-I with {name}, {rounds.number} rounds",
            num_steps=rounds.number,
            missing=missing,
        )

    def _iterate_regressor(self, problem, rounds: "_Rounds", key) -> "RegressorFunction":
        with track("FQI-I", rounds.limit) as progress:
            while True:
                # The same seed each round: a forest's own randomness would keep h moving.
                model = seeded(clone(self.regressor), key=key)
                fit_weighted(model, problem.state, rounds.target(), problem.weight)
                function = RegressorFunction(model)
                rounds.update(function)
                progress.advance(note=f"change {rounds.change:.2e}")
                if rounds.over:
                    return function

    def _iterate_network(self, problem, rounds: "_Rounds", key) -> "NetworkFunction":
        key_folds, key_train = jr.split(key)
        # Rows and not units: with refreshed targets the held-out loss is only reported.
        fold = np.asarray(jr.randint(key_folds, (len(problem.state),), 0, 5))
        # The network learns deviations from the mean target: in float32 they would be
        # lost beside a level of order 1 / (1 - discount).
        unit = float(np.std(rounds.bonus)) or 1.0
        level = rounds.level()

        def refresh(predict: Predict):
            nonlocal level
            rounds.update(lambda state: level + unit * predict(state)[..., 0].mean(axis=0))
            if rounds.over:
                return None
            level = rounds.level()
            return (rounds.target() - level) / unit

        training = replace(
            self.training, max_steps=(rounds.limit + 1) * self.training.check_every
        )
        ensemble = train(
            problem.state,
            (rounds.target() - level) / unit,
            problem.weight,
            fold,
            loss=squared_error,
            num_outputs=1,
            training=training,
            key=key_train,
            label="FQI-I",
            refresh=refresh,
        )
        return NetworkFunction(ensemble, level, unit)


class _Rounds:
    """The state of the iteration: h at the rows and at their next states."""

    def __init__(self, problem: AnchorProblem, tol: float, limit: int):
        self.problem, self.tol, self.limit = problem, tol, limit
        self.bonus = problem.next_bonus()
        self.here = np.zeros(len(self.bonus))
        self.ahead = np.zeros(len(self.bonus))
        self.number, self.change = 0, np.inf

    def target(self) -> PerRow:
        return self.bonus + self.problem.discount * self.ahead

    def level(self) -> float:
        return float(np.average(self.target(), weights=self.problem.weight))

    def update(self, function: Callable[..., np.ndarray]) -> None:
        follows = ~self.problem.ends
        updated = function(self.problem.state)
        self.change = float(np.sqrt(np.mean(np.square(updated - self.here))))
        self.here = updated
        self.ahead[follows] = function(self.problem.next_state[follows])
        self.number += 1

    @property
    def converged(self) -> bool:
        return self.change <= self.tol * _scale(self.here)

    @property
    def over(self) -> bool:
        return self.converged or self.number >= self.limit


def _scale(values: np.ndarray) -> float:
    """The standard deviation of values, or a thousandth of their size if larger."""
    return float(max(np.std(values), 1e-3 * np.sqrt(np.mean(values**2))))


def _rounds_needed(discount: float, tol: float) -> int:
    if discount == 0:
        return 2
    # The tolerance is relative to h's standard deviation, which may be a thousandth of its
    # size. 5,000 rounds are a guard: at 0.999 the rate needs more, and a direct solver is
    # the better choice.
    missing = 1e-3 * tol * (1 - discount)
    return min(5_000, 10 + int(np.ceil(np.log(missing) / np.log(discount))))


@stored
@dataclass(frozen=True, eq=False)
class RegressorFunction(AbstractStateFunction):
    """A fitted scikit-learn regressor."""

    estimator: Any

    def __call__(self, state, log_prob=None) -> PerRow:
        if len(state) == 0:  # scikit-learn raises for empty input
            return np.empty(0)
        return np.asarray(self.estimator.predict(state), np.float64).reshape(len(state))


@stored
@dataclass(frozen=True, eq=False)
class NetworkFunction(AbstractStateFunction):
    """The mean of an ensemble, in the target's units."""

    ensemble: Ensemble
    level: float
    unit: float

    def __call__(self, state, log_prob) -> PerRow:
        return self.level + self.unit * self.ensemble(state)[..., 0].mean(axis=0)

"""FQI-I, the paper's fitted iteration for the anchor's value."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from .._errors import NotConvergedWarning
from .._network import Ensemble, Training, squared_error, train
from .._progress import track
from .._sklearn import fit_weighted, seeded
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
        The network and its steps in each round; rounds continue from the last one.

    References
    ----------
    [geng2020pqr], Algorithm FQI-I.
    """

    regressor: Any = "network"
    tol: float | None = None
    max_rounds: int | None = None
    training: Training = field(
        default_factory=lambda: Training(
            members=3, max_steps=25, check_every=25, batch_size=4_096
        )
    )

    def solve(self, problem: AnchorProblem, *, key) -> AnchorSolution:
        bonus = problem.next_bonus()
        unit = float(np.std(bonus)) or 1.0
        regress = self._regression(problem, unit, key)
        tol = self.tol or (0.03 if isinstance(self.regressor, str) else 1e-6)
        rounds = self.max_rounds or _rounds_needed(problem.discount, tol)
        follows = ~problem.ends
        ahead = np.zeros(len(bonus))
        here = np.zeros(len(bonus))
        change, step, function = np.inf, 0, None
        with track("FQI-I", rounds) as progress:
            for step in range(1, rounds + 1):
                function = regress(bonus + problem.discount * ahead, step, function)
                updated = function(problem.state, None)
                change = float(np.sqrt(np.mean(np.square(updated - here))))
                here = updated
                ahead[follows] = function(problem.next_state[follows], None)
                progress.advance(note=f"change {change:.2e}")
                if change <= tol * _scale(here):
                    break
        missing = problem.discount / (1 - problem.discount) * change
        if change > tol * _scale(here):
            warnings.warn(
                f"FQI-I stopped after {step} rounds with a change of {change:.2e} per "
                f"round, above the {tol * _scale(here):.2e} asked for; up to {missing:.2e} "
                "of the fixed point may be missing. Raise `max_rounds`, or use "
                'anchor_value="linear", which solves the same equation directly.',
                NotConvergedWarning,
                stacklevel=2,
            )
        assert function is not None
        return AnchorSolution(
            function,
            residual=change,
            condition=None,
            note=f"FQI-I with {self._name()}, {step} rounds",
            num_steps=step,
            missing=missing,
        )

    def _name(self) -> str:
        if isinstance(self.regressor, str):
            return "a network"
        return type(self.regressor).__name__

    def _regression(self, problem: AnchorProblem, unit: float, key) -> Callable:
        if not isinstance(self.regressor, str):

            def regress(target, step, previous):
                del step, previous
                model = seeded(clone(self.regressor), key=key)
                fit_weighted(model, problem.state, target, problem.weight)
                return RegressorFunction(model)

            return regress

        fold = np.asarray(jr.randint(key, (len(problem.state),), 0, 5))

        def regress_network(target, step, previous):
            level = float(np.average(target, weights=problem.weight))
            ensemble = train(
                problem.state,
                (target - level) / unit,
                problem.weight,
                fold,
                loss=squared_error,
                num_outputs=1,
                training=self.training,
                key=jr.fold_in(key, step),
                label="Q network",
                start=previous and previous.ensemble,
            )
            return NetworkFunction(ensemble, level, unit)

        return regress_network


def _scale(values: np.ndarray) -> float:
    """The spread of values, or a sliver of their size where they do not vary."""
    return float(max(np.std(values), 1e-3 * np.sqrt(np.mean(values**2))))


def _rounds_needed(discount: float, tol: float) -> int:
    if discount == 0:
        return 2
    return min(2_000, 10 + int(np.ceil(np.log(tol * (1 - discount)) / np.log(discount))))


@dataclass(frozen=True, eq=False)
class RegressorFunction(AbstractStateFunction):
    """A fitted scikit-learn regressor."""

    estimator: Any

    def __call__(self, state, log_prob):
        del log_prob
        return np.asarray(self.estimator.predict(state), np.float64).reshape(len(state))


@dataclass(frozen=True, eq=False)
class NetworkFunction(AbstractStateFunction):
    """The mean of an ensemble, in the target's units."""

    ensemble: Ensemble
    level: float
    unit: float

    def __call__(self, state, log_prob) -> Float[np.ndarray, " row"]:
        del log_prob
        return self.level + self.unit * self.ensemble(state)[..., 0].mean(axis=0)

"""Maximum likelihood by Fisher scoring, and covariances of the estimates."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax

from .._errors import DataError, NotConvergedWarning
from .._shapes import Codes, PerRow, TableActions
from ..mdp._tabular import solve_bellman
from ..panel._clusters import clustered_covariance
from ._law import FirstStep
from ._structural import Problem

# Ascent stops when the squared length of the next step, in standard errors, is below this.
# On Rust's groups 1-4 the estimates are the same to the last digit at 1e-12.
TOL = 1e-14


class Point(NamedTuple):
    """A log-likelihood at one parameter, with its slope and expected curvature."""

    log_likelihood: float
    gradient: Float[np.ndarray, " parameter"]
    information: Float[np.ndarray, "parameter parameter"]


@dataclass(frozen=True, eq=False)
class Choices:
    """Choice probabilities of a table and their derivatives in the parameters."""

    log_policy: TableActions
    score: Float[np.ndarray, "state action parameter"]
    r"""$\nabla \log\pi(a|s)$."""

    @classmethod
    def of(cls, q, slope, temperature: float) -> "Choices":
        """The logit choices of Q, whose slope in the parameters is given."""
        log_policy = log_softmax(q / temperature, axis=1)
        mean = np.einsum("sa,sak->sk", np.exp(log_policy), slope)
        return cls(log_policy, (slope - mean[:, None]) / temperature)

    @property
    def policy(self) -> TableActions:
        return np.exp(self.log_policy)

    def point(self, counts: TableActions) -> Point:
        """The log-likelihood of decisions counted by state and action."""
        return Point(
            float(np.sum(counts * self.log_policy)),
            np.einsum("sa,sak->k", counts, self.score),
            self.expected(counts),
        )

    def expected(self, counts) -> Float[np.ndarray, "parameter parameter"]:
        """Fisher's information, as the model expects it."""
        mass = counts.sum(axis=1, keepdims=True) * self.policy
        return np.einsum("sa,sak,sal->kl", mass, self.score, self.score, optimize=True)

    def rows(
        self, cell: Codes, action: Codes, weight: PerRow
    ) -> Float[np.ndarray, "row parameter"]:
        """The weighted score of each decision. Their outer product is the information as
        Berndt, Hall, Hall and Hausman have it."""
        return weight[:, None] * self.score[cell, action]


def maximise_likelihood(
    at: Callable[[np.ndarray], Point],
    start: Float[np.ndarray, " parameter"],
    names: Sequence[str],
    *,
    max_steps: int,
) -> tuple[Float[np.ndarray, " parameter"], int]:
    """The maximum and the number of steps to it, by Fisher scoring with step halving."""
    theta, here = start, at(start)
    for step in range(1, max_steps + 1):
        move = solve_information(here.information, here.gradient, names)
        if float(here.gradient @ move) < TOL:
            return theta, step - 1
        # A sum of thousands of terms is known to about 1e-12 of its size; at the maximum
        # a step must not be refused for less.
        slack = 1e-12 * (1 + abs(here.log_likelihood))
        share = 1.0
        there = at(theta + move)
        while not there.log_likelihood >= here.log_likelihood - slack and share > 1e-8:
            share /= 2
            there = at(theta + share * move)
        theta, here = theta + share * move, there
    warnings.warn(
        f"Fisher scoring stopped after {max_steps} steps, with a next step of "
        f"{float(np.sqrt(max(here.gradient @ move, 0.0))):.2g} standard errors.",
        NotConvergedWarning,
        stacklevel=3,
    )
    return theta, max_steps


def maximise_logit(
    level: np.ndarray, slope, counts, start, names: Sequence[str], settings: Any
) -> tuple[Float[np.ndarray, " parameter"], Choices, int]:
    """The maximum where Q = level + slope theta, its choices, and the number of steps."""
    at = lambda theta: Choices.of(level + slope @ theta, slope, settings.temperature)
    theta, num_steps = maximise_likelihood(
        lambda theta: at(theta).point(counts), start, names, max_steps=settings.max_steps
    )
    return theta, at(theta), num_steps


def solve_information(information, target, names: Sequence[str]) -> np.ndarray:
    """The information's inverse times a target, refusing what is not identified."""
    scale = np.sqrt(np.diag(information))
    flat = [name for name, size in zip(names, scale, strict=True) if not size > 0]
    if flat:
        raise DataError(
            f"Nothing in the data depends on {flat[0]!r} ({len(flat)} such parameters). "
            "Leave it out or fix it, as in fixed={...}."
        )
    relative = information / np.outer(scale, scale)
    # Scaled to a unit diagonal, so that units of the parameters do not matter; beyond
    # 1e13 fewer than three digits of the solution are left in double precision.
    if not np.isfinite(relative).all() or np.linalg.cond(relative) > 1e13:
        raise DataError(
            f"The parameters {list(names)} cannot be told apart: their information "
            "matrix is singular. Leave one out or fix it, as in fixed={...}."
        )
    solved = np.linalg.solve(relative, (target.T / scale).T)
    return (solved.T / scale).T


def law_slope(problem: Problem, choices: Choices, policy: np.ndarray) -> np.ndarray:
    r"""Minus the slope of the expected score in the continuation, $E[V(s')|s,a]$.

    It is $A$ pulled back through what accumulates under the policy, where
    $A = n(s)\,\pi(a|s)\,\nabla\log\pi(a|s)/\alpha$; shape (state, action, parameter).
    """
    mass = problem.counts.sum(axis=1, keepdims=True) * choices.policy
    direct = mass[:, :, None] * choices.score / problem.temperature
    law, discount = problem.law.transition, problem.discount
    back = np.einsum("sat,sak->tk", law, direct)
    moves = np.einsum("sa,sat->st", policy, law)
    # The adjoint of what accumulates from a state on is what flows into it.
    adjoint = solve_bellman(moves.T, discount * back, discount=discount)
    return discount * (direct + policy[:, :, None] * adjoint[:, None])


def two_step_covariances(
    problem: Problem, choices: Choices, step: FirstStep, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    r"""Covariances, plain and clustered, where the law was estimated first.

    A unit moves the estimate by
    $I^{-1}\{\sum \nabla\log\pi - \sum \mathrm{pull}\}$: the scores of its decisions, less
    what its moves do to the score through the law. Their variances add, since a move is
    independent of the decision before it.
    """
    size = len(names)
    inverse = solve_information(choices.expected(problem.counts), np.eye(size), names)
    score = choices.rows(problem.cell, problem.action, problem.weight)
    outer = solve_information(score.T @ score, np.eye(size), names)
    moves = np.concatenate([-step.pull @ inverse, step.share], axis=1)
    covariance = moves.T @ (step.count[:, None] * moves)
    # The outer product of scores, as Rust reports it, not the expected information.
    covariance[:size, :size] += outer

    by_unit = np.zeros((int(problem.unit.max()) + 1, moves.shape[1]))
    np.add.at(by_unit[:, :size], problem.unit, score @ inverse)
    np.add.at(by_unit, step.unit, step.count[:, None] * moves)
    return symmetric(covariance), clustered_covariance(by_unit)


def symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2

"""Maximum likelihood by Fisher scoring, and covariances of the estimates."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax

from .._errors import DataError, NotConvergedWarning
from .._shapes import TableActions
from ..panel._clusters import clustered_covariance
from ._law import FirstStep
from ._structural import Problem


class Point(NamedTuple):
    """A log-likelihood at one parameter, with its slope and expected curvature."""

    log_likelihood: float
    gradient: Float[np.ndarray, " parameter"]
    information: Float[np.ndarray, "parameter parameter"]


class Maximum(NamedTuple):
    """The maximum and the number of steps to it."""

    theta: Float[np.ndarray, " parameter"]
    num_steps: int


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

    def outer(self, problem: Problem) -> Float[np.ndarray, "parameter parameter"]:
        """The outer product of the scores, as Berndt, Hall, Hall and Hausman have it."""
        score = problem.weight[:, None] * self.score[problem.cell, problem.action]
        return score.T @ score


def maximise_likelihood(
    at: Callable[[np.ndarray], Point],
    start: Float[np.ndarray, " parameter"],
    names: Sequence[str],
    *,
    tol: float,
    max_steps: int,
) -> Maximum:
    """Fisher scoring with step halving.

    `tol` bounds the squared length of the step that is left, in standard errors.
    """
    theta, here = start, at(start)
    for step in range(1, max_steps + 1):
        move = solve_information(here.information, here.gradient, names)
        if float(here.gradient @ move) < tol:
            return Maximum(theta, step - 1)
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
    return Maximum(theta, max_steps)


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
    back = np.einsum("sat,sak->tk", problem.law.transition, direct)
    adjoint = np.linalg.solve(problem.system(policy).T, problem.discount * back)
    return problem.discount * (direct + policy[:, :, None] * adjoint[:, None])


class Precision(NamedTuple):
    """Covariances of the parameters and of the law's shares together."""

    covariance: Float[np.ndarray, "both both"]
    clustered: Float[np.ndarray, "both both"]


def two_step_precision(
    problem: Problem, choices: Choices, step: FirstStep, names: Sequence[str]
) -> Precision:
    r"""Covariances where the law was estimated first.

    A unit moves the estimate by
    $I^{-1}\{\sum \nabla\log\pi - \sum \mathrm{pull}\}$: the scores of its decisions, less
    what its moves do to the score through the law. Their variances add, since a move is
    independent of the decision before it.
    """
    size = len(names)
    inverse = solve_information(choices.expected(problem.counts), np.eye(size), names)
    outer = solve_information(choices.outer(problem), np.eye(size), names)
    moves = np.concatenate([-step.pull @ inverse, step.share], axis=1)
    covariance = moves.T @ (step.count[:, None] * moves)
    # The outer product of scores, as Rust reports it, not the expected information.
    covariance[:size, :size] += outer

    num_units = int(problem.unit.max()) + 1
    by_unit = np.zeros((num_units, moves.shape[1]))
    score = problem.weight[:, None] * choices.score[problem.cell, problem.action]
    np.add.at(by_unit[:, :size], problem.unit, score @ inverse)
    np.add.at(by_unit, step.unit, step.count[:, None] * moves)
    return Precision(symmetric(covariance), clustered_covariance(by_unit))


def symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2

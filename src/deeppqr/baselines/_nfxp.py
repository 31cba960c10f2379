"""Rust's nested fixed point: the dynamic program is solved at every parameter tried."""

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import TableValues
from ..mdp._tabular import SoftSolution, TabularMDP, solve_soft
from ..panel._clusters import clustered_covariance
from ..panel._panel import require_panel
from ._ascent import (
    Choices,
    Point,
    law_slope,
    maximise_likelihood,
    solve_information,
    symmetric,
    two_step_covariances,
)
from ._baseline import look_up
from ._law import AbstractLawFit, MileageFit
from ._structural import AbstractTabular, Problem, assemble


@dataclass(frozen=True)
class NFXP(AbstractTabular):
    r"""Rust's nested fixed point: maximum likelihood, the Bellman equation solved inside.

    $$\max_\theta \sum_i \log\pi_\theta(a_i|s_i), \qquad
    \pi_\theta = \mathrm{softmax}(Q_\theta/\alpha), \qquad
    \nabla Q_\theta = \phi + \gamma P (I - \gamma P_\pi)^{-1} \sum_a \pi_a \phi_a.$$

    Newton-Kantorovich steps solve for $Q_\theta$; the gradient is that of the implicit
    function. The law of the next state is estimated first, or together with $\theta$.

    Parameters
    ----------
    discount, temperature
        $\gamma$ and $\alpha$; the agent's.
    reward
        The reward's form: `bus_costs("linear")` or another `LinearReward`.
    law
        How the transitions are estimated: `CountedLaw()`, `MileageIncrements()`, or
        `KnownLaw` for a law that is handed in.
    full
        Maximise the likelihood of decisions and moves over $\theta$ and the shares of
        increments together. The default takes the shares as counted.

    References
    ----------
    [rust1987].
    """

    full: bool = False
    max_steps: int = 200

    def fit(self, panel):
        require_panel(panel)
        start = time.perf_counter()
        problem, names = self.problem(panel), self.reward.free_names
        counts, inner = problem.counts, Inner(problem)
        at = lambda theta: inner.choices(theta).point(counts)
        limits = {"max_steps": self.max_steps}
        theta, num_steps = maximise_likelihood(at, np.zeros(len(names)), names, **limits)
        if self.full:
            problem, theta, more = maximise_jointly(problem, theta, names, **limits)
            num_steps += more
        solution, choices = Inner(problem).solve(theta)
        if self.full:
            covariances = joint_covariances(problem, theta, names)
        else:
            slope = law_slope(problem, choices, np.exp(solution.log_policy))
            step = problem.law.first_step(solution.value, slope)
            covariances = two_step_covariances(problem, choices, step, names)
        note = f"{num_steps} scoring steps, Bellman residual {solution.residual:.1e} "
        note += f"[{time.perf_counter() - start:.2f} s]"
        likelihood = choices.point(counts).log_likelihood
        q = partial(look_up, problem.cells, solution.q)
        method = "NFXP, full likelihood" if self.full else "NFXP, two steps"
        found = (theta, covariances, likelihood, q, note)
        return assemble(method, self, panel, *found, law=problem.law)


class Inner:
    """The agent's problem at a parameter; each solution starts from the last one's V."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.value: TableValues | None = None

    def solve(self, theta: Float[np.ndarray, " free"]) -> tuple[SoftSolution, Choices]:
        """The optimum, and the choices with their derivatives in theta."""
        problem = self.problem
        solution = solve_at(problem, theta, start=self.value)
        self.value = solution.value
        policy = np.exp(solution.log_policy)
        slope = problem.accumulate(problem.design, policy)
        return solution, Choices.of(solution.q, slope, problem.temperature)

    def choices(self, theta: Float[np.ndarray, " free"]) -> Choices:
        return self.solve(theta)[1]


def solve_at(problem: Problem, theta, *, start=None) -> SoftSolution:
    """The agent's optimum at a parameter."""
    reward = problem.known + problem.design @ theta
    mdp = TabularMDP(reward, problem.law.transition, problem.discount, problem.temperature)
    return solve_soft(mdp, start=start)


def maximise_jointly(
    problem: Problem, theta, names, *, max_steps: int
) -> tuple[Problem, Float[np.ndarray, " free"], int]:
    """The full likelihood's maximum: the law with its shares, theta, and the steps."""
    law = require_shares(problem.law)
    size = len(theta)
    both = [*names, *law.names[:-1]]

    def at(parameters: np.ndarray) -> Point:
        shares = complete_shares(parameters[size:])
        # Outside the simplex: minus infinity makes the line search halve its step.
        if (shares <= 0).any():
            nothing = np.zeros(len(parameters))
            return Point(-np.inf, nothing, np.eye(len(parameters)))
        moved = replace(problem, law=law.at(shares))
        point = joint_choices(moved, parameters[:size]).point(problem.counts)
        gradient, information = share_terms(law, shares)
        point.gradient[size:] += gradient
        point.information[size:, size:] += information
        both = point.log_likelihood + moved.law.log_likelihood
        return point._replace(log_likelihood=both)

    start = np.concatenate([theta, law.shares[:-1]])
    found, num_steps = maximise_likelihood(at, start, both, max_steps=max_steps)
    shares = complete_shares(found[size:])
    return replace(problem, law=law.at(shares)), found[:size], num_steps


def joint_choices(problem: Problem, theta: Float[np.ndarray, " free"]) -> Choices:
    """The choices with their derivatives in theta and in all shares but the last."""
    law = require_shares(problem.law)
    solution = solve_at(problem, theta)
    policy = np.exp(solution.log_policy)
    ahead = law.moves @ solution.value
    # The last share is one less the others, so each derivative is a difference to it.
    gain = problem.discount * np.moveaxis(ahead[:-1] - ahead[-1], 0, 2)
    flow = np.concatenate([problem.design, gain], axis=2)
    slope = problem.accumulate(flow, policy)
    return Choices.of(solution.q, slope, problem.temperature)


def share_terms(law: MileageFit, shares: Float[np.ndarray, " increment"]):
    """Gradient and information of the moves' likelihood in all shares but the last."""
    seen = law.counts.sum(axis=0)
    gradient = seen[:-1] / shares[:-1] - seen[-1] / shares[-1]
    information = law.total * (np.diag(1 / shares[:-1]) + 1 / shares[-1])
    return gradient, information


def joint_covariances(problem: Problem, theta, names) -> tuple[np.ndarray, np.ndarray]:
    """Covariances of the full likelihood's estimate, the last share's added."""
    law = require_shares(problem.law)
    size = len(theta)
    both = [*names, *law.names[:-1]]
    choices = joint_choices(problem, theta)
    _, of_shares = share_terms(law, law.shares)
    rows = choices.rows(problem.cell, problem.action, problem.weight)
    outer, expected = rows.T @ rows, choices.expected(problem.counts)
    outer[size:, size:] += of_shares
    expected[size:, size:] += of_shares
    eye = np.eye(len(both))
    covariance = solve_information(outer, eye, both)

    score = np.zeros((len(law.counts), len(both)))
    np.add.at(score, problem.unit, rows)
    own = law.counts / law.shares
    score[:, size:] += own[:, :-1] - own[:, [-1]]
    by_unit = score @ solve_information(expected, eye, both)

    spread = np.zeros((len(both) + 1, len(both)))
    spread[:-1] = eye
    spread[-1, size:] = -1.0  # the last share is one less the others
    covariance = symmetric(spread @ covariance @ spread.T)
    return covariance, clustered_covariance(by_unit @ spread.T)


def require_shares(law: AbstractLawFit) -> MileageFit:
    """A law with few parameters, refusing others."""
    if not isinstance(law, MileageFit):
        raise DataError(
            "`full=True` estimates the transition law's shares with theta and needs "
            f"law=MileageIncrements(), but the law is a {type(law).__name__}."
        )
    return law


def complete_shares(free: Float[np.ndarray, " share"]) -> Float[np.ndarray, " increment"]:
    """All shares, the last being what is missing to one."""
    return np.append(free, 1 - free.sum())

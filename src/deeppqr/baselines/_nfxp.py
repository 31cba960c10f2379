"""Rust's nested fixed point: the dynamic program is solved at every parameter tried."""

import time
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import TableActions, TableValues
from ..mdp._tabular import SoftSolution, TabularMDP, check_preferences, solve_soft
from ..panel._clusters import clustered_covariance
from ..panel._panel import Panel, require_panel
from ._ascent import (
    Choices,
    Point,
    Precision,
    law_slope,
    maximise_likelihood,
    solve_information,
    symmetric,
    two_step_precision,
)
from ._law import AbstractLaw, AbstractLawFit, CountedLaw, MileageFit, share_names
from ._structural import (
    AbstractStructural,
    LinearReward,
    Problem,
    StructuralFit,
    TabularQ,
    build_problem,
)

# Ascent stops when the squared length of the next step, in standard errors, is below this.
# On Rust's groups 1-4 the estimates are the same to the last digit at 1e-12.
TOL = 1e-14


@dataclass(frozen=True)
class NFXP(AbstractStructural):
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

    discount: float
    reward: LinearReward
    law: AbstractLaw = field(default_factory=CountedLaw)
    temperature: float = 1.0
    full: bool = False
    max_steps: int = 200

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)

    def fit(self, panel):
        require_panel(panel)
        start = time.perf_counter()
        problem = build_problem(
            panel, self.reward, self.law, self.discount, self.temperature
        )
        names = free_names(self.reward)
        inner = Inner(problem)
        at = lambda theta: inner.choices(theta).point(problem.counts)
        # From zero, which any reward's form allows; steps that lower the likelihood are
        # halved.
        first = np.zeros(len(names))
        theta, num_steps = maximise_likelihood(
            at, first, names, tol=TOL, max_steps=self.max_steps
        )
        if self.full:
            found = maximise_jointly(problem, theta, names, max_steps=self.max_steps)
            problem, theta = found.problem, found.theta
            num_steps += found.num_steps
            precision = joint_precision(problem, theta, names)
        else:
            precision = nested_precision(problem, theta, names)
        solution, choices = Inner(problem).solve(theta)
        seconds = time.perf_counter() - start
        return assemble(
            "NFXP, full likelihood" if self.full else "NFXP, two steps",
            panel,
            problem,
            self.reward,
            theta,
            precision,
            choices,
            solution.q,
            f"{num_steps} scoring steps, Bellman residual {solution.residual:.1e} "
            f"[{seconds:.2f} s]",
        )


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


class Joint(NamedTuple):
    """The maximum of the full likelihood."""

    problem: Problem
    theta: Float[np.ndarray, " free"]
    num_steps: int


def maximise_jointly(problem: Problem, theta, names, *, max_steps: int) -> Joint:
    """Theta and the shares of increments by the likelihood of decisions and moves."""
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
        total = point.gradient.copy()
        total[size:] += gradient
        curvature = point.information.copy()
        curvature[size:, size:] += information
        return Point(point.log_likelihood + law.at(shares).log_likelihood, total, curvature)

    start = np.concatenate([theta, law.shares[:-1]])
    found = maximise_likelihood(at, start, both, tol=TOL, max_steps=max_steps)
    shares = complete_shares(found.theta[size:])
    return Joint(replace(problem, law=law.at(shares)), found.theta[:size], found.num_steps)


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


def nested_precision(problem: Problem, theta, names) -> Precision:
    """Covariances of the two-step estimate."""
    solution, choices = Inner(problem).solve(theta)
    slope = law_slope(problem, choices, np.exp(solution.log_policy))
    step = problem.law.first_step(solution.value, slope)
    return two_step_precision(problem, choices, step, names)


def joint_precision(problem: Problem, theta, names) -> Precision:
    """Covariances of the full likelihood's estimate, the last share's added."""
    law = require_shares(problem.law)
    size = len(theta)
    both = [*names, *law.names[:-1]]
    choices = joint_choices(problem, theta)
    _, of_shares = share_terms(law, law.shares)
    outer, expected = choices.outer(problem), choices.expected(problem.counts)
    outer[size:, size:] += of_shares
    expected[size:, size:] += of_shares
    eye = np.eye(len(both))
    covariance = solve_information(outer, eye, both)

    score = np.zeros((len(law.counts), len(both)))
    rows = problem.weight[:, None] * choices.score[problem.cell, problem.action]
    np.add.at(score, problem.unit, rows)
    own = law.counts / law.shares
    score[:, size:] += own[:, :-1] - own[:, [-1]]
    by_unit = score @ solve_information(expected, eye, both)

    spread = np.zeros((len(both) + 1, len(both)))
    spread[:-1] = eye
    spread[-1, size:] = -1.0  # the last share is one less the others
    return Precision(
        symmetric(spread @ covariance @ spread.T), clustered_covariance(by_unit @ spread.T)
    )


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


def free_names(reward: LinearReward) -> list[str]:
    """The names of the parameters that are estimated."""
    return [reward.names[place] for place in reward.free]


def describe_given(reward: LinearReward, law_given: str) -> str:
    """Which truth these settings hand over."""
    parts = [f"{name} = {value:g}" for name, value in reward.fixed.items()]
    if law_given != "nothing":
        parts.append(law_given)
    return ", ".join(["the form of the reward", *parts])


def assemble(
    method: str,
    panel: Panel,
    problem: Problem,
    reward: LinearReward,
    theta: Float[np.ndarray, " free"],
    precision: Precision,
    choices: Choices,
    q: TableActions,
    note: str,
) -> StructuralFit:
    """The fit, with fixed parameters put back among the estimated ones."""
    law = problem.law
    shares = law.shares if isinstance(law, MileageFit) else np.zeros(0)
    covariance, by_unit = (with_fixed(reward, matrix) for matrix in precision)
    return StructuralFit(
        method=method,
        given=describe_given(reward, law.given),
        actions=panel.actions,
        encoding=panel.encoding,
        reward_form=reward,
        theta=with_known(reward, theta),
        shares=shares,
        share_names=tuple(share_names(law)),
        joint_covariance=covariance,
        joint_clustered=by_unit,
        log_likelihood=choices.point(problem.counts).log_likelihood,
        transition_log_likelihood=law.log_likelihood,
        discount=problem.discount,
        temperature=problem.temperature,
        num_decisions=len(panel),
        num_units=panel.num_units,
        q_function=TabularQ(problem.cells, q),
        note=note,
    )


def with_known(reward: LinearReward, theta) -> Float[np.ndarray, " parameter"]:
    """All parameters, the known ones among them."""
    full = reward.start
    full[reward.free] = theta
    return full


def with_fixed(reward: LinearReward, matrix) -> Float[np.ndarray, "both both"]:
    """A covariance with zeros for the parameters that are known."""
    fixed = len(reward.names) - len(reward.free)
    rest = np.arange(len(matrix) - len(reward.free)) + len(reward.names)
    place = np.concatenate([reward.free, rest])
    size = len(matrix) + fixed
    full = np.zeros((size, size))
    full[np.ix_(place, place)] = matrix
    return full

"""CCP estimators: Hotz and Miller's two steps, and nested pseudo-likelihood."""

import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._errors import NotConvergedWarning
from .._shapes import TableActions
from ..panel._panel import Panel, require_panel
from ..policy._logit import Logit
from ._ascent import law_slope, maximise_logit, two_step_covariances
from ._baseline import fit_policy, look_up
from ._structural import AbstractTabular, Problem, StructuralFit, assemble

# The first-stage policy. On Rust's groups 1-4 (60 replacements) degree 6 moves theta by 0.2
# and 0.4 standard errors, degree 2 by 1.0 and 1.7, and doubling the ridge by 1e-7.
POLICY = Logit(degree=3, ridge=1e-6)


class PolicyValues(NamedTuple):
    r"""Q if a policy is followed from the next period on: $Q = h\,\theta + g$."""

    slope: Float[np.ndarray, "state action free"]
    """h: the features that a decision earns, now and later."""
    level: TableActions
    """g: what is known of the reward, and the shocks' worth, now and later."""

    def q(self, theta: Float[np.ndarray, " free"]) -> TableActions:
        return self.level + self.slope @ theta


def value_policy(problem: Problem, log_policy: TableActions) -> PolicyValues:
    r"""Hotz and Miller's inversion: a policy's value is linear in the parameters.

    The flow of an action is $\phi^\top\theta$ and, from the next period on,
    $-\alpha\log\pi$, the mean of the shock of the action that is chosen.
    """
    policy = np.exp(log_policy)
    shock = -problem.temperature * log_policy
    flow = np.concatenate([problem.design, (problem.known + shock)[:, :, None]], axis=2)
    both = problem.accumulate(flow, policy)
    # Without the current period's: its shock is seen when the action is chosen.
    return PolicyValues(both[:, :, :-1], both[:, :, -1] - shock)


@dataclass(frozen=True)
class HotzMiller(AbstractTabular):
    r"""CCP: pseudo-likelihood with the values of an estimated policy.

    $$\max_\theta \sum_i \log\mathrm{softmax}_{a_i}\{(h_{\hat\pi}(s_i,\cdot)^\top\theta +
    g_{\hat\pi}(s_i,\cdot))/\alpha\}.$$

    The agent's problem is never solved: what follows a decision is valued under the
    estimated policy. That policy's error has no first-order effect, because the value of
    an optimal policy has derivative zero in the policy.

    Parameters
    ----------
    discount, temperature, reward, law
        As in `NFXP`.
    policy
        How the policy is estimated: anything that `PQR` takes.

    References
    ----------
    [hotz1993]; [aguirregabiria2002npl], with one iteration.
    """

    policy: Any = POLICY
    max_steps: int = 200
    seed: int = 0

    def fit(self, panel):
        return iterate_policy(self, panel, "CCP (Hotz-Miller)", iterations=1)


@dataclass(frozen=True)
class NPL(AbstractTabular):
    """Nested pseudo-likelihood: CCP iterated with its own policy until theta converges.

    At the fixed point the policy is optimal at theta and theta maximises the likelihood:
    it is NFXP's estimate, reached without solving the agent's problem at other thetas.

    Parameters
    ----------
    discount, temperature, reward, law, policy
        As in `HotzMiller`; the policy is only where the iteration starts.
    tol
        The iteration stops when theta changes by less, in standard errors.

    References
    ----------
    [aguirregabiria2002npl].
    """

    policy: Any = POLICY
    max_steps: int = 200
    max_iterations: int = 100
    tol: float = 1e-6
    seed: int = 0

    def fit(self, panel):
        limits = {"iterations": self.max_iterations, "tol": self.tol}
        return iterate_policy(self, panel, "NPL (Aguirregabiria-Mira)", **limits)


def iterate_policy(
    settings: HotzMiller | NPL,
    panel: Panel,
    method: str,
    *,
    iterations: int,
    tol: float = 0,
) -> StructuralFit:
    """Alternate: value the policy, maximise the pseudo-likelihood, take its policy."""
    require_panel(panel)
    begin = time.perf_counter()
    problem, names = settings.problem(panel), settings.reward.free_names
    policy, policy_note = fit_policy(settings.policy, panel, seed=settings.seed)
    log_policy = policy.log_prob(problem.cells.states)
    counts, temperature = problem.counts, problem.temperature
    theta, change, iteration = np.zeros(len(names)), np.inf, 0
    while change > tol and iteration < iterations:
        iteration += 1
        followed = np.exp(log_policy)
        values = value_policy(problem, log_policy)
        logit = (values.level, values.slope, counts)
        found, choices, _ = maximise_logit(*logit, theta, names, settings)
        move = found - theta
        change = np.sqrt(move @ choices.expected(counts) @ move)
        value = np.sum(followed * (values.q(found) - temperature * log_policy), axis=1)
        theta, log_policy = found, choices.log_policy
    if iterations > 1 and change > tol:
        warnings.warn(
            f"NPL stopped after {iterations} iterations, theta still moving by "
            f"{change:.2g} standard errors. Raise `max_iterations`.",
            NotConvergedWarning,
            stacklevel=3,
        )
    slope = law_slope(problem, choices, followed)
    step = problem.law.first_step(value, slope)
    covariances = two_step_covariances(problem, choices, step, names)
    note = f"policy: {policy_note}; {iteration} iteration{'s' * (iteration > 1)}"
    note += f" [{time.perf_counter() - begin:.2f} s]"
    likelihood = choices.point(counts).log_likelihood
    q = partial(look_up, problem.cells, values.q(theta))
    result = (theta, covariances, likelihood, q, note)
    return assemble(method, settings, panel, *result, law=problem.law)

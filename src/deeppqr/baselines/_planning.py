"""Simultaneous planning and learning: V by soft Bellman backups, theta by likelihood."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.special import log_softmax, logsumexp

from .._random import numpy_rng
from ..learners._basis import AbstractFeatures, Indicators, RandomFeatures, penalty
from ..panel._cells import Cells, few_states
from ..panel._panel import Panel
from ..policy._policy import AbstractPolicy

Design = Callable[[np.ndarray], np.ndarray]
"""Encoded states to psi(s, a), shape (row, action, parameter)."""
# Features of V, and the ridge, in pseudo-rows, of the regression of next features. V is an
# approximation that depends on both: on the paper world (p = 2, 2,000 decisions) doubling
# the features moves rewards by up to 0.50 of their standard deviation, doubling the ridge
# by up to 0.46; the log-likelihood goes from -1.386 to -1.380 and to -1.391.
BASIS = RandomFeatures(count=60)
NEXT_RIDGE = 100.0
# Fraction of the full scoring step that theta takes. V lags behind theta, so a full step
# may overshoot; on the paper world 0.25, 0.5 and 1 give the same rewards to 1e-9.
RATE = 0.5


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """States to plan on, decisions to explain, and where they lead in features."""

    design: Float[np.ndarray, "node action parameter"]
    """psi(s, a)."""
    here: Float[np.ndarray, "node feature"]
    """Features of V."""
    ahead: Float[np.ndarray, "action feature next_feature"]
    """`here @ ahead[a]` are the expected features of the next state."""
    project: Float[np.ndarray, "feature node"]
    """From values at the nodes to coefficients of V."""
    share: Float[np.ndarray, "node action"]
    """Share of all decisions."""
    features: AbstractFeatures
    num_rows: int


class Planned(NamedTuple):
    """A reward and the value that goes with it."""

    theta: Float[np.ndarray, " parameter"]
    value: Float[np.ndarray, " feature"]
    log_likelihood: float
    change: float
    num_steps: int


@dataclass(frozen=True, eq=False)
class PlannedPolicy(AbstractPolicy):
    """The soft optimum of the learned reward."""

    design: Design
    theta: Float[np.ndarray, " parameter"]
    features: AbstractFeatures
    ahead: Float[np.ndarray, "feature action"]
    temperature: float

    def log_prob(self, state):
        reward = self.design(state) @ self.theta
        q = reward + self.features(state, _nothing(state)) @ self.ahead
        return log_softmax(q / self.temperature, axis=1)


def build_planning_problem(
    panel: Panel, design: Design, *, max_rows: int, key: PRNGKeyArray
) -> PlanningProblem:
    """The problem on a panel: every distinct state if they are few, else some rows."""
    key_rows, key_basis = jr.split(key)
    seen = np.concatenate([panel.state, panel.next_state[panel.has_next]])
    cells = Cells.of(panel.state)
    tabular = few_states(panel.state, rows_per_cell=2 * panel.num_actions, max_cells=500)
    # Next states must be in the table too, or V would be needed where it has no entry.
    tabular = tabular and bool((cells.locate(seen) >= 0).all())
    basis = Indicators() if tabular else BASIS
    features = basis.fit(panel.state, _nothing, key=key_basis)
    if tabular:
        node, at = cells.states, cells.locate(panel.state)
        rows = np.arange(len(panel))
    else:
        size = min(max_rows, len(panel))
        rows = np.sort(numpy_rng(key_rows).choice(len(panel), size, replace=False))
        node, at = panel.state[rows], np.arange(size)
    share = np.zeros((len(node), panel.num_actions))
    np.add.at(share, (at, panel.action[rows]), panel.weight[rows])
    here = features(node, _nothing(node))
    width = here.shape[1]
    ridge = 0.0 if tabular else 1.0
    project = np.linalg.pinv(here.T @ here + penalty(width, ridge), hermitian=True) @ here.T
    ahead = _next_features(panel, features, 0.0 if tabular else NEXT_RIDGE)
    return PlanningProblem(
        design(node), here, ahead, project, share / share.sum(), features, len(rows)
    )


def plan_and_learn(problem: PlanningProblem, settings: Any) -> Planned:
    r"""Iterate the backup of V, of its gradient and the step of theta together.

    $$V \leftarrow \alpha\log\sum_a e^{Q(\cdot,a)/\alpha}, \quad
    \nabla V \leftarrow \sum_a \pi_a \nabla Q_a, \quad
    \theta \leftarrow \theta + \rho\, F^{-1} \nabla \ell(\theta), \qquad
    Q = \theta^\top\psi + \gamma E[V(s')].$$

    The step is the gradient in the metric of the Fisher information F, so that no rate
    has to be tuned, and V moves along its gradient with it. At rest V solves the Bellman
    equation projected on the features and theta maximises the penalised likelihood.
    """
    discount, temperature = settings.discount, settings.temperature
    ridge = settings.ridge / problem.num_rows
    mass = problem.share.sum(axis=1)
    theta = np.zeros(problem.design.shape[2])
    value = np.zeros(problem.here.shape[1])
    slope = np.zeros((len(value), len(theta)))
    eye = np.eye(len(theta))
    num_steps, change = 0, np.inf
    while num_steps < settings.max_steps and change > settings.tol:
        num_steps += 1
        ahead = np.moveaxis(problem.here @ (problem.ahead @ slope), 0, 1)
        q_slope = problem.design + discount * ahead
        q = problem.design @ theta + discount * problem.here @ (problem.ahead @ value).T
        log_policy = log_softmax(q / temperature, axis=1)
        policy = np.exp(log_policy)
        mean_slope = np.einsum("na,nap->np", policy, q_slope)

        score = (q_slope - mean_slope[:, None]) / temperature
        gradient = np.einsum("na,nap->p", problem.share, score) - ridge * theta
        expected = policy * mass[:, None]
        fisher = np.einsum("na,nap,naq->pq", expected, score, score, optimize=True)
        move = RATE * np.linalg.solve(fisher + ridge * eye, gradient)
        # V's gradient holds near theta only, so one step is at most a temperature.
        move *= min(1.0, temperature / max(np.abs(move).max(), 1e-300))

        planned = temperature * logsumexp(q / temperature, axis=1)
        slope = problem.project @ mean_slope
        updated = problem.project @ planned + slope @ move
        size = 1 + np.abs(planned).max()
        change = np.abs(problem.here @ (updated - value)).max() / size
        change = float(max(change, np.abs(move).max()))
        theta, value = theta + move, updated
    log_likelihood = float((problem.share * log_policy).sum())
    return Planned(theta, value, log_likelihood, change, num_steps)


def _next_features(panel: Panel, features: AbstractFeatures, ridge: float):
    """Per action, the ridge regression of the next state's features on this one's.

    The change is regressed: where nothing is known the state stays as it is. Nothing
    follows the end, so its features are zero.
    """
    rows = panel.is_transition
    state, action, weight = panel.state[rows], panel.action[rows], panel.weight[rows]
    here = features(state, _nothing(state))
    follows = panel.has_next[rows]
    there = np.zeros_like(here)
    after = panel.next_state[rows][follows]
    there[follows] = features(after, _nothing(after))
    width = here.shape[1]
    ahead = np.empty((panel.num_actions, width, width))
    for index in range(panel.num_actions):
        chosen = action == index
        weighted = here[chosen] * weight[chosen, None]
        gram = weighted.T @ here[chosen] + penalty(width, ridge)
        moment = weighted.T @ (there - here)[chosen]
        # The identity plus the regressed change, see above.
        ahead[index] = np.eye(width) + np.linalg.lstsq(gram, moment, rcond=1e-13)[0]
    return ahead


def _nothing(state: np.ndarray) -> np.ndarray:
    """No columns of log-probabilities: the features of V depend on the state alone."""
    return np.zeros((len(state), 0))

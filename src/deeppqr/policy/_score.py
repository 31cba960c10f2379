r"""Influence functions of the policy: its derivatives in the weight of each row.

A policy has parameters $\eta$. Raising the weight $w_i$ of row i by a small share moves
them by the row's *score* $d\eta_i = w_i\, \partial\eta / \partial w_i$, and
$\log\pi(a|s)$ by $\partial\log\pi(a|s)/\partial\eta \cdot d\eta_i$. Both factors are exact
derivatives of the estimate as it was computed, smoothing and penalty included.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from .._errors import NoInfluenceFunction
from .._shapes import Codes, States
from ..panel._clusters import Clusters
from ..panel._panel import Panel
from ._frequency import FrequencyPolicy
from ._given import GivenPolicy
from ._logit import LogitPolicy
from ._policy import AbstractPolicy, Clipped, log_shares
from ._smooth import SmoothPolicy


@dataclass(frozen=True, eq=False)
class FrequencyScore:
    """The frequency policy in its counts: of each (state, action), and of each action."""

    policy: FrequencyPolicy
    count: Float[np.ndarray, "cell action"]
    shares: Float[np.ndarray, " action"]
    score: Any
    """Sparse (row, parameter): a row adds its weight to two counts."""

    @classmethod
    def of(cls, policy: FrequencyPolicy, panel: Panel) -> "FrequencyScore":
        num_actions = policy.table.shape[1]
        cell = policy.cells.locate(panel.state)
        shares = np.exp(log_shares(panel))
        if (cell < 0).any():
            raise NoInfluenceFunction(OTHER_PANEL.format(what="policy"))
        pair = cell * num_actions + panel.action
        count = np.bincount(pair, panel.weight, policy.table.size)
        count = count.reshape(policy.table.shape)
        smoothed = count + policy.smoothing * shares
        share = smoothed / np.maximum(smoothed.sum(axis=1, keepdims=True), 1e-300)
        # Counted from another panel, the table would differ; the influence would be wrong.
        if np.abs(share - np.exp(policy.table)).max() > 1e-8:
            raise NoInfluenceFunction(OTHER_PANEL.format(what="policy"))
        parameter = np.append(pair, count.size + panel.action)
        pairs = (np.tile(np.arange(len(panel)), 2), parameter)
        shape = (len(panel), count.size + num_actions)
        score = sparse.csr_array((np.tile(panel.weight, 2), pairs), shape)
        return cls(policy, count, shares, score)

    def jacobian(self, state: States, action: Codes):
        r"""Sparse (row, parameter) derivatives of $\log\pi(a_j|s_j)$.

        $$d\log\hat\pi(a|s) = \frac{dn(s,a) + c\,d\bar\pi(a)}{n(s,a) + c\,\bar\pi(a)}
        - \frac{\sum_b dn(s,b)}{n(s) + c}.$$
        """
        num_actions = len(self.shares)
        cell = self.policy.cells.locate(state)
        known = np.flatnonzero(cell >= 0)
        at, smoothing = cell[known], self.policy.smoothing
        own = self.count[at, action[known]] + smoothing * self.shares[action[known]]
        total = self.count[at].sum(axis=1) + smoothing
        pairs = at[:, None] * num_actions + np.arange(num_actions)
        # d log(overall share): at full size where the state is unknown, else through c.
        size = np.ones(len(state))
        size[known] = smoothing * self.shares[action[known]] / own
        first, rows = self.count.size, np.arange(len(state))
        everyone = np.sum(self.score[:, first:]) + num_actions
        seen = self.shares[action] * everyone
        overall = first + np.tile(np.arange(num_actions), len(state))
        each = lambda values: np.repeat(values, num_actions)
        entries = [
            (known, at * num_actions + action[known], 1 / own),
            (each(known), pairs.ravel(), -each(1 / total)),
            (rows, first + action, size / seen),
            (each(rows), overall, -each(size / everyone)),
        ]
        row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
        return sparse.csr_array((value, (row, column)), (len(state), self.score.shape[1]))

    def log_table(self, influence: np.ndarray) -> np.ndarray:
        """Influences on the counts as influences on the log-probabilities: each cell's,
        then those of states without one."""
        cells, number = self.policy.cells.states, len(self.shares)
        state = np.repeat(cells, number, axis=0)
        action = np.tile(np.arange(number), len(cells))
        nowhere = np.full((number, cells.shape[1]), np.nan)  # equal to no cell
        state, action = (
            np.concatenate([state, nowhere]),
            np.append(action, np.arange(number)),
        )
        return influence @ self.jacobian(state, action).T


@dataclass(frozen=True, eq=False)
class LogitScore:
    """The logit in its coefficients, one block of them per action."""

    policy: LogitPolicy
    score: Float[np.ndarray, "row parameter"]

    @classmethod
    def of(cls, policy: LogitPolicy, panel: Panel) -> "LogitScore":
        bare = cls(policy, np.zeros((0, 0)))
        columns, prob = bare._columns(panel.state), np.exp(policy.log_prob(panel.state))
        first = bare._first
        chosen = panel.action[:, None] == np.arange(prob.shape[1])
        pull = panel.weight[:, None] * (chosen - prob)
        slope = _blocks(pull[:, first:], columns)
        own = lambda a, b: panel.weight * prob[:, b] * ((a == b) - prob[:, a])
        free = range(first, prob.shape[1])
        curve = [[columns.T @ (columns * own(a, b)[:, None]) for b in free] for a in free]
        penalised = np.append(np.full(columns.shape[1] - 1, policy.ridge), 0.0)
        penalty = np.tile(penalised, prob.shape[1] - first)
        # A constant added to all intercepts changes no probability, so the Hessian is
        # singular; the pseudo-inverse leaves that direction out. Rounding leaves 1e-15 of
        # the largest eigenvalue there, and a ridge of 0.01 in a million rows leaves 1e-8.
        curvature = np.block(curve) + np.diag(penalty)
        inverse = np.linalg.pinv(curvature, rcond=1e-12, hermitian=True)
        coefficient = np.column_stack([policy.coefficient, policy.intercept])[first:]
        left = slope.sum(axis=0) - penalty * coefficient.ravel()
        scale = np.sqrt(np.maximum(np.diag(inverse), 1e-300))
        if np.abs(inverse @ left / scale).max() > MAX_STEP:
            raise NoInfluenceFunction(OTHER_PANEL.format(what="policy"))
        return cls(policy, slope @ inverse)

    def jacobian(self, state, action):
        r"""Derivatives of $\log\pi(a_j|s_j)$: $(1[a_j = b] - \pi(b|s_j))\, x(s_j)$."""
        prob = np.exp(self.policy.log_prob(state))
        pull = (action[:, None] == np.arange(prob.shape[1])) - prob
        return sparse.csr_array(_blocks(pull[:, self._first :], self._columns(state)))

    @property
    def _first(self) -> int:
        """With two actions the first one's coefficients are zero, and no parameters."""
        return 1 if len(self.policy.intercept) == 2 else 0

    def _columns(self, state) -> np.ndarray:
        return np.column_stack([self.policy.features(state), np.ones(len(state))])


@dataclass(frozen=True, eq=False)
class KnownScore:
    """A policy that was given: nothing moves it."""

    score: Float[np.ndarray, "row parameter"]

    def jacobian(self, state, action):
        return sparse.csr_array((len(state), 0))


PolicyScore = FrequencyScore | LogitScore | KnownScore
# Standard errors by which a logit's coefficients may differ from the optimum on this
# panel. The optimiser's tolerance is far below it, a fit to another panel far above; twice
# the value accepts the same fits in the two projections of tests/pinned.
MAX_STEP = 0.5
OTHER_PANEL = (
    "The {what} is not the one that this panel gives. Pass the panel that the fit was made "
    "from; where the transitions were given and not counted, bootstrap instead."
)


def policy_score(policy: AbstractPolicy, panel: Panel) -> PolicyScore:
    """The score of a policy estimated from this panel."""
    if isinstance(policy, Clipped):
        states = np.concatenate([panel.state, panel.next_state[panel.has_next]])
        share = policy.clipped_share(states)
        if share:
            raise NoInfluenceFunction(
                f"The policy is clipped in {100 * share:.2g} % of (state, action) pairs, "
                "and a clipped probability has no derivative. Bootstrap instead."
            )
        policy = policy.policy
    if isinstance(policy, FrequencyPolicy):
        return FrequencyScore.of(policy, panel)
    if isinstance(policy, LogitPolicy):
        return LogitScore.of(policy, panel)
    if isinstance(policy, GivenPolicy):
        return KnownScore(np.zeros((len(panel), 0)))
    raise NoInfluenceFunction(
        f"A {type(policy).__name__} has no influence function in closed form; "
        'policy="frequency" and "logit" do. Bootstrap instead.'
    )


def policy_jacobian(
    policy: AbstractPolicy, state: States, action: Codes
) -> Float[np.ndarray, "row parameter"]:
    """Derivatives of log pi(a_j|s_j) in the policy's parameters, without its panel."""
    policy = policy.policy if isinstance(policy, Clipped) else policy
    if isinstance(policy, LogitPolicy):
        return LogitScore(policy, np.zeros((0, 0))).jacobian(state, action).toarray()
    if isinstance(policy, FrequencyPolicy):
        return _log_table_jacobian(policy, state, action)
    if isinstance(policy, SmoothPolicy):
        columns = policy.basis.columns(state)
        prob = np.exp(policy.log_prob(state))
        found = -policy.basis.average(columns, prob)
        for one in np.unique(action):
            rows = np.flatnonzero(action == one)
            slopes, used = policy.basis.slopes(columns[rows], int(one))
            found[np.ix_(rows, used)] += slopes
        return found
    return np.zeros((len(state), 0))


def parameter_root(
    policy: AbstractPolicy, panel: Panel, clusters: Clusters
) -> Float[np.ndarray, "direction parameter"]:
    """A root of the covariance of the parameters that `policy_jacobian` is in."""
    bare = policy.policy if isinstance(policy, Clipped) else policy
    if isinstance(bare, SmoothPolicy):
        return bare.posterior_root(panel)
    found = policy_score(policy, panel)
    influence = clusters.sum(found.score)
    if isinstance(found, FrequencyScore):
        influence = found.log_table(influence)
    count = len(influence)
    return (influence - influence.mean(axis=0)) * np.sqrt(count / max(count - 1, 1))


def _log_table_jacobian(policy: FrequencyPolicy, state, action) -> np.ndarray:
    """The parameters of a frequency policy are here the entries of its log-table."""
    found = np.zeros((len(state), policy.table.size + len(policy.elsewhere)))
    cell, number = policy.cells.locate(state), policy.table.shape[1]
    pair = np.where(cell >= 0, cell * number, policy.table.size) + action
    found[np.arange(len(state)), pair] = 1.0
    return found


def _blocks(pull: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Row by row, the outer product of an entry per action and a column per feature."""
    # Not -1: that is undefined where there are no rows, as after an anchor that ends all.
    size = pull.shape[1] * columns.shape[1]
    return (pull[:, :, None] * columns[:, None, :]).reshape(len(columns), size)

r"""How far a reward may be off: its first-order dependence on what was estimated.

$$\hat r(s,a) - r(s,a) \approx L(s,a)'\xi, \qquad \mathrm{Cov}\,\xi = R'R.$$

$L$ are the *slopes* of the reward in some parameters and $R$ a *root* of these parameters'
covariance: coefficients of a joint fit, cells of a counted table, or the policy's
parameters where the law is known. Any weighted sum of rewards has the variance
$|R\,\sum w L|^2$, so that one object serves points, averages, slopes and bands, and a fit
that is saved keeps it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from ._errors import NoInfluenceFunction
from ._shapes import PerAction, PerRow, States
from ._stored import stored
from .anchor._known import KnownTransition, RolledFunction
from .anchor._value import AnchoredValue
from .learners._chunks import row_slices
from .mdp._law import Law
from .mdp._tabular import solve_bellman
from .panel._cells import Cells
from .panel._clusters import Clusters
from .panel._panel import Panel
from .policy._policy import AbstractPolicy
from .policy._score import parameter_root, policy_jacobian
from .reward._influence import Realised, table_influence
from .reward._joint_reward import JointReward
from .reward._reward import AbstractReward
from .reward._table import LawReward, TableReward
from .reward._temperature import AffineReward

# States whose slopes are held at once: with 600 coefficients 25 MB.
STATES_AT_ONCE = 5_000
MEAN_STATES = 20_000
# Numbers that a fit keeps of its uncertainty, 200 MB on disk: a table of 1,000 states and 5
# actions takes a quarter of that. Larger ones are computed when they are asked for.
MAX_KEPT = 25_000_000


class AbstractUncertainty(ABC):
    """What moves an estimated reward, in units that are independent standard normal."""

    @abstractmethod
    def slopes(self, state: States, action: int, value: AnchoredValue) -> Any:
        """L(s, action), dense or sparse, (row, parameter)."""

    @abstractmethod
    def root(self, value: AnchoredValue) -> Float[np.ndarray, "direction parameter"]:
        """R, at the temperature of the value."""

    def standard_errors(self, state: States, value: AnchoredValue, count: int) -> PerAction:
        """Of the rewards of all `count` actions; zero for the anchor's, which is known."""
        found, root = np.zeros((len(state), count)), self.root(value)
        for rows in row_slices(len(state), STATES_AT_ONCE):
            part = state[rows]
            for action in range(count):
                if action != value.anchor:
                    found[rows, action] = _lengths(self.slopes(part, action, value), root)
        return found

    def mean_errors(
        self, state: States, weight: PerAction, value: AnchoredValue
    ) -> Float[np.ndarray, " action"]:
        """Standard errors of each action's reward, summed over the states by `weight`."""
        root, found = self.root(value), np.zeros(weight.shape[1])
        for action in range(weight.shape[1]):
            if action != value.anchor:
                total = weight[:, action][None] @ self.slopes(state, action, value)
                found[action] = np.sqrt((_times(total, root) ** 2).sum())
        return found

    def pulled(
        self, state: States, pull: Float[np.ndarray, "out row action"], value: AnchoredValue
    ) -> Float[np.ndarray, "out direction"]:
        """A root of the covariance of sums of rewards, weighted by `pull`."""
        root = self.root(value)
        return _times(self.summed(state, pull, value, root.shape[1]), root)

    def summed(
        self,
        state: States,
        pull: Float[np.ndarray, "out row action"],
        value: AnchoredValue,
        width: int,
    ) -> Float[np.ndarray, "out parameter"]:
        """How such sums move with the parameters."""
        total = np.zeros((len(pull), width))
        for rows in row_slices(len(state), STATES_AT_ONCE):
            part = state[rows]
            for action in range(pull.shape[2]):
                weight = pull[:, rows, action]
                if action != value.anchor and weight.any():
                    total += weight @ self.slopes(part, action, value)
        return total

    def curve(
        self, state: States, action: int, value: AnchoredValue
    ) -> Float[np.ndarray, "row direction"]:
        """A root of the covariance of one action's rewards at some states."""
        return _times(self.slopes(state, action, value), self.root(value))


@dataclass(frozen=True, eq=False)
class CoefficientUncertainty(AbstractUncertainty):
    """That of a jointly estimated reward: the covariance of its coefficients."""

    reward: JointReward

    @cached_property
    def _root(self) -> np.ndarray:
        size, axes = np.linalg.eigh(self.reward.covariance)
        return (axes * np.sqrt(np.maximum(size, 0.0))).T

    def slopes(self, state, action, value):
        del value
        found = np.zeros((len(state), len(self.reward.theta)))
        values, used = self.reward.basis.slopes(self._columns(state), action)
        found[:, used] = values
        return found

    def root(self, value):
        return value.temperature * self._root

    def _columns(self, state: States) -> np.ndarray:
        """The basis' columns; the last are kept, as all actions ask for the same."""
        kept = self.__dict__.get("_last")
        if kept is None or kept[0] is not state:
            kept = state, self.reward.basis.columns(state)
            object.__setattr__(self, "_last", kept)
        return kept[1]


@stored
@dataclass(frozen=True, eq=False)
class TableUncertainty(AbstractUncertainty):
    """That of a table of rewards: what the clusters did to its entries.

    The reward is affine in the temperature and so are its errors: one part scales, the
    other, due to g, does not.
    """

    cells: Cells
    policy_part: Float[np.ndarray, "direction pair"]
    """NaN in pairs never seen, whose reward is not known."""
    known_part: Float[np.ndarray, "direction pair"] | None

    def slopes(self, state, action, value):
        del value
        number = self.policy_part.shape[1] // len(self.cells)
        pairs = self.cells.require(state) * number + action
        place = (np.arange(len(state)), pairs)
        shape = (len(state), self.policy_part.shape[1])
        return sparse.csr_array((np.ones(len(state)), place), shape)

    def root(self, value):
        found = value.temperature * self.policy_part
        return found if self.known_part is None else found + self.known_part


@stored
@dataclass(frozen=True, eq=False)
class PolicyUncertainty(AbstractUncertainty):
    r"""That of a reward under a law known as a function: only the policy was estimated.

    The reward is linear in log pi, so its derivative in a parameter is what the same
    equations give with $\partial \log\pi$ in place of $\log\pi$.
    """

    policy_part: Float[np.ndarray, "direction parameter"]
    actions: tuple[Any, ...]

    def slopes(self, state, action, value):
        rolled = value.policy_continuation
        assert isinstance(rolled, RolledFunction)
        ahead = _FollowedSlopes.of(rolled, value)
        own = policy_jacobian(value.policy, state, np.full(len(state), action))
        law, label = rolled.transition, self.actions[action]
        outcomes = law.outcomes(state, label)
        rows, number, width = outcomes.states.shape
        after = ahead(outcomes.states.reshape(-1, width)).reshape(rows, number, -1)
        expected = np.einsum("ro,rop->rp", outcomes.probability, after)
        if law.common is not None:
            expected += outcomes.rest[:, None] * ahead(law.common).mean(axis=0)
        return own + ahead(state) - value.discount * expected

    def root(self, value):
        return value.temperature * self.policy_part


@dataclass(frozen=True, eq=False)
class _FollowedSlopes:
    """Derivatives of V at temperature one, by following the anchor from each state."""

    rolled: RolledFunction
    policy: AbstractPolicy
    anchor: int
    common: Float[np.ndarray, " parameter"]

    @classmethod
    def of(cls, rolled: RolledFunction, value: AnchoredValue) -> "_FollowedSlopes":
        bare = cls(rolled, value.policy, value.anchor, np.zeros(0))
        if rolled.transition.common is None:
            return bare
        # The common draw's own value solves one scalar equation for each parameter.
        common, discount = rolled.transition.common, rolled.discount
        level, slope = bare._affine(common)
        start = bare._bonus(common).mean(axis=0) + discount * level.mean(axis=0)
        return cls(
            rolled, value.policy, value.anchor, start / (1 - discount * slope.mean())
        )

    def __call__(self, state: States) -> Float[np.ndarray, "row parameter"]:
        level, slope = self._affine(state)
        ahead = level if len(self.common) == 0 else level + slope[:, None] * self.common
        return self._bonus(state) + self.rolled.discount * ahead

    def _bonus(self, state: States) -> np.ndarray:
        return -policy_jacobian(self.policy, state, np.full(len(state), self.anchor))

    def _affine(self, state: States) -> tuple[np.ndarray, np.ndarray]:
        queried = Cells.of(state)
        states, moves, rest = self.rolled._follow(queried.states)
        target = np.column_stack([moves @ self._bonus(states), rest])
        solved = solve_bellman(moves, target, discount=self.rolled.discount)
        solved = solved[queried.locate(state)]
        return solved[:, :-1], solved[:, -1]


def reward_uncertainty(
    panel: Panel, value: AnchoredValue, reward: AbstractReward, law: Any
) -> AbstractUncertainty | None:
    """The uncertainty of a fit of three stages; None where it comes with the reward.

    `law` is the known law, None where it was learned. Raises `NoInfluenceFunction` where
    a stage has no closed form.
    """
    if isinstance(reward, JointReward):
        return None
    bare = reward.policy_part if isinstance(reward, AffineReward) else reward
    clusters = Clusters.of(panel)
    if isinstance(bare, LawReward):
        return _under_law(panel, value, bare.actions, law, clusters)
    if not isinstance(bare, TableReward):
        raise NoInfluenceFunction(
            f"A {type(bare).__name__} has no influence function in closed form; the "
            'default reward and a table of means, reward="table", do.'
        )
    pairs = len(bare.cells) * panel.num_actions
    if 2 * min(clusters.count, 2 * pairs) * pairs > MAX_KEPT:
        raise NoInfluenceFunction(
            f"Influence functions of {pairs:,} rewards in {clusters.count:,} clusters are "
            "too many to keep with the fit; deeppqr.inference.reward_influence(fit, "
            "panel) gives them."
        )
    if isinstance(law, KnownTransition):
        parts = [_under_table(panel, value, law, clusters)]
    else:
        parts = [centred(counted_influence(panel, value.policy_part, bare, clusters))]
        if value.known_part is not None:
            known = counted_influence(panel, value.known_part, bare, clusters)
            parts.append(centred(known))
    joint = compressed(np.concatenate(parts, axis=1))
    known = joint[:, pairs:] if len(parts) == 2 else None
    return TableUncertainty(bare.cells, joint[:, :pairs].copy(), known)


def uncertainty_or_reason(
    panel: Panel, value: AnchoredValue, reward: AbstractReward, law: Any
) -> tuple[AbstractUncertainty | None, str]:
    """The uncertainty, or why there is none in closed form."""
    try:
        return reward_uncertainty(panel, value, reward, law), ""
    except NoInfluenceFunction as problem:
        return None, str(problem).removesuffix(" Bootstrap instead.")


def average_errors(
    panel: Panel, uncertainty: AbstractUncertainty, value: AnchoredValue, known: np.ndarray
) -> tuple[float, ...]:
    """Standard errors of each action's average reward over the panel's states.

    `known` marks the (row, action) whose reward is known. Up to `MEAN_STATES` rows, evenly
    spaced: the error of an average hardly depends on which of so many it is over.
    """
    rows = np.arange(len(panel))[:: -(-len(panel) // MEAN_STATES)]
    weight = panel.weight[rows, None] * known[rows]
    weight = weight / np.maximum(weight.sum(axis=0), 1e-300)
    found = uncertainty.mean_errors(panel.state[rows], weight, value)
    return tuple(map(float, found))


def end_shares(panel: Panel) -> tuple[float, ...]:
    """The share of each action's decisions after which the process ended."""
    rows, count = panel.is_transition, panel.num_actions
    taken = np.bincount(panel.action[rows], minlength=count)
    ended = np.bincount(panel.action[rows & panel.terminal], minlength=count)
    return tuple(float(share) for share in ended / np.maximum(taken, 1))


def counted_influence(
    panel: Panel, value, table: TableReward, clusters: Clusters
) -> np.ndarray:
    """The clusters' influences on a counted table, (cluster, pair)."""
    realised = Realised.of(value, panel, clusters)
    found, influence = table_influence(realised, table.cells, panel.num_actions)
    influence[:, :, value.anchor] = 0.0
    influence[:, np.isnan(found) & (np.arange(panel.num_actions) != value.anchor)] = np.nan
    return influence.reshape(len(influence), -1)


def _under_table(panel, value, law: KnownTransition, clusters: Clusters) -> np.ndarray:
    r"""Under a known table all that moves is the policy:
    $$dr = \alpha\,d\log\pi + dV - \gamma P\,dV, \qquad
    (I - \gamma P_A)\,dV = -\alpha\,d\log\pi_A.$$
    """
    cells, count = law.cells, panel.num_actions
    number = len(cells)
    state, action = (
        np.repeat(cells.states, count, axis=0),
        np.tile(np.arange(count), number),
    )
    own = policy_jacobian(value.policy, state, action)
    bonus = -own[np.arange(number) * count + value.anchor]
    moved = solve_bellman(law.probability[:, value.anchor], bonus, discount=value.discount)
    ahead = (law.probability.reshape(-1, number) @ moved).reshape(number * count, -1)
    slopes = own + np.repeat(moved, count, axis=0) - value.discount * ahead
    slopes[np.arange(number) * count + value.anchor] = 0.0
    return parameter_root(value.policy, panel, clusters) @ slopes.T


def _under_law(panel, value, actions, law, clusters: Clusters) -> PolicyUncertainty:
    if not isinstance(value.policy_continuation, RolledFunction):
        assert isinstance(law, Law)
        raise NoInfluenceFunction(
            f"Under a law of {law.draws} draws the anchor's value is projected on "
            "features, which has no influence function in closed form. Give the outcomes "
            "with their probabilities where they are finitely many."
        )
    return PolicyUncertainty(
        compressed(parameter_root(value.policy, panel, clusters)), actions
    )


def centred(influence: Float[np.ndarray, "cluster column"]) -> np.ndarray:
    """A root of the clustered covariance: influences less their mean, to scale."""
    count = len(influence)
    return (influence - influence.mean(axis=0)) * np.sqrt(count / max(count - 1, 1))


def compressed(root: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "few column"]:
    """A root of the same covariance with no more rows than columns."""
    if len(root) <= root.shape[1]:
        return root
    known = ~np.isnan(root).any(axis=0)
    found = np.full((int(known.sum()), root.shape[1]), np.nan)
    found[:, known] = np.linalg.qr(root[:, known], mode="r")
    return found


def _times(slopes: Any, root: np.ndarray) -> np.ndarray:
    """slopes @ root', where parameters that are not used may be NaN."""
    if sparse.issparse(slopes):
        return (
            np.asarray(slopes @ root.T)
            if not np.isnan(root).any()
            else _rows_of(slopes, root)
        )
    used = (slopes != 0).any(axis=0)
    return slopes[:, used] @ root[:, used].T


def _lengths(slopes: Any, root: np.ndarray) -> PerRow:
    """Norms of the rows of slopes @ root'; the root may be turned, so it is made small."""
    if sparse.issparse(slopes):
        return np.sqrt((_times(slopes, root) ** 2).sum(axis=1))
    used = (slopes != 0).any(axis=0)
    return np.sqrt(((slopes[:, used] @ compressed(root[:, used]).T) ** 2).sum(axis=1))


def _rows_of(indicator: Any, root: np.ndarray) -> np.ndarray:
    """The same for indicators, of which each row has one: NaN times zero is no number."""
    return root[:, indicator.indices].T

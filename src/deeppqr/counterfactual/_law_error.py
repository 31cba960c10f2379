r"""What the error of a learned law does to a counterfactual's figures.

A figure moves with the law by
$$dF = \sum_{s,a} \gamma\,G(s,a)\,dE[V(s')|s,a] + \sum_{s,a} m(s,a)\,dE[h(s')|s,a],$$
G its gradient by the reward, as what follows an action counts like a reward; m how often
(s,a) is met, and h what is still to come. The sequels that were seen are draws from the
law: one of (s,a) moves $E[f(s')|s,a]$ by $f(s') - E[f(s')|s,a]$ over the number of them
where states are few, and elsewhere as a ridge regression on the law's columns would.
The fit's reward moves with the law, too, and partly undoes this: choices were seen, and the
reward must explain them under whatever law. Both are added up for each cluster.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._shapes import Codes, Mask, PerAction, PerRow, States
from .._uncertainty import CoefficientUncertainty, counted_influence
from ..inference._fitted_law import law_is_learned
from ..law._regression import RIDGE, Regression
from ..learners._basis import penalty
from ..panel._clusters import Clusters, clustered_covariance
from ..reward._joint_reward import JointReward
from ..reward._table import TableReward
from ..reward._temperature import AffineReward
from ._laws import Edited
from ._scenario import Scenario

if TYPE_CHECKING:
    from .._fit import Fit
    from ._problem import Posed, Setting


@dataclass(frozen=True, eq=False)
class Sequels:
    """What followed decisions, as draws from the law behind an environment."""

    posed: "Posed"
    node: Codes
    column: Codes
    """Of the environment's actions."""
    spread: "Spread"
    ends: Mask
    basis: Any
    """The environment's basis at the next states."""
    surprise: PerRow
    """V(s') less its expectation, in units of the temperature."""
    cluster: Codes
    count: int

    def carried(
        self, mass: Float[np.ndarray, "node action"], to_go: np.ndarray, ahead: np.ndarray
    ) -> Float[np.ndarray, "sequel column"]:
        """m(s,a) {h(s') - E[h(s')|s,a]} with h given by its weights."""
        landed = np.where(self.ends[:, None], 0.0, self.basis @ to_go)
        weight = self.spread(mass, self.node, self.column)
        return weight[:, None] * (landed - ahead[self.node, self.column])

    def moved(
        self,
        by_reward: Float[np.ndarray, "node action"],
        carried: PerRow,
        temperature: float,
    ) -> Float[np.ndarray, " cluster"]:
        """What each cluster moves a figure by."""
        discount = temperature * self.posed.environment.discount
        weight = self.spread(by_reward, self.node, self.column)
        both = discount * weight * self.surprise + carried
        return np.bincount(self.cluster, both, self.count)


@dataclass(frozen=True, eq=False)
class Spread:
    """From mass on pairs of node and action to weights of the sequels seen there."""

    weight: PerRow
    """Of each sequel; with few states over the sum of its pair's."""
    columns: Float[np.ndarray, "node law_column"] | None
    """What the law is linear in at the nodes; None where states are few."""
    inverse: tuple[np.ndarray, ...]
    """For each action of the environment that of its sequels' Gram matrix."""

    @classmethod
    def of(cls, columns: Any, node: Codes, column: Codes, weight: PerRow, ridge: float):
        number = int(column.max(initial=-1)) + 1
        if columns is None:
            return cls(weight, None, ())
        found = []
        for one in range(number):
            rows = column == one
            part = columns[node[rows]]
            gram = part.T @ (part * weight[rows, None]) + penalty(part.shape[1], ridge)
            found.append(np.linalg.pinv(gram, hermitian=True))
        return cls(weight, columns, tuple(found))

    def __call__(
        self, mass: Float[np.ndarray, "node action"], node: Codes, column: Codes
    ) -> Float[np.ndarray, " sequel"]:
        if self.columns is None:
            return self.weight * mass[node, column]
        found = np.zeros(len(node))
        for one, inverse in enumerate(self.inverse):
            rows = np.flatnonzero(column == one)
            along = inverse @ (self.columns.T @ mass[:, one])
            found[rows] = self.columns[node[rows]] @ along
        return self.weight * found


@dataclass(frozen=True, eq=False)
class LawError:
    """The sequels behind a fit's law, at the nodes of a counterfactual."""

    setting: "Setting"
    action: Codes
    node: Codes
    weight: PerRow
    columns: Float[np.ndarray, "node law_column"] | None
    """What the law is linear in at the nodes; None where states are few."""
    next_state: States
    ends: Mask
    cluster: Codes
    count: int
    decisions: Float[np.ndarray, " node"]
    """How many decisions each node stands for."""
    share: float
    """Of the sequels that the law was learned from."""

    @classmethod
    def of(cls, setting: "Setting") -> "LawError | None":
        """None where the law has no error, or none that is known."""
        fit, bare, panel = setting.fit, _bare(setting.fit), setting.panel
        joint = isinstance(bare, JointReward) and bare.posterior is not None
        counted = isinstance(bare, TableReward)
        if panel is None or not law_is_learned(setting.law) or not (joint or counted):
            return None
        own = fit.provenance.get("panel", {}).get("digest", panel.digest)
        if own != panel.digest:  # another panel's sequels say nothing of this law
            return None
        clusters = Clusters.of(panel)
        usable = panel.is_transition & (panel.weight > 0)
        total = fit.provenance.get("panel", {}).get("rows", len(panel))
        if setting.cells is not None:
            rows = np.flatnonzero(usable)
            node = setting.cells.require(panel.state[rows])
            told = panel.state[rows], panel.action[rows], panel.num_actions
            mass = setting.cells.tally(*told, panel.weight[rows])
            weight = panel.weight[rows] / mass[node, panel.action[rows]]
            every = setting.cells.require(panel.state)
            decisions = np.bincount(every, panel.weight, len(setting.cells))
            share, columns = 1.0, None
        else:
            every = setting.panel_row
            assert every is not None
            at = np.flatnonzero(usable[every])
            rows, node = every[at], at
            weight, columns = panel.weight[rows], _law_columns(setting.law, setting.state)
            decisions = np.zeros(len(setting.state))
            decisions[: len(every)] = panel.weight[every] * (total / len(every))
            share = len(rows) / max(int(usable.sum()), 1)
        ends = panel.terminal[rows]
        after = np.where(ends[:, None], panel.state[rows], panel.next_state[rows])
        return cls(
            setting,
            panel.action[rows],
            node,
            weight,
            columns,
            after,
            ends,
            clusters.code[rows],
            clusters.count,
            decisions,
            share,
        )

    def sequels(self, posed: "Posed", scenario: Scenario | None) -> Sequels | None:
        """Those that say where the actions of a problem lead; None if none do."""
        fit, environment = self.setting.fit, posed.environment
        transition = None if scenario is None else scenario.transition
        if not (transition is None or isinstance(transition, Edited)):
            return None
        follows: list[int | None] = list(range(len(fit.actions)))
        if scenario is not None:
            follows = [
                each.follows if each.law is None else None for each in scenario.available
            ]
        rows = [np.flatnonzero(self.action == code) for code in follows]
        column = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
        row = np.concatenate([*rows, np.zeros(0, np.int64)])
        after, ends = self.next_state[row], self.ends[row]
        if isinstance(transition, Edited):
            after = after.copy()
            for code in np.unique(self.action[row]):
                at = self.action[row] == code
                label = fit.actions[code]
                after[at] = transition.at(after[at], label, fit.encoding)
        node = self.node[row]
        ahead = np.zeros(len(row))
        if environment.discount > 0:
            reward = posed.reward[node, column] / fit.temperature
            ahead = (posed.solved.q[node, column] - reward) / environment.discount
        landed = np.where(ends, 0.0, environment.value_at(posed.solved, after))
        return Sequels(
            posed,
            node,
            column,
            Spread.of(self.columns, node, column, self.weight[row], RIDGE * self.share),
            ends,
            environment.look_up(after),
            landed - ahead,
            self.cluster[row],
            self.count,
        )

    def covariance(
        self,
        gradients: list[PerAction],
        direct: Float[np.ndarray, "figure cluster"],
        before: "Posed",
    ) -> Float[np.ndarray, "figure figure"]:
        """Of figures with these gradients by the fit's reward, and through the law."""
        bare, pull = _bare(self.setting.fit), np.stack(gradients)
        if isinstance(bare, TableReward):
            return clustered_covariance((direct + self.through_table(bare, pull)).T)
        assert isinstance(bare, JointReward)
        assert bare.posterior is not None
        fit = self.setting.fit
        told = self.setting.state, pull, fit.estimate, len(bare.theta)
        by_theta = fit.temperature * CoefficientUncertainty(bare).summed(*told)
        answer, sequels = by_theta @ bare.posterior, self.sequels(before, None)
        assert sequels is not None
        through = [self._through_reward(bare, one, before, sequels) for one in answer]
        law = clustered_covariance((direct + np.stack(through)).T) * self.share
        return answer @ by_theta.T + law

    def _through_reward(self, reward: JointReward, along, before: "Posed", sequels):
        """How a figure moves with the law because the coefficients do.

        `along` is what it moves by with the score, so that its score's gradient by Q is
        followed back to the law.
        """
        environment, prob = before.environment, before.prob
        by = reward.basis(self.setting.state, along)
        by[:, reward.anchor] = 0.0
        moved = environment.response(prob, by)
        away = moved - (prob * moved).sum(axis=1, keepdims=True)
        by_q = -self.decisions[:, None] * prob * away
        by_law = environment.reward_gradient(prob, by_q)
        return sequels.moved(by_law, np.zeros(len(sequels.node)), 1.0)

    def through_table(self, table: TableReward, pull: np.ndarray) -> np.ndarray:
        """How figures move with the clusters because a counted table of rewards does."""
        panel, fit = self.setting.panel, self.setting.fit
        value = fit.estimate
        assert panel is not None
        clusters = Clusters.of(panel)
        parts = value.temperature * counted_influence(
            panel, value.policy_part, table, clusters
        )
        if value.known_part is not None:
            parts = parts + counted_influence(panel, value.known_part, table, clusters)
        number = len(fit.actions)
        pairs = table.cells.require(self.setting.state)[:, None] * number + np.arange(
            number
        )
        known = ~np.asarray(np.isnan(parts).any(axis=0))[pairs]
        weight = np.where(known, pull, 0.0).reshape(len(pull), -1)
        return weight @ np.nan_to_num(parts[:, pairs.ravel()]).T


def _law_columns(law: Any, state: States) -> np.ndarray:
    """Of a regression its own features; of moves those that their drifts may use."""
    return law.features(state) if isinstance(law, Regression) else law.drift(state)


def _bare(fit: "Fit") -> Any:
    reward = fit.reward_function
    return reward.policy_part if isinstance(reward, AffineReward) else reward

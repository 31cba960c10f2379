r"""The environment of actions that are amounts: nodes of a quadrature stand for them.

An integral over actions is a weighted sum over nodes, so the problem is one of finitely
many actions whose choices have the masses $\pi(a_j|s)\,w_j$, with
$$V(s) = \alpha\log\sum_j w_j \exp\{Q(s,a_j)/\alpha\}.$$
Where actions lead is a sum over the few shapes of the law in the action, and so is kept by
shapes and not by nodes, of which a plane has 400.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve
from scipy.special import log_softmax, logsumexp

from .._shapes import PerRow, States
from ..continuous._shapes import ActionShapes
from ..law._transition import AbstractTransition
from ..learners._chunks import in_chunks
from ..reward._value_function import ValueFeatures, value_features
from ._environment import Solved
from ._value_environment import ROUNDS, TOL, AbstractFeatureEnvironment


@dataclass(frozen=True, eq=False)
class AmountEnvironment(AbstractFeatureEnvironment):
    """Some states, with the expected features of where amounts lead, by shapes."""

    state: States
    weight: PerRow
    discount: float
    node: Float[np.ndarray, "node law_shape"]
    """The law's shapes at the nodes."""
    log_measure: Float[np.ndarray, " node"]
    anchor: Float[np.ndarray, " law_shape"]
    features: ValueFeatures
    here: Float[np.ndarray, "row feature"]
    ahead: Float[np.ndarray, "law_shape row feature"]

    @classmethod
    def of(
        cls,
        state: States,
        weight: PerRow,
        law: AbstractTransition,
        shapes: ActionShapes,
        discount: float,
        direction: np.ndarray | None,
    ) -> "AmountEnvironment":
        """Rows of weight zero are asked about, and solved for by the others."""
        nodes = shapes.space.nodes()
        features = value_features(state[weight > 0], direction=direction, precise=True)
        at = lambda action: shapes(action)[:, : shapes.num_law]
        ahead = in_chunks(law.ahead(features), state)
        return cls(
            state,
            weight,
            discount,
            at(nodes.action),
            np.log(nodes.weight),
            at(shapes.anchor_action[None])[0],
            features,
            in_chunks(features, state).astype(np.float64),
            np.ascontiguousarray(np.moveaxis(ahead, 1, 0), np.float64),
        )

    def with_nodes(self, sources: Sequence[int], discount: float) -> "AmountEnvironment":
        """The same law with some of the nodes."""
        at = list(sources)
        told = {"node": self.node[at], "log_measure": self.log_measure[at]}
        return replace(self, discount=discount, **told)

    def solve(self, reward, start=None):
        """Policy iteration, each policy's value by least squares on the features."""
        q = reward if start is None else start
        for _ in range(ROUNDS):
            log_mass = log_softmax(q + self.log_measure, axis=1)
            mass = np.exp(log_mass)
            # The density is the mass over the measure.
            gain = (mass * (reward - (log_mass - self.log_measure))).sum(axis=1)
            drop = self._under(mass)
            weighted = drop.T @ (gain * self.weight)
            value = cho_solve(self._factor(drop), weighted)
            updated = reward + self.discount * self.follow(value[:, None])[:, :, 0]
            change = updated - q
            change = change - (mass * change).sum(axis=1, keepdims=True)
            size = float(np.sqrt((mass * change**2).sum(axis=1).mean()))
            q = updated
            if size < TOL:
                break
        weighed = q + self.log_measure
        return Solved(q, log_softmax(weighed, axis=1), logsumexp(weighed, axis=1))

    def follow(self, weight):
        by_shape = self.ahead @ weight
        return np.einsum("krc,nk->rnc", by_shape, self.node, optimize=True)

    def expect(self, prob, weight):
        return np.einsum("rk,krc->rc", prob @ self.node, self.ahead @ weight)

    def collect(self, flow):
        parts = zip(self.ahead, (flow @ self.node).T, strict=True)
        return np.sum([ahead.T @ column for ahead, column in parts], axis=0)

    def reward_gradient(self, prob, by_q):
        drop = self._under(prob)
        later = self.discount * self.collect(by_q)
        by_value = self.weight * (drop @ cho_solve(self._factor(drop), later))
        return by_q + prob * by_value[:, None]

    def response(self, prob, by):
        drop = self._under(prob)
        gain = (prob * by).sum(axis=1) * self.weight
        value = cho_solve(self._factor(drop), drop.T @ gain)
        return by + self.discount * self.follow(value[:, None])[:, :, 0]

    def look_up(self, state):
        return in_chunks(self.features, state).astype(np.float64)

    def value_at(self, solved, state):
        return self.look_up(state) @ self.project(solved.value[:, None])[:, 0]

    def repeated(self, action):
        """The anchor's whatever the action: it may lie between the nodes."""
        del action
        return self._left(np.tile(self.anchor, (len(self.state), 1)))

    def _under(self, mass: np.ndarray) -> Float[np.ndarray, "row feature"]:
        """The left side of the value's equation under a policy."""
        return self._left(mass @ self.node)

    def _left(self, mean: Float[np.ndarray, "row law_shape"]) -> np.ndarray:
        found = self.here.copy()
        for part, share in zip(self.ahead, self.discount * mean.T, strict=True):
            found -= share[:, None] * part
        return found

r"""RE, the paper's reward estimator: the continuation by regression.

$$\hat r(s,a) = \hat Q(s,a) - \gamma\,\hat E[V(s') | s, a].$$

The regression is on V(s') - V(s), and V(s) is added back: the same expectation, with a
target that varies far less where the state moves little.
"""

from dataclasses import dataclass, field
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from .._random import numpy_rng
from .._stored import stored
from ..anchor._value import AbstractValue, Evaluated
from ..learners._basis import (
    AbstractBasis,
    AbstractFeatures,
    Indicators,
    RandomFeatures,
    penalty,
)
from ..learners._network import Ensemble, Training, chosen_squared_error, train
from ..learners._sklearn import fit_weighted, seeded
from ..panel._cells import Cells, few_states
from ..panel._clusters import unit_folds
from ..panel._panel import Panel
from ._reward import AbstractReward, AbstractRewardEstimator, RewardFit, next_values
from ._table import Table


@dataclass(frozen=True)
class Linear(AbstractRewardEstimator):
    """RE with ridge regression on features, one per action.

    `ridge` counts in pseudo-rows, as in the anchor's linear solver.
    """

    basis: AbstractBasis = field(default_factory=RandomFeatures)
    # Doubled, rewards move by 0.08 to 0.19 of their standard deviation (paper world, p = 2,
    # 1,500 decisions, four policies).
    ridge: float = 100.0

    def fit(self, panel, value, *, key):
        state, action, change, weight = _targets(panel, value)
        features = self.basis.fit(state, value.policy.log_prob, key=key)
        columns = features(state, value.policy.log_prob(state))
        ridge = 0.0 if isinstance(self.basis, Indicators) else self.ridge
        theta = np.zeros((columns.shape[1], panel.num_actions))
        for index in range(panel.num_actions):
            # Actions apart, each with the same features.
            rows = action == index
            weighted = columns[rows] * weight[rows, None]
            gram = weighted.T @ columns[rows] + penalty(columns.shape[1], ridge)
            theta[:, index] = np.linalg.lstsq(gram, weighted.T @ change[rows], rcond=1e-13)[
                0
            ]
        note = f"linear regression on {len(theta)} features per action"
        return RewardFit(LinearReward(features, theta, value.discount), note)


@stored
@dataclass(frozen=True, eq=False)
class LinearReward(AbstractReward):
    """RE with a linear continuation."""

    features: AbstractFeatures
    theta: Float[np.ndarray, "feature action"]
    discount: float

    def __call__(self, state, value):
        known = value(state)
        change = self.features(state, known.log_prob) @ self.theta
        return _reward(known, change, self.discount)


@dataclass(frozen=True)
class Network(AbstractRewardEstimator):
    """RE with a network that has one output per action."""

    training: Training = field(default_factory=Training)

    def fit(self, panel, value, *, key):
        key_folds, key_train = jr.split(key)
        state, action, change, weight = _targets(panel, value)
        folds = max(self.training.members, 5)
        fold = unit_folds(panel, folds, rng=numpy_rng(key_folds))
        level, unit = float(change.mean()), float(change.std()) or 1.0
        ensemble = train(
            state,
            (action, (change - level) / unit),
            weight,
            fold[panel.is_transition],
            loss=chosen_squared_error,
            num_outputs=panel.num_actions,
            training=self.training,
            key=key_train,
            label="Reward network",
        )
        note = f"{self.training.members} networks, {ensemble.num_steps:,} steps"
        return RewardFit(NetworkReward(ensemble, level, unit, value.discount), note)


@stored
@dataclass(frozen=True, eq=False)
class NetworkReward(AbstractReward):
    """RE with a network's continuation."""

    ensemble: Ensemble
    level: float
    unit: float
    discount: float

    def __call__(self, state, value):
        change = self.level + self.unit * self.ensemble(state).mean(axis=0)
        return _reward(value(state), change, self.discount)


@dataclass(frozen=True)
class Regressor(AbstractRewardEstimator):
    """RE with any scikit-learn regressor, cloned for each action."""

    estimator: Any

    def fit(self, panel, value, *, key):
        state, action, change, weight = _targets(panel, value)
        models = []
        for index in range(panel.num_actions):
            rows = action == index
            model = seeded(clone(self.estimator), key=jr.fold_in(key, index))
            fit_weighted(model, state[rows], change[rows], weight[rows])
            models.append(model)
        note = f"{type(self.estimator).__name__} per action"
        return RewardFit(RegressorReward(tuple(models), value.discount), note)


@stored
@dataclass(frozen=True, eq=False)
class RegressorReward(AbstractReward):
    """RE with a scikit-learn continuation per action."""

    estimators: tuple[Any, ...]
    discount: float

    def __call__(self, state, value):
        if len(state) == 0:  # scikit-learn raises for empty input
            return np.empty((0, len(self.estimators)))
        change = [np.ravel(model.predict(state)) for model in self.estimators]
        return _reward(value(state), np.stack(change, axis=1), self.discount)


@dataclass(frozen=True)
class RE(AbstractRewardEstimator):
    """Means where every action was taken in every distinct state, else linear."""

    def fit(self, panel, value, *, key):
        if few_states(panel.state, rows_per_cell=2 * panel.num_actions):
            rows = panel.is_transition
            # A table with an empty cell would leave rewards NaN; regression fills them.
            cells = Cells.of(panel.state)
            if cells.tally(panel.state[rows], panel.action[rows], panel.num_actions).all():
                return Table().fit(panel, value, key=key)
        return Linear().fit(panel, value, key=key)


def _targets(panel: Panel, value: AbstractValue):
    """State, action, V(s') - V(s) and weight of the rows that are transitions."""
    rows = panel.is_transition
    change = next_values(panel, value)[rows] - value(panel.state[rows]).value
    return panel.state[rows], panel.action[rows], change, panel.weight[rows]


def _reward(known: Evaluated, change: np.ndarray, discount: float) -> np.ndarray:
    return known.q - discount * (known.value[:, None] + change)

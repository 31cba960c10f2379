r"""The paper's three stages where actions are amounts: a density, the anchor's value, RE.

$$V = g - \alpha\log\pi(a^A|\cdot) + \gamma\,h, \qquad
h(s) = E[V(s')|s,a^A], \qquad
r(s,a) = \alpha\log\pi(a|s) + V(s) - \gamma E[V(s')|s,a].$$

An anchor that is a point of a continuum is never taken exactly. So expectations of next
states are regressed on state and action together, over all rows, and read at the anchor.
The equation is linear in what feeds it, $-\log\pi(a^A|\cdot)$ and g, and solved for each.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._errors import NoInfluenceFunction
from .._shapes import PerRow, States
from .._stored import stored
from ..actions._space import Amounts
from ..anchor._anchor_reward import AnchorReward
from ..anchor._problem import AbstractStateFunction
from ..anchor._value import AnchoredValue
from ..panel._panel import Panel
from ..policy._density import AbstractDensity, DensityFit
from ..policy._policy import FOLDS, AbstractPolicy
from ..policy._tensor import StateFeatures
from ._held_out import held_out_histogram
from ._reward import AbstractAmountReward
from ._shapes import ActionShapes

# Bends among the features of the value and of the regressions.
VALUE_RIDGES, LAW_RIDGES = 100, 40
# In pseudo-rows, on standardised features, as in `reward/_regression.py`.
RIDGE = 10.0


@dataclass(frozen=True, eq=False)
class StagedEstimate:
    """What the second and third stage made of a density."""

    reward: "DensityReward"
    value: AnchoredValue
    log_density: PerRow
    """Of held-out actions, where they were judged; NaN elsewhere."""
    of_histogram: PerRow
    residual: float
    """Root mean square of what the value's features leave of the anchor's equation, in
    temperatures."""
    note: str
    value_note: str


def estimate_staged(
    panel: Panel,
    fitted: DensityFit,
    shapes: ActionShapes,
    grid: np.ndarray,
    anchor: int,
    anchor_reward: AnchorReward,
    *,
    discount: float,
    temperature: float,
) -> StagedEstimate:
    """The anchor's value and the reward that a density implies."""
    density, rows = fitted.density, np.flatnonzero(panel.is_transition)
    seen = np.concatenate([panel.state, panel.next_state[panel.has_next]])
    features = StateFeatures.of(seen, 1, ridges=VALUE_RIDGES)
    regression = _Regression.on(panel, rows, shapes)
    goes = ~panel.terminal[rows]
    after = panel.next_state[rows[goes]]

    def next_values(*functions) -> np.ndarray:
        """Columns of functions at next states; zero after an end."""
        columns = np.column_stack([function(after) for function in functions])
        found = np.zeros((len(rows), columns.shape[1]))
        found[goes] = columns
        return found

    point = shapes.anchor_action
    log_prob = lambda at: density.log_density(at, np.tile(point, (len(at), 1)))
    fed: list[Callable] = [lambda at: -log_prob(at)]
    if not anchor_reward.is_zero:
        fed.append(anchor_reward)
    coefficient = regression.fit(next_values(features, *fed))
    expected = regression.features.at(panel.state, point) @ coefficient
    width = expected.shape[1] - len(fed)
    # h = E[bonus(s') + discount h(s') | s, anchor], by least squares: the expectations are
    # estimates already, so that squares of next states' noise do not bias it.
    system = features(panel.state) - discount * expected[:, :width]
    weighted = system * panel.weight[:, None]
    gram = weighted.T @ system + RIDGE * np.diag(np.arange(width) > 0)
    theta = np.linalg.solve(gram, weighted.T @ expected[:, width:])
    left = system @ theta[:, 0] - expected[:, width]
    continuation = [FeatureFunction(features, column) for column in theta.T]
    value = AnchoredValue(
        DensityPolicy(density, grid),
        continuation[0],
        continuation[1] if len(continuation) > 1 else None,
        anchor_reward,
        anchor,
        discount=discount,
        temperature=temperature,
    )
    parts = _value_parts(value)
    # V(s') - V(s): the same expectation, with a target that varies far less.
    now = np.column_stack([part(panel.state[rows]) for part in parts])
    change = regression.fit(next_values(*parts) - now)
    reward = DensityReward(shapes, grid, density, value, regression.features, change)
    note = (
        f"RE by regression on {len(change)} terms of state and action, {len(rows):,} rows"
    )
    value_note = f"direct solve on {width} features, {len(rows):,} rows"
    residual = float(np.sqrt(np.average(left**2, weights=panel.weight)))
    few = panel.num_units < FOLDS
    fold = np.arange(len(panel)) * FOLDS // len(panel) if few else panel.unit % FOLDS
    assert panel.amount is not None
    simple = held_out_histogram(shapes.space, panel.amount, panel.weight, fold)
    scores = fitted.held_out, simple
    return StagedEstimate(reward, value, *scores, residual, note, value_note)


def _value_parts(value: AnchoredValue) -> list[Callable]:
    """V at temperature one with g = 0, and what g adds, as functions of the state."""
    parts = [value.policy_part]
    if value.known_part is not None:
        parts.append(value.known_part)
    return [lambda at, part=part: part(at).value for part in parts]


@stored
@dataclass(frozen=True, eq=False)
class FeatureFunction(AbstractStateFunction):
    """A linear function of features of the state."""

    features: StateFeatures
    theta: Float[np.ndarray, " feature"]

    def __call__(self, state, log_prob):
        del log_prob
        return self.features(state) @ self.theta


@stored
@dataclass(frozen=True, eq=False)
class DensityPolicy(AbstractPolicy):
    """Log densities at a grid of actions."""

    density: AbstractDensity
    grid: Float[np.ndarray, "action action_dimension"]

    def log_prob(self, state):
        return self.density.log_densities(state, self.grid)


@stored
@dataclass(frozen=True, eq=False)
class StateActionFeatures:
    """Products of features of the state and the shapes of a law over the actions."""

    state: StateFeatures
    shapes: ActionShapes

    def __call__(self, state: States, actions: Amounts) -> Float[np.ndarray, "row feature"]:
        columns = self.state(state)
        at = self.shapes(actions)[:, : self.shapes.num_law]
        return (columns[:, :, None] * at[:, None]).reshape(len(state), -1)

    def at(self, state: States, action: np.ndarray) -> Float[np.ndarray, "row feature"]:
        """The same for one action."""
        return self(state, np.tile(action, (len(state), 1)))


@dataclass(frozen=True, eq=False)
class _Regression:
    """Ridge regressions of functions of the next state on state and action."""

    features: StateActionFeatures
    columns: np.ndarray
    weighted: np.ndarray
    gram: np.ndarray

    @classmethod
    def on(cls, panel: Panel, rows: np.ndarray, shapes: ActionShapes) -> "_Regression":
        assert panel.amount is not None
        of_state = StateFeatures.of(panel.state, shapes.num_law, ridges=LAW_RIDGES)
        features = StateActionFeatures(of_state, shapes)
        columns = features(panel.state[rows], panel.amount[rows])
        weighted = columns * panel.weight[rows, None]
        gram = weighted.T @ columns + RIDGE * np.eye(columns.shape[1])
        return cls(features, columns, weighted, gram)

    def fit(self, targets: np.ndarray) -> Float[np.ndarray, "feature target"]:
        return np.linalg.solve(self.gram, self.weighted.T @ targets)


@stored
@dataclass(frozen=True, eq=False)
class DensityReward(AbstractAmountReward):
    """RE over amounts: a density, the anchor's value, and a regression of V(s') - V(s)."""

    shapes: ActionShapes
    grid: Float[np.ndarray, "action action_dimension"]
    density: AbstractDensity
    anchored: AnchoredValue
    features: StateActionFeatures
    change: Float[np.ndarray, "feature part"]
    """Coefficients of E[V(s') - V(s)|s,a]: of V at temperature one with g = 0, and of what
    g adds, where it is not zero."""

    def parts(self, state, value):
        del value
        each = [self.parts_at(state, self._tiled(action, state)) for action in self.grid]
        bare, known = zip(*each, strict=True)
        return np.stack(bare, axis=1), np.stack(known, axis=1)

    def parts_at(self, state: States, actions: Amounts) -> tuple[PerRow, PerRow]:
        discount = self.anchored.discount
        change = self.features(state, actions) @ self.change
        values = [part(state) for part in _value_parts(self.anchored)]
        found = [
            (1 - discount) * now - discount * moved
            for now, moved in zip(values, change.T, strict=True)
        ]
        bare = self.density.log_density(state, actions) + found[0]
        return bare, found[1] if len(found) > 1 else np.zeros(len(state))

    def log_density(self, state, actions):
        return self.density.log_density(state, actions)

    def log_densities_of(self, state, actions):
        return self.density.log_densities(state, actions)

    def errors_at(self, state, actions, temperature):
        raise NoInfluenceFunction(
            "Standard errors over amounts come with the default reward, and this fit's is "
            "the paper's RE. Fit without `reward`, or resample units: fit.bootstrap(panel, "
            "lambda fit: fit.reward(states, actions))."
        )

    def _tiled(self, action: np.ndarray, state: States) -> Amounts:
        return np.tile(action, (len(state), 1))

r"""The reward by maximum likelihood, given the continuation of the first two stages.

$$\max_r \sum_i \log\,\mathrm{softmax}\{[r(s_i,\cdot) + \gamma h(s_i,\cdot)]/\alpha\}_{a_i},
\qquad r(s,a^A) = g(s),$$

with $h(s,a) = E[V(s')|s,a]$ from the first two stages as an offset. The paper's reward
contains the error of log pi one to one; here the reward's own form smooths it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Float, PRNGKeyArray

from .._errors import DataError
from .._random import numpy_rng
from .._shapes import Codes, PerAction, PerRow, States
from .._stored import ROLE, stored
from ..anchor._value import AnchoredValue
from ..learners._chunks import in_chunks
from ..learners._network import Ensemble, Training, train
from ..panel._clusters import unit_folds
from ..panel._panel import Panel
from ..transition._choice import learn_transition
from ._complexity import choose_grouping, choose_level
from ._decisions import Decisions
from ._joint import FOLDS, BasisReward
from ._re import RE
from ._refined import refine
from ._reward import AbstractReward, AbstractRewardEstimator, RewardFit
from ._reward_basis import (
    GivenBasis,
    bends_along,
    linear_basis,
    steepest_directions,
    with_random_bends,
)
from ._ridge_logit import Choices, fit_ridge_logit

# Decisions from which penalty groups and directions are chosen, which takes several fits;
# the last fit uses all.
ROWS = 25_000


@dataclass(frozen=True)
class Likelihood(AbstractRewardEstimator):
    """Maximum likelihood with the continuation as an offset.

    Parameters
    ----------
    model
        `"linear"`: linear in the state with bends along learned directions, as complex
        as held-out units support. `"network"`: an ensemble stopped early on held-out
        units. Or a function of `(state, action, offset, weight)` that fits any class of
        rewards: the offset, (row, action), is to be added to the reward inside the
        softmax; it returns a function of the states to (row, action), whose anchor
        column is subtracted.
    features
        What the reward is known to be linear in, as for `Joint`.
    training
        How the networks are trained.
    """

    model: str | Callable = "linear"
    features: Callable[[np.ndarray], Any] | None = None
    training: Training = field(default_factory=Training)

    def __post_init__(self):
        if not (callable(self.model) or self.model in ("linear", "network")):
            raise DataError(
                '`model` must be "linear", "network" or a function of (state, action, '
                f"offset, weight), but it is {self.model!r}."
            )

    @property
    def is_affine(self) -> bool:
        return self.features is None

    def known_part(self):
        return RE()

    def fit(self, panel, value, *, key):
        key_folds, key_law, key_model = jr.split(key, 3)
        learned = learn_transition(panel, value.policy, key=key_law)
        ahead = learned.law.ahead(ValueColumn(value))
        fold = unit_folds(panel, FOLDS, rng=numpy_rng(key_folds))

        def offset(state: np.ndarray) -> np.ndarray:
            found = value.discount * ahead(state)[:, :, 0]
            found[:, value.anchor] += value.anchor_reward(state) / value.temperature
            return found - found[:, [value.anchor]]

        if callable(self.model):
            scores = in_chunks(offset, panel.state)
            found = self.model(panel.state, panel.action, scores, panel.weight)
            reward, note, held_out = OwnReward(found), "the given class of rewards", None
        elif self.model == "network":
            scores = in_chunks(offset, panel.state)
            reward, held_out = self._network(panel, value.anchor, scores, fold, key_model)
            note = f"{len(reward.ensemble.held_out_loss)} networks"
        else:
            reward, held_out, note = fit_offset_logit(
                panel, offset, fold, value.anchor, self.features, key=key_model
            )
        refined = refine(value, reward, ahead)
        return RewardFit(reward, f"likelihood: {note}; {learned.note}", refined, held_out)

    def _network(self, panel: Panel, anchor: int, offset, fold, key):
        def loss(outputs, target):
            action, known = target
            scores = outputs - outputs[anchor] + known
            return optax.softmax_cross_entropy_with_integer_labels(
                jnp.asarray(scores), action
            )

        training = replace(self.training, members=max(self.training.members, FOLDS))
        ensemble = train(
            panel.state,
            (panel.action, offset),
            panel.weight,
            fold,
            loss=loss,
            num_outputs=panel.num_actions,
            training=training,
            key=key,
            label="Reward network",
        )
        members = ensemble(panel.state)
        scores = members - members[:, :, [anchor]] + offset
        scores = scores[fold, np.arange(len(fold))]
        chosen = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
        return NetworkLogitReward(ensemble), chosen[np.arange(len(fold)), panel.action]


def fit_offset_logit(
    panel: Panel,
    offset: Callable[[np.ndarray], np.ndarray],
    fold: Codes,
    anchor: int,
    features: Callable[[np.ndarray], Any] | None = None,
    *,
    key: PRNGKeyArray,
) -> tuple[BasisReward, PerRow, str]:
    """A reward linear in features, given what else speaks for each action; the score of
    each row without its fold; and a note."""
    decisions = Decisions.of(panel, fold)

    def build_logit(basis, part: Decisions) -> Choices:
        scores = in_chunks(offset, part.state)
        return Choices(basis(part.state), scores, part.action, part.weight)

    if features is not None:
        basis = GivenBasis.of(panel, features, anchor)
    else:
        few = decisions.thinned(ROWS)
        basis = linear_basis(panel, anchor)
        basis = choose_grouping(build_logit(basis, few), basis, few.fold)
        slopes = fit_ridge_logit(build_logit(basis, few), basis.group)
        direction = steepest_directions(basis, slopes.theta, few.state)
        basis = bends_along(basis, panel.state, direction)
        basis = with_random_bends(basis, panel.state, key=key)
    chosen = choose_level(build_logit(basis, decisions), basis, decisions.fold)
    return BasisReward(basis, chosen.theta), chosen.held_out[decisions.at], chosen.note


@stored
@dataclass(frozen=True, eq=False)
class ValueColumn:
    """V in units of the temperature, as a function with one column."""

    value: AnchoredValue

    def __call__(self, state: States) -> Float[np.ndarray, "row 1"]:
        return self.value(state).value[:, None] / self.value.temperature


@stored
@dataclass(frozen=True, eq=False)
class NetworkLogitReward(AbstractReward):
    """The mean of an ensemble's rewards, in units of the temperature."""

    ensemble: Ensemble

    def __call__(self, state, value):
        return _anchored(self.ensemble(state).mean(axis=0), state, value)


@stored
@dataclass(frozen=True, eq=False)
class OwnReward(AbstractReward):
    """A reward that a function of the user's found, in units of the temperature."""

    reward: Callable[[np.ndarray], Any] = field(metadata={ROLE: "reward"})

    def __call__(self, state, value):
        found = np.asarray(self.reward(state), dtype=np.float64)
        return _anchored(found, state, value)


def _anchored(scores: PerAction, state, value) -> np.ndarray:
    reward = value.temperature * (scores - scores[:, [value.anchor]])
    reward[:, value.anchor] = value.anchor_reward(state)
    return reward

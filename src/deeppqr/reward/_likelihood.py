r"""The reward by maximum likelihood, given the continuation of the first two stages.

$$\max_r \sum_i \log\,\mathrm{softmax}\{[r(s_i,\cdot) + \gamma h(s_i,\cdot)]/\alpha\}_{a_i},
\qquad r(s,a^A) = g(s),$$

with $h(s,a) = E[V(s')|s,a]$ from the first two stages as an offset. The paper's reward
contains the error of log pi one to one; here the reward's own form smooths it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._random import numpy_rng
from .._shapes import Codes, PerRow, States
from .._stored import stored
from ..anchor._value import AnchoredValue
from ..law._choice import learn_transition
from ..learners._chunks import in_chunks
from ..panel._clusters import unit_folds
from ..panel._panel import Panel
from ._complexity import choose_grouping, choose_level
from ._decisions import Decisions
from ._joint import FOLDS, BasisReward
from ._refined import refine
from ._regression import RE
from ._reward import AbstractRewardEstimator, RewardFit
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

    The reward is linear in the state with bends along learned directions, as complex as
    held-out units support.

    Parameters
    ----------
    features
        What the reward is known to be linear in, as for `Joint`.
    """

    features: Callable[[np.ndarray], Any] | None = None

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
            # Differences to the anchor, which softmax does not see.
            return found - found[:, [value.anchor]]

        reward, held_out, note = fit_offset_logit(
            panel, offset, fold, value.anchor, self.features, key=key_model
        )
        refined = refine(value, reward, ahead)
        return RewardFit(reward, f"likelihood: {note}; {learned.note}", refined, held_out)


def fit_offset_logit(
    panel: Panel,
    offset: Callable[[np.ndarray], np.ndarray],
    fold: Codes,
    anchor: int,
    features: Callable[[np.ndarray], Any] | None = None,
    *,
    key: PRNGKeyArray,
) -> tuple[BasisReward, PerRow, str]:
    """A reward linear in features, given an offset for each action; the score of
    each row without its fold; and a note."""
    decisions = Decisions.of(panel, fold)

    def build_logit(basis, part: Decisions) -> Choices:
        scores = in_chunks(offset, part.state)
        return Choices(basis(part.state), scores, part.action, part.weight)

    if features is not None:
        basis = GivenBasis.of(panel, features, anchor)
    else:
        # One round and no networks: V is given here and does not change with the reward.
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

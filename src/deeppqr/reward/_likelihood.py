r"""The reward by maximum likelihood, given the continuation of the first two stages.

$$\max_r \sum_i \log\,\mathrm{softmax}\{[r(s_i,\cdot) + \gamma h(s_i,\cdot)]/\alpha\}_{a_i},
\qquad r(s,a^A) = g(s),$$

with $h(s,a) = E[V(s')|s,a]$ from the first two stages as an offset. The paper's reward
contains the error of log pi one to one; here the reward's own form smooths it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .._shapes import PerRow, States
from .._stored import stored
from ..anchor._value import AnchoredValue
from ..law._choice import learn_transition
from ..learners._build_basis import smooth_basis
from ..learners._chunks import in_chunks
from ..learners._ridge_logit import Choices, fit_ridge_logit, held_out_predictor
from ..learners._smooth_basis import SmoothBasis
from ..panel._panel import Panel
from ._decisions import Decisions
from ._given_basis import GivenBasis
from ._refined import refine
from ._regression import RE
from ._reward import AbstractReward, AbstractRewardEstimator, RewardFit

# Numbers in the logit's design, 160 MB in float64; decisions beyond it are thinned out
# evenly, and the note says so.
MAX_ENTRIES = 20_000_000


@dataclass(frozen=True)
class Likelihood(AbstractRewardEstimator):
    """Maximum likelihood with the continuation as an offset.

    The reward is a sum of smooth terms of the state by action, as their evidence supports.

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
        del key
        learned = learn_transition(panel)
        ahead = learned.law.ahead(ValueColumn(value))
        if self.features is not None:
            basis = GivenBasis.of(panel, self.features, value.anchor)
        else:
            options = (panel.state, panel.actions, value.anchor, panel.encoding)
            basis = smooth_basis(*options, curved=True)
        # Every fifth unit in turn is held out.
        decisions = Decisions.of(panel, panel.unit % 5)
        whole = len(decisions.action)
        decisions = decisions.thinned(
            max(1, MAX_ENTRIES // (len(basis) * panel.num_actions))
        )

        def offset(state: np.ndarray) -> np.ndarray:
            found = value.discount * ahead(state)[:, :, 0]
            found[:, value.anchor] += value.anchor_reward(state) / value.temperature
            # Differences to the anchor, which softmax does not see.
            return found - found[:, [value.anchor]]

        choices = Choices(
            basis.design(decisions.state),
            in_chunks(offset, decisions.state),
            decisions.action,
            decisions.weight,
        )
        fit = fit_ridge_logit(choices, basis.group)
        reward = BasisReward(basis, fit.theta)
        used, there = len(decisions.action), whole
        thinned = "" if used == there else f" on {used:,} of {there:,} decisions"
        number = float(fit.effective.sum()) or float(len(fit.theta))
        note = f"likelihood{thinned}: {number:.1f} effective coefficients; {learned.note}"
        held_out = _held_out(panel, choices, fit, basis, decisions)
        return RewardFit(reward, note, refine(value, reward, ahead), held_out)


def _held_out(panel: Panel, choices: Choices, fit, basis, decisions: Decisions) -> PerRow:
    """Log-probability of each row's action under coefficients found without its fold."""
    predictor = held_out_predictor(choices, fit, basis.group, decisions.fold)
    alone = Choices(predictor[:, :, None], choices.offset, choices.action, choices.weight)
    found = np.full(len(panel), np.nan)
    found[decisions.panel_row] = alone.chosen(np.ones(1))[decisions.at]
    return found


@stored
@dataclass(frozen=True, eq=False)
class BasisReward(AbstractReward):
    """A reward linear in features, in units of the temperature; the anchor earns g."""

    basis: SmoothBasis | GivenBasis
    theta: Float[np.ndarray, " feature"]

    def __call__(self, state, value):
        reward = value.temperature * self.basis(state, self.theta)
        reward[:, value.anchor] += value.anchor_reward(state)
        return reward


@stored
@dataclass(frozen=True, eq=False)
class ValueColumn:
    """V in units of the temperature, as a function with one column."""

    value: AnchoredValue

    def __call__(self, state: States) -> Float[np.ndarray, "row 1"]:
        return self.value(state).value[:, None] / self.value.temperature

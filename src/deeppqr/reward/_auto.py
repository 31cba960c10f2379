"""The default reward: joint estimation, corrected where held-out units reject it."""

from dataclasses import dataclass, field, replace

import jax.random as jr
import numpy as np

from .._shapes import PerRow
from ..panel._cells import COUNTED, few_states, fewest_rows
from ..panel._panel import Panel
from ._complexity import clearly_better
from ._departure import correct
from ._joint import Joint
from ._regression import RE
from ._reward import AbstractRewardEstimator

# Folded into the key where a correction draws its features.
CORRECTION = 1


@dataclass(frozen=True, eq=False)
class Auto(AbstractRewardEstimator):
    """Joint estimation if its choice probabilities predict held-out units as well as the
    policy does; otherwise corrected by the paper's RE, so that it reproduces the policy.

    A reward of limited complexity restricts the policy. If the restriction lowers the
    held-out log-likelihood by more than two standard errors it is rejected, and RE is
    applied to the difference between the policy and the choices that the reward implies.
    Where every action was taken often in every state, joint estimation is not tried: the
    table of means has no bias, and a simple form might.
    """

    joint: Joint = field(default_factory=Joint)
    """How joint estimation is done where it is tried."""
    policy_scores: PerRow | None = None
    """The policy's held-out log-probabilities; NaN in rows that were not judged."""

    def fit(self, panel, value, *, key):
        if _is_counted(panel):
            fit = RE().fit(panel, value, key=key)
            note = f"{fit.note}; every action was taken {COUNTED} times or more in each"
            return replace(fit, note=note)
        joint = self.joint.fit(panel, value, key=key)
        if self.policy_scores is None or joint.held_out is None:
            return joint
        # Rows that both have scored without their unit.
        judged = ~(np.isnan(self.policy_scores) | np.isnan(joint.held_out))
        weight = panel.weight[judged]
        policy, explained = self.policy_scores[judged], joint.held_out[judged]
        compared = (
            f"held-out log-likelihood: joint {np.average(explained, weights=weight):.5f}, "
            f"policy {np.average(policy, weights=weight):.5f}"
        )
        if not clearly_better(policy, explained, weight):
            return replace(joint, note=f"{joint.note}; kept ({compared})")
        fit = correct(panel, value, joint, key=jr.fold_in(key, CORRECTION))
        note = f"{joint.note}; refuted ({compared}) and corrected by {fit.note}"
        return replace(fit, note=note)

    def known_part(self):
        return RE()

    def with_policy_scores(self, held_out):
        return replace(self, policy_scores=held_out)


def _is_counted(panel: Panel) -> bool:
    if not few_states(panel.state, rows_per_cell=COUNTED * panel.num_actions):
        return False
    # Rows to which the user gave weight zero do not count.
    used = panel.select(panel.weight > 0)
    return fewest_rows(used.state, used.action, used.num_actions) >= COUNTED

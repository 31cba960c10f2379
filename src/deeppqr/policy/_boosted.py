"""Boosted trees as a policy, for thresholds and interactions in the state."""

from dataclasses import dataclass

import jax.random as jr
import numpy as np
from scipy.special import log_softmax

from .._stored import stored
from ..learners._boosting import BoostedTrees
from ..progress import track
from ._policy import (
    AbstractPolicy,
    AbstractPolicyEstimator,
    PolicyFit,
    draw_folds,
    score_held_out,
)


@dataclass(frozen=True)
class Boosted(AbstractPolicyEstimator):
    """Gradient-boosted trees by maximum likelihood.

    Several members, each stopped early on the units held out from it, are averaged in
    logs. As for networks, one factor on the scores is chosen on held-out units, which
    corrects over- and underconfidence.

    References
    ----------
    [guo2017calibration].
    """

    members: int = 5
    """Member k is grown on the units outside fold k."""
    # scikit-learn's defaults, with half its leaves and twice its iterations: smaller steps
    # in the function, more of them, and early stopping to choose how many.
    max_leaf_nodes: int = 16
    learning_rate: float = 0.1
    max_iter: int = 200

    def fit(self, panel, *, key):
        fold = draw_folds(panel, key=key, members=self.members)
        members, scores = [], np.empty((len(panel), panel.num_actions))
        with track("Boosted trees", self.members) as progress:
            for number in range(self.members):
                out = fold == number
                member = BoostedTrees.fit(
                    panel.state,
                    panel.action,
                    panel.weight,
                    panel.num_actions,
                    key=jr.fold_in(key, number + 1),
                    max_leaf_nodes=self.max_leaf_nodes,
                    learning_rate=self.learning_rate,
                    max_iter=self.max_iter,
                    held_out=out,
                )
                scores[out] = member.log_prob(panel.state[out])
                members.append(member)
                progress.advance(1)
        # With fewer members than folds some rows have no member that did not see them.
        judged = fold < self.members
        held_out, factor = score_held_out(scores[judged], panel, judged, calibrate=True)
        note = (
            f"{self.members} times boosted trees, "
            f"{sum(len(member.trees) for member in members):,} in all, "
            f"calibration factor {factor:.3f}"
        )
        return PolicyFit(BoostedPolicy(tuple(members), factor), held_out, note)


@stored
@dataclass(frozen=True, eq=False)
class BoostedPolicy(AbstractPolicy):
    """Boosted trees averaged in logs."""

    members: tuple[BoostedTrees, ...]
    factor: float

    def log_prob(self, state):
        each = [
            log_softmax(self.factor * member.log_prob(state), axis=1)
            for member in self.members
        ]
        return log_softmax(np.mean(each, axis=0), axis=1)

"""The paper's deep energy-based policy, by maximum likelihood."""

from dataclasses import dataclass, field

import jax.random as jr
import optax
from scipy.special import log_softmax

from .._stored import stored
from ..learners._network import Ensemble, Training, train
from ._policy import (
    AbstractPolicy,
    AbstractPolicyEstimator,
    PolicyFit,
    draw_folds,
    score_held_out,
)


@dataclass(frozen=True)
class Network(AbstractPolicyEstimator):
    r"""A deep energy-based policy, $\pi(a|s) \propto \exp\{-E(s,a)\}$.

    An ensemble of networks fitted by maximum likelihood, each stopped early on the units
    held out from it, and averaged in logs. One factor on the energies, chosen on held-out
    units, corrects over- and underconfidence.

    References
    ----------
    [geng2020pqr], Section 2; [guo2017calibration].
    """

    training: Training = field(default_factory=Training)
    calibrate: bool = True

    def fit(self, panel, *, key):
        members = self.training.members
        fold = draw_folds(panel, key=key, members=members)
        ensemble = train(
            panel.state,
            panel.action,
            panel.weight,
            fold,
            loss=optax.softmax_cross_entropy_with_integer_labels,
            num_outputs=panel.num_actions,
            training=self.training,
            key=jr.fold_in(key, 1),
            label="Policy network",
        )
        judged = fold < members
        energy = ensemble(panel.state)[fold[judged], judged]
        held_out, factor = score_held_out(energy, panel, judged, calibrate=self.calibrate)
        note = (
            f"{members} networks of {self.training.depth} x {self.training.width} units, "
            f"{ensemble.num_steps:,} steps, calibration factor {factor:.3f}"
        )
        return PolicyFit(NetworkPolicy(ensemble, factor), held_out, note)


@stored
@dataclass(frozen=True, eq=False)
class NetworkPolicy(AbstractPolicy):
    """An ensemble averaged in logs."""

    ensemble: Ensemble
    factor: float

    def log_prob(self, state):
        # The mean of log-probabilities, not of probabilities: Q is linear in the logs, so
        # this averages the members' values.
        members = log_softmax(self.factor * self.ensemble(state), axis=2)
        return log_softmax(members.mean(axis=0), axis=1)

"""The paper's deep energy-based policy, by maximum likelihood."""

from dataclasses import dataclass, field

import jax.random as jr
import numpy as np
import optax
from scipy.special import log_softmax

from .._stored import stored
from ..learners._network import Ensemble, Training, train
from ._calibration import calibrate
from ._policy import AbstractPolicy, AbstractPolicyEstimator, PolicyFit, draw_folds


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
        # A single member still holds a fifth of the units out, to stop early on.
        num_folds = max(members, 5)
        fold = draw_folds(panel, key=key, num_folds=num_folds)
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
        energy = ensemble(panel.state)
        judged = fold < members
        # Each row's outputs by the member that held its unit out.
        held_out = energy[fold[judged], judged]
        factor = 1.0
        if self.calibrate:
            factor = calibrate(held_out, panel.action[judged], panel.weight[judged])
        chosen = np.full(len(panel), np.nan)
        scores = log_softmax(factor * held_out, axis=1)
        chosen[judged] = scores[np.arange(judged.sum()), panel.action[judged]]
        note = (
            f"{members} networks of {self.training.depth} x {self.training.width} units, "
            f"{ensemble.num_steps:,} steps, calibration factor {factor:.3f}"
        )
        return PolicyFit(NetworkPolicy(ensemble, factor), chosen, note)


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

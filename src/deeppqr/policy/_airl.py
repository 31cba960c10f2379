"""The paper's policy step: AIRL, offline on the demonstrated states."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float
from scipy.special import log_softmax

from .._errors import DataError, NotConvergedWarning
from .._shapes import PerAction
from .._stored import stored
from ..learners._network import Ensemble, Predict, Training, train
from ..panel._panel import Panel
from ._policy import (
    AbstractPolicy,
    AbstractPolicyEstimator,
    PolicyFit,
    draw_folds,
    log_shares,
    score_held_out,
)

# The discriminator's loss where D = 1/2: it cannot tell data and generator apart.
DRAW = 2 * np.log(2)


def discriminator_loss(score: Float[Array, " action"], target) -> Float[Array, ""]:
    r"""The loss of one demonstrated state, exact over the generator's actions.

    $$-\log D(s,a) - \sum_b P(b|s) \log\{1 - D(s,b)\}, \qquad
    D = \frac{e^f}{e^f + P}.$$
    """
    action, log_generator = target
    # Exact over the generator's actions instead of sampled: it is known and discrete.
    total = jnp.logaddexp(score, log_generator)
    expected = jnp.sum(jnp.exp(log_generator) * (log_generator - total))
    return -(score - total)[action] - expected


@dataclass(frozen=True)
class AIRL(AbstractPolicyEstimator):
    r"""Adversarial policy estimation as the paper uses it.

    A discriminator $D = e^f/(e^f + P)$ learns to tell demonstrated actions from those of a
    generator $P(a|s)$; at its optimum $f = \log\pi$, whatever $P$ is. The generator solves
    the control problem with the Q-function replaced by $\log D - \log(1 - D) = f - \log P$
    (the paper prints the sign reversed): a softmax in each demonstrated state, so that no
    environment is needed.

    Parameters
    ----------
    training
        The network of $f$; the generator moves every `check_every` steps.
    generator
        `"signal"`: the softmax of the signal with the old P in it, as the text reads.
        `"entropy"`: the softmax of f, which takes the signal's -log P for the entropy
        that the control problem adds anyway.

    References
    ----------
    [fu2018airl]; [geng2020pqr], "Policy estimation".
    """

    training: Training = field(default_factory=lambda: Training(check_every=50))
    generator: str = "signal"

    def fit(self, panel, *, key):
        if self.generator not in ("signal", "entropy"):
            raise DataError(
                f'`generator` must be "signal" or "entropy", but it is {self.generator!r}.'
            )
        members = self.training.members
        fold = draw_folds(panel, key=key, members=members)
        # P(a|s) on the demonstrated states, updated as the discriminator learns.
        log_generator = np.full((len(panel), panel.num_actions), -np.log(panel.num_actions))
        entropy: list[float] = []

        def update(predict: Predict):
            nonlocal log_generator
            score = predict(panel.state).mean(axis=0)
            signal = score - log_generator if self.generator == "signal" else score
            # The generator's control problem has no dynamics offline: its optimum in each
            # state is a softmax, with nothing to train.
            log_generator = log_softmax(signal, axis=1)
            learned = log_softmax(score, axis=1)
            entropy.append(-float(np.mean(np.sum(np.exp(learned) * learned, axis=1))))
            return panel.action, log_generator

        ensemble = train(
            panel.state,
            (panel.action, log_generator),
            panel.weight,
            fold,
            loss=discriminator_loss,
            num_outputs=panel.num_actions,
            training=self.training,
            key=jr.fold_in(key, 1),
            label="AIRL",
            refresh=update,
        )
        # Scores of a row by the member that did not train on its unit.
        judged = fold < members
        scores = ensemble(panel.state)[fold[judged], judged]
        held_out, _ = score_held_out(scores, panel, judged, calibrate=False)
        policy = AIRLPolicy(ensemble, np.array(entropy))
        _warn_of_trouble(panel, policy, held_out[judged].mean())
        note = f"AIRL, {members} discriminators, {ensemble.num_steps:,} steps"
        return PolicyFit(policy, held_out, note)


@stored
@dataclass(frozen=True, eq=False)
class AIRLPolicy(AbstractPolicy):
    """The softmax of the discriminators' mean f, with the course of training."""

    ensemble: Ensemble
    entropy_trace: Float[np.ndarray, " check"]
    """Entropy of the learned policy at each update of the generator."""

    @property
    def loss_trace(self) -> Float[np.ndarray, " check"]:
        """Held-out loss of the discriminators at each update of the generator."""
        return self.ensemble.trace.mean(axis=1)

    def score(self, state) -> PerAction:
        """f(s, a), which is log pi(a|s) at the optimum, up to its training error."""
        return self.ensemble(state).mean(axis=0)

    def log_prob(self, state):
        return log_softmax(self.score(state), axis=1)


def _warn_of_trouble(panel: Panel, policy: Any, held_out: float) -> None:
    """Warn of the two usual failures of adversarial training.

    The thresholds, a fifth of a draw's loss and a tenth of the shares' entropy, only decide
    when to warn; no estimate depends on them.
    """
    shares = log_shares(panel)
    of_shares = -float(np.sum(np.exp(shares) * shares))
    loss, entropy = policy.loss_trace[-1], policy.entropy_trace[-1]
    if loss < 0.2 * DRAW:
        warnings.warn(
            f"The discriminator's held-out loss is {loss:.3f}, far below {DRAW:.3f} (where "
            "it cannot tell the generator from the data): the generator did not fit. Train "
            "longer with a lower `learning_rate`, move the generator more often (a "
            'smaller `check_every`), or use policy="network", which maximises the '
            "likelihood directly.",
            NotConvergedWarning,
            stacklevel=4,
        )
    if entropy < 0.1 * of_shares and held_out < float(shares @ np.exp(shares)):
        warnings.warn(
            f"The policy is nearly deterministic: its entropy is {entropy:.3f}, that of "
            f"the action shares {of_shares:.3f}, and it predicts held-out units worse than "
            'the shares do. Use fewer steps, a smaller network, or policy="network".',
            NotConvergedWarning,
            stacklevel=4,
        )

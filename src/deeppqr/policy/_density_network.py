"""Network densities of amounts: the paper's energy, and a mixture of normal densities."""

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

from .._errors import DataError
from .._shapes import PerRow
from .._stored import stored
from ..actions._space import ActionSpace
from ..learners._network import Ensemble, Training, train
from ..panel._panel import Panel
from ._contrastive import ContrastiveDensity, Noise, contrastive_loss, contrasts
from ._density import (
    AbstractDensity,
    AbstractDensityEstimator,
    ActionBasis,
    BasisDensity,
    DensityFit,
    amounts_of,
    log_density_of,
)
from ._policy import draw_folds

# Of the polynomials over the box: higher than those of `Tensor`, as early stopping holds
# what the data do not ask for.
DEGREE = {1: 10, 2: 6, 3: 4}
DEGREE_BEYOND = 2
# Dimensions up to which the integral is a sum over fixed nodes.
MAX_QUADRATURE = 2
# Standard deviations of a mixture's parts lie above this share of half the box.
NARROWEST = 0.01


@dataclass(frozen=True)
class EnergyNetwork(AbstractDensityEstimator):
    r"""The paper's deep energy-based policy over amounts.

    $$\pi(a|s) = e^{-E(s,a)} \Big/ \int e^{-E(s,b)}\,d\mu(b).$$
    The energy is a polynomial of the action whose coefficients are a network of the state.
    An ensemble is fitted by maximum likelihood, the integral by quadrature, each member
    stopped early on the units held out from it, and averaged in logs. Beyond two dimensions
    it is told from noise instead, and integrals are importance-weighted.

    References
    ----------
    [geng2020pqr], Section 2.
    """

    training: Training = field(default_factory=Training)

    def fit(self, panel, *, key):
        space, amount = amounts_of(panel)
        basis = ActionBasis(space, DEGREE.get(space.dimensions, DEGREE_BEYOND))
        if space.dimensions > MAX_QUADRATURE:
            return self._against_noise(panel, basis, key=key)
        at_nodes = jnp.asarray(basis.at_nodes, jnp.float32)
        log_weight = jnp.log(jnp.asarray(basis.nodes.weight, jnp.float32))
        ensemble, fold = _train(
            panel,
            basis(amount),
            partial(_energy_loss, at_nodes=at_nodes, log_weight=log_weight),
            len(basis),
            self.training,
            key=key,
        )
        density = EnergyDensity(basis, ensemble)
        held_out = np.full(len(panel), np.nan)
        judged = np.flatnonzero(fold < self.training.members)
        size = ensemble(panel.state)[fold[judged], judged]
        held_out[judged] = log_density_of(basis, size.astype(np.float64), amount[judged])
        return DensityFit(density, held_out, f"energies by {_described(ensemble, self)}")

    def _against_noise(self, panel: Panel, basis: ActionBasis, *, key) -> DensityFit:
        """The same by noise-contrastive estimation."""
        space, amount = amounts_of(panel)
        noise = Noise.of(space, panel.state, amount, panel.weight)
        rng = np.random.default_rng(np.asarray(jr.key_data(jr.fold_in(key, 2))))
        targets = contrasts(basis, noise, panel.state, amount, rng)
        told = (contrastive_loss, len(basis), self.training)
        ensemble, fold = _train(panel, targets, *told, key=key)
        density = ContrastiveDensity(basis, noise, ensemble)
        held_out = np.full(len(panel), np.nan)
        judged = np.flatnonzero(fold < self.training.members)
        size = ensemble(panel.state)[fold[judged], judged].astype(np.float64)
        at = panel.state[judged], amount[judged]
        held_out[judged] = density.of_coefficients(*at, size)
        made = f"energies told from {targets[1].shape[1]} draws of noise by "
        return DensityFit(density, held_out, made + _described(ensemble, self))


@stored
@dataclass(frozen=True, eq=False)
class EnergyDensity(BasisDensity):
    """An ensemble of energies averaged in logs."""

    ensemble: Ensemble

    def coefficients(self, state):
        # Logs are linear in the coefficients, so their mean is the mean of the logs.
        return self.ensemble(state).mean(axis=0).astype(np.float64)


@dataclass(frozen=True)
class Mixture(AbstractDensityEstimator):
    """Normal densities cut to the box, and the probability of each atom, by a network.

    Means, standard deviations and weights are functions of the state. With one part it is
    the usual baseline of a normal density; without hidden layers its mean is a line.

    Parameters
    ----------
    components
        Number of normal densities.
    """

    components: int = 1
    training: Training = field(default_factory=Training)

    def fit(self, panel, *, key):
        if self.components < 1:
            raise DataError(
                f"`components` must be 1 or more, but it is {self.components!r}."
            )
        space, amount = amounts_of(panel)
        atom = space.atom_of(amount)
        unit = np.clip(space.centred(amount), -1.0, 1.0)
        shape = (self.components, space.dimensions, len(space.points))
        ensemble, fold = _train(
            panel,
            (unit, atom),
            lambda outputs, target: -_mixture_log_density(outputs, *target, shape=shape),
            _num_outputs(*shape),
            self.training,
            key=key,
        )
        density = MixtureDensity(space, self.components, ensemble)
        held_out = np.full(len(panel), np.nan)
        judged = fold < self.training.members
        rows = density.members(panel.state[judged], amount[judged])
        held_out[judged] = rows[fold[judged], np.arange(judged.sum())]
        parts = "a normal density" if self.components == 1 else f"{self.components} of them"
        note = f"{parts} by {_described(ensemble, self)}"
        return DensityFit(density, held_out, note)


@stored
@dataclass(frozen=True, eq=False)
class MixtureDensity(AbstractDensity):
    """An ensemble of mixtures, its members averaged: a mixture again."""

    space: ActionSpace
    components: int
    ensemble: Ensemble

    def members(self, state: np.ndarray, amount: np.ndarray) -> np.ndarray:
        """Log densities under each member, (member, row)."""
        shape = (self.components, self.space.dimensions, len(self.space.points))
        unit = np.clip(self.space.centred(amount), -1.0, 1.0).astype(np.float32)
        one = partial(_mixture_log_density, shape=shape)
        outputs = jnp.asarray(self.ensemble(state), jnp.float32)
        rows = jax.vmap(one)
        target = jnp.asarray(unit), jnp.asarray(self.space.atom_of(amount))
        found = jax.vmap(lambda member: rows(member, *target))(outputs)
        return np.asarray(found, np.float64)

    def log_density(self, state, amount) -> PerRow:
        found = self.members(state, amount)
        top = found.max(axis=0)
        return top + np.log(np.exp(found - top).mean(axis=0))


def _train(panel, targets, loss, num_outputs: int, training: Training, *, key):
    """The ensemble, and the folds whose units its members did not see."""
    fold = draw_folds(panel, key=key, members=training.members)
    ensemble = train(
        panel.state,
        targets,
        panel.weight,
        fold,
        loss=loss,
        num_outputs=num_outputs,
        training=training,
        key=jr.fold_in(key, 1),
        label="Policy network",
    )
    return ensemble, fold


def _described(ensemble: Ensemble, estimator: EnergyNetwork | Mixture) -> str:
    training = estimator.training
    return (
        f"{training.members} networks of {training.depth} x {training.width} units, "
        f"{ensemble.num_steps:,} steps"
    )


def _energy_loss(outputs, taken, *, at_nodes, log_weight):
    """Minus the log density of one action."""
    return logsumexp(at_nodes @ outputs + log_weight) - outputs @ taken


def _num_outputs(components: int, dimensions: int, atoms: int) -> int:
    return components * (1 + 2 * dimensions) + atoms


def _mixture_log_density(outputs, unit, atom, *, shape: tuple[int, int, int]):
    """Log density of one action under one row of outputs."""
    components, dimensions, atoms = shape
    kinds = outputs[: components + atoms]
    # Each part of the box and each atom is one outcome of a first draw.
    log_kind = kinds - logsumexp(kinds)
    means, scales = outputs[components + atoms :].reshape(2, components, dimensions)
    # Means spread at the start: equal parts would stay equal.
    means = means + (2 * jnp.arange(components)[:, None] + 1) / components - 1
    scale = NARROWEST + jax.nn.softplus(scales)
    gap = (unit[None] - means) / scale
    # The mass between -1 and 1 by the tail that is the smaller, which float32 can hold.
    far = jnp.abs(means)
    near, beyond = (1 - far) / scale, (-1 - far) / scale
    inside = jnp.log(jnp.maximum(norm.cdf(near) - norm.cdf(beyond), 1e-12))
    # With respect to the box's measure of mass one, twice Lebesgue's on [-1, 1].
    log_normal = norm.logpdf(gap) - jnp.log(scale) - inside + jnp.log(2.0)
    boxed = logsumexp(log_kind[:components] + log_normal.sum(axis=1))
    if not atoms:
        return boxed
    return jnp.where(atom < 0, boxed, log_kind[components + jnp.maximum(atom, 0)])

r"""Noise-contrastive estimation of energies, and their integrals by importance weights.

Beyond two dimensions of the action no grid of nodes is fine enough for a density that is
narrower than its box. The energy is then told from noise: of each action taken and K drawn
from a known q(a|s), which was taken? With
$$\log\frac{e^{f(s,a_0)}/q(a_0|s)}{\sum_{k=0}^K e^{f(s,a_k)}/q(a_k|s)}$$
maximal f is the log density up to a function of the state, for any K. That function is
$\int e^f d\mu$, the mean of $e^f/q$ over quasi-random points of q.

References
----------
[ma2018noise]; [gutmann2010].
"""

from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float
from scipy.special import logsumexp as host_logsumexp
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from .._shapes import PerRow, States
from .._stored import stored
from ..actions._space import ActionSpace, Amounts
from ..learners._network import Ensemble
from ..learners._scaling import Scaling
from ._density import AbstractDensity, ActionBasis

# Drawn actions for each one taken: as many as this many numbers allow, between the bounds.
# More of them bring the estimate closer to maximum likelihood.
NUMBERS, FEWEST, MOST = 40_000_000, 8, 32
# Spread of the noise beside that of the actions around a line in the state, and the part of
# the noise that is even over the box: so no ratio of densities is without bound.
WIDER, EVEN = 1.4, 0.125
# Points of an integral, a power of two, and rows whose points are held at once.
POINTS, ROWS_AT_ONCE = 512, 250

Points = Float[np.ndarray, "row point action_dimension"]
PerPoint = Float[np.ndarray, "row point"]


@stored
@dataclass(frozen=True, eq=False)
class Noise:
    """Actions around a line in the state, with atoms and a part that is even."""

    space: ActionSpace
    scaling: Scaling
    line: Float[np.ndarray, "constant_and_feature action_dimension"]
    spread: Float[np.ndarray, " action_dimension"]
    atom_share: Float[np.ndarray, " atom"]

    @classmethod
    def of(
        cls, space: ActionSpace, state: States, amount: Amounts, weight: PerRow
    ) -> "Noise":
        """Least squares on the amounts inside the box."""
        scaling, atom = Scaling.of(state), space.atom_of(amount)
        inside = atom < 0
        columns = _with_constant(scaling(state[inside]))
        root = np.sqrt(weight[inside])[:, None]
        line = np.linalg.lstsq(columns * root, amount[inside] * root, rcond=None)[0]
        left = amount[inside] - columns @ line
        spread = np.sqrt(np.average(left**2, axis=0, weights=weight[inside]))
        # Where a line leaves nothing the noise still has a width.
        least = 1e-3 * (space.box.upper - space.box.lower)
        share = np.array([weight[atom == at].sum() for at in range(len(space.points))])
        # Half a row each, so that none is impossible.
        share = (share + 0.5) / (weight.sum() + 0.5 * (len(share) + 1))
        return cls(space, scaling, line, np.maximum(WIDER * spread, least), share)

    def mean(self, state: States) -> Float[np.ndarray, "row action_dimension"]:
        box = self.space.box
        found = _with_constant(self.scaling(state)) @ self.line
        return np.clip(found, box.lower, box.upper)

    def inside(self, unit: Points, mean: np.ndarray, even: np.ndarray) -> Points:
        """Points of the box from points of the unit cube: those that are `even`, and
        quantiles of normal densities cut to the box."""
        box, low, high = self.space.box, *self._ends(mean)
        below, above = ndtr(low)[:, None], ndtr(high)[:, None]
        found = mean[:, None] + self.spread * ndtri(below + unit * (above - below))
        found = np.where(even[..., None], box.lower + unit * (box.upper - box.lower), found)
        return np.clip(found, box.lower, box.upper)

    def log_density(
        self, points: Points, mean: np.ndarray
    ) -> Float[np.ndarray, "row point"]:
        """Of points of the box, with respect to its measure, if no atom is taken."""
        box, low, high = self.space.box, *self._ends(mean)
        mass = np.log(ndtr(high) - ndtr(low)).sum(axis=1)[:, None]
        distance = (((points - mean[:, None]) / self.spread) ** 2).sum(axis=2) / 2
        scale = np.log(self.spread * np.sqrt(2 * np.pi)).sum()
        near = np.log1p(-EVEN) + box.log_volume - distance - scale - mass
        return np.logaddexp(near, np.log(EVEN))

    def draw(
        self, state: States, number: int, rng: np.random.Generator
    ) -> tuple[Points, PerPoint]:
        """Actions, and their log densities with respect to the space's measure."""
        mean, dimensions = self.mean(state), self.space.dimensions
        shape = len(state), number
        even = rng.random(shape) < EVEN
        points = self.inside(rng.random((*shape, dimensions)), mean, even)
        density = self.log_density(points, mean) + self.log_inside
        ends = np.cumsum(self.atom_share)
        which = np.searchsorted(ends, rng.random(shape), side="right")
        for at, point in enumerate(self.space.points):
            points[which == at] = point
            density[which == at] = np.log(self.atom_share[at])
        return points, density

    def log_density_of(self, state: States, amount: Amounts) -> PerRow:
        """Of an action of each state, with respect to the space's measure."""
        found = self.log_density(amount[:, None], self.mean(state))[:, 0] + self.log_inside
        atom = self.space.atom_of(amount)
        for at, share in enumerate(self.atom_share):
            found[atom == at] = np.log(share)
        return found

    @property
    def log_inside(self) -> float:
        """The logarithm of how often no atom is taken."""
        return float(np.log1p(-self.atom_share.sum()))

    @cached_property
    def quasi_random(self) -> tuple[Float[np.ndarray, "point dimension"], np.ndarray]:
        """Points of the unit cube, and which of them are even over the box."""
        # A fixed seed, as in `actions/_nodes.py`; the first are a net by themselves.
        sobol = qmc.Sobol(self.space.dimensions, rng=np.random.default_rng(0))
        return sobol.random(POINTS), np.arange(POINTS) < EVEN * POINTS

    def _ends(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        box = self.space.box
        return (box.lower - mean) / self.spread, (box.upper - mean) / self.spread


def _with_constant(columns: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(columns)), columns])


def contrasts(
    basis: ActionBasis,
    noise: Noise,
    state: States,
    amount: Amounts,
    rng: np.random.Generator,
) -> tuple[np.ndarray, ...]:
    """What the loss of a row needs: the basis at the action taken and at drawn ones, and
    log densities of the noise at each."""
    number = int(np.clip(NUMBERS // (len(state) * len(basis)), FEWEST, MOST))
    points, density = noise.draw(state, number, rng)
    taken = noise.log_density_of(state, amount)
    drawn = np.empty((*points.shape[:2], len(basis)), np.float32)
    for place in range(number):
        drawn[:, place] = basis(points[:, place])
    light = lambda values: np.asarray(values, np.float32)
    return light(basis(amount)), drawn, light(taken), light(density)


def contrastive_loss(outputs, target):
    """Minus the log probability that the action taken is told from those drawn."""
    taken, drawn, log_taken, log_drawn = target
    own = outputs @ taken - log_taken
    return logsumexp(jnp.append(drawn @ outputs - log_drawn, own)) - own


@stored
@dataclass(frozen=True, eq=False)
class ContrastiveDensity(AbstractDensity):
    """An ensemble of energies averaged in logs, integrated by importance weights."""

    basis: ActionBasis
    noise: Noise
    ensemble: Ensemble

    @property
    def space(self) -> ActionSpace:
        return self.basis.space

    def log_density(self, state, amount):
        return self.of_coefficients(state, amount, self._coefficients(state))

    def log_densities(self, state, actions):
        size = self._coefficients(state)
        return size @ self.basis(actions).T - self._log_integral(state, size)[:, None]

    def of_coefficients(
        self, state: States, amount: Amounts, size: Float[np.ndarray, "row function"]
    ) -> PerRow:
        """The same for other coefficients of the basis in each state."""
        own = np.einsum("rf,rf->r", size, self.basis(amount))
        return own - self._log_integral(state, size)

    def _coefficients(self, state: States) -> Float[np.ndarray, "row function"]:
        return self.ensemble(state).mean(axis=0).astype(np.float64)

    def _log_integral(self, state: States, size: np.ndarray) -> PerRow:
        unit, even = self.noise.quasi_random
        atoms = self.basis(self.space.points)
        found = np.empty(len(state))
        for rows in np.array_split(
            np.arange(len(state)), -(-len(state) // ROWS_AT_ONCE) or 1
        ):
            mean, part = self.noise.mean(state[rows]), size[rows]
            shape = len(rows), POINTS
            points = self.noise.inside(
                np.broadcast_to(unit, (*shape, unit.shape[1])),
                mean,
                np.broadcast_to(even, shape),
            )
            flat = points.reshape(-1, points.shape[2])
            energy = np.einsum(
                "rpf,rf->rp", self.basis(flat).reshape(*shape, -1), part, optimize=True
            )
            weighed = energy - self.noise.log_density(points, mean) - np.log(POINTS)
            found[rows] = host_logsumexp(np.hstack([weighed, part @ atoms.T]), axis=1)
        return found

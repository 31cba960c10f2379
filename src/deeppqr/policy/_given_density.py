"""Densities of amounts that are given: functions, and squashed normal policies."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._errors import DataError, DeepPQRError
from .._stored import ROLE, stored
from ..actions._space import ActionSpace
from ..mdp._tabular import as_floats
from ..panel._encoding import Encoding
from ._density import AbstractDensity, AbstractDensityEstimator, DensityFit, amounts_of

# Share by which a density's mass may miss one: policies trained elsewhere compute in
# float32, and a normal policy's narrow peaks lie between the nodes of the quadrature.
MASS_TOL = 0.05
# States at which the mass is checked.
CHECKED = 50


@dataclass(frozen=True)
class GivenDensity(AbstractDensityEstimator):
    """A density that needs no estimation.

    `function(states, actions)` takes arrays of the panel's state columns and of actions,
    a row each, and returns log densities with respect to the space's measure, which gives
    the box and each atom a mass of one. With `per_unit` they are per unit of the amount,
    as most libraries have them, and converted. The whole panel counts as held out.
    """

    function: Callable[[np.ndarray, np.ndarray], Any]
    per_unit: bool = False

    def fit(self, panel, *, key):
        del key
        space, amount = amounts_of(panel)
        density = KnownDensity(self.function, panel.encoding, space, self.per_unit)
        density.check_mass(panel.state[:: max(1, len(panel) // CHECKED)])
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return DensityFit(
            density, density.log_density(panel.state, amount), f"given: {name}"
        )


@stored
@dataclass(frozen=True, eq=False)
class KnownDensity(AbstractDensity):
    """A user's log density, checked at every call."""

    function: Callable = field(metadata={ROLE: "policy"})
    encoding: Encoding
    space: ActionSpace
    per_unit: bool

    def log_density(self, state, amount):
        # Copies: a function that writes into its arguments would rewrite the panel.
        decoded = self.encoding.decode(state).copy()
        try:
            returned = self.function(decoded, amount.copy())
        except DeepPQRError:
            raise
        except Exception as problem:
            raise DataError(
                f"The function passed as `policy` failed with {type(problem).__name__}: "
                f"{str(problem).rstrip('.')}. It is called as function(states, actions) "
                f"with arrays of shapes {decoded.shape} and {amount.shape}."
            ) from problem
        found = as_floats("policy", returned)
        if found.shape != (len(state),) or not np.isfinite(found).all():
            raise DataError(
                f"`policy` must return a finite log density for each of the {len(state)} "
                f"rows, but its shape is {found.shape} and "
                f"{int((~np.isfinite(found)).sum())} of it are not finite."
            )
        if self.per_unit:
            inside = self.space.atom_of(amount) < 0
            found = found + np.where(inside, self.space.log_volume, 0.0)
        return found

    def check_mass(self, state: np.ndarray) -> None:
        """Refuse a function whose densities do not integrate to one."""
        nodes = self.space.nodes()
        states = np.repeat(state, len(nodes), axis=0)
        amounts = np.tile(nodes.action, (len(state), 1))
        density = np.exp(self.log_density(states, amounts)).reshape(len(state), -1)
        mass = density @ nodes.weight
        # By the middle state: single ones may have peaks that quadrature misses.
        typical = float(np.median(mass))
        if abs(typical - 1) > MASS_TOL:
            volume = np.exp(self.space.log_volume)
            hint = (
                f" It is about one over the box's volume of {volume:.4g}: pass "
                "GivenDensity(function, per_unit=True)."
                if abs(typical * volume - 1) < MASS_TOL and not self.per_unit
                else ""
            )
            raise DataError(
                "A given policy's densities must integrate to one over "
                f"{self.space!r}, whose box has mass one, but in the middle one of "
                f"{len(state)} states they integrate to {typical:.4g}.{hint}"
            )


def squashed_density(model: Any) -> GivenDensity:
    """The policy of a stable-baselines3 model with squashed normal actions, such as SAC.

    The panel's box must be that of the model's environment.
    """
    actor: Any = getattr(getattr(model, "policy", model), "actor", None)
    if not hasattr(actor, "get_action_dist_params"):
        raise DataError(
            f"A {type(model).__name__} has no squashed normal policy. Pass a SAC model, "
            "or GivenDensity(function) with your own log densities."
        )
    space = model.action_space

    def log_density(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        import torch  # pyright: ignore[reportMissingImports]

        unit = 2 * (actions - space.low) / (space.high - space.low) - 1
        # At the ends the inverse of tanh is infinite; float32 policies reach them.
        raw = np.arctanh(np.clip(unit, -1 + 1e-6, 1 - 1e-6))
        with torch.no_grad():
            seen, _ = model.policy.obs_to_tensor(states.astype(np.float32))
            mean, log_scale, _ = actor.get_action_dist_params(seen)
        mean, log_scale = mean.cpu().numpy(), log_scale.cpu().numpy()
        gap = (raw - mean) / np.exp(log_scale)
        normal = -0.5 * (gap**2 + np.log(2 * np.pi)) - log_scale
        # Of tanh, and from Lebesgue's measure on [-1, 1] to one of mass one.
        slope = np.log1p(-np.clip(unit**2, 0, 1 - 1e-6))
        return (normal - slope + np.log(2.0)).sum(axis=1)

    return GivenDensity(log_density)

"""Draws of a statistic from warm refits."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._errors import DataError
from ..._shapes import States
from ...law._transition import AbstractAhead, AbstractTransition
from ...panel._panel import Panel
from ...reward._joint_reward import JointReward, implied_value
from ...reward._value_function import ValueFunction
from .._resample import draw_units
from ._law_shift import LawShift
from ._refits import Refit, Refits
from ._start import Held, hold

if TYPE_CHECKING:
    from ..._fit import Fit
    from ..._pqr import PQR


@dataclass(frozen=True, eq=False)
class ShiftedAhead(AbstractAhead):
    """A law's expectation of a replicate's value, with what its units change in the law."""

    law: AbstractTransition
    value: ValueFunction
    shift: LawShift
    coefficients: np.ndarray

    def __call__(self, state: States):
        found = self._ahead(state)
        found[:, :, 0] += self.shift.at(state, self.coefficients)
        return found

    def _ahead(self, state: States) -> np.ndarray:
        kept = self.__dict__.get("_known")
        if kept is None:  # looked up where a statistic asks for values, and once
            kept = self.law.ahead(self.value)
            object.__setattr__(self, "_known", kept)
        return np.array(kept(state))


def warm_fits(
    model: "PQR", fit: "Fit", panel: Panel, numbers: list[int], seed: int, device: Any
) -> Iterator[tuple[int, Callable[[], "Fit"] | str]]:
    """Each replicate's number with its fit, made when it is called, or why it has none."""
    held = hold(model, panel)
    _require_same(held, fit)
    refits = Refits(held, device=device)
    for first in range(0, len(numbers), refits.batch):
        part = numbers[first : first + refits.batch]
        units = [draw_units(held.num_units, seed, number)[0] for number in part]
        (found,) = refits.replicates(np.stack(units, axis=1))
        for place, number in enumerate(part):
            if not found.converged[place]:
                why = f"{found.rounds} rounds from the fit did not converge: one more"
                yield number, f"{why} promises {found.gain[place]:.2g} nats"
                continue
            yield number, _Made(held, fit, refits.base, found, place)


@dataclass(frozen=True, eq=False)
class _Made:
    """A replicate as a fit."""

    held: Held
    fit: "Fit"
    base: Refit
    found: Refit
    place: int

    def __call__(self) -> "Fit":
        held, found, place = self.held, self.found, self.place
        reward = self.fit.reward_function
        assert isinstance(reward, JointReward)
        # Around the estimate: its own rounds may have ended a little short of the maximum.
        change = lambda name: (
            getattr(found, name)[:, place] - getattr(self.base, name)[:, 0]
        )
        theta = held.shrinkage * change("theta")
        weight, left = held.value
        factor = held.factor
        moved = held.fit.successor @ theta + factor * change("extra")
        value = ValueFunction(
            held.problem.features,
            np.column_stack([weight[:, 0] + moved, weight[:, 1:]]),
            held.problem.neighbours,
            left + factor * change("left"),
        )
        told = held.agent.law, value, held.shift, found.law[..., place]
        shown = replace(reward, theta=reward.theta + theta, ahead=ShiftedAhead(*told))
        estimate = implied_value(shown)
        return replace(self.fit, reward_function=shown, estimate=estimate)


def _require_same(held: Held, fit: "Fit") -> None:
    reward, theta = fit.reward_function, held.fit.theta
    if isinstance(reward, JointReward) and len(reward.theta) == len(theta):
        near = held.fit.theta * held.shrinkage
        if np.allclose(reward.theta, near, rtol=1e-4, atol=1e-4 * np.abs(near).max()):
            return
    raise DataError(
        "Warm refits start from the fit of this very model and panel, but fitting again "
        "gave other coefficients. Fit again on this machine, or leave `warm` out."
    )

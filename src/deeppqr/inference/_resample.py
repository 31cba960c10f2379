"""Which units a replicate draws, and the statistic that is asked for most."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from .._shapes import Codes, PerAction
from ..panel._panel import Panel, take_rows

if TYPE_CHECKING:
    from .._fit import Fit


def draw_units(num_units: int, seed: int, replicate: int):
    """How often a replicate draws each unit, and the seed of its fit."""
    # Seeded by the replicate's number, so that it is the same in any process and order.
    rng = np.random.default_rng([seed, replicate])
    drawn = rng.integers(num_units, size=num_units)
    return np.bincount(drawn, minlength=num_units), int(rng.integers(2**31))


def weighted_panel(panel: Panel, count: Int[np.ndarray, " unit"]) -> Panel:
    """The units drawn, each weighing as often as it was drawn."""
    repeated = replace(panel, weight=panel.weight * count[panel.unit])
    return repeated.select(count[panel.unit] > 0)


def copied_panel(panel: Panel, count: Int[np.ndarray, " unit"]) -> Panel:
    """The units drawn, those drawn again as further units with the same rows."""
    parts, units = [], []
    for copy in range(int(count.max())):
        rows = np.flatnonzero(count[panel.unit] > copy)
        parts.append(rows)
        units.append(panel.unit[rows] + copy * panel.num_units)
    rows = np.concatenate(parts)
    labels, unit = np.unique(np.concatenate(units), return_inverse=True)
    names = [(panel.unit_labels[i % panel.num_units], i // panel.num_units) for i in labels]
    # Stable, so that each copy's rows stay in time order.
    order = np.argsort(unit, kind="stable")
    return take_rows(panel, rows[order], unit[order], names)


@dataclass(frozen=True, eq=False)
class RewardAt:
    """The reward at some states: of every action, or of one action in each.

    As a statistic of `bootstrap` it can be pickled for other processes, which a lambda
    cannot.

    Parameters
    ----------
    states
        As `fit.reward` takes them.
    action
        Columns of the reward, one for each state; None for all actions.
    pull
        A matrix that is applied to the rewards: contrasts, averages, a regression.
    """

    states: Any
    action: Codes | None = None
    pull: Float[np.ndarray, "out row"] | None = None

    def __call__(self, fit: "Fit") -> np.ndarray:
        return self.of(fit.reward(self.states))

    def of(self, reward: PerAction) -> np.ndarray:
        """The statistic of a table of rewards at the states."""
        if self.action is not None:
            reward = reward[np.arange(len(reward)), self.action]
        return reward if self.pull is None else self.pull @ reward

    def names(self, panel: Panel) -> tuple[str, ...]:
        """What each entry is, such as "run at wear=2"; none where they were combined."""
        if self.pull is not None:
            return ()
        encoding = panel.encoding
        states = encoding.decode(encoding.encode_any(self.states))
        places = [
            ", ".join(f"{n}={_short(v)}" for n, v in zip(encoding.names, row, strict=True))
            for row in states
        ]
        if self.action is None:
            return tuple(f"{a} at {place}" for place in places for a in panel.actions)
        pairs = zip(self.action, places, strict=True)
        return tuple(f"{panel.actions[index]} at {place}" for index, place in pairs)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

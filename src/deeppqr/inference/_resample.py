"""Draws of units, and rewards of many bootstrap replicates at once.

If every stage is computed from counts, a replicate's counts are those of its units times
the number of times each was drawn. All replicates are then solved together as stacked
systems, with the same result as one by one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from .._shapes import Codes, PerAction
from ..anchor._anchor_reward import resolve_anchor_reward
from ..anchor._exact import Exact
from ..anchor._resolve import resolve as resolve_anchor_value
from ..anchor._structure import Renewal
from ..panel._cells import Cells
from ..panel._panel import Panel
from ..policy._frequency import Frequency
from ..policy._resolve import resolve as resolve_policy
from ..reward._resolve import resolve as resolve_reward
from ..reward._table import Table

if TYPE_CHECKING:
    from .._fit import Fit
    from .._pqr import PQR

# Bounds of the stacked solve, in distinct states and in numbers held at once: 20 million
# float64 are 160 MB. Larger problems are refitted one by one, with the same results.
MAX_CELLS = 200
MAX_ENTRIES = 20_000_000


def draw_units(num_units: int, seed: int, replicate: int):
    """How often a replicate draws each unit, and the seed of its fit."""
    # Seeded by the replicate's number, so that it is the same in any process and order.
    rng = np.random.default_rng([seed, replicate])
    drawn = rng.integers(num_units, size=num_units)
    return np.bincount(drawn, minlength=num_units), int(rng.integers(2**31))


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


def quick_draws(
    model: "PQR", panel: Panel, statistic: Any, seed: int, numbers: list[int]
) -> dict[int, np.ndarray]:
    """Draws of `RewardAt` by number, of the replicates that counting can do.

    A replicate in which something was never seen is left out here and refitted, so that
    it succeeds or fails, with its message, like any other model.
    """
    if not isinstance(statistic, RewardAt) or not _is_counted(model, panel):
        return {}
    cells = Cells.of(np.concatenate([panel.state, panel.next_state[panel.has_next]]))
    if len(cells) > MAX_CELLS:
        return {}
    counted = _Counts.of(panel, cells)
    at = cells.locate(panel.encoding.encode_any(statistic.states))
    draws: dict[int, np.ndarray] = {}
    size = max(1, MAX_ENTRIES // (len(cells) ** 2 * panel.num_actions))
    for first in range(0, len(numbers), size):
        some = numbers[first : first + size]
        drawn = np.array([draw_units(panel.num_units, seed, n)[0] for n in some], float)
        reward, sound = _rewards(model, panel, counted, drawn)
        for number, table, good in zip(some, reward, sound, strict=True):
            if not good or (at < 0).any() or np.isnan(table[at, 0]).any():
                continue
            value = statistic.of(table[at])
            if np.isfinite(value).all():
                draws[number] = value
    return draws


def _is_counted(model: "PQR", panel: Panel) -> bool:
    """Whether counts are all that the model makes of a panel."""
    if model.transition is not None or model.clip is not None:
        return False
    solver = resolve_anchor_value(model.anchor_value)
    if isinstance(solver, Renewal) and solver.check:
        # Its check of the data may fail in a replicate, unless there is nothing to check.
        rows = (panel.action == panel.action_index(model.anchor)) & panel.is_transition
        after = panel.next_state[rows]
        if panel.terminal[rows].any() or not (after == after[:1]).all():
            return False
    return (
        isinstance(resolve_policy(model.policy), Frequency)
        and isinstance(solver, (Exact, Renewal))
        and isinstance(resolve_reward(model.reward), Table)
    )


@dataclass(frozen=True, eq=False)
class _Counts:
    """Weights of each unit's rows, cell by cell; sparse, with a row per unit."""

    cells: Cells
    taken: Any
    """(unit, cell and action): decisions."""
    moved: Any
    """(unit, cell, action and next cell): those whose next state was seen."""
    known: Any
    """(unit, cell and action): those whose sequel was seen, ends included."""
    reached: Any
    """(unit, cell): whether a unit was there."""

    @classmethod
    def of(cls, panel: Panel, cells: Cells) -> "_Counts":
        num_cells, num_actions = len(cells), panel.num_actions
        pair = cells.locate(panel.state) * num_actions + panel.action
        goes = panel.has_next & ~panel.terminal
        target = cells.locate(panel.next_state[goes])

        def table(rows, column, weight, width):
            shape = (panel.num_units, width)
            return sparse.csr_array((weight[rows], (panel.unit[rows], column)), shape)

        seen, every, ones = panel.is_transition, slice(None), np.ones(len(panel))
        moved, size = pair[goes] * num_cells + target, num_cells * num_actions
        return cls(
            cells,
            table(every, pair, panel.weight, size),
            table(goes, moved, panel.weight, num_cells * size),
            table(seen, pair[seen], panel.weight, size),
            table(every, pair // num_actions, ones, num_cells)
            + table(goes, target, ones, num_cells),
        )


def _rewards(
    model: "PQR", panel: Panel, counts: _Counts, drawn: Float[np.ndarray, "draw unit"]
) -> tuple[Float[np.ndarray, "draw cell action"], np.ndarray]:
    """The table of rewards of each replicate, NaN where it has none, and which are sound.

    The same equations as one fit's, with an axis of replicates in front.
    """
    num_cells, num_actions = len(counts.cells), panel.num_actions
    shape = (len(drawn), num_cells, num_actions)
    anchor = panel.action_index(model.anchor)
    taken = (drawn @ counts.taken).reshape(shape)
    known = (drawn @ counts.known).reshape(shape)
    reached = (drawn @ counts.reached) > 0
    log_prob = _log_policy(model, taken)
    moved = (drawn @ counts.moved).reshape(*shape, num_cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = moved / known[..., None]
    g = resolve_anchor_reward(model.anchor_reward, panel.encoding)(counts.cells.states)
    bonus = g - model.temperature * log_prob[:, :, anchor]
    if isinstance(resolve_anchor_value(model.anchor_value), Renewal):
        whole = moved[:, :, anchor].sum(axis=1)
        lasting = known[:, :, anchor].sum(axis=1) - model.discount * whole.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = (whole * bonus).sum(axis=1) / lasting
        ahead = np.broadcast_to(level[:, None], bonus.shape)
        missing = np.zeros(len(drawn), bool)
    else:
        missing = (reached & (known[:, :, anchor] == 0)).any(axis=1)
        # Cells that a replicate never reached lead nowhere, and nothing leads there.
        law = np.nan_to_num(moves[:, :, anchor])
        system = np.eye(num_cells) - model.discount * law
        ahead = np.linalg.solve(system, (law @ bonus[..., None]))[..., 0]
    value = bonus + model.discount * ahead
    reward = model.temperature * log_prob + value[..., None]
    reward = reward - model.discount * (moves @ value[:, None, :, None])[..., 0]
    reward[:, :, anchor] = g
    # A state that no drawn unit decided in is not in the replicate's table at all.
    reward[taken.sum(axis=2) == 0] = np.nan
    finite = np.isfinite(np.where(reached[..., None], log_prob, 0)).all((1, 2))
    return reward, finite & ~missing & (known.sum(axis=1) > 0).all(axis=1)


def _log_policy(
    model: "PQR", taken: Float[np.ndarray, "draw cell action"]
) -> Float[np.ndarray, "draw cell action"]:
    """Smoothed frequencies; overall shares where no drawn unit decided."""
    smoothing = resolve_policy(model.policy).smoothing  # pyright: ignore
    shares = taken.sum(axis=1) + 1.0
    shares = (shares / shares.sum(axis=1, keepdims=True))[:, None, :]
    smoothed = taken + smoothing * shares
    total = smoothed.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.where(total > 0, smoothed / total, shares))

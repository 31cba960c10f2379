"""Influence functions of a tabular reward: every pair, bands of curves, weighted sums."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from .._errors import DataError, NoInfluenceFunction
from ..mdp._tabular import as_floats
from ..panel._cells import Cells
from ..panel._clusters import Clusters, clustered_covariance
from ..panel._panel import Panel, action_index, require_panel
from ..policy._score import OTHER_PANEL
from ..report._interval import normal_interval
from ..reward._influence import Realised, table_influence
from ..reward._table import TableReward
from ..reward._temperature import AffineReward
from ._bands import Bands, sup_t_bands

if TYPE_CHECKING:
    from .._fit import Fit


@dataclass(frozen=True, eq=False)
class RewardInfluence:
    """The tabular reward with what each cluster did to it."""

    cells: Cells
    actions: tuple[Any, ...]
    anchor: int
    states: np.ndarray
    """The distinct states, as the user has them."""
    reward: Float[np.ndarray, "cell action"]
    """NaN where a pair was never seen: nothing in the data says where it leads."""
    influence: Float[np.ndarray, "cluster cell action"]
    """Sums over each cluster's rows; zero for the anchor, whose reward is known."""
    rows: Float[np.ndarray, "cell action"]
    """Total weight of the decisions behind each pair."""
    note: str

    @property
    def unseen(self) -> Bool[np.ndarray, "cell action"]:
        """Pairs without a reward."""
        return np.isnan(self.reward)

    @cached_property
    def covariance(self) -> Float[np.ndarray, "pair pair"]:
        """Of `reward.ravel()`, clustered by unit; NaN for pairs never seen."""
        return clustered_covariance(self.influence.reshape(len(self.influence), -1))

    @property
    def standard_errors(self) -> Float[np.ndarray, "cell action"]:
        return np.sqrt(np.diag(self.covariance)).reshape(self.reward.shape)

    def interval(self, level: float = 0.95) -> Float[np.ndarray, "end cell action"]:
        """Pointwise normal intervals: low and high ends."""
        return normal_interval(self.reward, self.standard_errors, level)

    def functional(self, weight: Float[np.ndarray, "cell action"]) -> tuple[float, float]:
        """A weighted sum of rewards with its standard error."""
        weight = as_floats("weight", weight)
        if not np.isfinite(weight).all():
            raise DataError(
                f"`weight` must be finite, but {int((~np.isfinite(weight)).sum())} entries "
                "are not. Leave a pair out by weight zero."
            )
        if weight.shape != self.reward.shape:
            raise DataError(
                f"`weight` must have one entry per state and action, {self.reward.shape}, "
                f"but its shape is {weight.shape}."
            )
        # NaN times zero is NaN, so pairs never seen are left out rather than multiplied.
        used = weight != 0
        if self.unseen[used].any():
            cell, action = np.argwhere(used & self.unseen)[0]
            raise DataError(
                f"The sum asks for the reward of {self.actions[action]!r} at "
                f"{self.states[cell]}, a pair never seen "
                f"({int((used & self.unseen).sum())} such pairs). Give them weight zero."
            )
        value = float(weight[used] @ self.reward[used])
        moved = self.influence[:, used] @ weight[used]
        return value, float(np.sqrt(clustered_covariance(moved[:, None])[0, 0]))

    def bands(
        self,
        action: Any,
        level: float = 0.95,
        *,
        where: Bool[np.ndarray, " cell"] | None = None,
        seed: int = 0,
    ) -> Bands:
        """Bands that hold a whole curve r(., action) at once.

        Over the states seen with the action, or those of them in `where`.
        """
        column = action_index(self.actions, action, role="action")
        chosen = np.ones(len(self.cells), bool) if where is None else np.asarray(where)
        if chosen.shape != (len(self.cells),) or chosen.dtype != bool or not chosen.any():
            raise DataError(
                f"`where` must hold a boolean for each of the {len(self.cells)} states, "
                f"true for one at least, but {chosen.dtype} of shape {chosen.shape} with "
                f"{int(np.count_nonzero(chosen))} true arrived."
            )
        seen = ~self.unseen[:, column]
        seen = np.flatnonzero(seen & chosen)
        curve = clustered_covariance(self.influence[:, seen, column])
        return sup_t_bands(
            self.states[seen], self.reward[seen, column], curve, level=level, seed=seed
        )


def reward_influence(fit: "Fit", panel: Panel, *, by_row: bool = False) -> RewardInfluence:
    """Influence functions of a tabular reward at every state and action.

    For fits with policy="frequency" or "logit", reward="table", and an anchor's value that
    is exact or an exit's, a self-loop's or a renewal's; others raise
    `NoInfluenceFunction`.

    Parameters
    ----------
    panel
        The panel that the fit was made from.
    by_row
        Rows in place of units: the textbook's influence function, times the row's weight
        as a share of all.
    """
    require_same_columns(fit, panel)
    table = bare_reward(fit)
    if not isinstance(table, TableReward):
        raise NoInfluenceFunction(
            f"A {type(table).__name__} has no influence function in closed form; a reward "
            'that is a table of means does: reward="table". Bootstrap instead.'
        )
    clusters = Clusters.by_row(panel) if by_row else Clusters.of(panel)
    realised = Realised.of(fit.estimate, panel, clusters)
    cells, anchor = table.cells, fit.estimate.anchor
    found, influence = table_influence(realised, cells, panel.num_actions)
    states = panel.encoding.decode(cells.states)
    reward = fit.reward(states)
    found[:, anchor], influence[:, :, anchor] = reward[:, anchor], 0.0
    # The regression on indicators must reproduce the fit's table, or the panel is another.
    if not np.allclose(found, reward, rtol=1e-6, atol=1e-6, equal_nan=True):
        raise NoInfluenceFunction(OTHER_PANEL.format(what="reward"))
    used, weight = realised.rows, panel.weight[realised.rows]
    rows = cells.tally(panel.state[used], panel.action[used], panel.num_actions, weight)
    unseen = int(np.isnan(found).sum())
    note = clusters.note
    if unseen:
        note += f"; {unseen} of {found.size} (state, action) pairs never seen"
    influence = np.where(np.isnan(found), np.nan, influence)
    return RewardInfluence(
        cells, fit.actions, anchor, states, reward, influence, rows, note
    )


def require_same_columns(fit: "Fit", panel: Panel) -> None:
    """Refuse a panel with other actions or state columns than the fit's."""
    require_panel(panel)
    if panel.actions != fit.actions or panel.encoding != fit.encoding:
        raise DataError(
            f"The panel must be the one that the fit was made from, with states "
            f"{fit.encoding.names} and actions {list(fit.actions)}, but it has "
            f"{panel.encoding.names} and {list(panel.actions)}."
        )


def bare_reward(fit: "Fit") -> Any:
    """The reward function, or its policy's part where g has a part of its own."""
    reward = fit.reward_function
    return reward.policy_part if isinstance(reward, AffineReward) else reward

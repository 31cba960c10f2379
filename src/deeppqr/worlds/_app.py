"""Customers of an app: the log that a data scientist brings, with its exact truth."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import Codes
from ..mdp._simulate import draw, generator
from ..mdp._tabular import TabularMDP, check_preferences
from ..panel._encoding import Encoding, StateColumn
from ..panel._panel import Panel
from ._tabular import AbstractTabularWorld, check_log_size

ACTIONS = ("nothing", "open", "buy", "cancel")
PLANS = ("basic", "free", "pro")
ENCODING = Encoding(
    (
        StateColumn("weeks", "numeric"),
        StateColumn("points", "numeric"),
        StateColumn("plan", "categorical", PLANS),
    )
)
MAX_WEEKS, MAX_POINTS = 12, 8
# A customer who opens the app mostly finds points; one who stays away slowly loses them.
EARNED, LOST = 0.7, 0.1
# Payoffs: constant, weeks since the last purchase, points. Set so that every action is
# common but cancelling, which about 2 % do in a week.
PAYOFF = np.array([[0.0, 0.0, 0.0], [0.2, -0.04, 0.0], [-1.6, 0.15, 0.2], [20.5, 0.0, 0.0]])
# What a plan adds to opening and to buying.
PLAN_EFFECT = {"basic": (0.0, 0.0), "free": (0.3, -0.5), "pro": (0.1, 0.4)}


@dataclass(frozen=True, eq=False)
class AppWorld(AbstractTabularWorld):
    r"""Customers who each week do nothing, open an app, buy, or cancel for good.

    Doing nothing, the anchor, pays 0. With w the weeks since the last purchase (0 to 12)
    and k the points on the account (0 to 8),
    $$r(s, \text{open}) = 0.2 - 0.04\,w + e_1(\text{plan}), \qquad
    r(s, \text{buy}) = -1.6 + 0.15\,w + 0.2\,k + e_2(\text{plan}).$$
    Cancelling ends the process and pays 20.5, once. Opening earns a point with probability
    0.7, a purchase spends them all, and a week without either loses one with probability
    0.1. A plan is for life.

    Parameters
    ----------
    discount, temperature
        Another discount or temperature changes how often customers cancel.
    """

    discount: float = 0.95
    temperature: float = 1.0

    anchor: ClassVar[str] = "nothing"
    anchor_reward: ClassVar[float] = 0.0

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)

    @property
    def actions(self) -> tuple[str, ...]:
        return ACTIONS

    @property
    def state_names(self) -> list[str]:
        return ENCODING.names

    @cached_property
    def cells(self) -> Float[np.ndarray, "cell column"]:
        """Weeks, points and the plan's number, of every cell."""
        axes = (np.arange(MAX_WEEKS + 1.0), np.arange(MAX_POINTS + 1.0), np.arange(3.0))
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)

    @cached_property
    def mdp(self) -> TabularMDP:
        """The decision problem; probabilities of what follows a cancellation are zero."""
        weeks, points, plan = self.cells.T
        ones = np.ones(len(self.cells))
        reward = np.stack([ones, weeks, points], axis=1) @ PAYOFF.T
        effects = np.array([PLAN_EFFECT[name] for name in PLANS])
        reward[:, 1:3] += effects[plan.astype(int)]
        transition = np.zeros((len(ones), len(ACTIONS), len(ones)))
        later, more = np.minimum(weeks + 1, MAX_WEEKS), np.minimum(points + 1, MAX_POINTS)
        fewer = np.maximum(points - 1, 0)
        for action, chance, new_weeks, new_points in (
            ("nothing", LOST, later, fewer),
            ("nothing", 1 - LOST, later, points),
            ("open", EARNED, later, more),
            ("open", 1 - EARNED, later, points),
            ("buy", 1.0, 0 * weeks, 0 * points),
        ):
            reached = self._number(new_weeks, new_points, plan)
            row = np.arange(len(ones))
            transition[row, ACTIONS.index(action), reached] += chance
        return TabularMDP(reward, transition, self.discount, self.temperature)

    def simulate(self, units: int = 500, periods: int = 30, seed: int = 1) -> Panel:
        """The decisions of `frame` as a panel: cancellations are terminal rows."""
        return Panel.from_frame(
            self.frame(units, periods, seed),
            state=self.state_names,
            action="action",
            unit="customer",
            time="week",
            terminal="ends",
            actions=ACTIONS,
        )

    def frame(self, units: int = 500, periods: int = 30, seed: int = 1):
        """A polars DataFrame of one row per customer and week, until they cancel.

        Plans are as even as `units` allows. Customers start without points, at most four
        weeks after a purchase.
        """
        import polars as pl

        check_log_size(units, periods, PLANS, "plan")
        rng = generator(seed)
        customer = np.arange(units)
        start = rng.integers(5, size=units)
        cell = self._number(start, np.zeros(units), customer % len(PLANS))
        rows = []
        for week in range(periods):
            action = draw(np.exp(self.solution.log_policy[cell]), rng)
            rows.append(np.stack([customer, np.full(len(cell), week), cell, action]))
            stays = action != ACTIONS.index("cancel")
            customer = customer[stays]
            cell = draw(self.mdp.transition[cell[stays], action[stays]], rng)
        customer, week, cell, action = np.concatenate(rows, axis=1)
        weeks, points, plan = self.cells[cell].T
        frame = pl.DataFrame(
            {
                "customer": customer,
                "week": week,
                "weeks": weeks,
                "points": points,
                "plan": np.array(PLANS)[plan.astype(int)],
                "action": np.array(ACTIONS)[action],
                "ends": action == ACTIONS.index("cancel"),
            }
        )
        return frame.sort("customer", "week")

    def _number(self, weeks, points, plan) -> Codes:
        """The cells' numbers, in the order of `cells`."""
        number = (weeks * (MAX_POINTS + 1) + points) * len(PLANS) + plan
        return np.asarray(number).astype(np.int64)

    def _cell(self, states) -> Codes:
        """Numbers of encoded states, as in a panel, or of a frame's rows."""
        width = len(ENCODING.feature_names)
        encoded = isinstance(states, np.ndarray) and states.shape[1:] == (width,)
        states = states if encoded else ENCODING.encode_any(states)
        limits = (("weeks", MAX_WEEKS), ("points", MAX_POINTS))
        for (name, most), column in zip(limits, states.T, strict=False):
            wrong = ~np.isin(column, np.arange(most + 1))
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise DataError(
                    f"Column {name} of `states` must hold whole numbers from 0 to {most}, "
                    f"but row {row} has {column[row]} ({int(wrong.sum())} rows in all)."
                )
        # The first plan is the reference, so it has no indicator column.
        plan = states[:, 2:] @ np.arange(1, len(PLANS))
        return self._number(states[:, 0], states[:, 1], plan)

"""Firms that wait, invest or exit: the panel that economists bring, with its exact truth.

Capital and demand live on grids that are part of the world's definition, so nothing is
interpolated. Age only grows and stops at its cap: firms at the cap are a decision problem
of their own, and younger ages follow from it backwards, one age at a time.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm

from .._errors import DataError
from .._shapes import Codes, PerAction, PerRow
from ..mdp._simulate import draw, generator
from ..mdp._tabular import TabularMDP, check_preferences, solve_soft
from ..panel._encoding import Encoding, StateColumn
from ..panel._panel import Panel
from ._tabular import check_log_size

ACTIONS = ("wait", "small", "large", "exit")
INDUSTRIES = ("cars", "drugs", "food", "paper", "software", "steel", "textiles", "toys")
ENCODING = Encoding(
    (
        StateColumn("capital", "numeric"),
        StateColumn("age", "numeric"),
        StateColumn("demand", "numeric"),
        StateColumn("industry", "categorical", INDUSTRIES),
    )
)
# Logarithm of capital, in steps fine enough to look continuous; 671 cells with demand.
CAPITAL = np.linspace(0, 4, 61)
DEMAND = np.linspace(-1.5, 1.5, 11)
MAX_AGE = 30
# Capital keeps 0.9 of its logarithm and gains this much by waiting, small and large.
KEPT, GAIN, CAPITAL_NOISE = 0.9, (0.1, 0.25, 0.45), 0.15
# Demand is an AR(1) with a stationary standard deviation of 0.4 / 0.6 = 0.7.
PERSISTENCE, DEMAND_NOISE = 0.8, 0.4
SCRAP = 5.0
# Payoffs: constant, capital, age, demand. Constants are set so that about 5 % of firms
# exit in a year and each kind of investment is chosen in a quarter or so of the rows.
PAYOFF = np.array(
    [
        [-0.40, 0.05, -0.005, 0.10],
        [-0.95, 0.15, -0.010, 0.40],
        [-1.60, 0.30, -0.020, 0.80],
        [SCRAP, 0.00, 0.000, 0.00],
    ]
)
# Effects of industries on every payoff but exit's. They last as long as the firm, so that
# a tenth is worth about 0.8 in V.
LARGEST_EFFECT = 0.1


@dataclass(frozen=True, eq=False)
class FirmWorld:
    r"""Firms with capital, age, demand and an industry, that wait, invest or exit.

    $$r(s,a) = c_a + \beta_a \cdot (\text{capital}, \text{age}, \text{demand})
    + \text{effect}(\text{industry}), \qquad r(s, \text{exit}) = 5.$$

    Exit, the anchor, ends the process and pays the scrap value, 5. Capital is a logarithm
    on a grid of 61 points from 0 to 4: it shrinks by a tenth and gains 0.1, 0.25 or 0.45
    by waiting, a small or a large investment, with normal noise. Demand, on 11 points, is
    an AR(1) with coefficient 0.8. Age grows by one up to 30; an industry is for life.

    Parameters
    ----------
    seed
        Decides which of the eight industries has which effect, from -0.1 to 0.1.
    discount, temperature
        Another discount or temperature changes how often firms exit: about 5 % of the
        rows by default.
    """

    seed: int = 0
    discount: float = 0.95
    temperature: float = 1.0

    anchor: ClassVar[str] = "exit"
    anchor_reward: ClassVar[float] = SCRAP

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)

    @property
    def actions(self) -> tuple[str, ...]:
        return ACTIONS

    @property
    def state_names(self) -> list[str]:
        return ENCODING.names

    @cached_property
    def industry_effects(self) -> dict[str, float]:
        """What each industry adds to the payoffs of waiting and investing."""
        effects = np.linspace(-LARGEST_EFFECT, LARGEST_EFFECT, len(INDUSTRIES))
        drawn = generator(self.seed).permutation(effects)
        return dict(zip(INDUSTRIES, drawn.tolist(), strict=True))

    @property
    def slopes(self) -> dict[str, dict[str, float]]:
        """The payoffs' true coefficients: `slopes["large"]["capital"]` is 0.3.

        Names are "1" for the constant and those of the panel's encoded columns, in which
        the first industry is the reference: its effect is part of the constant.
        """
        effects = np.array(list(self.industry_effects.values()))
        found = {}
        for action, payoff in zip(ACTIONS, PAYOFF, strict=True):
            earned = effects * (action != self.anchor)
            constant = payoff[0] + earned[0]
            values = [constant, *payoff[1:], *(earned[1:] - earned[0])]
            names = ["1", *ENCODING.feature_names]
            found[action] = dict(zip(names, map(float, values), strict=True))
        return found

    def reward(self, states) -> PerAction:
        return self._rewards[self._cell(states)]

    def q(self, states) -> PerAction:
        return self._q[self._cell(states)]

    def value(self, states) -> PerRow:
        return self.temperature * logsumexp(self.q(states) / self.temperature, axis=1)

    def log_policy(self, states) -> PerAction:
        return log_softmax(self.q(states) / self.temperature, axis=1)

    def simulate(self, units: int = 400, periods: int = 20, seed: int = 1) -> Panel:
        """The decisions of `frame` as a panel: exits are terminal rows.

        A firm that has not left after `periods` years is truncated: its next state exists
        and was not seen.
        """
        return Panel.from_frame(
            self.frame(units, periods, seed),
            state=self.state_names,
            action="action",
            unit="firm",
            time="year",
            terminal="ends",
            actions=ACTIONS,
        )

    def frame(self, units: int = 400, periods: int = 20, seed: int = 1):
        """A polars DataFrame of one row per firm and year, until its exit.

        Industries are as even as `units` allows, of which there must be at least 8: then
        every industry occurs. Firms start at ages 0 to 9, anywhere on the other grids.
        """
        import polars as pl

        check_log_size(units, periods, INDUSTRIES, "industry")
        rng = generator(seed)
        firm = np.arange(units)
        industry, age = firm % len(INDUSTRIES), rng.integers(10, size=units)
        capital = rng.integers(len(CAPITAL), size=units)
        demand = rng.integers(len(DEMAND), size=units)
        rows = []
        for year in range(periods):
            q = self._q[industry[firm], age, capital, demand]
            action = draw(np.exp(log_softmax(q / self.temperature, axis=1)), rng)
            years = np.full(len(firm), year)
            rows.append(np.stack([firm, years, capital, age, demand, action]))
            stays = action != ACTIONS.index(self.anchor)
            firm, age = firm[stays], np.minimum(age[stays] + 1, MAX_AGE)
            capital = draw(self.capital_law[action[stays], capital[stays]], rng)
            demand = draw(self.demand_law[demand[stays]], rng)
        firm, year, capital, age, demand, action = np.concatenate(rows, axis=1)
        frame = pl.DataFrame(
            {
                "firm": firm,
                "year": year,
                "capital": CAPITAL[capital],
                "age": age.astype(np.float64),
                "demand": DEMAND[demand],
                "industry": np.array(INDUSTRIES)[industry[firm]],
                "action": np.array(ACTIONS)[action],
                "ends": action == ACTIONS.index(self.anchor),
            }
        )
        return frame.sort("firm", "year")

    @cached_property
    def capital_law(self) -> Float[np.ndarray, "action capital next_capital"]:
        """Probabilities of the next capital after waiting, a small and a large step."""
        means = [KEPT * CAPITAL + gain for gain in GAIN]
        return np.stack([_on_grid(CAPITAL, mean, CAPITAL_NOISE) for mean in means])

    @cached_property
    def demand_law(self) -> Float[np.ndarray, "demand next_demand"]:
        return _on_grid(DEMAND, PERSISTENCE * DEMAND, DEMAND_NOISE)

    @cached_property
    def _rewards(self) -> Float[np.ndarray, "industry age capital demand action"]:
        effects = np.array(list(self.industry_effects.values()))
        axes = np.meshgrid(CAPITAL, np.arange(MAX_AGE + 1), DEMAND, indexing="ij")
        constant, *slopes = PAYOFF.T
        linear = sum(
            axis[..., None] * slope for axis, slope in zip(axes, slopes, strict=True)
        )
        common = np.swapaxes(constant + linear, 0, 1)
        staying = np.array([action != self.anchor for action in ACTIONS])
        return common + effects[:, None, None, None, None] * staying

    @cached_property
    def _q(self) -> Float[np.ndarray, "industry age capital demand action"]:
        q = np.empty_like(self._rewards)
        for industry, reward in enumerate(self._rewards):
            oldest = solve_soft(self.oldest(INDUSTRIES[industry])).value[:-1]
            value = oldest.reshape(len(CAPITAL), len(DEMAND))
            for age in reversed(range(MAX_AGE + 1)):
                q[industry, age] = reward[age] + self.discount * self.continuation(value)
                scaled = q[industry, age] / self.temperature
                value = self.temperature * logsumexp(scaled, axis=-1)
        return q

    def continuation(self, value: np.ndarray) -> np.ndarray:
        """E[V(s') | s, a] for V (capital, demand) of one industry and the next age."""
        ahead = np.zeros((*value.shape, len(ACTIONS)))  # zero after exit
        moved = np.einsum("akl,lm,dm->kda", self.capital_law, value, self.demand_law)
        ahead[..., :-1] = moved
        return ahead

    def oldest(self, industry: str) -> TabularMDP:
        """The decision problem of an industry's firms at the largest age, as a table.

        Its states are the capitals by the demands, in that order, and last the end.
        """
        cells = len(CAPITAL) * len(DEMAND)
        moves = np.einsum("akl,dm->kdalm", self.capital_law, self.demand_law)
        transition = np.zeros((cells + 1, len(ACTIONS), cells + 1))
        transition[:cells, :-1, :cells] = moves.reshape(cells, len(GAIN), cells)
        transition[cells, :, cells] = transition[:, -1, cells] = 1.0
        reward = self._rewards[INDUSTRIES.index(industry), -1].reshape(cells, -1)
        # The end pays what makes its own value zero: minus the entropy of four actions
        # that are equally good.
        end = np.full((1, len(ACTIONS)), -self.temperature * np.log(len(ACTIONS)))
        reward = np.concatenate([reward, end])
        return TabularMDP(reward, transition, self.discount, self.temperature)

    def _cell(self, states: Any) -> tuple[Codes, Codes, Codes, Codes]:
        """Indices of encoded states, as in a panel, or of a frame's columns."""
        width = len(ENCODING.feature_names)
        encoded = isinstance(states, np.ndarray) and states.shape[1:] == (width,)
        states = states if encoded else ENCODING.encode_any(states)
        grids = (CAPITAL, np.arange(MAX_AGE + 1.0), DEMAND)
        found = []
        for name, grid, column in zip(self.state_names, grids, states.T, strict=False):
            code = np.abs(column[:, None] - grid).argmin(axis=1)
            # 1e-9: a grid point that was written to a file with ten decimals.
            wrong = ~(np.abs(grid[code] - column) < 1e-9)
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise DataError(
                    f"Column {name} of `states` must lie on its grid of {len(grid)} points "
                    f"from {grid[0]:g} to {grid[-1]:g}, but row {row} has {column[row]} "
                    f"({int(wrong.sum())} rows in all)."
                )
            found.append(code)
        capital, age, demand = found
        # The first industry is the reference, so it has no indicator column.
        industry = states[:, 3:] @ np.arange(1, len(INDUSTRIES))
        return industry.astype(np.int64), age, capital, demand


def _on_grid(grid: np.ndarray, mean: np.ndarray, noise: float) -> np.ndarray:
    """Normal laws rounded to the nearest grid point; the ends take what lies beyond."""
    edges = np.concatenate([[-np.inf], (grid[1:] + grid[:-1]) / 2, [np.inf]])
    return np.diff(norm.cdf((edges - mean[:, None]) / noise), axis=1)

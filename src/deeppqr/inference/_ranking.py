r"""Which states pay most, and how sure that is.

Estimates that differ by less than their errors still come in some order. What it is worth
is said in two ways. How often is a state among the highest, if rewards are drawn around
their estimates, $\tilde r = \hat r + L\xi$? (As from a posterior, which is how the
default's covariance is read.) And which ranks can it have: one worse for each state that is
significantly above it, by differences whose critical value allows for all of them at once
[mogstad2024ranks]?
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from .._errors import DataError
from .._random import check_seed
from .._shapes import PerRow
from ..panel._panel import action_index
from ..report._grid import Grid, figure
from ..report._interval import check_level, normal_interval

if TYPE_CHECKING:
    from .._fit import Fit

# Shares of draws then have Monte-Carlo errors of at most 1.1 points.
NUM_DRAWS = 2_000
# Drawn rewards held at once, 200 MB: 12,500 states. Who ranks more wants averages by group.
MAX_DRAWN = 25_000_000


@dataclass(frozen=True, eq=False)
class Ranking:
    """States in the order of one action's reward, with its uncertainty; print it."""

    reward: PerRow
    standard_errors: PerRow
    top_share: PerRow
    """The share of draws in which a state is among the `top` highest."""
    best: Int[np.ndarray, " top"]
    """The states with the highest estimates, from the first down."""
    low: Int[np.ndarray, " top"]
    """The better end of their intervals of ranks, which count from 1."""
    high: Int[np.ndarray, " top"]
    highest: Int[np.ndarray, "draw top"]
    """The highest states of each draw, from the first down."""
    level: float
    action: Any
    labels: tuple[str, ...]
    """Names of the states, for the printed table."""

    @property
    def top(self) -> int:
        return len(self.best)

    @property
    def sets(self) -> tuple[int, float]:
        """How many different sets the highest form, and the share of the most frequent."""
        _, count = np.unique(np.sort(self.highest, axis=1), axis=0, return_counts=True)
        return len(count), float(count.max() / count.sum())

    def printed(self) -> Grid:
        """The highest states' cells, as every format shows them."""
        share = f"{100 * self.level:g}%"
        head = ("", "reward", "s.e.", f"{share} low", f"{share} high")
        head += (f"in the top {self.top}", "ranks")
        low, high = normal_interval(self.reward, self.standard_errors, self.level)
        body = []
        for number, at in enumerate(self.best):
            figures = (self.reward[at], self.standard_errors[at], low[at], high[at])
            cells = [figure(float(value), 3) for value in figures]
            ranks = f"{self.low[number]:,} to {self.high[number]:,}"
            body.append((self.labels[at], *cells, f"{self.top_share[at]:.0%}", ranks))
        different, most = self.sets
        note = (
            f"Shares of {len(self.highest):,} draws from the joint covariance of the "
            f"rewards; their top {self.top} are {different:,} different sets, of which the "
            f"most frequent comes up in {most:.0%}. Ranks hold for each state in {share}."
        )
        title = f"The highest of {len(self.reward):,} rewards of {self.action!r}"
        return Grid(title, head, tuple(body), (note,))

    def text(self) -> str:
        return self.printed().text()

    def markdown(self) -> str:
        return self.printed().markdown()

    def latex(self) -> str:
        return self.printed().latex()

    def html(self) -> str:
        return self.printed().html()

    _repr_html_ = html

    def __str__(self) -> str:
        return self.text()


def rank(
    fit: "Fit",
    states: Any,
    action: Any,
    *,
    top: int = 5,
    labels: Sequence[Any] | None = None,
    level: float = 0.95,
    draws: int = NUM_DRAWS,
    seed: int = 0,
) -> Ranking:
    """States ranked by the reward of an action, with shares of draws and rank intervals.

    Parameters
    ----------
    states
        As `fit.reward` takes them.
    action
        Its label.
    top
        How many of the highest rewards are of interest.
    labels
        A name for each state; by default their numbers.
    level
        Of the intervals of ranks.
    draws, seed
        From the joint normal distribution of the rewards' errors. Nothing is refitted.
    """
    check_level(level)
    check_seed(seed)
    at = action_index(fit.actions, action, role="action")
    state = fit.encoding.encode_any(states)
    rows = len(state)
    if not 1 <= top <= rows:
        raise DataError(f"`top` must be from 1 to the {rows:,} states, but it is {top!r}.")
    if not 2 <= draws <= MAX_DRAWN // rows:
        raise DataError(
            f"`draws` must be from 2 to {MAX_DRAWN // rows:,} for {rows:,} states, but it "
            f"is {draws!r}. Averages by group, fit.average(states, by=...), are fewer."
        )
    if labels is not None and len(labels) != rows:
        raise DataError(
            f"`labels` must name each of the {rows:,} states, but there are "
            f"{len(labels):,}."
        )
    reward = fit.reward(states)[:, at]
    root = np.zeros((rows, 1))
    if at != fit.estimate.anchor:
        root = fit._errors().curve(state, at, fit.estimate)
    normal = np.random.default_rng(seed).normal(size=(draws, root.shape[1]))
    apart = normal @ root.T
    # Stable, so that rewards without errors keep the order of the estimates.
    highest = np.argsort(-(reward + apart), axis=1, kind="stable")[:, :top]
    best = np.argsort(-reward, kind="stable")[:top]
    ends = np.array([_rank_interval(int(one), reward, root, apart, level) for one in best])
    return Ranking(
        reward,
        np.linalg.norm(root, axis=1),
        np.bincount(highest.ravel(), minlength=rows) / draws,
        best,
        ends[:, 0],
        ends[:, 1],
        highest,
        level,
        action,
        tuple(map(str, range(rows) if labels is None else labels)),
    )


def _rank_interval(
    state: int,
    reward: PerRow,
    root: Float[np.ndarray, "row direction"],
    apart: Float[np.ndarray, "draw row"],
    level: float,
) -> tuple[int, int]:
    """The ranks that a state can have, given which others differ from it significantly."""
    gap, error = reward - reward[state], np.linalg.norm(root - root[state], axis=1)
    vary = error > 0
    largest = np.zeros(len(apart))
    if vary.any():
        deviation = np.abs(apart[:, vary] - apart[:, [state]]) / error[vary]
        largest = deviation.max(axis=1)
    margin = np.quantile(largest, level) * error
    return 1 + int((gap > margin).sum()), len(reward) - int((gap < -margin).sum())

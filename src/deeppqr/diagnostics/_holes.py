r"""Holes in the anchor's support: states around which it is expected and never taken.

From a state, go outwards through the panel's rows until the first in which the anchor was
taken, and add up what the policy expects on the way,
$$E(s) = \sum_{\text{rows nearer than the nearest anchor}} -\log\{1 - \pi(a^A|s_i)\}.$$
If the policy is right, E is exponential with mean one whatever the states' distribution
and the anchor's share: so much expectation without an anchor has probability exp(-E). A
policy's form can bridge a hole, as a logit's does, and its smallest probability then looks
harmless; the rows do not bridge it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .._shapes import PerRow
from ..learners._scaling import spread
from ..panel._panel import Panel

# Rows looked from and rows looked at: 50,000 rows take 0.1 s, with 60 columns 0.3 s. With
# twice as many of both a hole may be a quarter as large to be seen.
FROM, AT = 200, 5_000
CHANCE = 1e-3  # of one false hole in a panel, by the bound of the sum over all looks


class Hole(NamedTuple):
    """How much of a panel lies where the anchor is expected and missing."""

    share: float
    """Of the rows that lie in it."""
    expected: float
    """Times that the policy expects the anchor there, at the worst row."""
    place: str
    """That row's state, or its value of the one column that shows the hole."""


def find_hole(panel: Panel, anchor: int, log_prob: PerRow) -> Hole:
    """The largest hole, over all columns together and over each of them alone.

    A hole in one of many columns is seen along that column, where distances over all of
    them hide it.
    """
    counted = np.flatnonzero(panel.weight > 0)
    # By random order: a panel's own order may repeat itself every so many rows.
    counted = np.random.default_rng(0).permutation(counted)
    at, origin = counted[:AT], counted[:FROM]
    state = (panel.state / spread(panel.state)).astype(np.float32)
    taken = panel.action[at] == anchor
    hazard = _hazard(log_prob[at], taken)
    width = state.shape[1]
    alone = [[column] for column in range(width)] if width > 1 else []
    bound = np.log(len(origin) * (1 + len(alone)) / CHANCE)
    found = Hole(0.0, 0.0, "")
    for columns in [list(range(width)), *alone]:
        part = state[:, columns]
        nearer = _nearer(part[origin], part[at], taken)
        expected = nearer @ hazard
        # All rows on the way count: those at the rim of a hole are near an anchor.
        share = float(nearer[expected > bound].any(axis=0).mean())
        if share > found.share:
            row = origin[int(np.argmax(expected))]
            place = _place(panel, int(row), columns)
            found = Hole(share, float(expected.max()), place)
    return found


def _hazard(log_prob: PerRow, taken: np.ndarray) -> PerRow:
    """-log(1 - pi), scaled so that the anchor is expected as often as it was taken."""
    prob = np.exp(log_prob)
    # Sampling weights may make it rarer among the rows than under the weighted policy.
    prob = prob * taken.sum() / max(prob.sum(), 1e-300)
    return -np.log1p(-np.minimum(prob, 1 - 1e-9))


def _nearer(
    origin: Float[np.ndarray, "origin column"],
    at: Float[np.ndarray, "row column"],
    taken: np.ndarray,
) -> Bool[np.ndarray, "origin row"]:
    """Rows that are nearer to each origin than the nearest in which it was taken."""
    if not taken.any():
        return np.zeros((len(origin), len(at)), bool)
    distance = _square_distance(origin, at)
    nearest = distance[:, taken].min(axis=1, keepdims=True)
    # Rows as near as the anchor do not count: in a cell that has one, nothing is missing.
    return distance < nearest * (1 - 1e-5)


def _square_distance(origin, at) -> Float[np.ndarray, "origin row"]:
    if origin.shape[1] == 1:
        return np.square(origin - at.T)
    squares = np.square(origin).sum(axis=1)[:, None] + np.square(at).sum(axis=1)
    distance = squares - 2 * (origin @ at.T)
    # Rounding of the large squares would make equal states differ.
    return np.where(distance < 1e-5 * squares, 0.0, distance)


def _place(panel: Panel, row: int, columns: list[int]) -> str:
    if len(columns) == 1:
        name = panel.encoding.feature_names[columns[0]]
        return f"{name} = {panel.state[row, columns[0]]:.4g}"
    state = panel.encoding.decode(panel.state[row : row + 1])[0]
    written = [f"{each:.4g}" if isinstance(each, float) else f"{each}" for each in state]
    pairs = zip(panel.encoding.names, written, strict=True)
    shown = [f"{name} = {value}" for name, value in pairs][:5]
    return ", ".join([*shown, "..."] if len(written) > len(shown) else shown)

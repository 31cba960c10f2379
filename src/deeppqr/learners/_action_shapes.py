"""Shapes over the actions: what the effects of a state have in common, and what not."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

# From this many unordered actions on, effects have a part in common: actions then borrow
# from each other.
MIN_COMMON = 4

SMOOTH, COMMON, APART = "smooth", "common", "apart"
# Of amounts: what differs from a polynomial of low degree, by lines of the state alone.
HIGHER = "bends in the action"


def action_shapes(actions: Sequence[Any], anchor: int):
    """Shapes over the actions, zero at the anchor, and which rows are of which kind.

    Numbers, four or more: a line and a parabola, and what each action adds to these. Other
    labels: a part in common and one for each.
    """
    apart = np.delete(np.eye(len(actions)), anchor, axis=0)
    numbers = all(isinstance(a, Real) and not isinstance(a, bool) for a in actions)
    if numbers and len(actions) >= MIN_COMMON:
        distance = np.array([float(a) for a in actions]) - float(actions[anchor])
        line = distance / np.abs(distance).max()
        # The parabola orthogonal to the line, so that their penalties do not compete.
        curve = line**2 - line * (line**3).sum() / (line**2).sum()
        first = np.stack([line, curve / np.abs(curve).max()])
        kinds = {SMOOTH: [0], "smooth curve": [1], APART: range(2, 2 + len(apart))}
    elif len(actions) >= MIN_COMMON:
        first = 1.0 - np.eye(len(actions))[[anchor]]
        kinds = {COMMON: [0], APART: range(1, 1 + len(apart))}
    else:
        first, kinds = apart[:0], {APART: range(len(apart))}
    rows = {name: np.array(list(at), dtype=np.int64) for name, at in kinds.items()}
    return np.concatenate([first, apart]), rows

"""Splitting a panel so that a unit never stands on both sides."""

import numpy as np
from jaxtyping import Int

from ._panel import Panel


def unit_folds(
    panel: Panel, num_folds: int, *, rng: np.random.Generator
) -> Int[np.ndarray, " row"]:
    """The fold of each row: whole units, dealt so that folds have similar sizes.

    With fewer units than folds, each unit is cut into consecutive blocks instead: rows
    close in time are alike, so a random cut would leak.
    """
    if panel.num_units >= num_folds:
        sizes = np.bincount(panel.unit)
        shuffled = rng.permutation(panel.num_units)
        by_size = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
        fold_of_unit = np.empty(panel.num_units, dtype=np.int64)
        fold_of_unit[by_size] = np.arange(panel.num_units) % num_folds
        return fold_of_unit[panel.unit]
    position = np.arange(len(panel)) * num_folds // len(panel)
    return position.astype(np.int64)

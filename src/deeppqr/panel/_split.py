"""Cross-validation folds that keep each unit whole."""

import numpy as np

from .._shapes import Codes
from ._panel import Panel


def unit_folds(panel: Panel, num_folds: int, *, rng: np.random.Generator) -> Codes:
    """The fold of each row: whole units, assigned so that folds have similar sizes.

    With fewer units than folds, rows are cut into consecutive blocks instead. Neighbours in
    time are alike, so random rows would be predicted from their own past and future.
    """
    if panel.num_units >= num_folds:
        sizes = np.bincount(panel.unit)
        shuffled = rng.permutation(panel.num_units)
        # Longest first, in turn: one long unit would else make its fold twice as large.
        by_size = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
        fold_of_unit = np.empty(panel.num_units, dtype=np.int64)
        fold_of_unit[by_size] = np.arange(panel.num_units) % num_folds
        return fold_of_unit[panel.unit]
    position = np.arange(len(panel)) * num_folds // len(panel)
    return position.astype(np.int64)

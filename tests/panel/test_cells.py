"""Distinct states as numbered cells, against a loop over rows."""

import numpy as np
import pytest

from deeppqr.panel._cells import Cells


@pytest.mark.parametrize("width", [1, 2, 3])
def test_cells_are_the_distinct_rows_in_order(width, rng):
    state = rng.integers(-2, 3, size=(200, width)).astype(float)
    state[state == 0] = rng.choice([-0.0, 0.0], size=int((state == 0).sum()))
    cells = Cells.of(state)
    assert [tuple(row) for row in cells.states] == sorted({tuple(row) for row in state})
    assert not np.signbit(cells.states[cells.states == 0]).any()
    np.testing.assert_array_equal(cells.states[cells.locate(state)], state)
    # In any order of the cells, as where states are added while a law is followed.
    mixed = Cells(cells.states[rng.permutation(len(cells))])
    np.testing.assert_array_equal(mixed.states[mixed.locate(state)], state)


@pytest.mark.parametrize("width", [1, 2])
def test_what_is_no_cell_has_no_number(width):
    cells = Cells(np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])[:, :width])
    away = np.array([[0.0, 0.0], [1.5, 0.0], [9.0, 0.0], [np.nan, np.nan]])[:, :width]
    np.testing.assert_array_equal(cells.locate(away), [-1, -1, -1, -1])
    np.testing.assert_array_equal(cells.locate(away[:0]), [])

"""The anchor's reward as a user's function: what it is given, and how it may fail."""

import numpy as np
import pytest

from deeppqr import DataError
from deeppqr.anchor._anchor_reward import resolve_anchor_reward
from deeppqr.panel._encoding import Encoding

COLUMNS = {
    "stock": np.array([1.0, 2.0, 3.0]),
    "town": np.array(["north", "south", "north"], dtype=object),
}
ENCODING = Encoding.learn(COLUMNS)
STATE = ENCODING.encode(COLUMNS, describe_row="row {}".format)


def test_a_function_is_given_the_columns_as_the_user_has_them():
    def known(states):
        assert states.tolist() == [[1.0, "north"], [2.0, "south"], [3.0, "north"]]
        return states[:, 0] * (states[:, 1] == "north")

    reward = resolve_anchor_reward(known, ENCODING)
    np.testing.assert_array_equal(reward(STATE), [1, 0, 3])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s: s, r"one number per state, shape \(3,\), but the function returned shape "
         r"\(3, 2\). It is given a NumPy array of shape \(3, 2\), no DataFrame, with the "
         r"state columns \['stock', 'town'\]"),
        (lambda s: s.stock, "failed with AttributeError: .* no attribute 'stock'. It is given "
         r".*'stock' is states\[:, 0\]. It must return one number per state, shape \(3,\)"),
        (lambda s: s[:, 1], r"the function returned 'north' for row 0 \(3 rows in all\)"),
        (lambda s: [1, [2], 3], "failed with ValueError: .*[^.]. It is given"),
        (lambda s: [1, np.nan, 3], "must be finite, but the function returned nan"),
    ],
)  # fmt: skip
def test_failures_say_what_the_function_was_given(function, message):
    with pytest.raises(DataError, match=message):
        resolve_anchor_reward(function, ENCODING)(STATE)


def test_columns_get_a_suggestion():
    with pytest.raises(DataError, match=r"Did you mean 'stock'\? Add the column"):
        resolve_anchor_reward("stok", ENCODING)

"""The numbers of whole fits, held to their digits: see `cases.py`."""

import json

import numpy as np
import pytest
from cases import CASES, FILE, SLOW, available

TOL = 1e-6
"""Another machine's linear algebra moves float64 results near 1e-12, and the float32
networks near 1e-7; a change of method moves them by far more."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in available()],
)
def test_the_numbers_are_where_they_were(name):
    pinned = json.loads(FILE.read_text(encoding="utf-8"))[name]
    compare(json.loads(json.dumps(CASES[name]())), pinned, name)


def compare(found, pinned, place: str) -> None:
    assert type(found) is type(pinned), place
    if isinstance(pinned, dict):
        assert list(found) == list(pinned), place
        for key in pinned:
            compare(found[key], pinned[key], f"{place}, {key}")
    elif isinstance(pinned, str) or pinned is None:
        assert found == pinned, place
    else:
        np.testing.assert_allclose(found, pinned, rtol=TOL, atol=TOL, err_msg=place)

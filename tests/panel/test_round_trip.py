"""A panel that is written and read again is the same panel, and gives the same fit."""

import io
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from deeppqr import PQR, DataError, DataWarning, Panel

OWN = ("unit", "time", "action", "terminal", "truncated", "weight")
NAMES = ("x", "price of tea", "été", *OWN)
FLOATS = st.floats(-1e9, 1e9, allow_subnormal=False) | st.integers(-3, 3).map(float)
KINDS = {
    "number": FLOATS,
    "whole": st.integers(-(2**53), 2**53),
    "flag": st.booleans(),
    "text": st.sampled_from(["north", "south", "a,b", 'say "no"', "", "été", " x"]),
}


@st.composite
def tables(draw):
    """A table of a few units with columns of any kind, breaks, ends and weights."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    rows = sum(lengths)
    each = lambda values: draw(st.lists(values, min_size=rows, max_size=rows))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    kinds = [draw(st.sampled_from(sorted(KINDS))) for _ in names]
    units = draw(st.sampled_from([list("abcd"), [7, -2, 10, 2**62], [0.5, 1.5, 2.0, 1e9]]))
    table = {name: each(KINDS[kind]) for name, kind in zip(names, kinds, strict=True)}
    table["the unit"] = [
        u for u, number in zip(units, lengths, strict=False) for _ in range(number)
    ]
    table["when"] = [step for number in lengths for step in range(number)]
    table["did"] = each(
        st.sampled_from(draw(st.sampled_from([["no", "go"], [0, 1, 2], [False, True]])))
    )
    table["ends"], table["breaks"] = each(st.booleans()), each(st.booleans())
    table["counts"] = each(st.floats(0.5, 2.0))
    roles = {"unit": "the unit", "time": "when", "action": "did"}
    roles |= {"terminal": "ends", "truncated": "breaks", "weight": "counts"}
    optional = draw(st.sets(st.sampled_from(["terminal", "truncated", "weight"])))
    roles = {
        role: name
        for role, name in roles.items()
        if role in ("unit", "time", "action", *optional)
    }
    return table, names, roles


def build(table, names, roles):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # random tables have odd columns
        try:
            return Panel.from_frame(pl.DataFrame(table), state=names, **roles)
        except DataError:  # a single action, a constant category, no transitions
            assume(False)


def read(frame, panel):
    """The panel of a frame that `to_frame` gave."""
    taken = panel.encoding.names
    own = {role: f"panel_{role}" if role in taken else role for role in OWN}
    roles = {role: name for role, name in own.items() if name in panel.to_frame().columns}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return Panel.from_frame(frame, state=taken, gaps="split", **roles)


def by_csv(frame):
    return pl.read_csv(io.BytesIO(frame.write_csv().encode()), infer_schema_length=None)


def by_parquet(frame):
    file = io.BytesIO()
    frame.write_parquet(file)
    file.seek(0)
    return pl.read_parquet(file)


ROUTES = {"frame": lambda frame: frame, "csv": by_csv, "parquet": by_parquet, "pandas": pl.DataFrame.to_pandas, "arrow": pl.DataFrame.to_arrow}  # fmt: skip


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(given_table=tables(), route=st.sampled_from(sorted(ROUTES)))
def test_a_panel_survives_the_way_out_and_in(given_table, route):
    panel = build(*given_table)
    again = read(ROUTES[route](panel.to_frame()), panel)
    for name in ("state", "action", "next_state", "unit", "terminal"):
        np.testing.assert_array_equal(getattr(again, name), getattr(panel, name), name)
    np.testing.assert_allclose(again.weight, panel.weight, rtol=1e-15)
    # An action of the list that never occurs is not in the frame.
    assert [a for a in panel.actions if a in again.actions] == list(again.actions)
    assert list(again.unit_labels) == list(panel.unit_labels)
    assert again.encoding.names == panel.encoding.names


def test_own_columns_make_way_for_states_of_their_names():
    table = {"u": ["a", "a", "b", "b"], "t": [0, 1, 0, 1], "unit": [1.5, 2, 3, 4], "time": [9.0, 7, 5, 6], "action": [0.0, 1, 1, 2], "d": ["no", "go", "go", "no"]}  # fmt: skip
    state = ["unit", "time", "action"]
    panel = Panel.from_frame(
        pl.DataFrame(table), state=state, action="d", unit="u", time="t"
    )
    frame = panel.to_frame()
    assert frame.columns == ["panel_unit", "panel_time", *state, "panel_action"]
    np.testing.assert_array_equal(frame.select(state).to_numpy(), panel.state)
    assert frame["panel_unit"].to_list() == ["a", "a", "b", "b"]
    assert frame["panel_action"].to_list() == ["no", "go", "go", "no"]


@pytest.fixture(scope="module")
def firms():
    """A panel with a category, a number and weights, and its fit by quick stages."""
    rng = np.random.default_rng(1)
    rows = 600
    table = {
        "u": np.repeat(np.arange(30), 20),
        "t": np.tile(np.arange(20), 30),
        "x": rng.normal(size=rows),
        "kind": rng.choice(["bar", "inn"], rows),
        "a": rng.choice(["wait", "invest"], rows),
        "w": rng.uniform(0.5, 1.5, rows),
    }
    roles = {"action": "a", "unit": "u", "time": "t", "weight": "w"}
    panel = Panel.from_frame(pl.DataFrame(table), state=["x", "kind"], **roles)
    return panel, quick_fit(panel)


def quick_fit(panel):
    stages: dict = {"policy": "logit", "anchor_value": "linear", "reward": "linear"}
    return PQR(discount=0.8, anchor="wait", **stages).fit(panel)


@pytest.mark.parametrize("route", ROUTES)
def test_a_fit_is_the_same_after_the_way_out_and_in(route, firms):
    panel, fit = firms
    again = quick_fit(read(ROUTES[route](panel.to_frame()), panel))
    # The weights' mean is one but for rounding, and so are they after a second scaling.
    states = panel.to_frame()[["x", "kind"]]
    np.testing.assert_allclose(
        again.reward(states), fit.reward(states), rtol=1e-9, atol=1e-9
    )

"""A panel means the same whatever it was built from."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeppqr import DataError, Panel
from deeppqr.panel._cells import Cells, few_states
from deeppqr.panel._clusters import unit_folds
from deeppqr.panel._columns import read_columns


def frame(**changes):
    columns = {
        "id": ["b", "a", "a", "b", "a"],
        "t": [1, 2, 1, 2, 3],
        "x": [1.0, 2.0, 3.0, 4.0, 5.0],
        "kind": ["u", "v", "u", "w", "v"],
        "open": [True, False, True, False, True],
        "a": ["go", "no", "no", "go", "no"],
    }
    return pd.DataFrame({**columns, **changes})


NAMES = {"state": ["x", "kind", "open"], "action": "a", "unit": "id", "time": "t"}


@pytest.mark.parametrize(
    "convert",
    [
        lambda f: f,
        pl.from_pandas,
        pa.Table.from_pandas,
        lambda f: pl.from_pandas(f).lazy(),
        lambda f: f.assign(kind=f.kind.astype("category")),
        lambda f: f.assign(x=f.x.astype("Int64"), open=f.open.astype("boolean")),
        lambda f: f.set_index(pd.Index([9, 9, 9, 9, 9])),
    ],
)
def test_any_frame_gives_the_same_panel(convert):
    panel = Panel.from_frame(convert(frame()), **NAMES)
    # Units sorted, each in time: a at 1, 2, 3, then b at 1, 2. Reference category: u.
    expected = [[3, 0, 0, 1], [2, 1, 0, 0], [5, 1, 0, 1], [1, 0, 0, 1], [4, 0, 1, 0]]
    np.testing.assert_array_equal(panel.state, expected)
    np.testing.assert_array_equal(panel.has_next, [True, True, False, True, False])
    np.testing.assert_array_equal(panel.next_state[0], expected[1])
    np.testing.assert_array_equal(panel.next_state[3], expected[4])
    assert panel.actions == ("go", "no")
    assert list(panel.unit_labels) == ["a", "b"]
    np.testing.assert_array_equal(panel.unit, [0, 0, 0, 1, 1])


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(5)))
def test_row_order_does_not_matter(order):
    panel = Panel.from_frame(frame().iloc[list(order)], **NAMES)
    reference = Panel.from_frame(frame(), **NAMES)
    np.testing.assert_array_equal(panel.state, reference.state)
    np.testing.assert_array_equal(panel.next_state, reference.next_state)
    np.testing.assert_array_equal(panel.action, reference.action)


def test_csv_types_come_from_the_whole_file(tmp_path):
    rows = [
        f"{i},{i if i < 400 else i + 0.5},{i},{i % 2},2020-01-{i % 28 + 1:02d}"
        for i in range(600)
    ]
    (tmp_path / "d.csv").write_text("u,x,y,a,day\n" + "\n".join(rows))
    names = {"action": "a", "next_state": ["y"]}
    panel = Panel.from_file(tmp_path / "d.csv", state=["x"], time="day", unit="u", **names)
    assert panel.state[-1, 0] == 599.5
    with pytest.raises(DataError, match="holds dates or times"):
        Panel.from_file(tmp_path / "d.csv", state=["day"], **names)


def test_only_ratios_of_weights_matter(rng):
    """Whatever unit they come in: shares, counts or millions."""
    import deeppqr

    world = deeppqr.worlds.random_tabular(5, 3, seed=1)
    panel = world.simulate(steps=2_000, units=20)
    weight = rng.uniform(0.5, 1.5, len(panel))
    parts = (panel.state, panel.action, panel.next_state)
    linear: dict = {"policy": "logit", "anchor_value": "linear", "reward": "linear"}
    for stages in ({}, linear):
        rewards = [
            deeppqr.PQR(discount=0.9, anchor=0, **stages)
            .fit(Panel.from_arrays(*parts, unit=panel.unit, weight=scale * weight))
            .reward(world.states)
            for scale in (1.0, 1e-6, 1e6)
        ]
        np.testing.assert_allclose(rewards[1], rewards[0], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(rewards[2], rewards[0], rtol=1e-6, atol=1e-8)


def test_files_give_the_same_panel(tmp_path):
    reference = Panel.from_frame(frame(), **NAMES)
    pl.from_pandas(frame()).write_csv(tmp_path / "d.csv")
    pl.from_pandas(frame()).write_parquet(tmp_path / "d.parquet")
    for name in ("d.csv", "d.parquet"):
        panel = Panel.from_file(tmp_path / name, **NAMES)
        np.testing.assert_array_equal(panel.state, reference.state)


def test_a_next_state_is_never_invented():
    """A unit's last row, a truncated row and the other unit's first row."""
    panel = Panel.from_frame(
        frame(stop=[False, True, False, False, False]), truncated="stop", **NAMES
    )
    np.testing.assert_array_equal(panel.has_next, [True, False, False, True, False])
    assert not panel.terminal.any()


def test_terminal_is_not_truncated():
    panel = Panel.from_frame(frame(end=[0, 0, 0, 1, 0]), terminal="end", **NAMES)
    np.testing.assert_array_equal(panel.terminal, [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(panel.is_transition, [1, 1, 0, 1, 1])
    assert np.isnan(panel.next_state[panel.terminal]).all()


def test_next_state_from_columns():
    named = frame(nx=[10.0, 20, 30, np.nan, 50], nk=["v", "u", "u", None, "w"])
    panel = Panel.from_frame(
        named, state=["x", "kind"], next_state=["nx", "nk"], action="a", unit="id", time="t"
    )
    np.testing.assert_array_equal(panel.has_next, [True, True, True, True, False])
    np.testing.assert_array_equal(panel.next_state[0], [30, 0, 0])
    np.testing.assert_array_equal(panel.next_state[3], [10, 1, 0])


def test_a_break_keeps_a_next_state_given_by_name():
    named = frame(nx=[10.0, 20, 30, 40, 50], stop=[False, True, False, False, False])
    names = {"state": ["x"], "next_state": ["nx"], "action": "a", "unit": "id", "time": "t"}
    panel = Panel.from_frame(named, truncated="stop", **names)
    assert panel.has_next.all()


def test_lists_that_mix_text_and_numbers():
    panel = Panel.from_arrays([[1, "u"], [2, "v"]], [0, 1], [[2, "v"], [1, "u"]])
    np.testing.assert_array_equal(panel.state, [[1, 0], [2, 1]])
    assert [column.kind for column in panel.encoding.columns] == ["numeric", "categorical"]


def test_gaps_split_on_request():
    gapped = frame(t=[1, 2, 1, 2, 5])
    panel = Panel.from_frame(gapped, gaps="split", **NAMES)
    np.testing.assert_array_equal(panel.has_next, [True, False, False, True, False])


def test_regular_steps_are_no_gaps():
    panel = Panel.from_frame(frame(t=[2000, 2005, 2000, 2005, 2010]), **NAMES)
    assert panel.has_next.sum() == 3


def test_dates_order_rows_and_have_no_gaps():
    dates = pd.to_datetime(
        ["2020-01-31", "2020-02-29", "2020-01-31", "2020-03-31", "2021-01-01"]
    )
    panel = Panel.from_frame(frame(t=dates), **NAMES)
    assert panel.has_next.sum() == 3


def test_arrays_and_frames_agree():
    table = frame()
    reference = Panel.from_frame(table, state=["x"], action="a", unit="id", time="t")
    panel = Panel.from_arrays(
        reference.state,
        np.array(["go", "no"])[reference.action],
        reference.next_state,
        unit=reference.unit,
        state_names=["x"],
    )
    np.testing.assert_array_equal(panel.next_state, reference.next_state)
    np.testing.assert_array_equal(panel.action, reference.action)


def test_round_trip_through_a_frame():
    panel = Panel.from_frame(frame(), **NAMES)
    again = Panel.from_frame(
        panel.to_frame(), state=NAMES["state"], action="action", unit="unit", time="time"
    )
    np.testing.assert_array_equal(again.state, panel.state)
    np.testing.assert_array_equal(again.next_state, panel.next_state)


def test_round_trip_keeps_breaks_ends_and_weights():
    table = frame(t=[1, 2, 1, 2, 5], end=[0, 0, 0, 1, 0], w=[1.0, 2, 3, 4, 5])
    panel = Panel.from_frame(table, gaps="split", terminal="end", weight="w", **NAMES)
    written = panel.to_frame()
    assert written["time"].to_list() == [0, 1, 3, 0, 1]
    columns = {"state": NAMES["state"], "action": "action", "unit": "unit", "time": "time"}
    again = Panel.from_frame(
        written, gaps="split", terminal="terminal", weight="weight", **columns
    )
    np.testing.assert_array_equal(again.has_next, panel.has_next)
    np.testing.assert_array_equal(again.terminal, panel.terminal)
    np.testing.assert_array_equal(again.weight, panel.weight)


def test_actions_of_any_type_in_any_order():
    table = frame(a=[0, 1, 1, 0, 1])
    assert Panel.from_frame(table, **NAMES).actions == (0, 1)
    assert Panel.from_frame(table, actions=[1, 0], **NAMES).actions == (1, 0)
    mixed = frame(a=pd.Series(["go", 1, 1, "go", 1], dtype=object))
    assert set(Panel.from_frame(mixed, **NAMES).actions) == {"go", 1}
    flags = frame(a=[True, False, False, True, False])
    assert Panel.from_frame(flags, **NAMES).actions == (False, True)


def test_effective_units_count_heavy_units_once():
    panel = Panel.from_frame(frame(w=[1.0, 0, 0, 1.0, 0]), weight="w", **NAMES)
    assert panel.effective_units == pytest.approx(1.0)
    assert Panel.from_frame(frame(), **NAMES).effective_units == pytest.approx(25 / 13)


def test_selecting_rows_keeps_the_meaning_of_units():
    panel = Panel.from_frame(frame(), **NAMES)
    part = panel.select(panel.unit == 1)
    assert list(part.unit_labels) == ["b"]
    np.testing.assert_array_equal(part.state, panel.state[3:])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 1000))
def test_cells_are_the_distinct_states(num_rows, dim, seed):
    rng = np.random.default_rng(seed)
    state = rng.integers(-1, 2, size=(num_rows, dim)).astype(float) * 0.5
    cells = Cells.of(state)
    np.testing.assert_array_equal(cells.states, np.unique(state + 0.0, axis=0))
    np.testing.assert_array_equal(cells.states[cells.locate(state)], state + 0.0)
    assert (cells.locate(state + 7) == -1).all()


def test_few_states():
    assert few_states(np.zeros((10, 1)), rows_per_cell=10)
    assert not few_states(np.arange(10.0)[:, None], rows_per_cell=2)


def test_folds_keep_units_whole(tabular, rng):
    _, panel = tabular
    fold = unit_folds(panel, 5, rng=rng)
    for unit in range(panel.num_units):
        assert len(np.unique(fold[panel.unit == unit])) == 1
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 200


def test_folds_of_one_unit_are_consecutive_blocks(tabular, rng):
    _, panel = tabular
    one = panel.select(panel.unit == 3)
    fold = unit_folds(one, 5, rng=rng)
    assert (np.diff(fold) >= 0).all()
    assert set(fold) == set(range(5))


def test_prediction_states_may_be_arrays_or_frames():
    panel = Panel.from_frame(frame(), **NAMES)
    from_frame = panel.encoding.encode_any(frame())
    raw = frame()[NAMES["state"]].to_numpy(dtype=object)
    np.testing.assert_array_equal(panel.encoding.encode_any(raw), from_frame)
    decoded = panel.encoding.decode(from_frame)
    assert decoded.tolist() == raw.tolist()


@pytest.mark.parametrize(
    ("change", "names", "message"),
    [
        ({}, {"state": ["y"]}, r"`state` names the column 'y', but the data have no such"),
        ({}, {"action": "aa"}, r"no such column .*Did you mean 'a'\?"),
        ({"x": [1, np.nan, 3, 4, np.nan]}, {}, r"'x' must not be missing, but row 1 "
         r"\(unit a, time 2\) has no value \(2 rows in all\)"),
        ({"x": [1, 2, np.inf, 4, 5]}, {}, r"must be finite, but row 2 \(unit a, time 1\) has inf"),
        ({"kind": ["u", None, "u", "w", "v"]}, {}, "'kind' must not be missing, but row 1"),
        ({"a": ["go", None, "no", "go", "no"]}, {}, "`action` must not be missing, but row 1"),
        ({"a": ["no"] * 5}, {}, "Every row takes the same action, 'no'"),
        ({"id": [None, "a", "a", "b", "a"]}, {}, "`unit` must not be missing, but row 0"),
        ({"t": [1, 2, 1, 2, 2]}, {}, "rows 1 and 4 are both unit a, time 2"),
        ({"t": [1, 2, 1, 2, 5]}, {}, r"Unit a jumps from time 2 \(row 1\) to 5 \(row 4\)"),
        ({"t": ["1", "2", "1", "2", "3"]}, {}, "`time` must be a number or a date"),
        ({"w": [1, -1, 1, 1, 1]}, {"weight": "w"}, "`weight` must be finite and not negative"),
        ({"w": [0] * 5}, {"weight": "w"}, "`weight` is zero in every row"),
        ({"e": [0, 1, 2, 0, 0]}, {"terminal": "e"}, "`terminal` must be true or false"),
        ({"n": [1.0] * 5}, {"next_state": ["n"]}, "one column for each of the 3 state"),
        ({"x": pd.to_datetime(["2020-01-01"] * 5)}, {}, "holds dates or times"),
        ({}, {"actions": ["no"]}, "row 0 .* took 'go'"),
        ({}, {"actions": ["no", "go", "no"]}, "`actions` must be distinct"),
        ({}, {"gaps": "fill"}, '`gaps` must be "error" or "split"'),
        ({"w": ["1", "a", "1", "1", "1"]}, {"weight": "w"}, "`weight` must hold numbers"),
        ({"x": ["1.5", "2.5", "NA", "4", "5"]}, {}, "first that does not is 'NA' in row 2 "),
        ({"kind": ["u"] * 5}, {}, "'kind' is categorical with 1 level. A column with a single level is a constant"),
        ({"a": pd.array(["go", pd.NA, "no", "go", "no"], dtype="string")}, {}, "`action` must not be missing, but row 1"),
        ({"t": pd.array([1, pd.NA, 1, 2, 3], dtype="Int64")}, {}, "`time` must not be missing, but row 1"),
        ({"n": [1.0] * 5}, {"state": ["x", "open"], "next_state": ["n", "n"]}, "'n' stands twice"),
        ({"t": pd.Series([1, 2, 1, 2, 5], dtype=object)}, {}, "Unit a jumps from time 2"),
        ({"t": pd.to_datetime(["2020-01-01"] * 2 + ["2020-01-03"] * 3)}, {"gaps": "split", "unit": "x"}, 'gaps="split" needs a `time` of whole numbers'),
        ({}, {"state": ["x", "x"]}, "'x' stands twice"),
        ({}, {"state": []}, "`state` must name at least one column"),
        ({}, {"state": ["x", "a"]}, "`state` must not name the column of `action`, but 'a' is both"),
        ({"w": [1.0] * 5}, {"state": ["w"], "weight": "w"}, "column of `weight`, but 'w' is both"),
        ({"e": [0, 0, 0, 0, 1]}, {"state": ["e"], "terminal": "e"}, "column of `terminal`"),
        ({}, {"state": ["x"], "next_state": ["a"]}, "`next_state` must not name the column of `action`"),
        ({}, {"state": ["x", "open"], "next_state": ["x", "open"]}, "so that nothing ever moves"),
        ({"n": [1.0] * 5}, {"state": ["x", "open"], "next_state": ["open", "n"]}, "'open' stands for the next 'x'"),
        ({"n": [1.0] * 5}, {"state": ["x", "open"], "next_state": ["n", "open"]}, r"row 2 \(unit a, time 1\) has True after"),
        ({"a": ["go", None, "no", "go", "no"]}, {}, r"row 1 \(unit a, time 2\) has none \(1 row in all\)"),
        ({"id": [None, "a", "a", "b", "a"]}, {}, r"row 0 \(time 1\) has none"),
        ({"e": [0, 1, 2, 0, 0]}, {"terminal": "e"}, r"row 2 .* has 2 \(1 row in all\)"),
        ({}, {"actions": ["go", "noo"]}, r"1 label missing from the list\). Did you mean 'no'\?"),
    ],
)  # fmt: skip
def test_bad_frames_are_refused_in_words(change, names, message):
    with pytest.raises(DataError, match=message):
        Panel.from_frame(frame(**change), **{**NAMES, **names})


def test_frames_with_nothing_to_learn_from():
    with pytest.raises(DataError, match="The data have no rows"):
        Panel.from_frame(frame().iloc[:0], **NAMES)
    with pytest.raises(DataError, match=r"No row has a next state: 1 unit, 1 row"):
        Panel.from_frame(frame().iloc[:1], **{**NAMES, "state": ["x"]})
    with pytest.raises(DataError, match="must be a DataFrame .* but a list arrived"):
        Panel.from_frame([1, 2], **NAMES)


def test_partly_missing_next_state():
    named = frame(nx=[10.0, 20, 30, np.nan, 50], no=[True] * 5)
    with pytest.raises(
        DataError, match="given whole or not at all, but row 3 .* misses 'nx'"
    ):
        Panel.from_frame(
            named,
            state=["x", "open"],
            next_state=["nx", "no"],
            action="a",
            unit="id",
            time="t",
        )


def test_columns_without_text_names():
    with pytest.raises(DataError, match="`state` must name columns by text, but 0 is int"):
        read_columns(pd.DataFrame(np.eye(3)), [0], role="state")
    twice = pd.concat([frame(), frame()[["x"]]], axis=1)
    with pytest.raises(DataError, match="'x' stands 2 times"):
        Panel.from_frame(twice, **NAMES)


def test_many_levels_are_refused():
    many = pd.DataFrame({"k": [f"k{i}" for i in range(1_500)], "a": [0, 1] * 750})
    with pytest.raises(DataError, match="1,500 levels. At most 1,000 are supported"):
        Panel.from_frame(many, state=["k"], action="a")


def test_bad_arrays():
    state = np.zeros((4, 2))
    with pytest.raises(DataError, match=r"`action` must have one entry per row .* has 3"):
        Panel.from_arrays(state, [0, 1, 0], state)
    with pytest.raises(DataError, match=r"`states` must have 2 columns"):
        Panel.from_arrays(state, [0, 1, 0, 1], np.zeros((4, 3)))
    with pytest.raises(DataError, match="its shape is"):
        Panel.from_arrays(np.zeros((2, 2, 2)), [0, 1], state)


def test_bad_files(tmp_path):
    with pytest.raises(DataError, match="must be a .csv, .parquet or .pq file"):
        Panel.from_file(tmp_path / "d.txt", **NAMES)
    with pytest.raises(DataError, match=rf"There is no file d.csv in {tmp_path}\."):
        Panel.from_file(tmp_path / "d.csv", **NAMES)
    with pytest.raises(DataError, match="There is no file d.csv in .*, and no such folder"):
        Panel.from_file(tmp_path / "nowhere" / "d.csv", **NAMES)
    frame().to_csv(tmp_path / "d.csv", sep=";", index=False)
    with pytest.raises(DataError, match=r"no file D1.csv in .*\. Did you mean 'd.csv'\?"):
        Panel.from_file(tmp_path / "D1.csv", **NAMES)
    with pytest.raises(DataError, match=r"one column, named 'id;t;.* separator .* ';'\?"):
        Panel.from_file(tmp_path / "d.csv", **NAMES)
    (tmp_path / "d.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataError, match="could not be read"):
        Panel.from_file(tmp_path / "d.parquet", **NAMES)


def test_a_fixed_column_may_be_its_own_next_value():
    named = frame(nx=[10.0, 20, 30, 40, 50], town=["n", "s", "s", "n", "s"])
    names = {"state": ["x", "town"], "next_state": ["nx", "town"]}
    panel = Panel.from_frame(named, **{**NAMES, **names})
    np.testing.assert_array_equal(panel.state[:, 1], panel.next_state[:, 1])


def test_units_may_be_states():
    """Fixed effects."""
    panel = Panel.from_frame(frame(), **{**NAMES, "state": ["x", "id"]})
    assert panel.encoding.feature_names == ["x", "id=b"]


def test_no_states_give_no_rows():
    panel = Panel.from_frame(frame(), **NAMES)
    assert panel.encoding.encode_any(frame().iloc[:0]).shape == (0, 4)
    assert panel.encoding.encode_any(np.empty((0, 3))).shape == (0, 4)


def test_unknown_actions_get_a_suggestion():
    panel = Panel.from_frame(frame(), **NAMES)
    with pytest.raises(DataError, match=r"but it is 'noo'. Did you mean 'no'\?"):
        panel.action_index("noo")
    with pytest.raises(DataError, match=r"but it is 7\.$"):
        panel.action_index(np.int64(7))


def test_counts_are_written_as_a_person_would():
    panel = Panel.from_frame(frame(end=[0, 0, 0, 1, 0]), terminal="end", **NAMES)
    one = panel.select(panel.unit == 1)
    assert str(one).startswith("Panel(2 decisions by 1 unit; ")
    assert str(one).endswith("1 next state seen, 1 terminal row)")


def test_unseen_category_at_prediction():
    panel = Panel.from_frame(frame(), **NAMES)
    with pytest.raises(
        DataError, match=r"category 'z' in row 2.*Known categories: 'u', 'v', 'w'"
    ):
        panel.encoding.encode_any(frame(kind=["u", "u", "z", "z", "u"]))
    with pytest.raises(DataError, match=r"the category 2\.0 in row 0"):
        panel.encoding.encode_any(np.array([[1.0, 2.0, 1.0]]))
    with pytest.raises(DataError, match="was numeric when the encoding was learned"):
        panel.encoding.encode_any(frame(x=["1", "2", "3", "4", "5"]))
    with pytest.raises(DataError, match=r"`states` must have 3 columns \(x, kind, open\)"):
        panel.encoding.encode_any(np.zeros((2, 2)))

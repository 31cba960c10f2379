"""Panels on disk against the same data in memory: the checks, the rows and the fit."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr.panel.scan import _scan
from deeppqr.worlds import PaperWorld

ROLES: dict[str, Any] = {
    "state": ["x1", "x2"],
    "action": "action",
    "unit": "unit",
    "time": "time",
}
ROWS = 6_000


def roles(**changed: Any) -> dict[str, Any]:
    return ROLES | changed


@pytest.fixture(scope="module")
def frame():
    world = PaperWorld(p=2, reward_scale=5.0, seed=1)
    found = world.simulate(steps=ROWS, units=60, seed=2).to_frame()
    rng = np.random.default_rng(0)
    return found.with_columns(mass=pl.Series(rng.uniform(0.5, 1.5, ROWS)))


@pytest.fixture
def small(monkeypatch):
    """Every third unit in memory, shards of at most 1,500 rows."""
    monkeypatch.setattr(_scan, "CORE_ROWS", ROWS // 3)
    monkeypatch.setattr(_scan, "SHARD_ROWS", 1_500)
    monkeypatch.setattr(_scan, "FEWEST_UNITS", 10)


def write(frame: pl.DataFrame, folder, layout: str) -> str:
    """One file, a file for every ten units, or files of which units know nothing."""
    if layout == "one":
        frame.write_parquet(folder / "all.parquet")
    for number in range(0 if layout == "one" else 6):
        if layout == "units":
            part = frame.filter(pl.col("unit") // 10 == number)
        else:  # by time: every unit is in every file
            part = frame.filter(pl.col("time") // 17 == number)
        part.write_parquet(folder / f"{number}.parquet")
    return str(folder / "*.parquet")


@pytest.mark.parametrize("layout", ["one", "units", "times"])
def test_shards_hold_every_row_once(frame, small, tmp_path, layout):
    scanned = deeppqr.Panel.scan(write(frame, tmp_path, layout), weight="mass", **ROLES)
    panel = deeppqr.Panel.from_frame(frame, weight="mass", **ROLES)
    assert (len(scanned), scanned.num_units) == (len(panel), panel.num_units)
    assert scanned.facts["next_states"] == int(panel.has_next.sum())
    assert len(scanned.shards) >= 4
    rows = [shard.rows() for shard in scanned.shards]
    found = np.concatenate([np.column_stack([p.state, p.action, p.mass]) for p in rows])
    whole = np.column_stack([panel.state, panel.action, panel.weight])
    order = lambda table: table[np.lexsort(table.T)]
    np.testing.assert_allclose(order(found), order(whole), rtol=1e-12)
    core, _ = _scan.in_memory(panel)
    for name in ("state", "action", "next_state", "terminal"):
        np.testing.assert_array_equal(getattr(scanned.core, name), getattr(core, name))
    np.testing.assert_allclose(scanned.core.weight, core.weight, rtol=1e-12)


@pytest.fixture(scope="module")
def model():
    return deeppqr.PQR(discount=0.9, anchor=0)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["times"])
def test_the_same_fit_as_in_memory(frame, small, tmp_path, model, layout):
    """Sums over shards differ from sums over rows by rounding: features are float32."""
    scanned = deeppqr.Panel.scan(write(frame, tmp_path, layout), **ROLES)
    panel = deeppqr.Panel.from_frame(frame, **ROLES)
    one, other = model.fit(scanned), model.fit(panel)
    assert f"a step on all {ROWS:,}" in other.stages["reward"]
    assert one.provenance["panel"]["rows"] == other.provenance["panel"]["rows"] == ROWS
    expected = other.reward(panel.state)
    found = one.reward(panel.state)
    np.testing.assert_allclose(found, expected, atol=1e-6 * expected.std(), rtol=0)
    errors = other.standard_errors(panel.state[:50])
    np.testing.assert_allclose(one.standard_errors(panel.state[:50]), errors, rtol=1e-4)


def test_few_states_are_pooled_from_all_rows(tmp_path, small, model):
    world = deeppqr.worlds.random_tabular(seed=4)
    frame = world.simulate(steps=6_000, units=60, seed=5).to_frame()
    scanned = deeppqr.Panel.scan(write(frame, tmp_path, "units"), **roles(state=["s"]))
    panel = deeppqr.Panel.from_frame(frame, **roles(state=["s"]))
    found, expected = model.fit(scanned), model.fit(panel)
    np.testing.assert_array_equal(found.reward(world.states), expected.reward(world.states))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.col("x1").replace(0.0, np.nan), "State column 'x1' must not be missing"),
        (pl.col("time").clip(0, 98), r"Each unit may decide once per time"),
        (pl.when(pl.col("time") < 50).then("time").otherwise(pl.col("time") + 1), "jumps"),
    ],
    ids=["missing", "twice", "gap"],
)
def test_checks_hold_across_files(frame, small, tmp_path, change, message):
    """Two rows of a unit at one time, or a period between them, in different files."""
    frame = frame.with_columns(x1=pl.when(pl.arange(ROWS) == 77).then(0.0).otherwise("x1"))
    pattern = write(frame.with_columns(change), tmp_path, "times")
    with pytest.raises(deeppqr.DataError, match=rf"In 6 files from .*: .*{message}"):
        deeppqr.Panel.scan(pattern, **ROLES)


def test_categories_and_labels_of_all_files(frame, small, tmp_path):
    """A level and an action that occur in one file are those of the whole."""
    kinds = pl.when(pl.col("unit") < 55).then(pl.lit("b")).otherwise(pl.lit("a"))
    named = frame.with_columns(kind=kinds, action=pl.format("do {}", "action"))
    told = roles(state=["x1", "kind"])
    scanned = deeppqr.Panel.scan(write(named, tmp_path, "units"), **told)
    panel = deeppqr.Panel.from_frame(named, **told)
    assert scanned.core.encoding == panel.encoding
    assert scanned.core.actions == panel.actions


def test_what_cannot_be_scanned(frame, tmp_path, model):
    with pytest.raises(
        deeppqr.DataError, match="must name Parquet files.*there is no file"
    ):
        deeppqr.Panel.scan(tmp_path / "none.parquet", **ROLES)
    pattern = write(frame, tmp_path, "one")
    with pytest.raises(deeppqr.DataError, match="needs the column `unit`"):
        deeppqr.Panel.scan(pattern, **roles(unit=None))
    with pytest.raises(deeppqr.DataError, match="`scan` names the column 'x9'"):
        deeppqr.Panel.scan(pattern, **roles(state=["x9"]))
    scanned = deeppqr.Panel.scan(pattern, **ROLES)
    with pytest.raises(deeppqr.DataError, match="estimated by sums over its shards"):
        deeppqr.PQR(discount=0.9, anchor=0, reward="network").fit(scanned)
    panel = deeppqr.Panel.from_frame(frame, **ROLES)
    with pytest.raises(deeppqr.DataError, match="a Panel arrived, which is in memory"):
        model.fit(panel, executor="cores:2")


@pytest.fixture
def rare(frame):
    """An action that the second unit alone takes, and no unit in memory at first."""
    second = (pl.col("unit") == 1) & (pl.col("time") % 9 == 0)
    return frame.with_columns(action=pl.when(second).then(9).otherwise("action"))


def test_units_are_added_until_every_action_occurs(rare, small, tmp_path):
    scanned = deeppqr.Panel.scan(write(rare, tmp_path, "units"), **ROLES)
    assert set(np.unique(scanned.core.action)) == set(range(6))
    assert scanned.core.num_units == 60  # every third before


def test_an_action_too_rare_for_memory_is_named(rare, small, tmp_path, monkeypatch):
    monkeypatch.setattr(_scan, "MOST_CORE_ROWS", ROWS // 2)
    with pytest.raises(
        deeppqr.DataError,
        match=r"among the 3,000 rows that .* but 9 was taken by 1 unit of 60 \(1 such act",
    ):
        deeppqr.Panel.scan(write(rare, tmp_path, "units"), **ROLES)


def test_an_action_taken_nowhere_widens_nothing(frame, small, tmp_path):
    told = roles(actions=[0, 1, 2, 3, 4, 9])
    scanned = deeppqr.Panel.scan(write(frame, tmp_path, "units"), **told)
    assert scanned.core.num_units == 20

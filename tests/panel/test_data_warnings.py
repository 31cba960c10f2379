"""What a panel warns of, and that clean data bring no warning (warnings are errors here)."""

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

from deeppqr import DataError, DataWarning, Panel, worlds
from deeppqr.panel._outliers import find_outliers
from deeppqr.panel._repeats import copied_units

UNITS, PERIODS = 40, 25
ROLES = {"action": "a", "unit": "u", "time": "t"}


def frame(*, seed: Any = 0, **changes):
    """Autoregressive states, so that rows follow from each other, and two actions."""
    rng = np.random.default_rng(seed)
    path = np.zeros((UNITS, PERIODS + 1))
    for period in range(PERIODS):
        path[:, period + 1] = 0.9 * path[:, period] + rng.normal(size=UNITS)
    rows = UNITS * PERIODS
    columns = {
        "u": np.repeat(np.arange(UNITS) * 7 + 3, PERIODS),
        "t": np.tile(np.arange(PERIODS), UNITS),
        "x": path[:, :-1].ravel(),
        "nx": path[:, 1:].ravel(),
        "a": rng.integers(0, 2, rows),
    }
    return pl.DataFrame({**columns, **changes}, strict=False)


def panel(data=None, state=("x",), **roles):
    return Panel.from_frame(
        frame() if data is None else data, state=list(state), **{**ROLES, **roles}
    )


def with_cell(value, row=123):
    data = frame()
    return data.with_columns(
        pl.when(pl.row_index() == row).then(value).otherwise(pl.col("x")).alias("x")
    )


def shifted(data, by):
    return data.with_columns(pl.col("nx").shift(by).over("u")).filter(
        pl.col("nx").is_not_null()
    )


def with_next(name="z", drop=True):
    """The next value of x among the states."""
    data = frame().with_columns(pl.col("x").shift(-1).over("u").alias(name))
    return data.filter(pl.col(name).is_not_null()) if drop else data.fill_null(0.0)


def copied(share=1.0):
    """Some units again, under new names."""
    data = frame()
    again = data.filter(pl.col("u") < share * (UNITS * 7 + 3)).with_columns(
        pl.col("u") + 10_000
    )
    return pl.concat([data, again])


def levels(number):
    return np.array([f"k{i % number}" for i in range(UNITS * PERIODS)])


WARNED = {
    "one cell of 1e4": (lambda: panel(with_cell(1e4)), r"'x' has 10000 in row 123 \(unit 31, time 23\), at least [\d,]+ times as far from the median, .*\(1 cell in all\).* correct it or drop the row"),
    "one cell of 1e30": (lambda: panel(with_cell(-1e30)), r"'x' has -1e\+30 in row 123"),
    "one next state of 1e9": (lambda: panel(frame(nx=np.where(np.arange(1_000) == 24, 1e9, frame()["nx"])), next_state="nx"), r"Next-state column 'nx' has 1e\+09 in row 24"),
    "a heavy weight": (lambda: panel(frame(w=[1.0] * 999 + [1e9]), weight="w"), "`weight` has 1e\\+09 in row 999"),
    "a code for missing": (lambda: panel(frame(x=np.where(np.arange(1_000) % 9 == 0, -999, np.arange(1_000) % 47)), time=None), r"'x' has -999 in row 0 .* 112 cells in all, .*a code for missing\?"),
    "appended to itself": (lambda: panel(copied()), "40 of 80 units repeat another unit row by row, first 10003, which repeats 3: more often than chance explains.*standard errors too small"),
    "half appended": (lambda: panel(copied(0.5)), r"20 of 60 units repeat"),
    "rows of other units": (lambda: panel(pl.concat([frame(), frame().filter(pl.col("t") < 20).with_columns(pl.col("u") + 10_000)])), r"[67]\d\d of 1,800 rows repeat another row's state, action and next state, first row \d+ .* which repeats row"),
    "one unit twice": (lambda: Panel.from_frame(pl.concat([frame()] * 2), state=["x"], next_state=["nx"], action="a"), "1,000 of 2,000 rows repeat"),
    "some next states differ": (lambda: panel(frame(nx=np.where(np.arange(1_000) % 10 == 0, 0.5, frame()["nx"])), next_state="nx"), r"differ from the unit's next row in 10 % of the 960 rows where both are known, first in row 0 \(unit 3, time 0\).*mark those rows with `truncated`"),
    "a next state leaked": (lambda: panel(with_next(), state=["x", "z"]), r"'z' is the next value of 'x'. If it was recorded after the decision, leave it out.* such as 'z_lag'"),
    "leaked and filled": (lambda: panel(with_next(drop=False), state=["x", "z"]), "'z' is the next value of 'x'"),
    "the action leaked": (lambda: panel(frame(did=np.where(frame()["a"] == 1, "yes", "no")), state=["x", "did"]), "'did' tells the action in every row"),
    "the unit's name": (lambda: panel(frame().with_columns(pl.col("u").alias("who")), state=["x", "who"]), r"'who' numbers the units, and is used as a quantity.*categorical=\[\"who\"\]"),
    "a number of units": (lambda: panel(frame(nr=np.repeat(np.arange(UNITS)[::-1] + 5, PERIODS)), state=["x", "nr"]), "'nr' numbers the units"),
    "a trend": (lambda: panel(frame().with_columns((2 * pl.col("t") + 1990).alias("year")), state=["x", "year"]), "'year' is the time itself.*leave it out unless decisions depend on the date"),
    "a row number": (lambda: panel(frame().with_row_index("nr"), state=["x", "nr"], time=None), "'nr' counts the rows of the data"),
    "a column twice": (lambda: panel(frame().with_columns((100 - 3 * pl.col("x")).alias("y")), state=["x", "y"]), "'y' is 'x' again, on this scale or another.*leave one of them out"),
    "a column but for noise": (lambda: panel(frame().with_columns((pl.col("x") + 1e-4 * pl.col("t").shuffle(seed=1)).alias("y")), state=["x", "y"]), "'y' is 'x' again"),
    "an identifier": (lambda: panel(frame(storeId=np.random.default_rng(1).integers(10, 10**6, 1_000)), state=["x", "storeId"]), r"'storeId' is named like an identifier and is used as a quantity \(\d+ different numbers\).*categorical=\[\"storeId\"\]"),
    "many levels": (lambda: panel(frame(k=levels(150)), state=["x", "k"]), r"'k' has 150 levels in 1,000 rows, 6.7 for each.*Group them"),
    "actions but for blanks": (lambda: panel(frame(a=np.array(["no", "No ", "go", "go"] * 250))), "`action` has labels that may mean the same, 'No ' and 'no' first"),
    "units but for digits": (lambda: panel(frame(u=np.repeat(["1", "1.0", "2", "3"], 250), t=np.arange(1_000))), "`unit` has labels that may mean the same, '1' and '1.0' first"),
    "time sorted alone": (lambda: panel(frame(t=np.concatenate([np.random.default_rng(i).permutation(PERIODS) for i in range(UNITS)]))), r"In order of `time` the state column 'x' jumps at random.*Is `time` the right"),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNED)
def test_a_finding_says_what_and_what_to_do(case):
    build, message = WARNED[case]
    with pytest.warns(DataWarning, match=message) as caught:
        build()
    assert len(caught) == 1
    assert len(str(caught[0].message)) < 420  # five lines of a terminal
    assert caught[0].filename == __file__


REFUSED = {
    "next states two rows later": (lambda: panel(shifted(frame(), -1), next_state="nx"), "next row in 100 % of the 920 rows .*nearly all are the state two rows later.*leave `next_state` out"),
    "next states of the row before": (lambda: panel(shifted(frame(), 2), next_state="nx"), "nearly all are the state of the row before"),
    "own states": (lambda: panel(frame().with_columns(pl.col("x").alias("nx")), next_state="nx"), "nearly all are the row's own state"),
    "permuted": (lambda: panel(frame(nx=np.random.default_rng(1).permutation(frame()["nx"])), next_state="nx"), "nearly all are states of other units"),
    "permuted within units": (lambda: panel(frame().with_columns(pl.col("nx").shuffle(seed=1).over("u")), next_state="nx"), r"differ from the unit's next row in 9\d % of the 960 rows"),
    "shuffled time": (lambda: panel(frame().with_columns(pl.col("t").shuffle(seed=1).over("u")), next_state="nx"), r"differ from the unit's next row in (9\d|100) % of the"),
    "permuted, without a time": (lambda: panel(frame(nx=np.random.default_rng(1).permutation(frame()["nx"])), next_state="nx", time=None), "nearly all are states of other units"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_next_states_of_other_rows_are_refused(case):
    build, message = REFUSED[case]
    with pytest.raises(DataError, match=message):
        build()


CLEAN = {
    "as it is": lambda: panel(),
    "next states given": lambda: panel(next_state="nx"),
    "next states as float32": lambda: panel(frame().with_columns(pl.col("nx").cast(pl.Float32)), next_state="nx"),
    "own states as next, without a time": lambda: Panel.from_arrays(frame()["x"], frame()["a"], frame()["x"], unit=frame()["u"]),
    "transitions of few states in no order": lambda: Panel.from_arrays(np.arange(1_000) % 50, frame()["a"], np.random.default_rng(1).integers(0, 50, 1_000), unit=frame()["u"]),
    "next states, rows in any order": lambda: panel(frame().sample(fraction=1.0, shuffle=True, seed=1), next_state="nx", time=None),
    "next states at gaps": lambda: panel(frame().filter(pl.col("t") % 5 != 3), next_state="nx"),
    "dates": lambda: panel(frame().with_columns(pl.date(2020, 1, 1).dt.offset_by(pl.format("{}mo", "t")).alias("t")), next_state="nx"),
    "breaks that are marked": lambda: panel(frame(nx=np.where(np.arange(1_000) % 10 == 0, 0.5, frame()["nx"]), b=np.arange(1_000) % 10 == 0), next_state="nx", truncated="b"),
    "a lag that is named so": lambda: panel(frame().with_columns(pl.col("x").shift(1).over("u").fill_null(0.0).alias("x_lag")), state=["x", "x_lag"]),
    "rows in any order": lambda: panel(frame().sample(fraction=1.0, shuffle=True, seed=1)),
    "sorted by the state": lambda: panel(frame().sort("x")),
    "a flag that is rarely true": lambda: panel(frame(f=(np.arange(1_000) == 17) * 1), state=["x", "f"]),
    "fixed effects": lambda: panel(frame(who=np.repeat([f"k{i}" for i in range(UNITS)], PERIODS)), state=["x", "who"]),
    "an identifier as a category": lambda: panel(frame(store_id=np.arange(1_000) % 12), state=["x", "store_id"], categorical="store_id"),
    "a fixed trait": lambda: panel(frame(size=np.repeat(np.random.default_rng(1).lognormal(size=UNITS), PERIODS)), state=["x", "size"]),
    "incomes in whole euros": lambda: panel(frame(income=np.repeat(np.random.default_rng(1).integers(9_000, 99_000, UNITS), PERIODS)), state=["x", "income"]),
    "ages": lambda: panel(frame(age=np.repeat(np.random.default_rng(1).integers(20, 60, UNITS), PERIODS) + np.tile(np.arange(PERIODS), UNITS)), state=["x", "age"]),
    "indicators of seasons": lambda: panel(frame(**{f"q{i}": np.tile(np.arange(PERIODS) % 4 == i, UNITS) * 1 for i in range(4)}), state=["x", "q1", "q2", "q3"]),
    "two regimes": lambda: panel(frame(z=(np.arange(1_000) % 2) * 1_000.0 + np.random.default_rng(1).normal(size=1_000)), state=["x", "z"]),
    "short histories of few states": lambda: panel(frame(u=np.repeat(np.arange(500), 2), t=np.tile([0, 1], 500), x=np.random.default_rng(1).integers(0, 3, 1_000))),
    "trajectories from one start": lambda: Panel.from_trajectories([(np.arange(6.0), [0, 1, 0, 1, i % 2]) for i in range(12)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CLEAN)
def test_clean_data_bring_no_warning(case):
    CLEAN[case]()


@pytest.mark.parametrize("seed", range(3))
def test_worlds_bring_no_warning(seed):
    worlds.random_tabular(seed=seed).simulate(steps=400, units=100, seed=seed)
    worlds.PaperWorld(p=2, seed=seed).simulate(steps=400, units=20, seed=seed)


TAILS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "lognormal, sigma 2": lambda rng, n: rng.lognormal(sigma=2.0, size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "student, 3 degrees": lambda rng, n: rng.standard_t(3, n),
    "poisson": lambda rng, n: rng.poisson(2.0, n).astype(float),
    "mostly zero": lambda rng, n: (rng.random(n) < 0.02) * rng.lognormal(3.0, 1.0, n),
    "a walk": lambda rng, n: np.cumsum(rng.normal(size=n)),
}


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("rows", [100, 4_000])
def test_tails_are_no_outliers(name, rows):
    """False alarms on 100 columns: at most three, which 1 % exceed in 2 % of such tests."""
    rng = np.random.default_rng(5)
    found = [find_outliers(TAILS[name](rng, rows)) for _ in range(100)]
    assert sum(each is not None for each in found) <= 3


@pytest.mark.parametrize("value", [1e4, 1e8, 1e30, 1e150, -1e150])
def test_one_cell_among_4000_is_found(value, rng):
    values = rng.normal(size=4_000)
    values[17] = value
    found = find_outliers(values)
    assert found is not None
    np.testing.assert_array_equal(found.rows, [17])


@pytest.mark.parametrize("units", [20, 200])
@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("kinds", [2, 10, 300])
def test_histories_that_coincide_by_chance_are_no_copies(units, length, kinds):
    """False alarms in 200 panels of few states: at most six, 3 %."""
    rng = np.random.default_rng(6)
    unit = np.repeat(np.arange(units), length)
    rows = rng.integers(0, kinds, (200, units * length)).astype(np.uint64)
    assert sum(copied_units(row, unit) is not None for row in rows) <= 6


def test_a_panel_brings_one_screen_of_warnings():
    bad = frame(**{f"id{i}": np.arange(1_000) * (i + 2) % 997 for i in range(9)})
    bad = bad.rename({f"id{i}": f"id_{i}" for i in range(9)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        panel(bad, state=["x", *(f"id_{i}" for i in range(9))])
    assert len(caught) == 7
    assert "3 more findings about these data will be shown" in str(caught[-1].message)
    assert sum(-(-len(str(each.message)) // 80) for each in caught) <= 24

"""Predictions in parts, from file to file, against predictions of all rows at once."""

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr.cli import main
from deeppqr.prediction import _file, _table
from deeppqr.prediction._file import predict_file


@pytest.fixture(scope="module")
def fitted():
    """A logit with a category; 120 states, of which one is far outside."""
    rng = np.random.default_rng(3)
    rows = 600
    frame = pl.DataFrame(
        {
            "size": rng.normal(size=rows),
            "kind": rng.choice(["a", "b"], size=rows),
            "choice": rng.choice(["no", "yes"], size=rows),
            "id": np.arange(rows) // 20,
        }
    )
    panel = deeppqr.Panel.from_frame(
        frame, state=["size", "kind"], action="choice", unit="id"
    )
    fit = deeppqr.PQR(discount=0.8, anchor="no").fit(panel)
    new = frame.select("size", "kind")[:120].with_columns(name=pl.lit("x") + pl.lit("y"))
    return fit, new.with_columns(
        size=pl.when(pl.arange(120) == 7).then(99).otherwise("size")
    )


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(_file, "PART_ROWS", 50)
    monkeypatch.setattr(_table, "BLOCK_ROWS", 16)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_parts_make_the_whole(fitted, tmp_path, small_parts, ending):
    fit, states = fitted
    states.write_parquet(tmp_path / "new.parquet")
    states.write_csv(tmp_path / "new.csv")
    out = fit.predict(tmp_path / f"new.{ending}", out=tmp_path / f"out.{ending}")
    read = pl.read_parquet if ending == "parquet" else pl.read_csv
    found, whole = read(out), fit.predict(states)
    assert found.columns == [*states.columns, *whole.columns]
    assert found["name"].to_list() == states["name"].to_list()
    for name in whole.columns:  # blocks of other sizes round the last digits otherwise
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-9, atol=1e-12)
    assert not found["inside_data"][7]


def test_some_tables_alone(fitted, tmp_path):
    fit, states = fitted
    whole = fit.predict(states)
    found = fit.predict(states, only=["value", "reward"])
    assert found.columns == ["reward_no", "reward_yes", "value"]
    for name in found.columns:
        np.testing.assert_array_equal(found[name], whole[name])
    with pytest.raises(
        deeppqr.DataError, match=r"`only` must name some of .*, but it names 'rewards'"
    ):
        fit.predict(states, only="rewards")


def test_errors_are_those_of_the_fit(fitted):
    """Standard errors and ends of intervals in the order of the actions, beside rewards."""
    fit, states = fitted
    found = fit.predict(states, only="reward", errors=True, level=0.8)
    kinds = ("reward", "se", "low", "high")
    assert found.columns == [f"{kind}_{label}" for kind in kinds for label in fit.actions]
    low, high = fit.interval(states, 0.8)
    given = dict(zip(kinds[1:], (fit.standard_errors(states), low, high), strict=True))
    for kind, figures in given.items():
        table = found.select(f"{kind}_no", f"{kind}_yes")
        np.testing.assert_allclose(table, figures, rtol=1e-9, atol=1e-12)
    assert found["se_yes"].min() > 0
    assert found["se_no"].max() == 0  # the anchor's reward is known
    assert not [name for name in fit.predict(states, errors=False).columns if "se_" in name]
    with pytest.raises(deeppqr.DataError, match="`level` must lie between 0 and 1"):
        fit.predict(states, level=95)
    with pytest.raises(deeppqr.DataError, match="names 'errors' alone, which"):
        fit.predict(states, only="errors", errors=False)


def test_errors_from_file_to_file(fitted, tmp_path, small_parts):
    fit, states = fitted
    states.write_parquet(tmp_path / "new.parquet")
    words = ["predict", str(fit.save(tmp_path / "fit")), str(tmp_path / "new.parquet")]
    assert main([*words, "--out", str(tmp_path / "a.parquet"), "--level", "0.8"]) == 0
    found = pl.read_parquet(tmp_path / "a.parquet")
    low, high = fit.interval(states, 0.8)
    np.testing.assert_allclose(found["low_yes"], low[:, 1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["high_yes"], high[:, 1], rtol=1e-9, atol=1e-12)
    assert main([*words, "--out", str(tmp_path / "b.csv"), "--no-errors"]) == 0
    without = fit.predict(states, errors=False).columns
    assert pl.read_csv(tmp_path / "b.csv").columns == [*states.columns, *without]


def test_fits_without_errors_say_so_once(tmp_path, small_parts, capsys):
    """Their tables have no such columns, whether they were asked for or not."""
    panel = deeppqr.worlds.KnownCostBus().simulate(steps=400, units=20, seed=1)
    fit = deeppqr.PQR(
        discount=0.5,
        anchor="replace",
        policy="logit",
        anchor_value="linear",
        reward="linear",
    ).fit(panel)
    states = pl.DataFrame({"mileage": [1.0, 2.0, 3.0] * 40})
    without = fit.predict(states)
    assert not [name for name in without.columns if name.startswith("se_")]
    states.write_parquet(tmp_path / "new.parquet")
    with pytest.warns(deeppqr.DataWarning, match="Errors are left out. This fit") as told:
        fit.predict(tmp_path / "new.parquet", errors=True, out=tmp_path / "out.parquet")
    assert len(told) == 1
    found = pl.read_parquet(tmp_path / "out.parquet").columns
    assert found == [*states.columns, *without.columns]
    words = ["predict", str(fit.save(tmp_path / "fit")), str(tmp_path / "new.parquet")]
    assert main([*words, "--out", str(tmp_path / "p.parquet")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("no errors of the rewards: This fit has no standard errors") == 1


def test_what_was_counted(fitted, tmp_path, small_parts):
    fit, states = fitted
    bad = states.with_columns(
        kind=pl.when(pl.arange(120) == 60).then(None).otherwise("kind")
    )
    bad.write_parquet(tmp_path / "new.parquet")
    out = tmp_path / "out.parquet"
    found = predict_file(fit, tmp_path / "new.parquet", out, bad_rows="empty")
    assert (found.rows, found.empty, found.outside) == (120, 1, 1)
    assert pl.read_parquet(out)["value"].null_count() == 1


def test_a_bad_row_leaves_no_file(fitted, tmp_path, small_parts):
    fit, states = fitted
    bad = states.with_columns(
        kind=pl.when(pl.arange(120) == 60).then(None).otherwise("kind")
    )
    bad.write_parquet(tmp_path / "new.parquet")
    with pytest.raises(
        deeppqr.DataError,
        match=r"begins with row 50, .*'kind' must not be missing, but row 10",
    ):
        fit.predict(tmp_path / "new.parquet", out=tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["new.parquet"]


def test_columns_that_are_there_already_are_kept(fitted, tmp_path):
    fit, states = fitted
    states.with_columns(value=1.0).write_parquet(tmp_path / "new.parquet")
    with pytest.raises(deeppqr.DataError, match="has a column 'value' already"):
        fit.predict(tmp_path / "new.parquet", out=tmp_path / "out.parquet")

"""Predictions in parts, from file to file, against predictions of all rows at once."""

import numpy as np
import polars as pl
import pytest

import deeppqr
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

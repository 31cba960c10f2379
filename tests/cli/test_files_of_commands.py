"""`deeppqr fit` of several files, which stay on disk."""

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr.cli import main
from deeppqr.worlds import random_tabular

ROLES = {"state": ["s"], "action": "action", "unit": "unit", "time": "time"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files of ten units each, in a folder."""
    frame = random_tabular(seed=4).simulate(steps=2_000, units=20, seed=5).to_frame()
    folder = tmp_path_factory.mktemp("decisions")
    for half in (0, 1):
        frame.filter(pl.col("unit") // 10 == half).write_parquet(folder / f"{half}.parquet")
    return folder


def command(*data, out, leave_out=()):
    named = [("--state", "s"), ("--action", "action"), ("--unit", "unit")]
    named += [("--time", "time"), ("--anchor", "0"), ("--discount", "0.9")]
    words = [word for pair in named if pair[0] not in leave_out for word in pair]
    return ["fit", *map(str, data), *words, "--out", str(out), "--quiet", "--no-report"]


@pytest.mark.parametrize("how", ["pattern", "folder", "files"])
def test_a_pattern_a_folder_and_files_are_scanned(folder, tmp_path, how):
    pattern = folder / "*.parquet"
    data = {"pattern": [pattern], "folder": [folder], "files": sorted(folder.iterdir())}
    assert main(command(*data[how], out=tmp_path / "run")) == 0
    found = deeppqr.load(tmp_path / "run")
    panel = deeppqr.Panel.scan(str(pattern), **ROLES)
    expected = deeppqr.PQR(discount=0.9, anchor=0).fit(panel)
    states = np.arange(7.0)[:, None]
    np.testing.assert_array_equal(found.reward(states), expected.reward(states))
    assert found.provenance["panel"]["rows"] == 2_000


def test_a_file_with_a_pattern_for_a_name(folder, tmp_path):
    odd = tmp_path / "week[1].parquet"
    odd.write_bytes((folder / "0.parquet").read_bytes())
    assert main(command(odd, out=tmp_path / "run")) == 0
    assert deeppqr.load(tmp_path / "run").provenance["panel"]["rows"] == 1_000


@pytest.mark.parametrize(
    ("data", "changes", "message"),
    [
        ("*.parquet", {"leave_out": ["--unit"]}, "--unit must name the column"),
        ("*.csv", {}, "must name Parquet files"),
        ("none/*.parquet", {}, "there is no file"),
    ],
)
def test_what_cannot_be_scanned(folder, tmp_path, capsys, data, changes, message):
    assert main(command(folder / data, out=tmp_path / "run", **changes)) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_amounts_are_read_from_one_file(folder, tmp_path, capsys):
    amounts = ["--action-range", "0", "10"]
    assert main([*command(folder, out=tmp_path / "run"), *amounts]) == 2
    assert "Amounts are read from one file" in " ".join(capsys.readouterr().err.split())

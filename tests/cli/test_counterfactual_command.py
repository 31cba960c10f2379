"""`deeppqr counterfactual`: the library's answers, from words of a command line."""

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr.cli import main
from deeppqr.counterfactual import NewAction
from deeppqr.worlds import random_tabular


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a fit of three actions, 0, 1 and 2, in five states."""
    panel = random_tabular(5, 3, seed=4).simulate(steps=3_000, units=30, seed=5)
    model = deeppqr.PQR(discount=0.9, anchor=0, policy="frequency", reward="joint")
    folder = tmp_path_factory.mktemp("fits") / "run"
    model.fit(panel).save(folder)
    return folder


CASES = {
    "--transfer 1=0.3 2=-0.1 --periods 4": {"transfer": {1: 0.3, 2: -0.1}, "periods": 4},
    "--remove 2 --scale 0.9": {"remove": [2], "scale": 0.9},
    "--add lease=1 --transfer lease=0.2": {
        "add": {"lease": NewAction(like=1)},
        "transfer": {"lease": 0.2},
    },
    "--scale 1=0.5 --anchor-bounds -0.1 0.1": {
        "scale": {1: 0.5},
        "anchor_bounds": (-0.1, 0.1),
    },
    "--discount 0.8 --level 0.9": {"discount": 0.8, "level": 0.9},
}


# Bounds solve the problem again at every step.
BOUNDED = "--scale 1=0.5 --anchor-bounds -0.1 0.1"
ASKED = [
    pytest.param(words, marks=[pytest.mark.slow] if words == BOUNDED else [])
    for words in CASES
]


@pytest.mark.parametrize("words", ASKED)
def test_the_command_and_the_library_agree(run, words, tmp_path, capsys):
    out = tmp_path / "table.csv"
    assert main(["counterfactual", str(run), *words.split(), "--out", str(out)]) == 0
    answer = deeppqr.load(run).counterfactual(**CASES[words])
    assert answer.text() in capsys.readouterr().out
    written = pl.read_csv(out)
    np.testing.assert_allclose(written["change"], answer.changes)
    np.testing.assert_allclose(written["low"], [each.low for each in answer.figures])


def test_states_to_start_from(run, tmp_path):
    fit = deeppqr.load(run)
    start = pl.DataFrame({fit.encoding.names[0]: [0.0, 3.0]})
    start.write_csv(tmp_path / "start.csv")
    words = ["--transfer", "1=0.3", "--states", str(tmp_path / "start.csv"), "--quiet"]
    out = tmp_path / "table.parquet"
    assert main(["counterfactual", str(run), *words, "--out", str(out)]) == 0
    expected = fit.counterfactual(start, transfer={1: 0.3})
    np.testing.assert_allclose(pl.read_parquet(out)["change"], expected.changes)


@pytest.mark.parametrize("ending", ["txt", "md", "tex", "html"])
def test_the_table_as_text(run, ending, tmp_path):
    out = tmp_path / f"table.{ending}"
    words = ["--transfer", "1=0.3", "--quiet", "--out", str(out)]
    assert main(["counterfactual", str(run), *words]) == 0
    answer = deeppqr.load(run).counterfactual(transfer={1: 0.3})
    rendered = {
        "txt": answer.text,
        "md": answer.markdown,
        "tex": answer.latex,
        "html": answer.html,
    }[ending]
    assert out.read_text("utf-8") == rendered() + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--transfer 1", "`--transfer` takes pairs such as large=0.3, but '1' arrived"),
        ("--transfer =2", "but '=2' arrived"),
        ("--transfer 1=2 --transfer 1=3", "names '1' twice, with 2 and 3"),
        ("--transfer 7=0.3", "`transfer` must be one of the actions [0, 1, 2]"),
        ("--transfer 1=wages", "wages"),
        ("--scale half", "`--scale` takes one number for all actions, or pairs"),
        ("--scale 1=half", "but 'half' arrived"),
        ("--remove 0 1 2", "takes away all actions"),
        ("--add lease", "`--add` takes pairs such as lease=large"),
        ("--add lease=9", "`like` must be one of the actions"),
        ("--periods 0", "`periods` must be a whole number"),
        ("--discount 1", "`discount` must lie in"),
        ("--level 2", "level"),
        ("--out table.xlsx", "--out must end in one of .csv, .parquet, .txt"),
        ("--states none.csv", "none.csv"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    run, words, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    told = words if "--out" in words else f"{words} --out table.csv"
    assert main(["counterfactual", str(run), *told.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

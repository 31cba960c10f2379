"""Options of `deeppqr simulate` that make no sense are refused by name, and leave no file."""

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr.cli import main

SIZE = ["--steps", "200", "--units", "10"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["paper", "--reward-scale", "nan"],
            "`reward_scale` must be a number between -1e+06",
        ),
        (["paper", "--reward-scale", "inf"], "and 1e+06, but it is inf"),
        (["paper", "--reward-scale", "-inf"], "and 1e+06, but it is -inf"),
        (["paper", "--reward-scale", "1e308"], "and 1e+06, but it is 1e+308"),
        (["paper", "--p", "0"], "`p` must be a whole number, 1 to 21,201, but it is 0"),
        (["paper", "--p", "-1"], "but it is -1"),
        (["paper", "--p", "1000000"], "but it is 1000000"),
        (["paper", "--temperature", "nan"], "`temperature` must be positive and finite"),
        (["paper", "--temperature", "0"], "`temperature` must be positive and finite"),
        (["paper", "--discount", "nan"], "`discount` must lie in [0, 1), but it is nan"),
        (["paper", "--discount", "1"], "`discount` must lie in [0, 1), but it is 1.0"),
        (
            ["tabular", "--states", "0"],
            "`num_states` must be a whole number, 1 to 3,162, but",
        ),
        (["tabular", "--states", "-3"], "but it is -3"),
        (
            ["tabular", "--states", "1000000"],
            "With 3 actions, more would not fit in memory",
        ),
        (
            ["tabular", "--actions", "0"],
            "`num_actions` must be a whole number, 2 or more, but",
        ),
        (["tabular", "--actions", "1"], "2 or more, but it is 1"),
        (["tabular", "--actions", "1000000"], "With 1000000 actions, more would not fit"),
        (["tabular", "--actions", "1000000000"], "`num_states` must be"),
        (
            ["tabular", "--steps", "0"],
            "`steps` must be a whole number, 1 to 100,000,000, but",
        ),
        (["tabular", "--steps", "-10", "--units", "-5"], "`steps` must be a whole number"),
        (["tabular", "--steps", "10", "--units", "0"], "`units` must be a whole number"),
        (
            ["tabular", "--steps", "10", "--units", "3"],
            "10 steps do not split evenly over 3",
        ),
        (["tabular", "--steps", "100000000000"], "but it is 100000000000"),
        (["tabular", "--seed", "-1"], "`seed` must be a whole number, 0 or more"),
        (["tabular", "--world-seed", "-1"], "`seed` must be a whole number, 0 or more"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_make_no_sense(words, message, tmp_path, capsys):
    sizes = [] if "--steps" in words else SIZE
    assert main(["simulate", *words, *sizes, "--out", str(tmp_path / "d.csv")]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["paper", "--reward-scale", "-1"],
        ["paper", "--reward-scale", "0"],
        ["paper", "--temperature", "1e300"],
        ["paper", "--discount", "0"],
        ["tabular", "--states", "1"],
        ["tabular", "--temperature", "1e300"],
    ],
    ids=" ".join,
)
def test_options_that_are_unusual_but_make_sense(words, tmp_path):
    out = tmp_path / "d.csv"
    assert main(["simulate", *words, *SIZE, "--quiet", "--out", str(out)]) == 0
    assert pl.read_csv(out)["action"].n_unique() > 1


@pytest.mark.parametrize("world", ["firms", "app"])
def test_logs_of_units_that_leave(world, tmp_path, capsys):
    """What is printed are the options with which the file is read as it was made."""
    out = tmp_path / "log.csv"
    assert (
        main(["simulate", world, "--units", "16", "--periods", "5", "--out", str(out)]) == 0
    )
    options = capsys.readouterr().out.split("Options of deeppqr fit: ")[1].split()
    given = dict(zip(*[iter(options[options.index("--action") :])] * 2, strict=True))
    state = options[1 : options.index("--action")]
    panel = deeppqr.Panel.from_file(
        out,
        state=state,
        action=given["--action"],
        unit=given["--unit"],
        time=given["--time"],
        terminal=given["--terminal"],
    )
    made = deeppqr.worlds.FirmWorld() if world == "firms" else deeppqr.worlds.AppWorld()
    truth = made.simulate(units=16, periods=5, seed=0)
    assert panel.num_units == 16
    assert panel.terminal.sum() == truth.terminal.sum()
    np.testing.assert_allclose(panel.state, truth.state)
    assert given["--anchor"] == made.anchor

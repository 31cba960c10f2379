"""Amounts on the command line: a range, atoms, and what goes with them."""

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr.cli import main

RANGE = ["--action-range", "0", "10", "--atom", "0"]


@pytest.fixture(scope="module")
def doses(tmp_path_factory):
    """Twenty patients of fifty days: no dose, or one that follows the pain."""
    rng = np.random.default_rng(0)
    pain = rng.normal(size=1_000)
    amount = np.clip(4 + pain + rng.normal(size=1_000), 0.5, 9.5)
    frame = pl.DataFrame(
        {
            "patient": np.repeat(np.arange(20), 50),
            "day": np.tile(np.arange(50), 20),
            "pain": pain,
            "dose": np.where(rng.random(1_000) < 0.4, 0.0, amount),
        }
    )
    path = tmp_path_factory.mktemp("data") / "doses.csv"
    frame.write_csv(path)
    return path


def command(data: Path, out: Path, *more: str) -> list[str]:
    columns = ["--state", "pain", "--action", "dose", "--unit", "patient", "--time", "day"]
    return ["fit", str(data), *columns, "--discount", "0.9", "--out", str(out), *more]


def test_fit_and_predict_amounts(doses, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(command(doses, run, *RANGE, "--anchor", "0")) == 0
    printed = capsys.readouterr().out
    assert "actions   Mixed(atoms=[0.0], box=Box(0.0, 10.0))   (anchor: 0.0)" in printed
    out = tmp_path / "rewards.csv"
    assert main(["predict", str(run), str(doses), "--out", str(out)]) == 0
    fit, frame = deeppqr.load(run), pl.read_csv(doses)
    predicted = pl.read_csv(out)
    np.testing.assert_allclose(predicted["reward_4.0"], fit.reward(frame, 4.0), atol=1e-9)
    np.testing.assert_allclose(
        predicted["density_4.0"], np.exp(fit.log_policy(frame, 4.0)), atol=1e-9
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--atom", "0", "--anchor", "0"], "--atom names amounts.*there is no --action-range"),
        ([*RANGE, "--anchor", "none"], "--anchor must be a number.*but it is 'none'"),
        (["--action-range", "3", "3", "--anchor", "0"], "`low` of a Box must lie below `high`"),
        (["--action-range", "0", "10", "--anchor", "0"], r"0\.0 is the action of .*Mixed\(atoms"),
        ([*RANGE, "--anchor", "20"], r"`anchor` must be an action of Mixed.*20\.0 arrived"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_ends_in_one_message(
    doses, tmp_path, capsys, options, message, monkeypatch
):
    monkeypatch.setattr(sys, "argv", ["deeppqr"])
    assert main(command(doses, tmp_path / "run", *options)) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") <= 6
    import re

    assert re.search(message, " ".join(printed.split()))
    assert not (tmp_path / "run").exists()

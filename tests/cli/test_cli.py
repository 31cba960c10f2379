"""The command line as a person uses it: what it prints, writes and refuses."""

import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr.cli import main


@pytest.fixture(scope="module")
def decisions(tmp_path_factory):
    """A file of 4,000 simulated decisions."""
    path = tmp_path_factory.mktemp("data") / "demos.parquet"
    run = ["simulate", "tabular", "--steps", "4000", "--units", "20", "--out", str(path)]
    assert main(run) == 0
    return path


COLUMNS = ["--state", "s", "--action", "action", "--unit", "unit", "--time", "time"]


def fit_command(data, out, *changes):
    return [
        "fit",
        str(data),
        *COLUMNS,
        "--anchor",
        "0",
        "--discount",
        "0.9",
        "--out",
        str(out),
        *changes,
    ]


def test_simulate_fit_predict(decisions, tmp_path, capsys):
    assert main(fit_command(decisions, tmp_path / "run")) == 0
    printed = capsys.readouterr().out
    assert "PQR: reward identified by an anchor action" in printed
    assert "held_out_gain" in printed
    out = tmp_path / "rewards.csv"
    assert main(["predict", str(tmp_path / "run"), str(decisions), "--out", str(out)]) == 0
    predicted, fit = pl.read_csv(out), deeppqr.load(tmp_path / "run")
    expected = fit.reward(pl.read_parquet(decisions))
    np.testing.assert_allclose(predicted["reward_2"], expected[:, 2])
    np.testing.assert_allclose(
        predicted["prob_0"] + predicted["prob_1"] + predicted["prob_2"], 1
    )


def test_the_command_and_the_library_agree(decisions, tmp_path):
    main(fit_command(decisions, tmp_path / "run", "--quiet", "--temperature", "2"))
    panel = deeppqr.Panel.from_file(
        decisions, state=["s"], action="action", unit="unit", time="time"
    )
    fit = deeppqr.PQR(discount=0.9, anchor=0, temperature=2.0).fit(panel)
    states = np.arange(7.0)[:, None]
    np.testing.assert_array_equal(
        deeppqr.load(tmp_path / "run").reward(states), fit.reward(states)
    )


def test_quiet_prints_nothing(decisions, tmp_path, capsys):
    main(fit_command(decisions, tmp_path / "run", "--quiet"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_simulate_paper_repeats_with_its_seed(tmp_path):
    names = [tmp_path / f"{i}.csv" for i in range(3)]
    for name, seed in zip(names, ("1", "1", "2"), strict=True):
        run = [
            "simulate",
            "paper",
            "--p",
            "2",
            "--steps",
            "100",
            "--units",
            "5",
            "--seed",
            seed,
        ]
        assert main([*run, "--out", str(name)]) == 0
    one, again, other = (name.read_text() for name in names)
    assert one == again
    assert one != other
    assert one.splitlines()[0] == "unit,time,x1,x2,action"


def test_anchor_as_typed(tmp_path):
    """A label is found by its text, whatever its type in the file."""
    rng = np.random.default_rng(0)
    base = {
        "s": rng.integers(0, 3, 300),
        "u": np.arange(300) // 10,
        "t": np.arange(300) % 10,
    }
    for name, actions, typed in (
        ("text", rng.choice(["none", "buy"], 300), "none"),
        ("number", rng.choice([0.0, 1.0], 300), "0"),
        ("flag", rng.choice([True, False], 300), "False"),
    ):
        pl.DataFrame({**base, "a": actions}).write_parquet(tmp_path / f"{name}.parquet")
        run = ["fit", str(tmp_path / f"{name}.parquet"), "--state", "s", "--action", "a"]
        run += ["--unit", "u", "--time", "t", "--anchor", typed, "--discount", "0.5"]
        assert main([*run, "--out", str(tmp_path / name), "--quiet"]) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--state", "z"], "`state` names the column 'z'"),
        (
            ["--anchor", "none"],
            "--anchor must be one of the actions ['0', '1', '2'], but it is 'none'",
        ),
        (["--anchor", "11"], "but it is '11'. Did you mean '1'?"),
        (["--discount", "1.5"], "`discount` must lie in [0, 1), but it is 1.5"),
        (["--temperature", "0"], "`temperature` must be positive"),
        (["--anchor-reward", "g"], "names the column 'g', which is not a state column"),
    ],
)
def test_bad_input_ends_in_one_message(changes, message, decisions, tmp_path, capsys):
    assert main(fit_command(decisions, tmp_path / "run", *changes)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_small_negative_numbers_are_numbers(decisions, tmp_path):
    run = fit_command(decisions, tmp_path / "run", "--anchor-reward", "-1e-3", "--quiet")
    assert main(run) == 0
    assert deeppqr.load(tmp_path / "run").reward([[1.0]])[0, 0] == -1e-3


def test_existing_output_is_refused_before_any_work(tmp_path, capsys):
    assert main(fit_command(tmp_path / "nothing.csv", tmp_path)) == 2
    assert "exists already, and nothing is overwritten" in capsys.readouterr().err


def test_missing_files_and_folders(decisions, tmp_path, capsys):
    assert main(fit_command(tmp_path / "no.csv", tmp_path / "run")) == 2
    assert "There is no file" in capsys.readouterr().err
    out = tmp_path / "r.csv"
    assert main(["predict", str(tmp_path), str(decisions), "--out", str(out)]) == 2
    assert "is not a saved fit" in capsys.readouterr().err
    assert main(["simulate", "paper", "--out", str(tmp_path / "d.txt")]) == 2
    assert "--out must end in .csv or .parquet" in capsys.readouterr().err


def test_predictions_do_not_replace_columns(decisions, tmp_path, capsys):
    main(fit_command(decisions, tmp_path / "run", "--quiet"))
    taken = tmp_path / "taken.csv"
    pl.read_parquet(decisions).with_columns(value=pl.lit(1)).write_csv(taken)
    assert (
        main(
            ["predict", str(tmp_path / "run"), str(taken), "--out", str(tmp_path / "r.csv")]
        )
        == 2
    )
    assert "has a column 'value' already" in capsys.readouterr().err
    assert not (tmp_path / "r.csv").exists()


def test_predicting_for_no_states(decisions, tmp_path, capsys):
    """A file without rows gives one without rows, with the same columns as any."""
    stages = ["--policy", "logit", "--anchor-value", "linear", "--reward", "linear"]
    main(fit_command(decisions, tmp_path / "run", *stages, "--quiet"))
    (tmp_path / "none.csv").write_text("s\n")
    out = tmp_path / "out.csv"
    run = ["predict", str(tmp_path / "run"), str(tmp_path / "none.csv"), "--out", str(out)]
    assert main(run) == 0
    assert "0 states predicted" in capsys.readouterr().out
    assert out.read_text().startswith("s,reward_0,reward_1,reward_2,q_0")
    assert len(out.read_text().splitlines()) == 1


def test_simulate_says_what_the_file_leaves_out(tmp_path, capsys):
    out = tmp_path / "d.csv"
    run = ["simulate", "tabular", "--steps", "200", "--units", "10", "--out", str(out)]
    assert main(run) == 0
    assert "190 next states will be seen when it is read" in capsys.readouterr().out
    again = deeppqr.Panel.from_file(
        out, state=["s"], action="action", unit="unit", time="time"
    )
    assert again.has_next.sum() == 190


def test_interruption_leaves_nothing(decisions, tmp_path, monkeypatch, capsys):
    def interrupted(self, panel):
        raise KeyboardInterrupt

    monkeypatch.setattr(deeppqr.PQR, "fit", interrupted)
    assert main(fit_command(decisions, tmp_path / "run")) == 130
    assert "interrupted" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_demo_writes_its_folder(tmp_path, capsys, monkeypatch):
    """Without `--out` beside one that is there already."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert main(["demo", "--p", "2", "--steps", "1000", "--reward-scale", "5"]) == 0
    printed = capsys.readouterr().out
    assert "Q read as the reward, minus Q(anchor)" in printed
    names = {path.name for path in (tmp_path / "demo-2").iterdir()}
    assert names == {
        "fit",
        "table.csv",
        "rewards.png",
        "report.txt",
        "report.html",
        "recovery.png",
        "demonstrations.parquet",
    }
    page = (tmp_path / "demo-2" / "report.html").read_text(encoding="utf-8")
    assert "Against the truth" in page
    assert len(page) < 3_000_000
    table = pl.read_csv(tmp_path / "demo-2" / "table.csv")
    assert table["nmse"][0] < table["nmse"][1]
    assert table["nmse"][3] == 1.0
    assert (tmp_path / "demo-2" / "rewards.png").read_bytes()[:4] == b"\x89PNG"


def test_importing_is_light():
    """No numerical library is loaded, no device started, before something needs it."""
    code = "import sys, deeppqr, deeppqr.cli; print([m for m in ('jax', 'numpy', 'sklearn') if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [["--help"], []], ids=["asked for", "nothing typed"])
def test_help_names_every_job(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert all(job in printed for job in ("demo", "fit", "predict", "simulate"))


def test_every_stage_can_be_named(capsys):
    """The names that the model's manual lists are those that the command line offers."""
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    printed = capsys.readouterr().out
    manual = deeppqr.PQR.__doc__ or ""
    for stage in ("policy", "anchor_value", "reward"):
        with pytest.raises(deeppqr.DataError, match="must be one of") as refused:
            deeppqr.PQR(discount=0.9, anchor=0, **{stage: "no such name"})  # type: ignore
        names = set(re.findall(r"'([\w-]+)'", str(refused.value).split("]")[0]))
        offered = re.findall(rf"--{stage.replace('_', '-')}\s*{{([^}}]*)}}", printed)
        assert set(re.sub(r"\s+", "", offered[-1]).split(",")) == names
        assert all(f'`"{name}"`' in manual for name in names)


def test_a_fit_is_checked_by_simulation(decisions, tmp_path, capsys):
    """The table, and each panel's figures in the fit's folder."""
    command = fit_command(decisions, tmp_path / "run", "--no-report", "--check", "2")
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "Simulation check" in printed
    assert "2 replicates" in printed
    rows = pl.read_csv(tmp_path / "run" / "check.csv")
    assert set(rows["replicate"]) == {0, 1}
    deeppqr.load(tmp_path / "run")


def test_what_cannot_be_checked_is_refused_before_the_fit(decisions, tmp_path, capsys):
    assert main(fit_command(decisions, tmp_path / "run", "--check", "0")) == 2
    assert "--check takes a number of panels" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()

"""`deeppqr study` as a person uses it."""

import subprocess
import sys
from functools import partial

import polars as pl
import pytest

import deeppqr
from deeppqr.cli import main
from deeppqr_studies import STUDIES, find_study
from deeppqr_studies.command import make_parser

RewardRecovery = type(find_study("reward-recovery"))

TINY = ["--worlds", "paper", "--p", "2", "--scale", "5", "--steps", "2000", "--units", "20"]


def reward_recovery(out, *methods, seeds=("1",)):
    settings = [*TINY, "--seeds", *seeds, "--methods", *methods]
    return ["study", "reward-recovery", "--out", str(out), *settings]


def test_list_names_every_study(capsys):
    assert main(["study", "--list"]) == 0
    printed = capsys.readouterr().out.splitlines()
    names = [
        "reward-recovery",
        "q-recovery",
        "training-error",
        "convergence",
        "error-budget",
        "robustness",
        "sensitivity",
        "alpha-selection",
        "anchor-support",
        "rust-table-ix",
        "rust-pqr",
        "bus-known-cost",
        "samq-bus",
        "airline",
    ]
    assert [line.split()[0] for line in printed] == names


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["study", name, "--help"])
    assert stop.value.code == 0
    assert find_study(name).title.split()[0] in capsys.readouterr().out


def test_sizes_that_make_no_sense_leave_no_folder(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["study", "samq-bus", "--steps", "-5", "--out", str(out)]) == 2
    assert "`steps` must be at least 1, not -5" in capsys.readouterr().err
    assert not out.exists()


def test_without_a_name(capsys):
    assert main(["study"]) == 2
    assert "name one of ['airline', " in capsys.readouterr().err


def test_a_wrong_name_ends_in_one_message(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["study", "nothing"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "invalid choice: 'nothing' (choose from" in error
    assert "reward-recovery" in error
    assert "error-budget" in error


def test_reward_recovery_end_to_end(tmp_path, monkeypatch, capsys):
    quick = partial(deeppqr.baselines.BehaviouralCloning, policy="logit")
    monkeypatch.setattr("deeppqr.baselines.BehaviouralCloning", quick)
    run = reward_recovery(tmp_path / "run", "zero", "cloning", "oracle")
    assert main(run) == 0
    printed = capsys.readouterr().out
    assert "The paper's world at scale 5: mean NMSE of r" in printed
    names = {path.name for path in (tmp_path / "run").iterdir()}
    drawn = ("paper-world", "paper-world-mse", "paper-world-mse-truncated")
    figures = {f"{name}.{ending}" for name in drawn for ending in ("png", "pdf")}
    texts = {"study.json", "summary.txt", "summary.md", "table.csv", "times.csv"}
    assert names == {"tasks", *texts, *figures}
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    zero, cloning, oracle = table.rows(named=True)
    assert zero["nmse"] == 1.0
    assert zero["policy_kl"] is None
    assert oracle["nmse"] < 0.1
    assert oracle["given"] == "the form of the reward, the true continuation"
    assert 0 <= oracle["policy_kl"] < cloning["policy_kl"]
    # The oracle is handed what follows, so that its Q and its reward miss alike.
    assert oracle["q_mse"] == pytest.approx(oracle["mse"] * 4 / 5)
    assert (tmp_path / "run" / "paper-world.png").read_bytes()[:4] == b"\x89PNG"

    assert main([*run, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_the_buses_end_to_end(tmp_path, capsys):
    run = ["study", "reward-recovery", "--worlds", "known-cost-bus", "samq-bus"]
    run += ["--trajectories", "50", "--irrelevant", "--samq-steps", "200"]
    run += ["--seeds", "1", "2", "--methods", "zero", "oracle"]
    assert main([*run, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "GLADIUS, published" in printed
    assert "mean squared error of three slopes" in printed
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    assert len(table) == 6  # no oracle on the SAmQ bus
    bus = table.filter(pl.col("world") == "known-cost-bus")
    assert (bus.filter(pl.col("method") == "oracle")["mape"] < 5).all()
    # A zero reward has slopes zero: one of three is off by one.
    slopes = table.filter(pl.col("world") == "samq-bus")["slope_mse"]
    assert slopes.to_list() == pytest.approx([1 / 3, 1 / 3])


def test_error_budget_end_to_end(tmp_path, capsys):
    run = ["study", "error-budget", "--worlds", "known-cost-bus", "--seeds", "1"]
    run += ["--trajectories", "50", "--irrelevant"]
    assert main([*run, "--out", str(tmp_path / "run")]) == 0
    assert "V centred, NMSE" in capsys.readouterr().out
    rows = pl.read_csv(tmp_path / "run" / "table.csv").rows(named=True)
    by_name = {row["variant"]: row for row in rows}
    assert by_name["true policy"]["given"] == "the true policy"
    assert by_name["true law"]["given"] == "the true transitions"
    assert 0 < by_name["estimated"]["value_nmse"] < 1
    assert all(row["nmse"] < 0.05 for row in rows)
    assert (tmp_path / "run" / "error-budget.pdf").exists()


def test_unknown_methods_and_worlds_leave_no_folder(tmp_path, capsys):
    assert main(reward_recovery(tmp_path / "run", "magic")) == 2
    assert "`methods` must be among ['cloning', " in capsys.readouterr().err
    assert main([*reward_recovery(tmp_path / "run", "zero"), "--worlds", "mars"]) == 2
    assert "`worlds` must be among" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused(tmp_path, capsys):
    assert main(reward_recovery(tmp_path / "run", "zero")) == 0
    assert main(reward_recovery(tmp_path / "run", "zero", seeds=("1", "2"))) == 2
    assert "`seeds` is [1] there and [1, 2] now" in capsys.readouterr().err


def test_an_interrupt_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(self, task):
        raise KeyboardInterrupt

    run = reward_recovery(tmp_path / "run", "zero")
    with monkeypatch.context() as patch:
        patch.setattr(RewardRecovery, "run", interrupted)
        assert main(run) == 130
    message = capsys.readouterr().err
    assert "finished tasks are kept" in message
    command = message.splitlines()[-1].split()
    assert command[:2] == ["deeppqr", "study"]
    assert main(command[1:]) == 0


def test_failures_end_in_status_2(tmp_path, monkeypatch, capsys):
    def failing(self, task):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(RewardRecovery, "run", failing)
    assert main([*reward_recovery(tmp_path / "run", "zero"), "--quiet"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 of 1 tasks failed" in captured.err
    assert "out of luck" in captured.err


def test_a_wrong_executor_leaves_no_folder(tmp_path, capsys):
    run = reward_recovery(tmp_path / "run", "zero")
    assert main([*run, "--executor", "moon"]) == 2
    assert "`executor` must be here, cores, cores:N, ray or" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["rust-pqr", "rust-table-ix"])
def test_seeds_are_no_option_where_nothing_is_drawn_by_them(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["study", name, "--seeds", "1"])
    assert stop.value.code == 2
    assert "unrecognized arguments: --seeds 1" in capsys.readouterr().err


@pytest.mark.parametrize("premium", ["-1e-3", "-.5", "-2.", "-3E+1"])
def test_negative_numbers_are_values(premium):
    parsed = make_parser().parse_args(["anchor-support", "--premium", "0", premium])
    assert parsed.premium == [0.0, float(premium)]


def test_a_corrected_command_goes_into_the_same_folder(tmp_path, monkeypatch, capsys):
    def failing(self, task):
        raise ValueError("`p` is too small")

    with monkeypatch.context() as patch:
        patch.setattr(RewardRecovery, "run", failing)
        assert main(reward_recovery(tmp_path / "run", "zero", seeds=("1", "2"))) == 2
    assert "`p` is too small" in capsys.readouterr().err
    assert main(reward_recovery(tmp_path / "run", "zero")) == 0


def table_from_the_shell(out, executor, *settings):
    """Where JAX has not started yet: it rounds by its number of threads."""
    code = "import sys; from deeppqr.cli import main; sys.exit(main())"
    study = ["study", "reward-recovery", "--worlds", "paper", *settings]
    where = ["--quiet", "--executor", executor, "--out", str(out / executor)]
    subprocess.run([sys.executable, "-c", code, *study, *where], check=True)
    return (out / executor / "table.csv").read_bytes()


@pytest.mark.slow
def test_networks_are_the_same_in_other_processes(tmp_path):
    settings = [*TINY, "--seeds", "1", "--methods", "cloning", "maxent"]
    here, cores = (
        table_from_the_shell(tmp_path, e, *settings) for e in ("here", "cores:1")
    )
    assert here == cores


@pytest.mark.slow
def test_the_paper_s_networks_are_the_same_side_by_side(tmp_path):
    """Two processes at a time, with a seed each."""
    settings = ["--p", "2", "--scale", "5", "--steps", "300", "--units", "10"]
    settings += ["--seeds", "1", "2", "--methods", "paper"]
    here, cores = (
        table_from_the_shell(tmp_path, e, *settings) for e in ("here", "cores:2")
    )
    assert here == cores

"""`deeppqr study` as a person uses it."""

from functools import partial

import polars as pl
import pytest

from deeppqr.cli import main
from deeppqr.studies import RewardRecovery

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
    from deeppqr.studies import _methods

    quick = partial(_methods.BehaviouralCloning, policy="logit")
    monkeypatch.setattr(_methods, "BehaviouralCloning", quick)
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
    assert by_name["true continuation"]["continuation_nmse"] < 1e-12
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


@pytest.mark.slow
def test_networks_are_the_same_in_other_processes(tmp_path):
    """From the shell, where JAX has not started: it rounds by its number of threads."""
    import subprocess
    import sys

    code = "import sys; from deeppqr.cli import main; sys.exit(main())"
    tables = []
    for executor in ("here", "cores:1"):
        run = reward_recovery(tmp_path / executor, "cloning", "maxent")
        command = [sys.executable, "-c", code, *run, "--quiet", "--executor", executor]
        subprocess.run(command, check=True)
        tables.append((tmp_path / executor / "table.csv").read_bytes())
    assert tables[0] == tables[1]

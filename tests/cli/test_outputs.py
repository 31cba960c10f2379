"""What the command line does when its output cannot be written or printed, and when it is told to stop."""

import io
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import StorageError
from deeppqr.cli import main

COLUMNS = ["--state", "s", "--action", "action", "--unit", "unit", "--time", "time"]
STAGES = ["--policy", "frequency", "--reward", "table"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """400 decisions and a fit of them."""
    folder = tmp_path_factory.mktemp("home")
    run = ["simulate", "tabular", "--steps", "400", "--units", "10", "--quiet"]
    assert main([*run, "--out", str(folder / "d.csv")]) == 0
    assert main(fit_command(folder, folder / "fit", "--quiet")) == 0
    return folder


def fit_command(home, out, *more):
    words = ["fit", str(home / "d.csv"), *COLUMNS, "--anchor", "0", "--discount", "0.9"]
    return [*words, *STAGES, "--out", str(out), *more]


def predict_command(home, out, *more):
    return ["predict", str(home / "fit"), str(home / "d.csv"), "--out", str(out), *more]


@pytest.fixture
def never_fits(monkeypatch):
    def fit(self, panel):
        raise AssertionError("the output was to be checked before the fit")

    monkeypatch.setattr(deeppqr.PQR, "fit", fit)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("d.csv/run", "is not a folder. Choose another place"),
        ("n" * 300, "File name too long. Choose a shorter name"),
        ("dangling", "exists already (a link that leads nowhere)"),
        ("/proc/deeppqr/run", "cannot be written: No such file or directory"),
        ("/dev/null", "exists already, and nothing is overwritten"),
        ("a\0b", "`--out` must be a path"),
        ("", "exists already, and nothing is overwritten"),
    ],
)
def test_an_output_is_checked_before_the_fit(
    out, message, home, tmp_path, never_fits, capsys
):
    (tmp_path / "d.csv").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert main(fit_command(home, tmp_path / out)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "None" not in error


@pytest.mark.parametrize(
    "words",
    [["simulate", "paper"], ["predict", "fit", "d.csv"], ["demo"]],
    ids=lambda w: w[0],
)
def test_every_output_is_checked_first(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main([*words, "--out", "file/x.csv"]) == 2
    assert "file is not a folder. Choose another place" in capsys.readouterr().err


def test_a_fit_that_cannot_be_saved_is_kept(home, tmp_path, monkeypatch, capsys):
    """Another run has saved under its name in the meantime."""
    real = deeppqr.PQR.fit

    def fit(self, panel):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / "theirs").write_text("foreign")
        return real(self, panel)

    monkeypatch.setattr(deeppqr.PQR, "fit", fit)
    assert main(fit_command(home, tmp_path / "run")) == 2
    error = capsys.readouterr().err
    assert (
        f"exists already, and nothing is overwritten. Choose another name, or remove it first. The result is kept: {tmp_path / 'run-2'}"
        in error
    )
    assert deeppqr.load(tmp_path / "run-2").anchor == 0
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["theirs"]


@pytest.mark.parametrize("foreign", ["file", "link"])
def test_predictions_replace_nothing(foreign, home, tmp_path, monkeypatch, capsys):
    out, real = tmp_path / "p.csv", deeppqr.Fit.predict

    def predict(self, *arguments, **options):
        if foreign == "file":
            out.write_text("foreign")
        else:
            out.symlink_to("nowhere")
        return real(self, *arguments, **options)

    monkeypatch.setattr(deeppqr.Fit, "predict", predict)
    assert main(predict_command(home, out)) == 2
    assert f"The result is kept: {tmp_path / 'p-2.csv'}" in capsys.readouterr().err
    assert len(pl.read_csv(tmp_path / "p-2.csv")) == 400
    assert {p.name for p in tmp_path.iterdir()} == {"p.csv", "p-2.csv"}
    assert (
        os.readlink(out) == "nowhere" if out.is_symlink() else out.read_text() == "foreign"
    )


@pytest.mark.parametrize("name", ["big.csv", "big.parquet", "fit"])
def test_a_full_disk(name, home, tmp_path):
    """A limit on the size of files ends in the same way, and needs no disk."""
    words = ["simulate", "tabular", "--steps", "40000", "--out", name]
    code = (
        "import resource, sys; from deeppqr.cli import main\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({2**17 if name == 'big.csv' else 2**12},) * 2)\n"
        "sys.exit(main())"
    )
    words = fit_command(home, name) if name == "fit" else words
    run = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        env={
            **os.environ,
            "TMPDIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert f"{name} cannot be written: File too large. Choose a place" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


class Closed(io.StringIO):
    """Standard output that fails: a closed pipe, or a full disk behind it."""

    def __init__(self, problem):
        super().__init__()
        self.problem = problem

    def write(self, text):
        raise self.problem

    def flush(self):
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (BrokenPipeError(32, "Broken pipe"), ""),
        (
            OSError(28, "No space left"),
            "deeppqr: the rest could not be printed: No space left.\n",
        ),
    ],
)
@pytest.mark.parametrize("job", ["fit", "predict", "simulate", "study"])
def test_what_was_saved_is_no_failure_if_nobody_reads_of_it(
    problem, said, job, home, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "out.csv"
    words = {
        "fit": fit_command(home, tmp_path / "out.csv"),
        "predict": predict_command(home, out),
        "simulate": ["simulate", "tabular", "--steps", "50", "--out", str(out)],
        "study": ["study", "--list"],
    }[job]
    monkeypatch.setattr(sys, "stdout", Closed(problem))
    assert main(words) == 0
    assert capsys.readouterr().err == said
    assert out.exists() or job == "study"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_streams_that_are_closed(stream, home, tmp_path, monkeypatch):
    """As `deeppqr ... >&-` leaves them."""
    monkeypatch.setattr(sys, stream, None)
    assert main(predict_command(home, tmp_path / "p.csv")) == 0
    assert main(predict_command(home, tmp_path / "p.csv")) == 2


def test_a_terminal_that_lacks_characters(home, tmp_path, monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    print_greek = lambda parsed: print("é = 0.9")
    monkeypatch.setattr("deeppqr.cli._predict.run", print_greek)
    monkeypatch.setattr("deeppqr.cli._predict.say", print_greek)
    assert main(predict_command(home, tmp_path / "p.csv")) == 0
    narrow.flush()
    assert narrow.buffer.getvalue() == b"? = 0.9\n"  # pyright: ignore


def test_memory_that_runs_out_is_said(home, tmp_path, monkeypatch, capsys):
    def fit(self, panel):
        raise MemoryError("Unable to allocate 22 TiB")

    monkeypatch.setattr(deeppqr.PQR, "fit", fit)
    assert main(fit_command(home, tmp_path / "run")) == 2
    assert (
        "There is not enough memory. Unable to allocate 22 TiB" in capsys.readouterr().err
    )


def test_termination_leaves_nothing(home, tmp_path, monkeypatch, capsys):
    """SIGTERM in the middle of writing, as a batch system sends it."""
    real = deeppqr.Fit.summary

    def summary(self):
        assert list(tmp_path.iterdir())  # the hidden folder
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
        return real(self)

    monkeypatch.setattr(deeppqr.Fit, "summary", summary)
    assert main(fit_command(home, tmp_path / "run")) == 130
    assert "interrupted" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_two_fits_under_one_name(home, tmp_path):
    """The one that comes second says where its fit is; neither is lost."""
    fit, said = deeppqr.load(home / "fit"), []

    def save():
        try:
            fit.save(tmp_path / "run")
        except StorageError as problem:
            said.append(str(problem))

    savers = [threading.Thread(target=save) for _ in range(6)]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join()
    assert len(said) == 5
    assert all("nothing is overwritten" in text for text in said)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert deeppqr.load(tmp_path / "run").actions == fit.actions


def test_loading_takes_little_memory(home):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    deeppqr.load(home / "fit")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**15  # 32 MB


@pytest.fixture(scope="module")
def towns(tmp_path_factory):
    """A fit with a category and a number, saved."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("towns")
    frame = pl.DataFrame(
        {
            "town": rng.choice(["Bath", "Hull", "York"], 300),
            "age": rng.uniform(0, 10, 300).round(2),
            "buys": rng.integers(0, 2, 300),
            "who": np.repeat(np.arange(30), 10),
            "when": np.tile(np.arange(10), 30),
        }
    )
    panel = deeppqr.Panel.from_frame(
        frame, state=["town", "age"], action="buys", unit="who", time="when"
    )
    fit = deeppqr.PQR(
        discount=0.8, anchor=0, policy="logit", anchor_value="linear", reward="linear"
    ).fit(panel)
    fit.save(folder / "fit")
    return folder, fit


NEW = "town,age,id\nBath,5,a\nParis,5,b\nHull,,c\nYork,400,d\n,1,e\n"


def test_a_bad_row_is_refused_and_the_way_out_named(towns, tmp_path, capsys):
    folder, _ = towns
    (tmp_path / "new.csv").write_text(NEW)
    words = ["predict", str(folder / "fit"), str(tmp_path / "new.csv")]
    assert main([*words, "--out", str(tmp_path / "p.csv")]) == 2
    error = capsys.readouterr().err
    assert "'town' has the category 'Paris' in row 1, which was not in the data" in error
    assert "`deeppqr predict ... --bad-rows empty`" in error
    assert not (tmp_path / "p.csv").exists()


def test_bad_rows_are_left_empty_and_counted(towns, tmp_path, capsys):
    folder, fit = towns
    (tmp_path / "new.csv").write_text(NEW)
    words = [
        "predict",
        str(folder / "fit"),
        str(tmp_path / "new.csv"),
        "--bad-rows",
        "empty",
    ]
    assert main([*words, "--out", str(tmp_path / "p.csv")]) == 0
    printed = capsys.readouterr().out
    assert "5 states predicted, written to" in printed
    assert "3 rows could not be predicted and left empty" in printed
    assert "1 state outside the data (inside_data is false there)" in printed
    found = pl.read_csv(tmp_path / "p.csv")
    assert found["id"].to_list() == list("abcde")
    assert found["inside_data"].to_list() == [True, None, None, False, None]
    good = pl.DataFrame({"town": ["Bath", "York"], "age": [5.0, 400.0]})
    np.testing.assert_allclose(found["reward_1"][[0, 3]], fit.reward(good)[:, 1])
    np.testing.assert_allclose(found["q_0"][[0, 3]], fit.q(good)[:, 0])
    np.testing.assert_allclose(found["value"][[0, 3]], fit.value(good))
    assert found["reward_0"].null_count() == 3


def test_predictions_agree_with_the_functions(towns):
    _, fit = towns
    states = pl.DataFrame({"town": ["Bath", "Hull"], "age": [1.0, 2.0]})
    found = fit.predict(states)
    np.testing.assert_array_equal(found.select("reward_0", "reward_1"), fit.reward(states))
    np.testing.assert_array_equal(found.select("q_0", "q_1"), fit.q(states))
    np.testing.assert_array_equal(
        found.select("prob_0", "prob_1"), np.exp(fit.log_policy(states))
    )
    assert fit.predict(states.clear()).shape == (0, 8)
    with pytest.raises(
        deeppqr.DataError, match='`bad_rows` must be "error" or "empty", but'
    ):
        fit.predict(states, bad_rows="skip")
    with pytest.raises(deeppqr.DataError, match="'age' was numeric when"):
        fit.predict(states.with_columns(age=pl.lit("x")), bad_rows="empty")


def test_all_rows_bad(towns):
    _, fit = towns
    found = fit.predict(
        pl.DataFrame({"town": ["Oslo"] * 3, "age": [1.0] * 3}), bad_rows="empty"
    )
    assert found.height == found["value"].null_count() == 3


def test_states_that_a_table_lacks(home):
    fit = deeppqr.load(home / "fit")
    states = np.array([[0.0], [99.0], [3.0], [np.inf]])
    with pytest.raises(
        deeppqr.DataError, match=r"must be finite.*fit\.predict\(states, bad"
    ):
        fit.predict(states)
    with pytest.raises(
        deeppqr.DataError, match=r"is none of them.*fit\.predict\(states, bad"
    ):
        fit.predict(states[:3])
    found = fit.predict(states, bad_rows="empty")
    assert found["inside_data"].to_list() == [True, None, True, None]
    np.testing.assert_array_equal(
        found["reward_1"][[0, 2]], fit.reward(states[[0, 2]])[:, 1]
    )

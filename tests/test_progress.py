"""Lines that say what was chosen: on standard error, late, and only where they are shown."""

import numpy as np
import pytest

from deeppqr import NotConvergedWarning, progress
from deeppqr.cli import main
from deeppqr.reward._rounds import Fitted, warn_unless_converged


def test_nothing_is_printed_by_default(capsys):
    progress.tell("law", "a table")
    with progress.show(False):
        progress.tell("law", "a table")
    assert capsys.readouterr() == ("", "")


def test_lines_wait_until_the_work_has_lasted(capsys):
    with progress.show():
        progress.tell("law", "a table")
        assert capsys.readouterr().err == ""
        lines = progress._told.get()
        assert lines is not None
        lines.started -= progress.DELAY
        progress.tell("terms", "lines")
        assert capsys.readouterr().err == "law: a table\nterms: lines\n"
    with progress.show():
        progress.tell("law", "of a quick fit")
    assert capsys.readouterr().err == ""


def test_lines_that_are_asked_for_come_at_once_and_are_wrapped(capsys):
    with progress.show(False, lines=True):
        progress.tell("terms", "word " * 40)
        out, err = capsys.readouterr()
    assert out == ""
    first, *more = err.splitlines()
    assert first.startswith("terms: word")
    assert len(more) == 2
    assert all(len(line) <= progress.WIDTH for line in [first, *more])
    assert all(line.startswith("    word") for line in more)


@pytest.fixture
def words(tmp_path):
    """A quick fit from the command line, whose standard error is no terminal."""
    data = str(tmp_path / "d.csv")
    run = ["simulate", "tabular", "--steps", "400", "--units", "10", "--quiet"]
    assert main([*run, "--out", data]) == 0
    words = ["fit", data, "--state", "s", "--action", "action", "--unit", "unit"]
    words += ["--time", "time", "--anchor", "0", "--discount", "0.9", "--no-report"]
    return [*words, "--reward", "joint", "--out", str(tmp_path / "run")]


def test_a_fit_says_what_it_chooses_where_that_is_asked_for(words, capsys):
    assert main([*words, "--verbose"]) == 0
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("    ")]
    said = ["policy", "law", "lines", "terms", "held out"]
    assert [line.split(":")[0] for line in lines] == said
    assert "next states by" in err
    assert "effective coefficients in" in err
    assert "nats a decision in units left out; the coefficients are" in " ".join(
        err.split()
    )
    assert "next states by" not in out.splitlines()[0]


@pytest.mark.parametrize("more", [[], ["--verbose", "--quiet"]])
def test_a_fit_in_a_pipe_says_nothing_on_standard_error(words, more, capsys):
    assert main([*words, *more]) == 0
    assert capsys.readouterr().err == ""


class Basis:
    group = np.array([0, -1])


def stopped(converged):
    """Information 2 and 4, a gradient of 3 and 2, a penalty of 1 on the first."""
    return Fitted(
        Basis(),
        np.array([1.0, 1.0]),
        np.array([1.0]),
        np.array([1.0]),
        np.diag([2.0, 4.0]),
        np.array([4.0, 2.0]),
        np.zeros((1, 2)),
        8,
        converged,
    )


def test_rounds_that_stop_short_warn_in_words():
    """The parabola's gain: 3 of the first, (4 - 1)^2 / (2 + 1), 1 of the second, halved."""
    assert stopped(False).left_to_gain == pytest.approx(2.0, abs=1e-3)
    with pytest.warns(NotConvergedWarning, match=r"8 rounds on 1,000 decisions .* 2 nats"):
        warn_unless_converged(stopped(False), 1_000)
    warn_unless_converged(stopped(True), 1_000)  # an error here if it warned

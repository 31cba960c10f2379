"""Running every week: a configuration file, dated and replaced outputs, exit statuses."""

import datetime
import os

import numpy as np
import pytest

import deeppqr
from deeppqr.cli import main
from deeppqr.cli._main import PAGE, build_parser

CONFIG = """
data = "d.csv"
state = ["s"]
action = "action"
unit = "unit"
time = "time"
anchor = 0
discount = 0.9
policy = "frequency"
reward = "table"
quiet = true
"""


@pytest.fixture
def home(tmp_path):
    """A folder with 400 decisions and their configuration."""
    run = ["simulate", "tabular", "--steps", "400", "--units", "10", "--quiet"]
    assert main([*run, "--out", str(tmp_path / "d.csv")]) == 0
    (tmp_path / "deeppqr.toml").write_text(CONFIG)
    return tmp_path


def from_config(home, *more):
    return main(["fit", "--config", str(home / "deeppqr.toml"), *more])


def test_a_file_stands_for_the_options(home, capsys):
    """Paths in it are relative to it; nothing has to be typed but the folder."""
    assert from_config(home, "--out", str(home / "typed")) == 0
    words = ["fit", str(home / "d.csv"), "--state", "s", "--action", "action"]
    words += ["--unit", "unit", "--time", "time", "--anchor", "0", "--discount", "0.9"]
    words += ["--policy", "frequency", "--reward", "table", "--quiet"]
    assert main([*words, "--out", str(home / "by-hand")]) == 0
    states = np.arange(7.0)[:, None]
    fits = [deeppqr.load(home / name) for name in ("typed", "by-hand")]
    np.testing.assert_array_equal(fits[0].reward(states), fits[1].reward(states))
    assert capsys.readouterr().out == ""


def test_the_command_line_wins(home):
    more = ["--discount", "0.5", "--anchor", "1", "--out", str(home / "run")]
    assert from_config(home, *more) == 0
    fit = deeppqr.load(home / "run")
    assert (fit.discount, fit.anchor) == (0.5, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("discuont = 0.5", "but 'discuont' is none. Did you mean 'discount'?"),
        ("discount = true", "'discount' must be a number, but it is True"),
        ("seed = 1.5", "'seed' must be a whole number, but it is 1.5"),
        ('policy = "logti"', "'policy' must be one of 'auto', 'frequency', 'logit'"),
        ("action = ['a', 'b']", "'action' must be one value, but it is a list of 2 values"),
        ("state = []", "'state' must name one at least, but the list is empty"),
        ('quiet = "yes"', "'quiet' must be true or false, but it is 'yes'"),
        ("data = 3", "'data' must be a path as text, but it is 3"),
        ("[discount]", "'discount' must be a value, but it is a table"),
        ("state == 3", "must be a TOML file"),
        ('config = "other.toml"', "but 'config' is none"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(line, message, home, capsys):
    name = line.split(" ")[0].strip("[]")
    kept = [one for one in CONFIG.splitlines() if one.split(" ")[0] != name]
    (home / "deeppqr.toml").write_text("\n".join([*kept, line]))
    assert from_config(home, "--out", str(home / "run")) == 2
    assert message in capsys.readouterr().err
    assert not (home / "run").exists()


def test_a_file_that_is_not_there(home, capsys):
    assert main(["fit", "--config", str(home / "no.toml"), "--out", "run"]) == 2
    assert "There is no file" in capsys.readouterr().err


def test_a_job_without_a_file_has_no_such_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["demo", "--config", "x.toml"])
    assert stop.value.code == 2


def test_dated_folders(home):
    assert from_config(home, "--out", str(home / "runs" / "{date}")) == 0
    (made,) = (home / "runs").iterdir()
    today = datetime.date.today()
    assert abs((today - datetime.date.fromisoformat(made.name)).days) <= 1
    assert deeppqr.load(made).anchor == 0


def test_overwriting_replaces_a_fit_and_nothing_else(home, capsys):
    run = home / "run"
    assert from_config(home, "--out", str(run), "--overwrite") == 0  # nothing there yet
    (run / "notes.txt").write_text("of the first")
    assert from_config(home, "--out", str(run)) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    assert from_config(home, "--out", str(run), "--overwrite", "--discount", "0.5") == 0
    assert deeppqr.load(run).discount == 0.5
    assert not (run / "notes.txt").exists()
    assert {path.name for path in home.iterdir()} == {"d.csv", "deeppqr.toml", "run"}

    (home / "folder").mkdir()
    (home / "folder" / "thesis.tex").write_text("years of work")
    (home / "link").symlink_to(run)
    for name in ("folder", "link", "d.csv"):
        assert from_config(home, "--out", str(home / name), "--overwrite") == 2
        assert "something else" in capsys.readouterr().err
    assert (home / "folder" / "thesis.tex").read_text() == "years of work"


def test_a_fit_that_fails_leaves_the_one_it_was_to_replace(home, monkeypatch, capsys):
    run = home / "run"
    assert from_config(home, "--out", str(run)) == 0

    def refuse(self, folder):
        raise deeppqr.StorageError("no room")

    monkeypatch.setattr(deeppqr.Fit, "save", refuse)
    assert from_config(home, "--out", str(run), "--overwrite") == 2
    assert deeppqr.load(run).anchor == 0


def test_strict_says_by_its_status_what_the_verdicts_are(home, monkeypatch):
    out = str(home / "run")
    status = from_config(home, "--out", out, "--strict")
    concerns = deeppqr.load(out).diagnostics.warnings
    assert status == (1 if concerns else 0)
    assert concerns  # 400 decisions of ten units are few: the case is the one meant


def test_an_error_of_the_program_is_told_from_a_verdict(home, monkeypatch, capsys):
    def fail(self, panel):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(deeppqr.PQR, "fit", fail)
    assert from_config(home, "--out", str(home / "run")) == 3
    error = capsys.readouterr().err
    assert "an error in deeppqr itself" in error
    assert "ZeroDivisionError: a mistake of ours" in error


def test_compare(home, capsys):
    for seed, steps in (("1", "400"), ("2", "400")):
        run = ["simulate", "tabular", "--steps", steps, "--units", "10", "--seed", seed]
        data = home / f"{seed}.csv"
        assert main([*run, "--quiet", "--out", str(data)]) == 0
        assert from_config(home, str(data), "--out", str(home / seed)) == 0
    pair = [str(home / "2"), str(home / "1")]
    assert main(["compare", *pair, "--out", str(home / "moved.csv")]) == 0
    printed = capsys.readouterr().out
    assert "Average rewards, this fit against an earlier one" in printed
    assert "95% over all actions" in printed  # counted tables bring errors
    assert (home / "moved.csv").read_text().startswith("action,earlier,later,change")
    assert main(["compare", *pair, "--level", "1"]) == 2
    assert main(["compare", pair[0], str(home / "nowhere")]) == 2


def test_the_page_of_help_names_jobs_that_exist():
    parser, jobs = build_parser()
    lines = PAGE.splitlines()
    named = {line.split()[1] for line in lines if line.startswith("  deeppqr ")}
    assert named <= set(jobs)
    for name, job in jobs.items():
        if name != "study":
            assert f"deeppqr {name}" in job.format_help().split("options:")[0], name
    # Eighty columns are what a terminal has.
    assert max(map(len, parser.format_help().splitlines())) <= 88


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_the_options(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "--anchor-reward" in script
    assert "compare" in script


def test_replacing_survives_a_rename_that_fails(tmp_path, monkeypatch):
    from deeppqr import _files

    # Where two names cannot be swapped at once.
    monkeypatch.setattr(_files, "_exchanged", lambda one, other: False)
    new, old = tmp_path / "new", tmp_path / "old"
    for folder in (new, old):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    real = os.rename

    def rename(source, target):
        if source == new:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(deeppqr.StorageError, match="cannot be written"):
        _files.replace_folder(new, old)
    assert (old / "name").read_text() == "old"
    assert (new / "name").read_text() == "new"


@pytest.mark.parametrize("swapped", [True, False])
@pytest.mark.parametrize("through", ["run", "run/../run", "other/../run"])
def test_a_path_through_the_folder_itself_is_replaced(
    through, swapped, tmp_path, monkeypatch
):
    from deeppqr import _files

    if not swapped:
        monkeypatch.setattr(_files, "_exchanged", lambda one, other: False)
    for name in ("run", "run.new", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    target = tmp_path / through
    _files.replace_folder(target.with_name("run.new"), target)
    assert (tmp_path / "run" / "name").read_text() == "run.new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "run"]

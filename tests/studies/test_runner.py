"""The machinery of studies: what runs, what is kept, what is refused."""

import json
import os
import time
from contextlib import contextmanager
from typing import ClassVar

import polars as pl
import pytest

from deeppqr import DataError
from deeppqr_studies import (
    STUDIES,
    Option,
    Study,
    Task,
    _folder,
    _runner,
    all_options,
    complete_settings,
    find_study,
    run_study,
    run_task,
)
from deeppqr_studies._digest import CodeVersion, code_version
from deeppqr_studies._problem import cell_name


class Squares(Study):
    """Two tasks unless told otherwise; each can be made to fail or to be interrupted."""

    name = "squares"
    title = "squares of numbers"
    options: ClassVar = {"numbers": Option(int, "+", [2, 3], "what to square")}

    def __init__(self):
        self.ran = []
        self.trouble = {}

    def tasks(self, settings):
        return [
            Task(f"n={n}_seed={seed}", {"n": n, "seed": seed})
            for seed in settings["seeds"]
            for n in settings["numbers"]
        ]

    def run(self, task):
        n = task.parameters["n"]
        self.ran.append(n)
        if n in self.trouble:
            raise self.trouble[n]
        return [{"n": n, "square": n * n, "word": None if n == 2 else "odd"}]

    def report(self, frame, folder):
        (folder / "total.md").write_text(str(frame["square"].sum()))
        (folder / "summary.md").write_text("# Squares\n")
        return f"The squares add up to {frame['square'].sum()}."


@pytest.fixture
def study():
    return Squares()


SEED = {"seeds": [1]}


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_study_leaves_a_whole_folder(study, tmp_path):
    outcome = run_study(study, tmp_path / "run", SEED)
    assert outcome.failures == {}
    assert outcome.num_tasks == 2
    assert "The squares add up to 13." in outcome.text
    assert names(tmp_path / "run") == {
        "study.json",
        "summary.md",
        "summary.txt",
        "table.csv",
        "tasks/n=2_seed=1.json",
        "tasks/n=3_seed=1.json",
        "times.csv",
        "total.md",
    }
    about = json.loads((tmp_path / "run" / "study.json").read_text())
    assert about["study"] == "squares"
    assert about["settings"] == {"seeds": [1], "numbers": [2, 3]}
    assert about["versions"] == code_version(study).versions
    assert about["digest"] == code_version(study).digest
    assert about["cores"] >= 1
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    assert table["task"].to_list() == ["n=2_seed=1", "n=3_seed=1"]
    assert table["word"].to_list() == [None, "odd"]


def test_finished_tasks_are_not_run_again(study, tmp_path):
    first = run_study(study, tmp_path / "run", SEED)
    again = run_study(study, tmp_path / "run", SEED)
    assert study.ran == [2, 3]
    assert again.text == first.text
    about = json.loads((tmp_path / "run" / "study.json").read_text())
    assert len(about["resumed"]) == 1


def test_an_interrupt_keeps_what_was_finished(study, tmp_path):
    study.trouble = {3: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "run", SEED)
    assert names(tmp_path / "run") == {"study.json", "tasks/n=2_seed=1.json"}
    study.trouble = {}
    assert "add up to 13" in run_study(study, tmp_path / "run", SEED).text
    assert study.ran == [2, 3, 3]


def test_an_interrupted_report_leaves_no_half(study, tmp_path, monkeypatch):
    def interrupted(frame, folder):
        (folder / "half.png").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "report", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "run", SEED)
    tasks = {"tasks/n=2_seed=1.json", "tasks/n=3_seed=1.json"}
    tables = {"table.csv", "times.csv"}
    assert names(tmp_path / "run") == {"study.json", *tasks, *tables}


def test_a_failing_report_loses_no_table(study, tmp_path, monkeypatch):
    def failing(frame, folder):
        raise ZeroDivisionError

    run_study(study, tmp_path / "well", SEED)
    monkeypatch.setattr(study, "report", failing)
    with pytest.raises(ZeroDivisionError):
        run_study(study, tmp_path / "run", SEED)
    tables = [(tmp_path / name / "table.csv").read_bytes() for name in ("well", "run")]
    assert tables[0] == tables[1]
    assert len(pl.read_csv(tmp_path / "run" / "times.csv")) == 2


def test_a_failure_is_kept_counted_and_tried_again(study, tmp_path):
    study.trouble = {2: ValueError("two is even")}
    said = []
    outcome = run_study(study, tmp_path / "run", SEED, said.append)
    assert outcome.failures == {"n=2_seed=1": "ValueError: two is even"}
    assert "1 of 2 tasks failed" in outcome.text
    assert "The squares add up to 9." in outcome.text
    assert "1 of 2 tasks failed" in (tmp_path / "run" / "summary.md").read_text()
    assert any("two is even" in line for line in said)
    kept = json.loads((tmp_path / "run/tasks/n=2_seed=1.failed.json").read_text())
    assert "Traceback" in kept["traceback"]

    study.trouble = {}
    outcome = run_study(study, tmp_path / "run", SEED)
    assert study.ran == [2, 3, 2]
    assert outcome.failures == {}
    assert not (tmp_path / "run/tasks/n=2_seed=1.failed.json").exists()
    assert "failed" not in (tmp_path / "run" / "summary.md").read_text()


def test_nothing_finished_is_said(study, tmp_path):
    study.trouble = {2: ValueError("no"), 3: ValueError("no")}
    outcome = run_study(study, tmp_path / "run", SEED)
    assert "No task has finished" in outcome.text
    assert len(outcome.failures) == 2


def test_the_order_of_tasks_does_not_matter(study, tmp_path):
    one = run_study(study, tmp_path / "one", {**SEED, "numbers": [2, 3, 5]})
    study.trouble = {2: ValueError("later"), 3: ValueError("later")}
    run_study(study, tmp_path / "two", {**SEED, "numbers": [2, 3, 5]})
    study.trouble = {}
    two = run_study(study, tmp_path / "two", {**SEED, "numbers": [2, 3, 5]})
    assert study.ran[3:] == [2, 3, 5, 2, 3]
    assert one.text == two.text
    tables = [(tmp_path / name / "table.csv").read_text() for name in ("one", "two")]
    assert tables[0] == tables[1]


def test_other_settings_are_refused(study, tmp_path):
    run_study(study, tmp_path / "run", SEED)
    with pytest.raises(DataError, match=r"`numbers` is \[2, 3\] there and \[2, 4\] now"):
        run_study(study, tmp_path / "run", {**SEED, "numbers": [2, 4]})
    assert study.ran == [2, 3]


def test_other_settings_begin_anew_where_nothing_has_finished(study, tmp_path):
    study.trouble = {2: ValueError("even"), 4: ValueError("even")}
    assert len(run_study(study, tmp_path, {**SEED, "numbers": [2, 4]}).failures) == 2
    outcome = run_study(study, tmp_path, {**SEED, "numbers": [3]})
    assert outcome.failures == {}
    assert {path.name for path in (tmp_path / "tasks").iterdir()} == {"n=3_seed=1.json"}
    about = json.loads((tmp_path / "study.json").read_text())
    assert about["settings"] == {"seeds": [1], "numbers": [3]}
    assert "resumed" not in about
    with pytest.raises(DataError, match="holds this study under other settings"):
        run_study(study, tmp_path, {**SEED, "numbers": [2, 4]})


@pytest.fixture
def older(study, monkeypatch):
    """Pretend that something else is installed, until the block ends."""

    @contextmanager
    def pretend(**changes):
        other = CodeVersion({**code_version(study).versions, **changes}, "0ld")
        with monkeypatch.context() as patch:
            patch.setattr(_folder, "code_version", lambda study: other)
            patch.setattr(_runner, "code_version", lambda study: other)
            yield

    return pretend


def test_more_than_one_version_is_told(study, tmp_path, older):
    study.trouble = {3: KeyboardInterrupt()}
    with older(jax="0.1"), pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path, SEED)
    study.trouble = {}
    said = []
    outcome = run_study(study, tmp_path, SEED, said.append)
    mixed = [
        f"jax 0.1 and {code_version(study).versions['jax']}",
        f"files of deeppqr or of the study 0ld and {code_version(study).digest}",
    ]
    told = f"Tasks were run under more than one version: {'; '.join(mixed)}."
    assert told in outcome.text
    assert told in (tmp_path / "summary.md").read_text()
    assert f"this folder was begun under other versions: {'; '.join(mixed)}" in said
    about = json.loads((tmp_path / "study.json").read_text())
    assert about["versions"]["jax"] == "0.1"
    assert about["resumed"][0]["differs_from_the_beginning"] == mixed


def test_a_new_report_of_old_tasks_is_of_one_version(study, tmp_path, older):
    with older(deeppqr="0.0"):
        first = run_study(study, tmp_path, SEED)
    assert run_study(study, tmp_path, SEED).text == first.text


def test_records_that_tell_no_version_ran_under_the_first(study, tmp_path, older):
    with older(jax="0.1"):
        run_study(study, tmp_path, SEED)
    file = tmp_path / "tasks/n=2_seed=1.json"
    record = json.loads(file.read_text())
    del record["checksum"]
    file.write_text(json.dumps({**record, "versions": code_version(study).versions}))
    assert "more than one version: jax" in run_study(study, tmp_path, SEED).text
    del record["versions"], record["digest"]
    file.write_text(json.dumps(record))
    assert "more than one version" not in run_study(study, tmp_path, SEED).text


def test_another_study_is_refused(study, tmp_path):
    run_study(study, tmp_path / "run", SEED)
    study.name = "cubes"
    with pytest.raises(DataError, match="holds the study 'squares', but 'cubes'"):
        run_study(study, tmp_path / "run", SEED)


def test_a_folder_of_something_else_is_refused(study, tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(DataError, match="exists already and holds no study"):
        run_study(study, tmp_path, SEED)
    assert names(tmp_path) == {"thesis.tex"}


@pytest.mark.parametrize("left", ["", "{", "null", "{}", "\0\0"])
def test_a_damaged_record_is_named_and_run_again(study, tmp_path, left):
    first = run_study(study, tmp_path, SEED)
    (tmp_path / "tasks/n=2_seed=1.json").write_text(left)
    with pytest.warns(UserWarning, match=r"n=2_seed=1.json is not as a study wrote it"):
        again = run_study(study, tmp_path, SEED)
    assert study.ran == [2, 3, 2]
    assert again.text == first.text


@pytest.mark.parametrize("left", ["", "{", "[]", '{"study": "squares"}'])
def test_a_damaged_study_is_refused(study, tmp_path, left):
    run_study(study, tmp_path, SEED)
    (tmp_path / "study.json").write_text(left)
    with pytest.raises(DataError, match=r"study.json is not as a study .* another folder"):
        run_study(study, tmp_path, SEED)
    assert study.ran == [2, 3]


def test_records_are_on_disk_before_they_have_their_name(study, tmp_path, monkeypatch):
    """Else a power cut could leave the name of a file without what is in it."""
    happened = []

    def noting(name):
        real = getattr(os, name)

        def call(*arguments):
            happened.append(name)
            return real(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noting(name))
    _folder.write_json(tmp_path / "record.json", {"a": 1})
    assert happened[:2] == ["fsync", "replace"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"number": [1]}, r"has no setting 'number'; it has \['numbers', 'seeds'\]"),
        ({"numbers": [2, 2]}, "Two tasks are called n=2_seed=1"),
        ({"numbers": []}, "leave no task"),
    ],
)
def test_bad_settings_leave_no_folder(study, tmp_path, settings, message):
    with pytest.raises(DataError, match=message):
        run_study(study, tmp_path / "run", {**SEED, **settings})
    assert list(tmp_path.iterdir()) == []


def test_rows_must_be_finite(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "run", lambda task: [{"square": float("nan")}])
    outcome = run_study(study, tmp_path / "run", SEED)
    assert all("Only finite numbers" in error for error in outcome.failures.values())


def test_warnings_are_kept(study, tmp_path, monkeypatch):
    import warnings

    def warn(task):
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return [{"square": 1}]

    monkeypatch.setattr(study, "run", warn)
    outcome = run_study(study, tmp_path / "run", SEED)
    assert "2 warnings are kept" in outcome.text
    kept = json.loads((tmp_path / "run/tasks/n=2_seed=1.json").read_text())
    assert kept["warnings"] == ["UserWarning: mind the gap"]


def test_task_names_are_file_names():
    with pytest.raises(DataError, match="letters, digits and"):
        Task("a/b", {})
    with pytest.raises(DataError, match="Use lists, not tuples"):
        Task("a", {"p": (1, 2)})


@pytest.mark.parametrize(
    ("scale", "shown"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (0.9999, "0.9999"),
        (10, "10"),
        (1e6, "1000000"),
        (2.5e7, "25000000"),
        (1e-5, "0.00001"),
        (-1e-3, "-0.001"),
    ],
)
def test_sizes_have_no_exponent_in_names(scale, shown):
    name = cell_name({"world": "paper", "scale": scale})
    assert Task(name, {}).name == f"paper_scale={shown}"


@pytest.mark.parametrize("name", ["rust-pqr", "rust-table-ix"])
def test_seeds_are_settings_only_where_they_are_used(name):
    with pytest.raises(DataError, match=f"study {name} has no setting 'seeds'"):
        complete_settings(find_study(name), {"seeds": [1]})


@pytest.mark.parametrize("name", STUDIES)
def test_seeds_change_the_tasks_where_they_are_a_setting(name):
    study = find_study(name)
    if "seeds" in all_options(study):
        one, other = (study.tasks(complete_settings(study, {"seeds": [s]})) for s in (1, 2))
        assert one != other


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_tasks_as_it_comes(name):
    """With no setting chosen, each task has a name of its own that can name a file."""
    names = [
        task.name
        for task in find_study(name).tasks(complete_settings(find_study(name), {}))
    ]
    assert names
    assert len(set(names)) == len(names)


def test_studies_are_found_by_name():
    with pytest.raises(DataError, match=r"no study 'x'; there are \['airline', "):
        find_study("x")


def test_a_task_runs_by_the_name_of_its_study():
    study = find_study("reward-recovery")
    changes = {"worlds": ["samq-bus"], "samq_steps": 60, "methods": ["zero"], "seeds": [1]}
    (task,) = study.tasks(complete_settings(study, changes))
    start = time.perf_counter()
    record = run_task("reward-recovery", task)
    assert record["rows"][0]["nmse"] == 1.0
    assert 0 <= record["seconds"] <= time.perf_counter() - start + 0.01

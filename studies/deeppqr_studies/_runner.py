"""Run the tasks of a study that have not finished, and report on all of them."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from deeppqr import DataError
from deeppqr.cluster import Executor, Failed, Here
from deeppqr.progress import show, track

from ._digest import code_version
from ._folder import StudyFolder
from ._study import Study, Task, complete_settings, to_json_values


@dataclass(frozen=True)
class Outcome:
    """What a run of a study leaves."""

    folder: Path
    text: str
    """The settings and the report."""
    num_tasks: int
    failures: dict[str, str]
    """The error by task, of those that failed. Another run tries these again."""


def run_study(
    study: Study,
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda line: None,
    executor: Executor | None = None,
) -> Outcome:
    """Run the tasks of a study that `folder` does not hold yet, then report on all.

    The folder gets `study.json`, a file in `tasks/` per task, `table.csv`, `times.csv`,
    `summary.txt` and the study's figures. Each task is written as soon as it is finished:
    an interrupt leaves those that were, and the same call goes on from there. A task that
    fails is kept with its error and does not stop the others.

    Parameters
    ----------
    settings
        Values of the study's options; the others have their defaults.
    say
        Called with a line of text for each task that ends.
    executor
        Where the tasks run, see `deeppqr.cluster`; `table.csv` is the same for all.
    """
    values = complete_settings(study, settings or {})
    tasks = study.tasks(values)
    _refuse_repeated(tasks)
    with StudyFolder.open(folder, study, values) as store:
        _run_pending(study, store, tasks, say, executor or Here())
        return _conclude(study, store, tasks, values)


def _run_pending(
    study: Study, store: StudyFolder, tasks: list[Task], say, executor: Executor
) -> None:
    """Run the tasks that have no record yet, and keep each as soon as it ends."""
    pending = [task for task in tasks if store.finished(task) is None]
    done = len(tasks) - len(pending)
    say(f"{study.name}: {len(tasks)} tasks, {done} finished already, in {store.path}")
    changed = store.versions_since()
    if pending and changed:
        say(f"this folder was begun under other versions: {'; '.join(changed)}")
    results = executor.run(_task_function(study), pending)
    with closing(results), track(study.name, len(pending)) as progress:
        for position, record in results:
            task = pending[position]
            if isinstance(record, Failed):
                record = _without_result(task, record)
            store.keep(task, record)
            progress.advance(note=task.name)
            done += 1
            state = record.get("error") or f"{record['seconds']:.1f} s"
            say(f"[{done}/{len(tasks)}] {task.name}: {state}")


@dataclass(frozen=True)
class _RunByName:
    """Runs tasks of a study of this package; only its name is sent to other processes."""

    study: str

    def __call__(self, task: Task) -> dict[str, Any]:
        from . import run_task

        with show(False):  # the bar of the study itself is enough
            return run_task(self.study, task)


@dataclass(frozen=True)
class _RunByObject:
    """Runs tasks of a study from elsewhere, which is sent as a whole."""

    study: Study

    def __call__(self, task: Task) -> dict[str, Any]:
        with show(False):
            return attempt(self.study, task)


def _task_function(study: Study) -> _RunByName | _RunByObject:
    from . import STUDIES

    # Other processes import this package afresh: they do not see a study that a caller
    # has added to `STUDIES`.
    ours = type(study).__module__.startswith(f"{__package__}.")
    registered = ours and STUDIES.get(study.name) is study
    return _RunByName(study.name) if registered else _RunByObject(study)


def _without_result(task: Task, failed: Failed) -> dict[str, Any]:
    about = {"task": task.name, "parameters": task.parameters}
    return {**about, "error": failed.message, "seconds": 0.0, "warnings": []}


def attempt(study: Study, task: Task) -> dict[str, Any]:
    """The record of one task: its rows and its time, or the error it ended in.

    The record also has the warnings, and the code under which the task ran.
    """
    about = {"task": task.name, "parameters": task.parameters}
    record: dict[str, Any] = {**about, **asdict(code_version(study))}
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            record["rows"] = to_json_values(study.run(task))
        except Exception as problem:
            record["error"] = f"{type(problem).__name__}: {problem}"
            record["traceback"] = traceback.format_exc()
    record["seconds"] = round(time.perf_counter() - start, 3)
    record["warnings"] = [f"{w.category.__name__}: {w.message}" for w in caught]
    return record


def _conclude(study: Study, store: StudyFolder, tasks: list[Task], settings) -> Outcome:
    records = {task.name: store.finished(task) for task in tasks}
    finished = [record for record in records.values() if record]
    failures = {
        task.name: store.failure(task) or "has not run"
        for task in tasks
        if records[task.name] is None
    }
    frame = _tabulate(study, store, finished)
    caveats = _caveats(failures, finished, store.versions_among(finished))
    with store.replacing() as partial:
        found = "No task has finished: there is nothing to report."
        if frame is not None:
            found = study.report(frame, partial)
            _append(partial / "summary.md", caveats)
        text = "\n".join([_heading(study, settings), "", found, *caveats])
        (partial / "summary.txt").write_text(text + "\n", encoding="utf-8")
    return Outcome(store.path, text, len(tasks), failures)


def _tabulate(
    study: Study, store: StudyFolder, records: list[dict[str, Any]]
) -> pl.DataFrame | None:
    """Every row of every task, if there are any.

    The tables are written before the report, so that an error in it loses no result.
    """
    rows = [{"task": r["task"], **row} for r in records for row in r["rows"]]
    if not rows:
        return None
    frame = pl.from_dicts(rows, infer_schema_length=None, strict=False)
    seconds = {record["task"]: record["seconds"] for record in records}
    with store.replacing() as partial:
        frame.drop(study.times, strict=False).write_csv(partial / "table.csv")
        _times(study, frame, seconds).write_csv(partial / "times.csv")
    return frame


def _times(study: Study, frame: pl.DataFrame, seconds: dict[str, float]):
    """The columns of time of each row, and the seconds of its whole task."""
    own = [name for name in study.times if name in frame.columns]
    whole = pl.col("task").replace_strict(seconds, return_dtype=pl.Float64)
    times = frame.select("task", *own, whole.alias("task_seconds"))
    return times.unique(maintain_order=True)


def _heading(study: Study, settings: dict[str, Any]) -> str:
    values = {
        name: " ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in settings.items()
    }
    lines = [f"  --{name.replace('_', '-')} {value}" for name, value in values.items()]
    return "\n".join([f"{study.name}: {study.title}", *lines])


def _caveats(
    failures: dict[str, str], finished: list[dict[str, Any]], versions: list[str]
) -> list[str]:
    """What the tables do not show: failures, warnings, other versions of the code."""
    lines = []
    if failures:
        num_tasks = len(failures) + len(finished)
        lines.append("")
        lines.append(f"{len(failures)} of {num_tasks} tasks failed and are missing above:")
        lines += [f"- {name}: {error}" for name, error in failures.items()]
    num_warnings = sum(len(record["warnings"]) for record in finished)
    if num_warnings:
        lines.append("")
        lines.append(f"{num_warnings} warnings are kept in the files of their tasks.")
    if versions:
        lines.append("")
        lines.append(f"Tasks were run under more than one version: {'; '.join(versions)}.")
    return lines


def _append(path: Path, lines: list[str]) -> None:
    if path.exists() and lines:
        with path.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def _refuse_repeated(tasks: list[Task]) -> None:
    names = [task.name for task in tasks]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(
            f"Two tasks are called {repeated[0]} ({len(repeated)} such names). Is a value "
            "given twice?"
        )
    if not tasks:
        raise DataError("These settings leave no task to run.")

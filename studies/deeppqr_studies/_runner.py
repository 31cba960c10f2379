"""Run what is left of a study and report on all of it."""

import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeppqr._errors import DataError
from deeppqr.provenance import installed
from deeppqr.progress import show, track
from deeppqr.cluster import Executor, Failed, Here
from ._folder import StudyFolder
from ._study import Study, Task, complete, plain

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Outcome:
    """Where a study stands after a run."""

    folder: Path
    text: str
    """What was run and what was found."""
    num_tasks: int
    failures: dict[str, str]
    """Why, by task, where a task failed. Another run tries these again."""


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
        Told what happens, line by line.
    executor
        Where the tasks run, see `deeppqr.cluster`; `table.csv` is the same for all.
    """
    chosen = complete(study, settings or {})
    tasks = study.tasks(chosen)
    _refuse_repeated(tasks)
    store = StudyFolder.open(folder, study, chosen)
    pending = [task for task in tasks if store.finished(task) is None]
    done = len(tasks) - len(pending)
    say(f"{study.name}: {len(tasks)} tasks, {done} finished already, in {store.path}")
    changed = store.versions_since()
    if pending and changed:
        say(f"this folder was begun under other versions: {'; '.join(changed)}")
    results = (executor or Here()).run(_call(study), pending)
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
    return _conclude(study, store, tasks, chosen)


@dataclass(frozen=True)
class _Known:
    """A call that other processes get as the name of a study, not as the study."""

    study: str

    def __call__(self, task: Task) -> dict[str, Any]:
        from . import run_task

        with show(False):  # one bar at a time
            return run_task(self.study, task)


@dataclass(frozen=True)
class _Unknown:
    """A call of a study that the package does not know by name."""

    study: Study

    def __call__(self, task: Task) -> dict[str, Any]:
        with show(False):
            return attempt(self.study, task)


def _call(study: Study) -> _Known | _Unknown:
    from . import STUDIES

    # What a caller has entered into the list, other processes do not find there.
    ours = type(study).__module__.startswith(f"{__package__}.")
    known = ours and STUDIES.get(study.name) is study
    return _Known(study.name) if known else _Unknown(study)


def _without_result(task: Task, failed: Failed) -> dict[str, Any]:
    about = {"task": task.name, "parameters": task.parameters}
    return {**about, "error": failed.message, "seconds": 0.0, "warnings": []}


def attempt(study: Study, task: Task) -> dict[str, Any]:
    """The record of one task: its rows and its time, or the error it ended in.

    Warnings are kept in the record, and what is installed where the task ran.
    """
    about = {"task": task.name, "parameters": task.parameters}
    record: dict[str, Any] = {**about, **asdict(installed())}
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            record["rows"] = plain(study.run(task))
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
) -> "pl.DataFrame | None":
    """Every row of every task, if there are any.

    The tables are in the folder before the report is attempted: whatever becomes of it,
    they hold what was computed.
    """
    import polars as pl

    rows = [{"task": r["task"], **row} for r in records for row in r["rows"]]
    if not rows:
        return None
    frame = pl.from_dicts(rows, infer_schema_length=None, strict=False)
    seconds = {record["task"]: record["seconds"] for record in records}
    with store.replacing() as partial:
        frame.drop(study.times, strict=False).write_csv(partial / "table.csv")
        _times(study, frame, seconds).write_csv(partial / "times.csv")
    return frame


def _times(study: Study, frame: "pl.DataFrame", seconds: dict[str, float]):
    """Each row's columns of time, with those of its task from start to end."""
    import polars as pl

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
    """What the tables do not show: failures, warnings, versions that differ."""
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

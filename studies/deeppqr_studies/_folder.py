"""A study on disk: its settings, one file per task, and the tables and figures.

Every file is written under another name first and then renamed, so that a run that is
stopped at any moment can be resumed.
"""

import json
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from deeppqr import DataError

from ._digest import CodeVersion, code_version, list_differences
from ._study import Study, Task

FAILED = ".failed.json"


@dataclass(frozen=True)
class StudyFolder:
    """Where a study keeps its settings and the records of its tasks."""

    path: Path
    begun: CodeVersion
    """The code under which the study began."""
    current: CodeVersion
    """The code under which it runs now."""

    @classmethod
    def open(cls, path: Path, study: Study, settings: dict[str, Any]) -> "StudyFolder":
        """A new folder, or one of the same study and settings to resume.

        A folder in which no task has finished takes other settings: nothing is lost.
        """
        path = Path(path)
        about = path / "study.json"
        current = code_version(study)
        known = {"study": study.name, "settings": settings, **_circumstances(current)}
        if about.exists():
            there = _read_about(about)
            _refuse_other_study(path, there, study)
            differ = _differing(there["settings"], settings)
            if not differ:
                known = _resumed(there, current)
            elif _any_finished(path / "tasks"):
                raise DataError(
                    f"{path} holds this study under other settings: {'; '.join(differ)}. "
                    "Give the settings of the folder to go on with it, or choose another "
                    "folder."
                )
            else:
                for file in (path / "tasks").glob("*.json"):
                    file.unlink()
        else:
            _refuse_other_content(path)
        (path / "tasks").mkdir(parents=True, exist_ok=True)
        write_json(about, known)
        return cls(path, _recorded_version(known), current)

    def finished(self, task: Task) -> dict[str, Any] | None:
        """The record of a task that has succeeded, if it has."""
        record = _read_record(self._file(task, failed=False), "rows")
        return record if record and record["parameters"] == task.parameters else None

    def failure(self, task: Task) -> str | None:
        """Why a task failed, if it did when it last ran."""
        record = _read_record(self._file(task, failed=True), "error")
        return record["error"] if record else None

    def keep(self, task: Task, record: dict[str, Any]) -> None:
        """Write the record of a task that has succeeded or failed."""
        failed = "error" in record
        write_json(self._file(task, failed=failed), record)
        self._file(task, failed=not failed).unlink(missing_ok=True)

    def versions_since(self) -> list[str]:
        """How the code differs from that under which the study began."""
        return list_differences([self.begun, self.current])

    def versions_among(self, records: Iterable[dict[str, Any]]) -> list[str]:
        """How the code differs between these tasks."""
        ran_under = [
            _recorded_version(record) if "versions" in record else self.begun
            for record in records
        ]
        return list_differences(ran_under)

    @contextmanager
    def replacing(self) -> Iterator[Path]:
        """A folder for files that replace the study's own if the block raises nothing."""
        partial = Path(tempfile.mkdtemp(prefix=".report-", dir=self.path))
        try:
            yield partial
            for file in sorted(partial.iterdir()):
                os.replace(file, self.path / file.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _file(self, task: Task, *, failed: bool) -> Path:
        return self.path / "tasks" / f"{task.name}{FAILED if failed else '.json'}"


def _refuse_other_study(path: Path, known: dict[str, Any], study: Study) -> None:
    if known["study"] != study.name:
        raise DataError(
            f"{path} holds the study {known['study']!r}, but {study.name!r} "
            "was asked for. Choose another folder."
        )


def _differing(there: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"`{name}` is {there.get(name)} there and {now.get(name)} now"
        for name in sorted({*there, *now})
        if there.get(name) != now.get(name)
    ]


def _any_finished(tasks: Path) -> bool:
    files = (file for file in tasks.glob("*.json") if not file.name.endswith(FAILED))
    return any(_read_record(file, "rows") for file in files)


def _refuse_other_content(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path} exists already and holds no study. Choose another folder.")


def _read_about(path: Path) -> dict[str, Any]:
    """What `study.json` says."""
    try:
        return _read_json(path, "study", "settings", "versions")
    except ValueError as problem:
        raise DataError(
            f"{path} is not as a study wrote it ({problem}), so that the settings of the "
            "tasks beside it are not known. Choose another folder."
        ) from problem


def _read_record(path: Path, content: str) -> dict[str, Any] | None:
    """The record of a task, if there is one; a file that was cut short is none."""
    if not path.exists():
        return None
    try:
        return _read_json(path, "parameters", content)
    except ValueError as problem:
        warnings.warn(
            f"{path} is not as a study wrote it ({problem}): its task counts as not "
            "finished.",
            UserWarning,
            stacklevel=3,
        )
        return None


def _read_json(path: Path, *expected: str) -> dict[str, Any]:
    """The object in a JSON file; a ValueError unless it is one with these entries."""
    values = json.loads(path.read_text(encoding="utf-8"))
    for name in expected:
        if not isinstance(values, dict) or name not in values:
            raise ValueError(f"it has no {name!r}")
    return values


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write an object as JSON, whole or not at all, even if the power fails."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=".partial", dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(values, file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Have the names in a folder on disk too; Windows has no call for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _resumed(known: dict[str, Any], current: CodeVersion) -> dict[str, Any]:
    """What `study.json` says, with when and under which code the study was resumed."""
    now = _circumstances(current)
    differ = list_differences([_recorded_version(known), current])
    if differ:
        now["differs_from_the_beginning"] = differ
    return {**known, "resumed": [*known.get("resumed", []), now]}


def _recorded_version(record: dict[str, Any]) -> CodeVersion:
    return CodeVersion(record["versions"], record.get("digest", ""))


def _circumstances(current: CodeVersion) -> dict[str, Any]:
    """When, under which code and on which machine a study runs."""
    return {
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        **asdict(current),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }

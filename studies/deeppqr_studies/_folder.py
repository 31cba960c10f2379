"""A study on disk: its settings, one file per task, and what was made of them.

Every file appears whole or not at all, so that a folder is resumable at any moment.
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

from deeppqr._errors import DataError
from deeppqr.provenance import Installed, installed, mixture
from ._study import Study, Task

FAILED = ".failed.json"


@dataclass(frozen=True)
class StudyFolder:
    """Where a study keeps what it has found so far."""

    path: Path
    begun: Installed
    """What was installed when the study began."""

    @classmethod
    def open(cls, path: Path, study: Study, settings: dict[str, Any]) -> "StudyFolder":
        """A new folder, or one of the same study and settings to go on with.

        Where no task has finished, other settings lose nothing and begin anew.
        """
        path = Path(path)
        about = path / "study.json"
        known = {"study": study.name, "settings": settings, **_circumstances()}
        if about.exists():
            there = _read_about(about)
            _refuse_other_study(path, there, study)
            differ = _differing(there["settings"], settings)
            if not differ:
                known = _resumed(there)
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
            _refuse_foreign(path)
        (path / "tasks").mkdir(parents=True, exist_ok=True)
        write_json(about, known)
        return cls(path, _installation(known))

    def finished(self, task: Task) -> dict[str, Any] | None:
        """The record of a task that has run well, if it has."""
        record = _read_record(self._file(task, failed=False), "rows")
        return record if record and record["parameters"] == task.parameters else None

    def failure(self, task: Task) -> str | None:
        """Why a task failed, if it did when it last ran."""
        record = _read_record(self._file(task, failed=True), "error")
        return record["error"] if record else None

    def keep(self, task: Task, record: dict[str, Any]) -> None:
        """Write the record of a task that has run, well or not."""
        failed = "error" in record
        write_json(self._file(task, failed=failed), record)
        self._file(task, failed=not failed).unlink(missing_ok=True)

    def versions_since(self) -> list[str]:
        """What is installed otherwise than when the study began."""
        return mixture([self.begun, installed()])

    def versions_among(self, records: Iterable[dict[str, Any]]) -> list[str]:
        """What was installed otherwise in some of these tasks than in others."""
        ran_under = [
            _installation(record) if "versions" in record else self.begun
            for record in records
        ]
        return mixture(ran_under)

    @contextmanager
    def replacing(self) -> Iterator[Path]:
        """A place for files that replace the folder's own once the block has ended well."""
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


def _refuse_foreign(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path} exists already and holds no study. Choose another folder.")


def _read_about(path: Path) -> dict[str, Any]:
    """What `study.json` says."""
    try:
        return _read_json(path, "study", "settings", "versions")
    except ValueError as problem:
        raise DataError(
            f"{path} is not as a study wrote it ({problem}), and without it nobody knows "
            "which settings the tasks beside it ran under. Choose another folder."
        ) from problem


def _read_record(path: Path, content: str) -> dict[str, Any] | None:
    """What a task left, if it did; a file that was cut short counts as nothing."""
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
    """Have the names in a folder on disk too, where the system lets us ask for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _resumed(known: dict[str, Any]) -> dict[str, Any]:
    """What is known of a study, with when and under what it was gone on with."""
    now = _circumstances()
    differ = mixture([_installation(known), installed()])
    if differ:
        now["differs_from_the_beginning"] = differ
    return {**known, "resumed": [*known.get("resumed", []), now]}


def _installation(about: dict[str, Any]) -> Installed:
    return Installed(about["versions"], about.get("digest", ""))


def _circumstances() -> dict[str, Any]:
    """When, with what and on what a study runs."""
    return {
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        **asdict(installed()),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }

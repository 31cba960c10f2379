"""A study on disk: its settings, one file per task, and what was made of them.

Every file appears whole or not at all, so that a folder is resumable at any moment.
"""

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .._errors import DataError
from ._study import Study, Task

PACKAGES = ("deeppqr", "jax", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class StudyFolder:
    """Where a study keeps what it has found so far."""

    path: Path

    @classmethod
    def open(cls, path: Path, study: Study, settings: dict[str, Any]) -> "StudyFolder":
        """A new folder, or one of the same study and settings to go on with."""
        folder = cls(Path(path))
        about = folder.path / "study.json"
        if about.exists():
            known = read_json(about)
            folder._refuse_other(known, study, settings)
            known["resumed"] = [*known.get("resumed", []), _circumstances()]
        else:
            folder._refuse_foreign()
            known = {"study": study.name, "settings": settings, **_circumstances()}
        (folder.path / "tasks").mkdir(parents=True, exist_ok=True)
        write_json(about, known)
        return folder

    def finished(self, task: Task) -> dict[str, Any] | None:
        """The record of a task that has run well, if it has."""
        path = self._file(task, failed=False)
        record = read_json(path) if path.exists() else None
        return record if record and record["parameters"] == task.parameters else None

    def failure(self, task: Task) -> str | None:
        """Why a task failed, if it did when it last ran."""
        path = self._file(task, failed=True)
        return read_json(path)["error"] if path.exists() else None

    def keep(self, task: Task, record: dict[str, Any]) -> None:
        """Write the record of a task that has run, well or not."""
        failed = "error" in record
        write_json(self._file(task, failed=failed), record)
        self._file(task, failed=not failed).unlink(missing_ok=True)

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
        return self.path / "tasks" / f"{task.name}{'.failed' if failed else ''}.json"

    def _refuse_other(self, known: dict[str, Any], study: Study, settings) -> None:
        if known.get("study") != study.name:
            raise DataError(
                f"{self.path} holds the study {known.get('study')!r}, but {study.name!r} "
                "was asked for. Choose another folder."
            )
        there = known.get("settings", {})
        differ = [
            f"`{name}` is {there.get(name)} there and {settings.get(name)} now"
            for name in sorted({*there, *settings})
            if there.get(name) != settings.get(name)
        ]
        if differ:
            raise DataError(
                f"{self.path} holds this study under other settings: {'; '.join(differ)}. "
                "Give the settings of the folder to go on with it, or choose another "
                "folder."
            )

    def _refuse_foreign(self) -> None:
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise DataError(
                f"{self.path} exists already and holds no study. Choose another folder."
            )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise DataError(
            f"{path} is not a file that a study wrote ({problem}). Remove it, and what "
            "it held will be run again."
        ) from problem


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write an object as JSON, whole or not at all."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=".partial", dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(values, file, indent=1, allow_nan=False)
        partial.chmod(0o644)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _circumstances() -> dict[str, Any]:
    """When, with what and on what a study runs."""
    return {
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": {name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }

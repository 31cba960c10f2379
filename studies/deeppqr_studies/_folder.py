"""A study on disk: its settings, one file per task, and the tables and figures.

Every file is written under another name first and then renamed, so that a run that is
stopped at any moment can be resumed. One run at a time works in a folder: it holds a lock
on a file, which the system drops when the process ends, however it ends.
"""

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import socket
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from deeppqr import DataError

from ._digest import CodeVersion, code_version, list_differences
from ._study import Study, Task

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed: see `_locked`
    fcntl = None

FAILED = ".failed.json"
LOCK = ".lock"
# What is being written; under the lock, any that is there was left by a killed run.
PARTIAL = re.compile(r"\.partial-[0-9a-f]{16}")
MAX_BYTES = 2**28  # of a record; the largest of our studies has 2 MB


@dataclass(frozen=True)
class StudyFolder:
    """Where a study keeps its settings and the records of its tasks."""

    path: Path
    begun: CodeVersion
    """The code under which the study began."""
    current: CodeVersion
    """The code under which it runs now."""

    @classmethod
    @contextmanager
    def open(
        cls, path: Path, study: Study, settings: dict[str, Any]
    ) -> "Iterator[StudyFolder]":
        """A new folder, or one of the same study and settings to resume.

        A folder in which no task has finished takes other settings: nothing is lost. It
        is locked in this block.
        """
        if not isinstance(path, (str, Path)) or "\0" in str(path):
            raise DataError(
                f'`folder` must be a path, such as "runs/1", but it is {path!r}.'
            )
        path = Path(path)
        about = path / "study.json"
        with _explained(path):
            new = not about.exists()
        if new:
            _refuse_other_content(path)
        with _explained(path):
            path.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            _refuse_links(path)
            _remove_leftovers(path)
            yield cls._begun(path, about, study, settings)

    @classmethod
    def _begun(cls, path: Path, about: Path, study: Study, settings) -> "StudyFolder":
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
                for file in (path / "tasks").glob(f"*{FAILED}"):
                    file.unlink()
        else:
            _refuse_other_content(path)
        with _explained(path):
            (path / "tasks").mkdir(exist_ok=True)
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
        partial = _partial_name(self.path)
        try:
            with _explained(self.path):
                partial.mkdir()
            yield partial
            with _explained(self.path):
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
    if not os.path.lexists(path):
        return
    try:
        # A lock is of a run that has just begun, or was killed before it wrote anything.
        foreign = not path.is_dir() or any(
            file.name != LOCK and not PARTIAL.fullmatch(file.name)
            for file in path.iterdir()
            if not (file.name == "tasks" and file.is_dir() and not any(file.iterdir()))
        )
    except OSError as problem:
        raise DataError(f"{path} cannot be read: {problem.strerror}.") from problem
    # Another run may have begun a study here while its files were looked at.
    if foreign and not (path / "study.json").exists():
        raise DataError(f"{path} exists already and holds no study. Choose another folder.")


def _refuse_links(path: Path) -> None:
    """Refuse to write, and to remove, what is not in the folder but linked to it."""
    for name in ("tasks", "study.json"):
        if (path / name).is_symlink():
            raise DataError(
                f"{path / name} is a symbolic link, and a study changes nothing outside "
                "its folder. Put what it leads to in its place, or choose another folder."
            )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let no other run into the folder in this block."""
    file = path / LOCK
    handle = _lock(file)
    try:
        yield
    finally:
        # Removed while it is held, so that nobody removes the lock of another run.
        if fcntl is not None:
            file.unlink(missing_ok=True)
        os.close(handle)
        if fcntl is None:
            file.unlink(missing_ok=True)


def _lock(file: Path) -> int:
    """The handle of a lock file that is ours until the handle is closed."""
    while True:
        with _explained(file.parent):
            handle = os.open(
                file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666
            )
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The run that held it may have removed the file in the meantime.
                if not _is_open(file, handle):
                    os.close(handle)
                    continue
        except BlockingIOError:
            holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
            os.close(handle)
            raise DataError(
                f"{file.parent} is in use by another run ({holder or 'just begun'}). Wait "
                "until it has ended, or choose another folder with --out."
            ) from None
        except OSError:
            # Some network file systems have no locks; runs there have to take turns.
            pass
        # Who holds it, for the message above; a full disk is found by what comes next.
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        return handle


def _is_open(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.stat())
    except FileNotFoundError:
        return False


def _remove_leftovers(path: Path) -> None:
    """Remove what a killed run was writing; nobody else writes while the lock is held."""
    for folder in (path, path / "tasks"):
        with suppress(FileNotFoundError, NotADirectoryError):
            for each in folder.iterdir():
                if PARTIAL.fullmatch(each.name):
                    shutil.rmtree(each) if _is_folder(each) else each.unlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _read_about(path: Path) -> dict[str, Any]:
    """What `study.json` says."""
    kinds = {"study": str, "settings": dict, "versions": dict}
    try:
        return _read_json(path, kinds)
    except (ValueError, OSError) as problem:
        raise DataError(
            f"{path} is not as a study wrote it ({problem}), so that the settings of the "
            "tasks beside it are not known. Choose another folder."
        ) from problem


def _read_record(path: Path, content: str) -> dict[str, Any] | None:
    """The record of a task, if there is one; a file that was cut short is none."""
    if not os.path.lexists(path):
        return None
    kinds = {"task": str, "parameters": dict, "seconds": (int, float), "warnings": list}
    try:
        record = _read_json(path, {**kinds, content: list if content == "rows" else str})
        if content == "rows" and not all(map(_is_row, record["rows"])):
            raise ValueError("its 'rows' are no rows of a table")
        return record
    except (ValueError, OSError) as problem:
        warnings.warn(
            f"{path} is not as a study wrote it ({problem}): its task counts as not "
            "finished.",
            UserWarning,
            stacklevel=3,
        )
        return None


def _is_row(row: Any) -> bool:
    """Whether a row has numbers, texts and None by column name."""
    plain = (str, int, float, type(None))
    return isinstance(row, dict) and all(isinstance(cell, plain) for cell in row.values())


def _read_json(path: Path, kinds: dict[str, Any]) -> dict[str, Any]:
    """The object in a JSON file; a ValueError unless it has these entries, unchanged."""
    # Not a pipe, which nobody may ever write to, and nothing that fills the memory.
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        raise ValueError("it is no file of a reasonable size")
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text, parse_constant=_refused, parse_int=_short)
    except RecursionError:
        raise ValueError("its lists are nested too deeply") from None
    except UnicodeDecodeError as problem:
        raise ValueError(f"byte {problem.start} is no text in UTF-8") from None
    for name, kind in kinds.items():
        if not isinstance(values, dict) or name not in values:
            raise ValueError(f"it has no {name!r}")
        if not isinstance(values[name], kind) or isinstance(values[name], bool):
            raise ValueError(f"its {name!r} is {values[name]!r:.60}")
    versions = values.get("versions", {})
    plain = isinstance(versions, dict) and all(
        isinstance(v, str) for v in versions.values()
    )
    if not plain or not isinstance(values.get("digest", ""), str):
        raise ValueError("its 'versions' and 'digest' are no texts")
    if not isinstance(values.get("resumed", []), list):
        raise ValueError("its 'resumed' is no list")
    # Folders of before there were checksums have none.
    if values.pop("checksum", None) not in (None, _checksum(values)):
        raise ValueError("its contents do not have the checksum written in it")
    return values


def _refused(text: str) -> Any:
    raise ValueError(f"it holds {text}")


def _short(text: str) -> int:
    # Python refuses more than 4,300 digits, with advice for programmers.
    return int(text) if len(text) < 1_000 else _refused(f"{len(text)} digits")


def _checksum(values: dict[str, Any]) -> str:
    """A checksum of the values, whatever the layout of the file."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write an object as JSON with a checksum, whole or not at all, even if power fails."""
    values = json.loads(json.dumps(values, allow_nan=False))
    partial = _partial_name(path.parent)
    try:
        with _explained(path):
            # Not by `tempfile`, whose files ignore the umask.
            with partial.open("x", encoding="utf-8") as file:
                json.dump({**values, "checksum": _checksum(values)}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            _sync_folder(path.parent)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _partial_name(folder: Path) -> Path:
    return folder / f".partial-{secrets.token_hex(8)}"


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors of the system as a sentence about `path`."""
    try:
        yield
    except OSError as problem:
        raise DataError(
            f"{path} cannot be written: {problem.strerror or problem}. Tasks that have "
            "finished are kept; the same command goes on from there once that is mended."
        ) from problem


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

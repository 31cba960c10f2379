"""Atomic writing: outputs appear when complete, and nothing is overwritten.

What is not complete yet has a hidden name and is locked by the process that writes it. The
system drops the lock when the process ends, however it ends: a hidden name of ours that can
be locked is what a killed process left, and the next output in the same folder removes it.
"""

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from ._errors import StorageError

try:
    import fcntl
except ImportError:  # Windows: leftovers stay, as nobody can tell whether they are alive
    fcntl = None

# The machine is part of the name: locks are seen within one machine, and on network file
# systems not always beyond it, so that only its own leftovers are surely dead.
_MACHINE = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_PARTIAL = re.compile(rf"\.deeppqr-{_MACHINE}-[0-9a-f]{{16}}(\.\w+)?")
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
TRIAL = 65_536  # bytes; a fit takes about that, and a full disk refuses the first block
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}
_NUMBER = re.compile(r"os error (\d+)")
_ADVICE = {
    errno.ENOSPC: "Free some space, or choose another place.",
    errno.EDQUOT: "Free some space, or choose another place.",
    errno.EFBIG: "Choose a place that takes files of this size.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """A folder to write into, renamed to `folder` if the block ends without an error."""
    with _complete_or_absent(folder, "folder") as (path, partial):
        yield partial
        for inside in [*partial.rglob("*"), partial]:
            _sync(inside)
        os.rename(partial, path)


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """A file to write to, which gets its name if the block ends without an error."""
    with _complete_or_absent(path, "file") as (path, partial):
        yield partial
        _sync(partial)
        try:
            os.link(partial, path)  # a rename would replace what has appeared meanwhile
        except OSError as problem:
            if problem.errno not in _NO_LINKS:
                raise
            # File systems without hard links: take the name first, then fill it.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            os.replace(partial, path)


@contextmanager
def _complete_or_absent(path: Any, kind: str) -> Iterator[tuple[Path, Path]]:
    """The path and a hidden name beside it, of which nothing is left after the block."""
    path = as_path(path, kind)
    refuse_existing(path)
    made, partial, handle = [], None, None
    try:
        with explained(path):
            there = _nearest_folder(path)
            for parent in reversed(path.absolute().relative_to(there).parents[:-1]):
                (there / parent).mkdir(exist_ok=True)
                made.insert(0, there / parent)
            remove_leftovers(path.parent)
            suffix = path.suffix if kind == "file" else ""
            partial, handle = _hidden(path.parent, suffix, folder=kind == "folder")
            yield path, partial
            _remove(partial)
            _sync(path.parent)
    # BaseException, since an interrupt must not leave a partial output either.
    except BaseException:
        if partial is not None:
            _remove(partial)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise
    finally:
        if handle is not None:
            os.close(handle)


def as_path(value: Any, name: str) -> Path:
    """The value as a path; `name` is the argument it was given for."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise StorageError(
            f'`{name}` must be a path, such as "results/run", but it is {value!r}.'
        )
    return Path(text)


def refuse_existing(path: Path) -> None:
    """Raise if there is something at this path, be it a link that leads nowhere."""
    with explained(path):
        there = os.path.lexists(path) and os.lstat(path)
    if there:
        dangling = path.is_symlink() and not path.exists()
        raise StorageError(
            f"{path} exists already{' (a link that leads nowhere)' * dangling}, and "
            "nothing is overwritten. Choose another name, or remove it first."
        )


def replace_folder(new: Path, old: Path) -> None:
    """Give the folder `new` the name of `old`, which is removed."""
    with explained(old):
        # A path through `old` itself, as in run/../run, would lead nowhere on the way.
        new, old = (p.absolute().parent.resolve() / p.name for p in (new, old))
        # What is left of a removal that is killed is hidden, for the next output to remove.
        aside = old.with_name(f".deeppqr-{_MACHINE}-{secrets.token_hex(8)}")
        if _exchanged(new, old):
            os.rename(new, aside)
        else:
            # Moved aside and not removed first: whatever fails, both are still whole.
            os.rename(old, aside)
            try:
                os.rename(new, old)
            except OSError:
                os.rename(aside, old)
                raise
        _sync(old.parent)
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def replacement(folder: Path) -> Iterator[Path]:
    """A folder to write, which replaces the one that is there when the block ends.

    Until then it is inside a hidden folder, so that what a kill leaves is removed like any
    other leftover. If it cannot be put in place it is kept under another name.
    """
    with explained(folder):
        parent = folder.absolute().parent.resolve()
        remove_leftovers(parent)
        hidden, handle = _hidden(parent, "", folder=True)
    new, old = hidden / folder.absolute().name, parent / folder.absolute().name

    def put(where: Path) -> None:
        if where == old:
            replace_folder(new, old)
            return
        with explained(where):
            where.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(new, where)

    try:
        yield new
        written_somewhere(put, old)
    finally:
        _remove(hidden)
        if handle is not None:
            os.close(handle)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two names at once, so that neither is ever absent; False where that cannot be.

    Linux can. Elsewhere, and on some file systems, a kill between two renames leaves the
    name that is replaced empty.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


def check_output(path: Any, name: str = "folder") -> Path:
    """Raise, before any work is done, if nothing could be written at this path."""
    path = as_path(path, name)
    refuse_existing(path)
    with explained(path):
        there = _nearest_folder(path)
        remove_leftovers(there)
        longest = max(len(os.fsencode(part)) for part in path.parts)
        if hasattr(os, "pathconf") and longest > os.pathconf(there, "PC_NAME_MAX"):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        trial, handle = _hidden(there, "", folder=False)
        try:
            trial.write_bytes(bytes(TRIAL))
        finally:
            _remove(trial)
            if handle is not None:
                os.close(handle)
    return path


def written_somewhere(
    write: Callable[[Path], Any], path: Path, name: Path | None = None
) -> None:
    """Write to `path`, or where that fails to another place, and say which in the error.

    For results of long work, which must not be lost because of where they were to go. The
    other place is beside `name`, by default `path`.
    """
    name = path if name is None else name
    try:
        write(path)
    except StorageError as problem:
        for other in (_beside(name), _in_temporary_folder(name)):
            try:
                write(other)
            except StorageError:
                continue
            raise StorageError(f"{problem} The result is kept: {other}") from problem
        raise


def _beside(path: Path) -> Path:
    names = (path.with_name(f"{path.stem}-{i}{path.suffix}") for i in count(2))
    return next(name for name in names if not os.path.lexists(name))


def _in_temporary_folder(path: Path) -> Path:
    return Path(tempfile.gettempdir()) / f"deeppqr-{secrets.token_hex(4)}" / path.name


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of the system as a sentence about `path`, which the system does not name."""
    try:
        yield
    except OSError as problem:
        if problem.errno in _TAKEN and os.path.lexists(path):
            raise StorageError(
                f"{path} has appeared meanwhile, and nothing is overwritten. Choose "
                "another name."
            ) from problem
        # Polars writes the number into the text.
        number = problem.errno or int((_NUMBER.findall(str(problem)) or [0])[0])
        reason = os.strerror(number) if number else problem
        advice = _ADVICE.get(number, "Choose another place.")
        raise StorageError(f"{path} cannot be written: {reason}. {advice}") from problem


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes of this user and this machine left in a folder."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PARTIAL.fullmatch(entry.name) and not entry.is_symlink():
                with suppress(OSError):
                    _remove_if_dead(Path(entry.path))


def _remove_if_dead(partial: Path) -> None:
    handle = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        ours = os.fstat(handle).st_uid == os.getuid()
        if ours and _lock(handle):
            _remove(partial)
    finally:
        os.close(handle)


def _hidden(parent: Path, suffix: str, *, folder: bool) -> tuple[Path, int | None]:
    """A new hidden file or folder, and the handle that locks it until it is closed."""
    # In the same folder, because a rename is atomic only within a file system; not by
    # `tempfile`, whose files and folders ignore the umask.
    while True:
        partial = parent / f".deeppqr-{_MACHINE}-{secrets.token_hex(8)}{suffix}"
        if folder:
            partial.mkdir()
        else:
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        if fcntl is None:
            return partial, None
        # Another process may have taken it for a leftover before it was locked.
        with suppress(FileNotFoundError):
            handle = os.open(partial, os.O_RDONLY)
            try:
                if _lock(handle) and os.path.samestat(os.fstat(handle), partial.stat()):
                    return partial, handle
            except FileNotFoundError:
                pass
            except OSError:  # a file system without locks: leftovers there stay
                return partial, handle
            os.close(handle)


def _lock(handle: int) -> bool:
    """Whether this open file is now locked by us; False if another one holds it."""
    assert fcntl is not None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _nearest_folder(path: Path) -> Path:
    """The innermost folder on the way to a path that is there already."""
    there = next(each for each in path.absolute().parents if os.path.lexists(each))
    if not there.is_dir():
        raise StorageError(
            f"{path} cannot be written: {there} is not a folder. Choose another place."
        )
    return there


def _remove(partial: Path) -> None:
    if partial.is_dir() and not partial.is_symlink():
        shutil.rmtree(partial, ignore_errors=True)
    else:
        with suppress(OSError):
            partial.unlink()


def _sync(path: Path) -> None:
    """Have a file, or the names in a folder, on disk before the next step."""
    if os.name == "nt" or path.is_symlink():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        # Some file systems cannot sync folders; a file that cannot be synced is not saved.
        if not path.is_dir() or problem.errno not in (errno.EINVAL, *_NO_LINKS):
            raise
    finally:
        os.close(handle)

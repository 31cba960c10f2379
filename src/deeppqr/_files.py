"""Atomic writing: files and folders appear when complete, and nothing is overwritten."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._errors import StorageError


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """A folder to write into, renamed to `folder` if the block ends without an error."""
    folder = Path(folder)
    refuse_existing(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, because a rename is atomic only within a file system.
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)  # mkdtemp makes folders that only their owner can read
        os.rename(partial, folder)
    # BaseException, since an interrupt must not leave a partial folder either.
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def refuse_existing(path: Path) -> None:
    """Raise if there is something at this path."""
    if path.exists():
        raise StorageError(
            f"{path} exists already, and nothing is overwritten. Choose another name, or "
            "remove it first."
        )


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A file to write to, renamed to `path` if the block ends without an error."""
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent
    )
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        partial.chmod(0o644)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)

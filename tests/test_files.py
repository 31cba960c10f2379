"""Outputs are complete or absent, replace nothing, and leave nothing that is not removed."""

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deeppqr import StorageError, _files
from deeppqr._files import (
    check_output,
    new_file,
    new_folder,
    replacement,
    written_somewhere,
)

LEFT = f".deeppqr-{_files._MACHINE}-{'0' * 16}"
"""The name of what a killed process of this machine would leave."""


def write_folder(path):
    with new_folder(path) as partial:
        (partial / "a.txt").write_text("new")


def write_file(path):
    with new_file(path) as partial:
        partial.write_text("new")


WRITERS = {"folder": write_folder, "file": write_file}
both = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@pytest.mark.parametrize("bad", [None, "", 3, b"run", "a\0b", ["run"]])
def test_what_is_no_path(bad):
    with pytest.raises(
        StorageError, match=r"`folder` must be a path, such as .*, but it is"
    ):
        check_output(bad)


@both
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("n" * 300, "File name too long. Choose a shorter name"),
        ("a/" + "n" * 300 + "/b", "File name too long. Choose a shorter name"),
        ("there.txt", "exists already, and nothing is overwritten"),
        ("empty", "exists already, and nothing is overwritten"),
        ("there.txt/run", r"(is not a folder|Not a directory)"),
        ("dangling", r"exists already \(a link that leads nowhere\)"),
        ("dangling/run", r"(is not a folder|cannot be written: File exists)"),
        ("loop", r"exists already \(a link that leads nowhere\)"),
        (".", "exists already"),
        ("/proc/deeppqr/run", "cannot be written: No such file or directory"),
        ("/dev/full", "exists already"),
    ],
)
def test_where_nothing_can_be_written(write, name, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("there.txt").write_text("foreign")
    Path("empty").mkdir()
    Path("dangling").symlink_to("nowhere")
    Path("loop").symlink_to("loop")
    for function in (check_output, write):
        with pytest.raises(StorageError, match=reason):
            function(name)
    assert {p.name for p in tmp_path.iterdir()} == {
        "there.txt",
        "empty",
        "dangling",
        "loop",
    }
    assert Path("there.txt").read_text() == "foreign"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_errors_of_the_system_name_the_output(number, tmp_path, monkeypatch):
    def refuse(self, data):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    why = f"run cannot be written: {os.strerror(number)}. (Free|Choose)"
    with pytest.raises(StorageError, match=why):
        check_output(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@both
def test_what_appeared_meanwhile_is_kept(write, tmp_path, monkeypatch):
    """Between the check and the end, by another process that saved under the same name."""
    for foreign in ("file", "link"):
        path = tmp_path / foreign

        def appear(*arguments, path=path):
            if path.name == "file":
                path.write_text("foreign")
            else:
                path.symlink_to("nowhere")

        with monkeypatch.context() as patch:
            patch.setattr(_files, "_sync", appear)
            with pytest.raises(StorageError, match="has appeared meanwhile, and nothing"):
                write(path)
    assert {p.name for p in tmp_path.iterdir()} == {"file", "link"}
    assert (tmp_path / "file").read_text() == "foreign"
    assert os.readlink(tmp_path / "link") == "nowhere"


def test_a_folder_that_appeared_meanwhile_is_kept(tmp_path):
    def late():
        with new_folder(tmp_path / "run") as partial:
            (partial / "a.txt").write_text("new")
            write_folder(tmp_path / "run")
            (tmp_path / "run/a.txt").write_text("foreign")

    with pytest.raises(StorageError, match="has appeared meanwhile"):
        late()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert (tmp_path / "run/a.txt").read_text() == "foreign"


def test_files_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_file(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


@both
@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt, ZeroDivisionError, OSError(28, "full")]
)
def test_a_block_that_fails_leaves_nothing(write, stop, tmp_path, monkeypatch):
    def fail(path):
        raise stop

    monkeypatch.setattr(_files, "_sync", fail)
    with pytest.raises((KeyboardInterrupt, ZeroDivisionError, StorageError)):
        write(tmp_path / "a/b/run")
    assert list(tmp_path.iterdir()) == []


@both
@pytest.mark.parametrize(
    ("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)]
)
def test_the_umask_decides_who_may_read(write, umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        write(tmp_path / "run")
    finally:
        os.umask(before)
    found = {p.stat().st_mode & 0o777 for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {mode}
    assert all(
        p.stat().st_mode & 0o777 == (0o777 & ~umask)
        for p in tmp_path.iterdir()
        if p.is_dir()
    )


@both
def test_leftovers_of_killed_processes_are_removed(write, tmp_path):
    (tmp_path / LEFT / "inner").mkdir(parents=True)
    (tmp_path / LEFT / "inner" / "arrays").write_text("half")
    (tmp_path / f"{LEFT}.csv").write_text("half")
    write(tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_what_may_be_alive_or_is_not_ours_is_kept(tmp_path):
    elsewhere = LEFT.replace(_files._MACHINE, "00000000")
    kept = [elsewhere, ".deeppqr-notes", LEFT[:-1], f"{LEFT}-x", "deeppqr"]
    for name in kept:
        (tmp_path / name).write_text("")
    outside = tmp_path / "outside"
    write_folder(outside)
    (tmp_path / LEFT).symlink_to(outside)
    with new_folder(tmp_path / "long") as partial:
        write_folder(tmp_path / "run")
        assert partial.is_dir()
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {*kept, LEFT, "outside", "run", "long"}
    assert (outside / "a.txt").exists()


def test_the_lock_ends_with_its_process(tmp_path):
    """A process that is killed while it writes; SIGKILL leaves no chance to tidy up."""
    code = (
        "import os, sys; from deeppqr._files import new_folder\n"
        "with new_folder(sys.argv[1]) as partial:\n"
        "    (partial / 'half').write_text('x'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False)
    (left,) = tmp_path.iterdir()
    assert _files._PARTIAL.fullmatch(left.name), (left, socket.gethostname())
    write_folder(tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_leftover_that_somebody_else_took_first(tmp_path, monkeypatch):
    """A new hidden name that another run takes for a leftover is given up for another one."""
    real, taken = _files._lock, []

    def lock(handle):
        if not taken:
            taken.append(handle)
            return False
        return real(handle)

    monkeypatch.setattr(_files, "_lock", lock)
    write_file(tmp_path / "a.csv")
    assert taken
    assert (tmp_path / "a.csv").read_text() == "new"


def test_results_are_kept_where_they_can_be(tmp_path, monkeypatch):
    """Beside the name that was taken, or else in the folder for temporary files."""
    write_folder(tmp_path / "run-2")
    (tmp_path / "run").mkdir()
    with pytest.raises(StorageError, match=r"exists already.* The result is kept: .*run-3"):
        written_somewhere(write_folder, tmp_path / "run")
    assert (tmp_path / "run-3" / "a.txt").exists()

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))

    def full(path):
        if "tmp" not in path.relative_to(tmp_path).parts:
            raise StorageError(f"{path} cannot be written.")
        write_file(path)

    with pytest.raises(StorageError, match=r"a\.csv cannot be written.* is kept: .*a\.csv"):
        written_somewhere(full, tmp_path / "a.csv")
    assert len(list((tmp_path / "tmp").rglob("a.csv"))) == 1


def test_a_result_that_can_be_kept_nowhere(tmp_path):
    def never(path):
        raise StorageError("Parts of it cannot be stored.")

    with pytest.raises(StorageError, match=r"^Parts of it cannot be stored\.$"):
        written_somewhere(never, tmp_path / "run")


def replace(run, problem=None):
    """A new folder in place of one, up to a problem in between."""
    with replacement(run) as new:
        new.mkdir()
        (new / "new").write_text("new")
        if problem:
            raise problem


@pytest.mark.skipif(sys.platform == "win32", reason="no locks tell who is alive there")
def test_what_a_killed_replacement_leaves_is_removed(tmp_path):
    """Killed while the new folder was whole and the old one still had the name."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "old").write_text("old")
    program = """
import os, pathlib, signal, sys
from deeppqr._files import replacement
with replacement(pathlib.Path(sys.argv[1])) as new:
    new.mkdir()
    (new / "new").write_text("new")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    words = [sys.executable, "-c", program, str(run)]
    killed = subprocess.run(words, check=False, timeout=60)
    assert killed.returncode == -9
    assert (run / "old").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    replace(run)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in run.iterdir()] == ["new"]


def test_a_replacement_that_cannot_be_put_in_place_is_kept(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    (run / "old").write_text("old")

    def refuse(new, old):
        raise StorageError("The disk is full.")

    monkeypatch.setattr("deeppqr._files.replace_folder", refuse)
    with pytest.raises(StorageError, match=r"full. The result is kept: .*run-2"):
        replace(run)
    assert (run / "old").read_text() == "old"
    assert (tmp_path / "run-2" / "new").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_block_that_fails_replaces_nothing(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(KeyboardInterrupt):
        replace(run, KeyboardInterrupt())
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

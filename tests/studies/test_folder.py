"""One run at a time in a study's folder; what it finds there is whole, its own, or named."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from test_runner import SEED, Squares, names

from deeppqr import DataError
from deeppqr_studies import _folder, run_study

TASKS = {"tasks/n=2_seed=1.json", "tasks/n=3_seed=1.json"}


@pytest.fixture
def study():
    return Squares()


class Blocked(Squares):
    """Waits in its first task until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.started, self.go_on = threading.Event(), threading.Event()

    def run(self, task):
        self.started.set()
        assert self.go_on.wait(60)
        return super().run(task)


@pytest.fixture
def running(tmp_path):
    """A run that is in the folder `run` while the test lasts."""
    blocked = Blocked()
    done = []
    run = lambda: done.append(run_study(blocked, tmp_path / "run", SEED))
    thread = threading.Thread(target=run)
    thread.start()
    assert blocked.started.wait(60)

    def finish():
        blocked.go_on.set()
        thread.join()
        return done[0]

    yield finish
    finish()


@pytest.mark.parametrize("numbers", [[2, 3], [4, 5]])
def test_a_folder_in_use_is_refused(numbers, study, running, tmp_path):
    """With other settings or the same: one of the two tables would be lost."""
    expected = f"run is in use by another run .process {os.getpid()} on .*another folder"
    with pytest.raises(DataError, match=expected):
        run_study(study, tmp_path / "run", {**SEED, "numbers": numbers})
    assert study.ran == []
    assert "add up to 13" in running().text
    assert ".lock" not in names(tmp_path / "run")
    assert len(names(tmp_path / "run")) == 8


def test_two_new_runs_at_once_leave_one(tmp_path):
    """Whichever comes first; the other one is told."""
    ended = []

    def run(numbers):
        try:
            ended.append(
                run_study(Squares(), tmp_path / "run", {**SEED, "numbers": numbers})
            )
        except DataError as problem:
            ended.append(str(problem))

    threads = [threading.Thread(target=run, args=([n, n + 1],)) for n in (2, 4, 6, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [text for text in ended if isinstance(text, str)]
    assert len(refused) == 3
    assert all("is in use by" in text or "under other settings" in text for text in refused)
    about = json.loads((tmp_path / "run/study.json").read_text())
    numbers = about["settings"]["numbers"]
    assert {f"tasks/n={n}_seed=1.json" for n in numbers} <= names(tmp_path / "run")


DRIVER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from test_runner import Squares
from deeppqr_studies import run_study
study = Squares()
study.run = lambda task: os.kill(os.getpid(), 9)
run_study(study, sys.argv[1], {"seeds": [1]})
"""


def test_the_lock_of_a_killed_run_blocks_nobody(study, tmp_path):
    words = [sys.executable, "-c", DRIVER, str(tmp_path / "run"), os.path.dirname(__file__)]
    path = os.pathsep.join(filter(None, sys.path))
    killed = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert names(tmp_path / "run") == {".lock", "study.json"}
    assert "add up to 13" in run_study(study, tmp_path / "run", SEED).text
    assert ".lock" not in names(tmp_path / "run")


@pytest.mark.parametrize("left", [(), ("tasks",)])
def test_a_run_that_was_killed_at_once_blocks_nobody(left, study, tmp_path):
    (tmp_path / ".lock").write_text("process 1 on elsewhere")
    for name in left:
        (tmp_path / name).mkdir()
    assert "add up to 13" in run_study(study, tmp_path, SEED).text


def test_leftovers_of_killed_runs_are_removed(study, tmp_path):
    run_study(study, tmp_path, SEED)
    left = ".partial-" + "0" * 16
    (tmp_path / left).mkdir()
    (tmp_path / left / "half.png").write_text("half")
    (tmp_path / "tasks" / left).write_text("half")
    (tmp_path / ".partial-notes").write_text("mine")
    run_study(study, tmp_path, SEED)
    assert {name for name in names(tmp_path) if "partial" in name} == {".partial-notes"}


def test_where_locks_are_not_supported_runs_go_on(study, tmp_path, monkeypatch):
    if _folder.fcntl is None:
        pytest.skip("a system without such locks")

    def refuse(handle, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(_folder.fcntl, "flock", refuse)
    assert "add up to 13" in run_study(study, tmp_path, SEED).text


@pytest.mark.parametrize("name", ["tasks", "study.json"])
def test_nothing_is_deleted_through_a_link(name, study, tmp_path):
    """Other settings begin anew where nothing has finished; `tasks` may lead elsewhere."""
    study.trouble = {2: ValueError("no"), 3: ValueError("no")}
    run_study(study, tmp_path / "run", SEED)
    (tmp_path / "run" / name).rename(tmp_path / "elsewhere")
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    before = names(tmp_path)
    with pytest.raises(
        DataError, match=f"{name} is a symbolic link, and a study changes no"
    ):
        run_study(study, tmp_path / "run", {**SEED, "numbers": [5]})
    assert names(tmp_path) == before


def test_what_is_no_record_of_a_failure_stays(study, tmp_path):
    study.trouble = {2: ValueError("no"), 3: ValueError("no")}
    run_study(study, tmp_path, SEED)
    (tmp_path / "tasks/notes.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"notes\.json is not as a study wrote it"):
        run_study(study, tmp_path, {**SEED, "numbers": [5]})
    assert (tmp_path / "tasks/notes.json").read_text() == "{}"
    assert "tasks/n=2_seed=1.failed.json" not in names(tmp_path)


RECORD = "tasks/n=2_seed=1.json"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"square": 4', '"square": 5'),
        ('"seconds": ', '"seconds": 1'),
        ('"word": null', '"word": "even"'),
        ('"warnings": []', '"warnings": ["mind"]'),
        ('"n": 2', '"m": 2'),
    ],
)
def test_an_edited_record_is_named_and_run_again(old, new, study, tmp_path):
    first = run_study(study, tmp_path, SEED)
    text = (tmp_path / RECORD).read_text()
    assert old in text
    (tmp_path / RECORD).write_text(text.replace(old, new))
    with pytest.warns(
        UserWarning, match=r"json is not as .*do not have the checksum.*its ta"
    ):
        again = run_study(study, tmp_path, SEED)
    assert study.ran == [2, 3, 2]
    assert again.text == first.text


def test_records_without_a_checksum_are_believed(study, tmp_path):
    """Those of a folder that was begun before there were checksums."""
    run_study(study, tmp_path, SEED)
    record = json.loads((tmp_path / RECORD).read_text())
    del record["checksum"]
    (tmp_path / RECORD).write_text(json.dumps(record))
    run_study(study, tmp_path, SEED)
    assert study.ran == [2, 3]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rows", {}, "its 'rows' is {}"),
        ("rows", [1], "its 'rows' are no rows of a table"),
        ("rows", [{"n": [1]}], "its 'rows' are no rows of a table"),
        ("seconds", "fast", "its 'seconds' is 'fast'"),
        ("seconds", True, "its 'seconds' is True"),
        ("warnings", None, "its 'warnings' is None"),
        ("parameters", [], r"its 'parameters' is \[\]"),
        ("versions", {"jax": 1}, "its 'versions' and 'digest' are no texts"),
        ("digest", None, "its 'versions' and 'digest' are no texts"),
        ("seconds", float("nan"), "it holds NaN"),
    ],
)
def test_a_record_of_another_form_is_run_again(name, value, message, study, tmp_path):
    run_study(study, tmp_path, SEED)
    record = json.loads((tmp_path / RECORD).read_text())
    del record["checksum"]
    (tmp_path / RECORD).write_text(json.dumps({**record, name: value}))
    with pytest.warns(UserWarning, match=f"{message}.*its task counts as not finished"):
        run_study(study, tmp_path, SEED)
    assert study.ran == [2, 3, 2]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "9" * 5_000, "\udcff"], ids=["deep", "9", "byte"]
)
@pytest.mark.parametrize("name", [RECORD, "study.json"])
def test_files_that_no_parser_likes(text, name, study, tmp_path):
    run_study(study, tmp_path, SEED)
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    reason = r"\((its lists are nested too|it holds 5000 digits|byte 0 is no text)"
    if name == "study.json":
        with pytest.raises(DataError, match=rf"is not as a study wrote it {reason}"):
            run_study(study, tmp_path, SEED)
    else:
        with pytest.warns(UserWarning, match=rf"is not as a study wrote it {reason}"):
            run_study(study, tmp_path, SEED)


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling"])
@pytest.mark.parametrize("name", [RECORD, "study.json"])
def test_records_that_are_no_files(kind, name, study, tmp_path):
    run_study(study, tmp_path, SEED)
    (tmp_path / name).unlink()
    if kind == "folder":
        (tmp_path / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("nowhere")
    if name == RECORD and kind != "folder":
        with pytest.warns(UserWarning, match="it is no file of a reasonable size"):
            run_study(study, tmp_path, SEED)
        assert study.ran == [2, 3, 2]
        return
    expected = (
        "is not as a study|is a symbolic link|holds no study|cannot be written: Is a dir"
    )
    with pytest.raises(DataError, match=expected):
        try_quietly(study, tmp_path)


def try_quietly(study, folder):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_study(study, folder, SEED)


def test_a_disk_that_fills_up_is_named(study, tmp_path, monkeypatch):
    run_study(study, tmp_path, SEED)
    before = names(tmp_path)
    (tmp_path / RECORD).unlink()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        DataError, match=r"study\.json cannot be written: No space left .*kept"
    ):
        run_study(study, tmp_path, SEED)
    monkeypatch.undo()
    run_study(study, tmp_path, SEED)
    assert names(tmp_path) == before


@pytest.mark.parametrize("path", ["file/run", "/proc/deeppqr/run", "n" * 300, "a\0b"])
def test_folders_that_cannot_be_made(path, study, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match="cannot be (written|read): |holds no study|must be a p"
    ):
        run_study(study, tmp_path / path, SEED)


def test_the_umask_decides_who_may_read(study, tmp_path):
    before = os.umask(0o077)
    try:
        run_study(study, tmp_path / "run", SEED)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "run").rglob("*")}
    assert modes == {0o600, 0o700}

"""Kills saves, fits, predictions and studies at random moments, and looks at what is left.

`python tests/killing.py --times 200 --seed 0`. After each SIGKILL an output must be complete
or absent, what else lies in the folder must be as it was, and the next run must go on and
remove what the killed one left. Prints how the kills fell, and exits with 1 if one did harm.
"""

import argparse
import collections
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

# Imported here, so that each forked process begins at once; nothing is computed before the
# fork, which JAX and polars would not survive.
import polars as pl

import deeppqr
import deeppqr_studies
from deeppqr._files import _PARTIAL
from deeppqr.cli import main as deeppqr_command

LOADED = (deeppqr.PQR, deeppqr.load, deeppqr.Panel)

FOREIGN = {"thesis.tex": b"mine", "run-2/notes": b"mine", ".deeppqr-notes": b"mine"}
COLUMNS = ["--state", "s", "--action", "action", "--unit", "unit", "--time", "time"]
STAGES = ["--policy", "frequency", "--reward", "table", "--anchor-value", "exact"]


class Squares(deeppqr_studies.Study):
    """A study of five short tasks."""

    name = "squares"
    title = "squares of numbers"

    def tasks(self, settings):
        return [deeppqr_studies.Task(f"n={n}", {"n": n}) for n in settings["seeds"]]

    def run(self, task):
        time.sleep(0.01)
        return [{"n": task.parameters["n"], "square": task.parameters["n"] ** 2}]

    def report(self, frame, folder):
        (folder / "summary.md").write_text("# Squares\n")
        return f"The squares add up to {frame['square'].sum()}."


def simulate(home: Path, folder: Path) -> None:
    words = ["simulate", "tabular", "--steps", "400", "--units", "10", "--quiet"]
    assert deeppqr_command([*words, "--out", str(folder / "d.csv")]) == 0


def fit(home: Path, folder: Path) -> None:
    words = ["fit", str(home / "d.csv"), *COLUMNS, "--anchor", "0", "--discount", "0.9"]
    words += [*STAGES, "--quiet", "--out", str(folder / "run")]
    assert deeppqr_command(words) == 0


def save(home: Path, folder: Path) -> None:
    found = deeppqr.load(home / "run")
    (folder / "begun").touch()  # the saving itself is killed, not the reading before it
    found.save(folder / "run")


def predict(home: Path, folder: Path) -> None:
    words = ["predict", str(home / "run"), str(home / "d.csv"), "--quiet"]
    assert deeppqr_command([*words, "--out", str(folder / "p.csv")]) == 0


def study(home: Path, folder: Path) -> None:
    deeppqr_studies.run_study(Squares(), folder / "study", {"seeds": [1, 2, 3, 4, 5]})


JOBS = {"save": (save, "run"), "fit": (fit, "run"), "predict": (predict, "p.csv")}
JOBS["study"] = (study, "study")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def result(job: str, path: Path) -> object:
    """What an output says, whatever times and versions stand in it."""
    if job == "study":
        return (path / "table.csv").read_bytes()
    if job == "predict":
        return path.read_bytes()
    found = deeppqr.load(path)
    return found.actions, found.reward([[0.0], [3.0], [6.0]]).tolist()


def start(work, *arguments) -> int:
    """A process of its own that does the work and ends."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work(*arguments)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def done(work, *arguments) -> bool:
    return os.waitpid(start(work, *arguments), 0)[1] == 0


def seconds_of(job: str, home: Path) -> float:
    """How long a job takes here, counted from `begun` where it makes that file."""
    folder = home / f"timed-{job}"
    folder.mkdir()
    begun = time.time()
    assert done(JOBS[job][0], home, folder)
    if job == "save":
        begun = (folder / "begun").stat().st_mtime
    return time.time() - begun


def kill_once(job: str, home: Path, folder: Path, whole: float, random_) -> str:
    """Where the kill fell: "before", "during" or "after" the output got its name."""
    work, name = JOBS[job]
    for other, data in FOREIGN.items():
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_bytes(data)
    # Half of the kills fall into the last part of the work, in which the output is written.
    share = random_.choice([random_.uniform(0, 1.1), random_.uniform(0.8, 1.1)])
    pid = start(work, home, folder)
    while job == "save" and not (folder / "begun").exists():
        time.sleep(0.0002)
    time.sleep(share * whole)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    (folder / "begun").unlink(missing_ok=True)
    check_foreign(folder)
    left = [path for path in folder.iterdir() if _PARTIAL.fullmatch(path.name)]
    records = contents(folder / "study" / "tasks") if job == "study" else {}
    records = {key: data for key, data in records.items() if not key.startswith(".")}
    finished = (folder / name).exists()
    if finished and job != "study":
        check_result(job, home, folder / name)
        shutil.rmtree(folder / name) if job != "predict" else (folder / name).unlink()
    assert done(work, home, folder), "the next run failed"
    (folder / "begun").unlink(missing_ok=True)
    check_foreign(folder)
    check_result(job, home, folder / name)
    kept = contents(folder)
    hidden = [
        key for key in kept if "partial" in key or _PARTIAL.match(key) or ".lock" in key
    ]
    assert not hidden, f"left behind: {hidden}"
    assert {**kept, **{f"study/tasks/{key}": data for key, data in records.items()}} == kept
    if job == "study":
        return (
            "during" if records and len(records) < 5 else "after" if records else "before"
        )
    return "after" if finished else "during" if left else "before"


def check_foreign(folder: Path) -> None:
    found = contents(folder)
    assert all(found.get(name) == data for name, data in FOREIGN.items()), "foreign files"
    ours = ("run/", "p.csv", "study/", ".deeppqr-", "begun")
    odd = [name for name in found if name not in FOREIGN and not name.startswith(ours)]
    assert not odd, f"unknown files: {odd}"


def check_result(job: str, home: Path, path: Path) -> None:
    def compare():
        expected = home / f"timed-{job}" / JOBS[job][1]
        assert result(job, path) == result(job, expected), f"{path} is another result"

    assert done(compare), f"what {job} left is not whole"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random_ = random.Random(arguments.seed)
    fell, harm = collections.Counter(), []
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        assert done(simulate, home, home)
        assert done(fit, home, home)
        whole = {job: seconds_of(job, home) for job in JOBS}
        for number in range(arguments.times):
            job = list(JOBS)[number % len(JOBS)]
            folder = home / f"{number}-{job}"
            folder.mkdir()
            try:
                when = kill_once(job, home, folder, whole[job], random_)
                fell[job, when] += 1
                # Other work on the machine makes jobs longer and shorter.
                whole[job] *= 0.9 if when == "after" else 1.1
            except Exception as problem:
                harm.append(f"kill {number} of {job}: {type(problem).__name__}: {problem}")
            shutil.rmtree(folder)
    for (job, when), count in sorted(fell.items()):
        print(f"{job:<8}{when:<8}{count:>4}")
    print(*harm, sep="\n")
    print(f"{sum(fell.values())} kills without harm, {len(harm)} with")
    return 1 if harm else 0


if __name__ == "__main__":
    pl.Config.set_tbl_rows(5)
    sys.exit(main())

"""`deeppqr study`: a figure or table of the benchmark, resumable."""

import argparse
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._errors import DeepPQRError
from ..cluster import environment, one_thread, resolve
from ..studies import STUDIES, all_options, find_study, run_study
from ._common import add_quiet, say

SHOWN = (".csv", ".md", ".txt")
"""Endings of the files that a study is read from."""


def register(jobs) -> None:
    parser = jobs.add_parser("study", help="a figure or table of the benchmark")
    parser.add_argument("--list", action="store_true", help="name the studies")
    parser.set_defaults(run=run, quiet=False, study=None)
    names = parser.add_subparsers(metavar="NAME", dest="study")
    for study in STUDIES.values():
        job = names.add_parser(study.name, help=study.title, description=study.title)
        job.add_argument(
            "--out", type=Path, help=f"folder, new or to go on with (runs/{study.name})"
        )
        for name, option in all_options(study).items():
            job.add_argument(
                f"--{name.replace('_', '-')}",
                type=option.type,
                nargs=option.nargs,
                default=option.default,
                help=_escaped(f"{option.help} (default: {_shown(option.default)})"),
            )
        job.add_argument(
            "--executor",
            default="here",
            metavar="WHERE",
            help="where tasks run: here, cores, cores:N (processes), ray (a cluster on "
            "this machine) or ray:ADDRESS; the results are the same (default: here)",
        )
        add_quiet(job)


def run(arguments: argparse.Namespace) -> None:
    if arguments.list:
        for study in STUDIES.values():
            print(f"{study.name:<18}{study.title}")
        return
    if arguments.study is None:
        raise DeepPQRError(f"study: name one of {sorted(STUDIES)}, or ask with --list.")
    study = find_study(arguments.study)
    executor = resolve(arguments.executor)
    folder = arguments.out or Path("runs") / study.name
    settings = {name: getattr(arguments, name) for name in all_options(study)}
    try:
        # JAX has not started yet: it too will use one thread, as in other processes.
        with environment(one_thread()), _termination_interrupts():
            outcome = run_study(
                study, folder, settings, lambda line: say(arguments, line), executor
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "interrupted; finished tasks are kept. Go on with:\n"
            f"  {_command(study, folder, settings, arguments.executor)}"
        ) from None
    say(arguments, f"\n{outcome.text}\n\nIn {folder}/: {_contents(folder)}")
    if outcome.failures:
        name, error = next(iter(outcome.failures.items()))
        raise DeepPQRError(
            f"{len(outcome.failures)} of {outcome.num_tasks} tasks failed, the first of "
            f"them {name}: {error.rstrip('.')}. The same command tries them again."
        )


def _contents(folder: Path) -> str:
    """What a study has left to look at."""
    figures = len(list(folder.glob("*.png")))
    files = [path.name for path in sorted(folder.iterdir()) if path.suffix in SHOWN]
    counted = [f"{figures} figure{'s' * (figures > 1)} (PNG, PDF)"] if figures else []
    return ", ".join(files + counted)


def _escaped(text: str) -> str:
    """Help in which a per cent sign is one; argparse would fill something in."""
    return text.replace("%", "%%")


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """SIGTERM, as batch systems send it before they kill, ends a study as Ctrl-C does."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _command(study, folder: Path, settings: dict, executor: str) -> str:
    """What to type to go on."""
    words = ["deeppqr", "study", study.name, "--out", str(folder)]
    for name, option in all_options(study).items():
        if settings[name] != option.default:
            words += [f"--{name.replace('_', '-')}", *_shown(settings[name], quote=False)]
    if executor != "here":
        words += ["--executor", executor]
    return shlex.join(words)


def _shown(value, *, quote: bool = True):
    words = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    return shlex.join(words) if quote else words

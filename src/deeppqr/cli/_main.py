"""The command `deeppqr` and its subcommands.

Errors that the user can correct print one message and exit with status 2; an interrupt
exits with 130, as a shell reports it. Files are complete or absent in either case.
"""

import argparse
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points, version

from .._errors import DeepPQRError
from ..progress import show
from . import _demo, _fit, _predict, _simulate
from ._output import complain, lasting_output, on_terminal

JOBS = (_demo, _fit, _predict, _simulate)
# Entry points that add subcommands: functions of the arguments after their name.
GROUP = "deeppqr.commands"
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with lasting_output():
        status = _status(words)
    if status == INTERRUPTED and arguments is None:
        # Not sys.exit: a JAX computation may still run in a thread, and unloading the
        # library under it crashes.
        os._exit(status)
    return status


def _status(words: list[str]) -> int:
    try:
        with _termination_interrupts():
            # Handed on before parsing: the studies' package has a parser of its own.
            if words[:1] == ["study"]:
                _run_study(words[1:])
            else:
                parsed = _parser().parse_args(words)
                with show(not parsed.quiet and on_terminal()), _plain_warnings():
                    parsed.run(parsed)
    except DeepPQRError as problem:
        complain(str(problem))
        return 2
    except OSError as problem:
        where = f": {problem.filename}" if problem.filename is not None else ""
        complain(f"{problem.strerror or problem}{where}")
        return 2
    except MemoryError as problem:
        complain(f"There is not enough memory. {problem}".rstrip())
        return 2
    except KeyboardInterrupt as stop:
        complain(str(stop) or "interrupted; nothing was written.")
        return INTERRUPTED
    return 0


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as sentences: a line of our source would tell a user nothing."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"deeppqr: warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """SIGTERM, which batch systems send before they kill, ends a job as Ctrl-C does."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    # Python allows signal handlers in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="deeppqr", description="Recover the reward behind observed decisions."
    )
    parser.add_argument(
        "--version", action="version", version=f"deeppqr {version('deeppqr')}"
    )
    jobs = parser.add_subparsers(required=True, metavar="JOB")
    for job in JOBS:
        job.register(jobs)
    # Listed for `deeppqr --help`; its arguments are parsed by the studies' own package.
    jobs.add_parser("study", help="a figure or table of the benchmark", add_help=False)
    return parser


def _run_study(words: Sequence[str]) -> None:
    """Run the studies' command on the words after `deeppqr study`."""
    found = entry_points(group=GROUP, name="study")
    if not found:
        raise DeepPQRError(
            "`deeppqr study` needs the package deeppqr-studies, which is not installed. "
            "From a clone of the repository: pip install ./studies."
        )
    next(iter(found)).load()(words)


class _Parser(argparse.ArgumentParser):
    """A parser that reads -1e-3 as a number, which argparse takes for an option."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = re.compile(
            r"^-((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|inf|nan)$"
        )

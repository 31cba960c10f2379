"""The command `deeppqr` and its subcommands.

Errors that the user can correct print one message and exit with status 2; an interrupt
exits with 130, as a shell reports it. Files are complete or absent in either case. An error
of the program's own ends in a traceback and status 3, as Python's 1 means "not ok" here.
"""

import argparse
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points, version

from .._errors import DeepPQRError
from ..progress import show
from . import (
    _compare,
    _completion,
    _counterfactual,
    _demo,
    _explore,
    _fit,
    _predict,
    _report,
    _simulate,
)
from ._common import BAD_INPUT, DONE, FAULT, INTERRUPTED
from ._config import OPTION, apply_config
from ._output import complain, lasting_output, on_terminal

JOBS = (
    *(_demo, _fit, _predict, _counterfactual, _report, _explore),
    *(_compare, _simulate, _completion),
)
# Entry points that add subcommands: functions of the arguments after their name.
GROUP = "deeppqr.commands"
PAGE = """\
The reward behind observed decisions, identified by an action whose reward is known.

first:
  deeppqr demo                     # simulated agents: fit them, compare with the truth
  deeppqr demo --help              # every job's page starts with examples

then, on decisions of your own:
  deeppqr fit decisions.csv --state wear --action action --unit owner --time month \\
      --anchor repair --anchor-reward -1 --discount 0.9 --out run/
  deeppqr explore run/             # in the browser: move the state, ask what if
  deeppqr predict run/ states.csv --out rewards.csv

every week:
  deeppqr fit --config deeppqr.toml --out runs/{date} --strict
  deeppqr compare runs/2026-11-19 runs/2026-11-12
"""
STATUSES = """\
exit status:
  0  done
  1  done, but with --strict: a verdict is not ok, or an average moved
  2  not done; the message says what to correct
  3  not done; an error in deeppqr itself
  130  interrupted; nothing half-written is left behind
"""


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
                return DONE
            parsed = _parse(words)
            lines = getattr(parsed, "verbose", False) and not parsed.quiet
            bars = not parsed.quiet and on_terminal()
            with show(bars, lines=lines), _plain_warnings():
                return parsed.run(parsed) or DONE
    except DeepPQRError as problem:
        complain(str(problem))
        return BAD_INPUT
    except OSError as problem:
        where = f": {problem.filename}" if problem.filename is not None else ""
        complain(f"{problem.strerror or problem}{where}")
        return BAD_INPUT
    except MemoryError as problem:
        complain(f"There is not enough memory. {problem}".rstrip())
        return BAD_INPUT
    except KeyboardInterrupt as stop:
        complain(str(stop) or "interrupted; nothing was written.")
        return INTERRUPTED
    except Exception:
        complain(f"an error in deeppqr itself; please report it.\n{traceback.format_exc()}")
        return FAULT


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser, jobs = build_parser()
    job = jobs.get(words[0]) if words else None
    if job is not None and any(OPTION in each.option_strings for each in job._actions):
        apply_config(job, words[1:])
    return parser.parse_args(words or ["--help"])


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


def build_parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the whole command, and each job's."""
    parser = _Parser(
        prog="deeppqr",
        usage="deeppqr JOB ...",
        description=PAGE,
        epilog=STATUSES,
        formatter_class=_Page,
    )
    parser.add_argument(
        "--version", action="version", version=f"deeppqr {version('deeppqr')}"
    )
    jobs = parser.add_subparsers(
        required=True, metavar="JOB", title="jobs", dest="job", prog="deeppqr"
    )
    for job in JOBS:
        job.register(jobs)
    # Listed for `deeppqr --help`; its arguments are parsed by the studies' own package.
    jobs.add_parser("study", help="a figure or table of the benchmark", add_help=False)
    return parser, dict(jobs.choices)


def _run_study(words: Sequence[str]) -> None:
    """Run the studies' command on the words after `deeppqr study`."""
    found = entry_points(group=GROUP, name="study")
    if not found:
        raise DeepPQRError(
            "`deeppqr study` needs the package deeppqr-studies, which is not installed. "
            "From a clone of the repository: pip install ./studies."
        )
    next(iter(found)).load()(words)


class _Page(argparse.RawDescriptionHelpFormatter):
    """Text as it is written, and room for the longest job's name beside its line."""

    def __init__(self, prog: str):
        super().__init__(prog)
        self._action_max_length = 14


class _Parser(argparse.ArgumentParser):
    """A parser that reads -1e-3 as a number, which argparse takes for an option."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = re.compile(
            r"^-((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|inf|nan)$"
        )

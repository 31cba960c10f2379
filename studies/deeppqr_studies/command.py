"""`deeppqr study`: run a figure or table of the benchmark, or resume it."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deeppqr import DeepPQRError
from deeppqr.cluster import resolve, single_thread
from deeppqr.progress import show

from . import STUDIES, Study, all_options, find_study, run_study

TEXT_FILES = (".csv", ".md", ".txt")
"""Endings of the files that are named one by one after a run; figures are counted."""


def main(words: Sequence[str]) -> None:
    """Run the command on the words after `deeppqr study`.

    What a user can put right is raised as a `DeepPQRError`, which `deeppqr` prints.
    """
    arguments = make_parser().parse_args(words)
    if arguments.list:
        for study in STUDIES.values():
            print(f"{study.name:<18}{study.title}")
        return
    if arguments.study is None:
        raise DeepPQRError(f"study: name one of {sorted(STUDIES)}, or ask with --list.")
    with show(not arguments.quiet and sys.stderr is not None and sys.stderr.isatty()):
        _run(arguments)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command, with a subcommand for each study."""
    parser = _Parser(
        prog="deeppqr study", description="A figure or table of the benchmark."
    )
    parser.add_argument("--list", action="store_true", help="name the studies")
    names = parser.add_subparsers(metavar="NAME", dest="study")
    for study in STUDIES.values():
        job = names.add_parser(study.name, help=study.title, description=study.title)
        job.add_argument(
            "--out", type=Path, help=f"folder, new or to resume (runs/{study.name})"
        )
        for name, option in all_options(study).items():
            default = shlex.join(_as_words(option.default))
            job.add_argument(
                _flag(name),
                type=option.type,
                nargs=option.nargs,
                default=option.default,
                # argparse would fill something in at a single per cent sign.
                help=f"{option.help} (default: {default})".replace("%", "%%"),
            )
        job.add_argument(
            "--executor",
            default="here",
            metavar="WHERE",
            help="where tasks run: here, cores, cores:N (processes), ray (a cluster on "
            "this machine) or ray:ADDRESS; the results are the same (default: here)",
        )
        job.add_argument("--quiet", action="store_true", help="print nothing")
    return parser


class _Parser(argparse.ArgumentParser):
    """argparse takes -1e-3 for an option; here it is a number, in subcommands as well."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = re.compile(
            r"^-((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|inf|nan)$"
        )


def _run(arguments: argparse.Namespace) -> None:
    def say(text: str) -> None:
        if not arguments.quiet:
            print(text)

    study = find_study(arguments.study)
    executor = resolve(arguments.executor)
    folder = arguments.out or Path("runs") / study.name
    settings = {name: getattr(arguments, name) for name in all_options(study)}
    try:
        # JAX has not started yet: it too will use one thread, as in other processes.
        with single_thread():
            outcome = run_study(study, folder, settings, say, executor)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "interrupted; finished tasks are kept. Go on with:\n"
            f"  {_same_command(study, folder, settings, arguments.executor)}"
        ) from None
    say(f"\n{outcome.text}\n\nIn {folder}/: {_contents(folder)}")
    if outcome.failures:
        name, error = next(iter(outcome.failures.items()))
        raise DeepPQRError(
            f"{len(outcome.failures)} of {outcome.num_tasks} tasks failed, the first of "
            f"them {name}: {error.rstrip('.')}. The same command tries them again."
        )


def _contents(folder: Path) -> str:
    """The files to read, and how many figures there are."""
    figures = len(list(folder.glob("*.png")))
    files = [path.name for path in sorted(folder.iterdir()) if path.suffix in TEXT_FILES]
    counted = [f"{figures} figure{'s' * (figures > 1)} (PNG, PDF)"] if figures else []
    return ", ".join(files + counted)


def _same_command(study: Study, folder: Path, settings: dict[str, Any], executor: str):
    """The command that resumes this run."""
    words = ["deeppqr", "study", study.name, "--out", str(folder)]
    for name, option in all_options(study).items():
        if settings[name] != option.default:
            words += [_flag(name), *_as_words(settings[name])]
    if executor != "here":
        words += ["--executor", executor]
    return shlex.join(words)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _as_words(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]

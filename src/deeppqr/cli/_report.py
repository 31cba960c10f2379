"""`deeppqr report`: one HTML file about a fit."""

import argparse
import warnings
from pathlib import Path

import deeppqr

from .._files import check_output
from ._common import add_job, add_quiet, say

EXAMPLES = """\
  deeppqr report run/                       # writes run/report.html
  deeppqr report run/ --out june.html --title "Routes, June"
"""
NAME = "report.html"


def register(jobs) -> None:
    parser = add_job(jobs, "report", "one HTML file about a fit, to read or send", EXAMPLES)
    parser.add_argument("fit", type=Path, help="folder written by `deeppqr fit`")
    parser.add_argument(
        "--out", type=Path, help="file to write (default: report.html in the folder)"
    )
    parser.add_argument("--title", help="the page's heading")
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    out = arguments.out or arguments.fit / NAME
    fit = deeppqr.load(arguments.fit)
    check_output(out, "--out")
    fit.report(out, title=arguments.title)
    say(arguments, f"Report written to {out}; open it in a browser")


def report_beside(fit: "deeppqr.Fit", folder: Path, final: Path) -> None:
    """Write the report into a fit's folder; the fit is kept whatever becomes of it.

    `final` is what the folder will be called.
    """
    try:
        fit.report(folder / NAME)
    except Exception as problem:  # the fit may have taken an hour, the report takes seconds
        warnings.warn(
            f"The report could not be written ({problem}); the fit is complete. Try "
            f"`deeppqr report {final}`.",
            stacklevel=2,
        )

"""`deeppqr fit`: fits a table of decisions and saves the fit to a folder."""

import argparse
import glob
from decimal import Decimal
from pathlib import Path
from typing import Any

import deeppqr

from .._errors import DataError
from .._files import written_somewhere
from .._messages import did_you_mean
from .._stage_names import ANCHOR_VALUES, POLICIES, REWARDS
from ._common import (
    DONE,
    NOT_OK,
    add_common,
    add_job,
    add_no_report,
    check_fit_folder,
    dated,
    fit_folder,
    named,
    say,
)
from ._config import add_config
from ._report import report_beside

# Options that are handed on under their own name, to the panel and to the model.
COLUMNS = (
    "state action unit time next_state terminal truncated weight categorical gaps".split()
)
SETTINGS = "discount temperature policy anchor_value reward clip seed".split()
EXAMPLES = """\
  deeppqr fit decisions.csv --state wear --action action --unit owner --time month \\
      --anchor repair --anchor-reward -1 --discount 0.9 --out run/
  deeppqr fit --config deeppqr.toml --out runs/{date} --strict     # every week
  deeppqr fit doses.csv --state age pain --action dose --action-range 0 10 --atom 0 \\
      --unit patient --time day --anchor 0 --discount 0.95 --out run/  # amounts
  deeppqr fit "decisions/*.parquet" --state wear --action action --unit owner \\
      --time month --anchor repair --discount 0.9 --out run/  # larger than memory
"""


def register(jobs) -> None:
    about = "estimate the reward from a table of decisions"
    parser = add_job(jobs, "fit", about, EXAMPLES)
    # The one that argparse makes of all options is fifteen lines.
    parser.usage = (
        "deeppqr fit DATA --state COLUMN ... --action COLUMN --anchor ACTION "
        "--discount NUMBER --out FOLDER [options]"
    )
    add_config(parser)
    _add_decisions(parser.add_argument_group("the decisions"))
    _add_agents(parser.add_argument_group("what the data cannot say"))
    _add_estimator(parser.add_argument_group("the estimator"))
    output = parser.add_argument_group("the output")
    output.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder to write; {date} and {time} in it are those of the start",
    )
    output.add_argument(
        "--overwrite", action="store_true", help="replace the fit that is there, if any"
    )
    output.add_argument(
        "--strict",
        action="store_true",
        help="exit with status 1 if a verdict is not ok; the fit is written all the same",
    )
    add_no_report(output)
    output.add_argument(
        "--check",
        type=int,
        metavar="N",
        help="also draw N panels from the fit, fit them again and print bias and coverage; "
        "each is kept in check.csv of the folder when it is done",
    )
    output.add_argument(
        "--verbose",
        action="store_true",
        help="print what is chosen as it goes, on standard error, also where that is no "
        "terminal (there it is printed once a fit lasts two seconds)",
    )
    add_common(output)
    parser.set_defaults(run=run)


def _add_decisions(group) -> None:
    group.add_argument(
        "data",
        type=Path,
        nargs="+",
        help="CSV or Parquet file, one row per decision; Parquet files, a folder of them "
        "or a pattern in quotes stay on disk and may be larger than memory",
    )
    for name, about in (("--state", "what they saw"), ("--next-state", "")):
        about = about or (
            "what they saw next, in the order of --state (default: the unit's next row)"
        )
        required = name == "--state"
        group.add_argument(name, nargs="+", required=required, metavar="COLUMN", help=about)
    for name, about in (
        ("--action", "what they did"),
        ("--unit", "who decided"),
        ("--time", "when"),
        ("--terminal", "true where the process ends"),
        ("--truncated", "true where a sequence breaks"),
        ("--weight", "how much each row counts"),
    ):
        required = name == "--action"
        group.add_argument(name, required=required, metavar="COLUMN", help=about)
    group.add_argument(
        "--action-range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="what they did is an amount between these bounds",
    )
    group.add_argument(
        "--atom",
        nargs="+",
        type=float,
        default=[],
        metavar="AMOUNT",
        help="amounts taken exactly and often, such as 0 for nothing",
    )
    group.add_argument(
        "--categorical",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="state columns whose values are codes, not quantities",
    )
    group.add_argument(
        "--gaps", choices=("error", "split"), default="error", help="skipped periods"
    )


def _add_agents(group) -> None:
    group.add_argument("--anchor", required=True, help="action whose reward is known")
    group.add_argument(
        "--anchor-reward", help="its reward: a number (default 0) or a state column"
    )
    group.add_argument(
        "--discount", type=float, required=True, help="the agent's, per period, in [0, 1)"
    )
    group.add_argument(
        "--temperature", type=float, default=1.0, help="scale of its randomness (default 1)"
    )


def _add_estimator(group) -> None:
    for stage, names, about in (
        ("--policy", POLICIES, "P: how likely each action is"),
        ("--anchor-value", ANCHOR_VALUES, "Q: what the anchor is worth"),
        ("--reward", REWARDS, "R: what each action pays"),
    ):
        group.add_argument(stage, choices=names, default="auto", help=about)
    group.add_argument("--clip", type=float, help="smallest probability")


def run(arguments: argparse.Namespace) -> int:
    """Fit and save; the exit status."""
    # Before the fit, which may take minutes.
    out = dated(arguments.out)
    check_fit_folder(out, arguments.overwrite)
    space = action_space(arguments.action_range, arguments.atom)
    if arguments.check is not None and (space is not None or arguments.check < 1):
        raise DataError(
            "--check takes a number of panels, 1 or more, of finitely many actions, but "
            f"{arguments.check}{' with --action-range' if space else ''} arrived."
        )
    panel = _read(arguments.data, named(arguments, COLUMNS), space)
    model = deeppqr.PQR(
        anchor=find_label(panel.actions, arguments.anchor)
        if space is None
        else find_amount(arguments.anchor),
        anchor_reward=anchor_reward(arguments.anchor_reward, arguments.state),
        **named(arguments, SETTINGS),
    )
    if arguments.check is not None and not isinstance(panel, deeppqr.Panel):
        raise DataError(
            "--check draws panels as large as the data, which stay on disk here. Leave it "
            "out, or give one file, which is read into memory."
        )
    fit = model.fit(panel)
    with fit_folder(out, arguments.overwrite) as folder:
        written_somewhere(fit.save, folder, name=out)
        if not arguments.no_report:
            report_beside(fit, folder, out)
    say(arguments, fit.summary())
    page = out / "report.html"
    say(arguments, f"Fit written to {out}{f'; to read: {page}' if page.exists() else ''}")
    if arguments.check is not None:
        told = {"replicates": arguments.check, "seed": arguments.seed}
        say(arguments, str(fit.simulation_check(panel, **told, out=out / "check.csv")))
    concerns = [figure.name for figure in fit.diagnostics.warnings]
    if arguments.strict and concerns:
        say(arguments, f"Not ok, with --strict: {', '.join(concerns)}")
        return NOT_OK
    return DONE


def _read(data: list[Path], columns: dict[str, Any], space: Any) -> Any:
    """A panel in memory of one file; of several, a pattern or a folder, one on disk."""
    one = len(data) == 1
    # A file may have such characters in its name.
    pattern = one and glob.has_magic(str(data[0])) and not data[0].is_file()
    if one and not pattern and not data[0].is_dir():
        return deeppqr.Panel.from_file(data[0], **columns, actions=space)
    if columns["unit"] is None:
        raise DataError(
            f"--unit must name the column that says who decided where several files are "
            f"read, as {data[0]} says, but it is left out. Add it, or put the rows of one "
            "long sequence into one file."
        )
    if space is not None:
        raise DataError(
            f"Amounts are read from one file into memory, but {data[0]} stands for several "
            "files, which stay on disk. Write their rows to one file, or leave out "
            "--action-range if the actions are labels."
        )
    return deeppqr.Panel.scan([str(path) for path in data], **columns)


def action_space(bounds: list[float] | None, atoms: list[float]) -> Any:
    """The space of amounts that was typed; None for finitely many actions."""
    if bounds is None:
        if atoms:
            raise DataError(
                "--atom names amounts that are taken exactly, beside others in a range, "
                "but there is no --action-range. Add it, or leave out --atom."
            )
        return None
    box = deeppqr.Box(*bounds)
    return deeppqr.Mixed(atoms=atoms, box=box) if atoms else box


def find_amount(text: str) -> float:
    """The anchor where actions are amounts."""
    try:
        return float(text)
    except ValueError:
        raise DataError(
            "--anchor must be a number, as --action-range says that actions are amounts, "
            f"but it is {text!r}."
        ) from None


def find_label(actions: tuple[Any, ...], text: str) -> Any:
    """The action that was typed: "1" is the text "1", or the number 1 or 1.0."""
    # By its text first: with "1.1" and "1.10" among the labels each means itself.
    for same in (lambda label: str(label) == text, lambda label: _is_number(label, text)):
        found = [label for label in actions if same(label)]
        if found:
            return found[0]
    raise DataError(
        f"--anchor must be one of the actions {[str(a) for a in actions]}, but it is "
        f"{text!r}.{did_you_mean(text, map(str, actions))}"
    )


def _is_number(label: Any, text: str) -> bool:
    """Whether a label that is a number is the one that was typed."""
    if isinstance(label, str):
        return False
    try:
        # Decimal, because float would merge integers beyond 2^53.
        return Decimal(text) == label or float(text) == label
    except (ArithmeticError, ValueError, TypeError):
        return False


def anchor_reward(text: str | None, columns: list[str]) -> float | str:
    """The number or the state column that was typed."""
    try:
        number = 0.0 if text is None else float(text)
    except ValueError:
        return text or ""
    if text is not None and text in columns:
        # Either form reads as the same number and is the name of no such column.
        other = f"{text}e0" if text.startswith(("-", "+")) else f"+{text}"
        raise DataError(
            f"--anchor-reward {text} is a number and a state column. Write {other} for the "
            "number, or rename the column in the data."
        )
    return number

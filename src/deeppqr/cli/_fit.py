"""`deeppqr fit`: fits a table of decisions and saves the fit to a folder."""

import argparse
from decimal import Decimal
from pathlib import Path
from typing import Any

import deeppqr

from .._errors import DataError
from .._files import check_output, written_somewhere
from .._messages import did_you_mean
from .._stage_names import ANCHOR_VALUES, POLICIES, REWARDS
from ._common import add_common, named, say

# Options that are handed on under their own name, to the panel and to the model.
COLUMNS = (
    "state action unit time next_state terminal truncated weight categorical gaps".split()
)
SETTINGS = "discount temperature policy anchor_value reward clip seed".split()


def register(jobs) -> None:
    parser = jobs.add_parser("fit", help="estimate the reward from a table of decisions")
    parser.add_argument("data", type=Path, help="CSV or Parquet file, one row per decision")
    parser.add_argument(
        "--state", nargs="+", required=True, metavar="COLUMN", help="what they saw"
    )
    parser.add_argument("--action", required=True, metavar="COLUMN", help="what they did")
    parser.add_argument("--unit", metavar="COLUMN", help="who decided")
    parser.add_argument("--time", metavar="COLUMN", help="when")
    parser.add_argument(
        "--next-state",
        nargs="+",
        metavar="COLUMN",
        help="what they saw next, in the order of --state (default: the unit's next row)",
    )
    parser.add_argument("--terminal", metavar="COLUMN", help="true where the process ends")
    parser.add_argument(
        "--truncated", metavar="COLUMN", help="true where a sequence breaks"
    )
    parser.add_argument("--weight", metavar="COLUMN", help="how much each row counts")
    parser.add_argument(
        "--categorical",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="state columns whose values are codes, not quantities",
    )
    parser.add_argument(
        "--gaps", choices=("error", "split"), default="error", help="skipped periods"
    )
    parser.add_argument("--anchor", required=True, help="action whose reward is known")
    parser.add_argument(
        "--anchor-reward", help="its reward: a number (default 0) or a state column"
    )
    parser.add_argument(
        "--discount", type=float, required=True, help="the agent's, per period, in [0, 1)"
    )
    parser.add_argument(
        "--temperature", type=float, default=1.0, help="scale of its randomness (default 1)"
    )
    for stage, names, about in (
        ("--policy", POLICIES, "P: how likely each action is"),
        ("--anchor-value", ANCHOR_VALUES, "Q: what the anchor is worth"),
        ("--reward", REWARDS, "R: what each action pays"),
    ):
        parser.add_argument(stage, choices=names, default="auto", help=about)
    parser.add_argument("--clip", type=float, help="smallest probability")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    # Before the fit, which may take minutes.
    check_output(arguments.out, "--out")
    panel = deeppqr.Panel.from_file(arguments.data, **named(arguments, COLUMNS))
    model = deeppqr.PQR(
        anchor=find_label(panel.actions, arguments.anchor),
        anchor_reward=anchor_reward(arguments.anchor_reward, arguments.state),
        **named(arguments, SETTINGS),
    )
    fit = model.fit(panel)
    written_somewhere(fit.save, arguments.out)
    say(arguments, fit.summary())
    say(arguments, f"Fit written to {arguments.out}")


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

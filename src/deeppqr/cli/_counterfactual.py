"""`deeppqr counterfactual`: choices, rewards and values if the problem were another one."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deeppqr

from .._errors import DataError
from .._files import check_output, new_file, written_somewhere
from ..panel._file import read_file
from ._common import add_job, add_quiet, say, write_table

EXAMPLES = """\
  deeppqr counterfactual run/ --transfer large=0.3 --periods 20
  deeppqr counterfactual run/ --transfer large=0.3 wait=-0.1 --remove exit
  deeppqr counterfactual run/ --add lease=large --transfer lease=-0.2
  deeppqr counterfactual run/ --scale large=0.9 --anchor-bounds 4.5 5.5
  deeppqr counterfactual run/ --discount 0.9 --states states.csv --out table.csv
"""
TABLES, TEXTS = (".csv", ".parquet"), (".txt", ".md", ".tex", ".html")


def register(jobs) -> None:
    about = "what agents would do in a changed problem"
    parser = add_job(jobs, "counterfactual", about, EXAMPLES)
    parser.add_argument("fit", type=Path, help="folder written by `deeppqr fit`")
    changes = parser.add_argument_group("what changes")
    listed: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    changes.add_argument(
        "--transfer",
        metavar="ACTION=AMOUNT",
        help="what actions are paid: numbers or state columns; a tax is negative",
        **listed,
    )
    changes.add_argument(
        "--remove", metavar="ACTION", help="actions that are taken away", **listed
    )
    changes.add_argument(
        "--add",
        metavar="NEW=ACTION",
        help="new actions, each with the reward and the law of one there is",
        **listed,
    )
    changes.add_argument(
        "--scale",
        metavar="ACTION=FACTOR",
        help="factors of some actions' rewards, or one number for all",
        **listed,
    )
    changes.add_argument("--discount", type=float, help="another discount")
    asked = parser.add_argument_group("what is asked")
    asked.add_argument("--periods", type=int, help="also over so many periods")
    asked.add_argument(
        "--states",
        type=Path,
        help="CSV or Parquet file to start from (default: those the fit keeps)",
    )
    asked.add_argument(
        "--anchor-bounds",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="also the changes' ranges if the anchor earns something in between",
    )
    asked.add_argument("--level", type=float, default=0.95, help="of intervals (0.95)")
    parser.add_argument(
        "--out", type=Path, help="also write the table: " + ", ".join((*TABLES, *TEXTS))
    )
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    if arguments.out is not None:
        _check_out(arguments.out)
    fit = deeppqr.load(arguments.fit)
    answer = fit.counterfactual(
        arguments.states and read_file(arguments.states),
        periods=arguments.periods,
        discount=arguments.discount,
        anchor_bounds=arguments.anchor_bounds and tuple(arguments.anchor_bounds),
        level=arguments.level,
        **_changes(arguments, fit.actions),
    )
    say(arguments, answer.text())
    if arguments.out is not None:
        _write(answer, arguments.out)
        say(arguments, f"Table written to {arguments.out}")


def _changes(arguments: argparse.Namespace, actions: tuple[Any, ...]) -> dict[str, Any]:
    """The options of `Fit.counterfactual` behind the words of the command line."""
    # Words of the command line are texts, labels may be numbers.
    labels = {str(label): label for label in actions}
    named = lambda text: labels.get(text, text)
    added = {
        label: deeppqr.counterfactual.NewAction(like=named(like))
        for label, like in _pairs("--add", arguments.add, "lease=large").items()
    }
    paid = _pairs("--transfer", arguments.transfer, "large=0.3")
    scale: Any = None
    if len(arguments.scale) == 1 and "=" not in arguments.scale[0]:
        scale = _factor(arguments.scale[0])
    elif arguments.scale:
        factors = _pairs("--scale", arguments.scale, "large=0.9")
        scale = {named(label): _factor(factor) for label, factor in factors.items()}
    return {
        "transfer": {named(label): _amount(text) for label, text in paid.items()} or None,
        "remove": [named(label) for label in arguments.remove] or None,
        "add": added or None,
        "scale": scale,
    }


def _pairs(option: str, words: list[str], example: str) -> Mapping[str, str]:
    """NAME=VALUE by name; names may hold an equals sign, values may not."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        if not (equals and name and value):
            raise DataError(
                f"`{option}` takes pairs such as {example}, but {word!r} arrived."
            )
        if name in found:
            raise DataError(
                f"`{option}` names {name!r} twice, with {found[name]} and {value}."
            )
        found[name] = value
    return found


def _amount(text: str) -> float | str:
    """A number, or the name of a state column."""
    try:
        return float(text)
    except ValueError:
        return text


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(
            f"`--scale` takes one number for all actions, or pairs such as large=0.9, but "
            f"{text!r} arrived."
        ) from None


def _check_out(path: Path) -> None:
    """Raise, before any work is done, if the table cannot be written."""
    if path.suffix.lower() not in (*TABLES, *TEXTS):
        endings = ", ".join((*TABLES, *TEXTS))
        raise DataError(f"--out must end in one of {endings}, but it is {path}.")
    check_output(path, "--out")


def _write(answer, path: Path) -> None:
    ending = path.suffix.lower()
    if ending in TABLES:
        write_table(answer.frame(), path)
        return
    renderings = (answer.text, answer.markdown, answer.latex, answer.html)
    text = dict(zip(TEXTS, renderings, strict=True))[ending]()

    def write(where: Path) -> None:
        with new_file(where) as partial:
            partial.write_text(text + "\n", encoding="utf-8")

    written_somewhere(write, path)

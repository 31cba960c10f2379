"""`--config FILE`: options of a job from a TOML file; the command line wins.

The keys are the names of the options, with `-` or `_`. Paths in the file are relative to
its folder, so that a scheduler may start the job anywhere.
"""

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._errors import DataError
from .._messages import counted, did_you_mean, plain

OPTION = "--config"
# What no file may set: where it is itself, and the page of help.
UNSETTABLE = ("config", "help")


def add_config(parser: argparse.ArgumentParser) -> None:
    about = "TOML file with these options by name; what is typed here wins"
    parser.add_argument(OPTION, type=Path, metavar="FILE", help=about)


def apply_config(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Make the values of the file that the words name the parser's defaults."""
    path = _named_file(words)
    if path is None:
        return
    options = {
        action.dest: action for action in parser._actions if action.dest not in UNSETTABLE
    }
    found = {key.replace("-", "_"): value for key, value in _read(path).items()}
    unknown = [key for key in found if key not in options]
    if unknown:
        names = [name.replace("_", "-") for name in options]
        listed = ", ".join(repr(key) for key in unknown)
        raise DataError(
            f"{path} must hold options of `{parser.prog}`, but {listed} "
            f"{'is' if len(unknown) == 1 else 'are'} none."
            f"{did_you_mean(unknown[0].replace('_', '-'), names)} The options are "
            f"{', '.join(names)}."
        )
    for name, value in found.items():
        action = options[name]
        action.required = False
        parser.set_defaults(**{name: _converted(value, action, f"{path}: {name!r}", path)})


def _named_file(words: Sequence[str]) -> Path | None:
    # A parser of its own, as the real one would stop at options that only the file has.
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument(OPTION, type=Path, nargs="?")
    return finder.parse_known_args(list(words))[0].config


def _read(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise DataError(f"There is no file {path}, which {OPTION} names.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise DataError(
            f"{path} must be a TOML file, such as `discount = 0.9`, but it cannot be read: "
            f"{str(problem).rstrip('.')}."
        ) from problem


def _converted(value: Any, action: argparse.Action, where: str, path: Path) -> Any:
    """The value as the command line would have made it."""
    if isinstance(value, Mapping):
        raise DataError(f"{where} must be a value, but it is a table of values.")
    if action.nargs == "+":
        items = value if isinstance(value, list) else [value]
        if not items:
            raise DataError(f"{where} must name one at least, but the list is empty.")
        return [_single(item, action, where, path) for item in items]
    if isinstance(value, list):
        size = counted(len(value), "value")
        raise DataError(f"{where} must be one value, but it is a list of {size}.")
    if action.nargs == 0:  # a switch, such as --quiet
        if not isinstance(value, bool):
            raise DataError(f"{where} must be true or false, but it is {plain(value)}.")
        # A switch that is off leaves what it would have changed.
        return action.const if value else action.default
    return _single(value, action, where, path)


def _single(value: Any, action: argparse.Action, where: str, path: Path) -> Any:
    if action.type is Path:
        if not isinstance(value, str):
            raise DataError(f"{where} must be a path as text, but it is {plain(value)}.")
        return path.parent / value
    # Labels may be numbers or dates in the file; on the command line all is text.
    text = str(value)
    convert: Any = action.type or str
    try:
        # bool counts as a number in Python, and not for who writes true.
        if isinstance(value, bool) and convert in (int, float):
            raise ValueError
        single = convert(text)
    except (ValueError, TypeError):
        noun = {int: "a whole number", float: "a number"}.get(convert, "another value")
        raise DataError(f"{where} must be {noun}, but it is {plain(value)}.") from None
    if action.choices is not None and single not in action.choices:
        choices = ", ".join(map(repr, action.choices))
        raise DataError(
            f"{where} must be one of {choices}, but it is {plain(value)}."
            f"{did_you_mean(single, action.choices)}"
        )
    return single

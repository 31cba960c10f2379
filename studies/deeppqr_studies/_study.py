"""What a study is: independent tasks, each with its own seed, and a report of their rows.

A task carries everything that its result depends on, so that tasks can run in any order
and in any process, and can be repeated.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import polars as pl

from deeppqr import DataError

TASK_NAME = re.compile(r"[A-Za-z0-9._=-]+")


@dataclass(frozen=True)
class Task:
    """One piece of a study; its result depends on `parameters` and on nothing else."""

    name: str
    """Unique in its study, and a file name: letters, digits and . _ - = only."""
    parameters: dict[str, Any]
    """What JSON can hold; the seed is among them."""

    def __post_init__(self):
        if not TASK_NAME.fullmatch(self.name):
            raise DataError(
                "`name` of a task must consist of letters, digits and . _ - = only, since "
                f"it names a file, but it is {self.name!r}."
            )
        if to_json_values(self.parameters) != self.parameters:
            raise DataError(
                "`parameters` of a task must be what JSON gives back as it was, but those "
                f"of {self.name} are not: {self.parameters!r}. Use lists, not tuples."
            )


class Option(NamedTuple):
    """A setting of a study, as the command line offers it."""

    type: Callable[[str], Any]
    nargs: str | None
    """As in argparse: "+" for one or more, "*" for any number, None for one."""
    default: Any
    help: str
    least: float | None = None
    """The smallest number allowed; None where the setting is no number, or any will do."""

    def check(self, name: str, value: Any) -> None:
        """Refuse numbers that are too small, before any task runs with them."""
        if self.least is None:
            return
        for number in value if isinstance(value, list) else [value]:
            if number < self.least:
                raise DataError(f"`{name}` must be at least {self.least}, not {number}.")


# Each seed adds a world and a data set to every mean: standard errors fall, time grows.
SEEDS = Option(int, "+", [1001, 1002, 1003, 1004, 1005], "one world and data set each")


class Study(ABC):
    """A figure or table of the benchmark: its tasks, what each computes, the report."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One line, for the list of studies."""
    options: ClassVar[Mapping[str, Option]] = {}
    """Settings besides `seeds`."""
    seeded: ClassVar[bool] = True
    """Whether `seeds` is a setting too. It is not where they would change nothing."""
    times: ClassVar[tuple[str, ...]] = ("seconds",)
    """Columns that differ between two runs. They are written to `times.csv`."""

    @abstractmethod
    def tasks(self, settings: dict[str, Any]) -> list[Task]:
        """Every task under these settings, which hold a value for each option."""

    @abstractmethod
    def run(self, task: Task) -> list[dict[str, Any]]:
        """The task's rows of the table: numbers, texts and None by column name."""

    @abstractmethod
    def report(self, frame: pl.DataFrame, folder: Path) -> str:
        """Write figures and tables of all rows to `folder`; return them as text."""


def all_options(study: Study) -> dict[str, Option]:
    """A study's options, with the seeds where it uses them."""
    return {**({"seeds": SEEDS} if study.seeded else {}), **study.options}


def complete_settings(study: Study, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the defaults filled in, refusing names the study does not have."""
    options = all_options(study)
    unknown = [name for name in settings if name not in options]
    if unknown:
        raise DataError(
            f"The study {study.name} has no setting {unknown[0]!r}; it has "
            f"{sorted(options)}."
        )
    values = {name: settings.get(name, options[name].default) for name in options}
    for name, option in options.items():
        option.check(name, values[name])
    return to_json_values(values)


def check_choices(setting: str, wanted: list[str], known: Collection[str]) -> list[str]:
    """The names wanted, refusing those that are not among the known."""
    for name in wanted:
        if name not in known:
            raise DataError(f"`{setting}` must be among {sorted(known)}, not {name!r}.")
    return wanted


def to_json_values(values: Any) -> Any:
    """Values as JSON gives them back; refuses what JSON cannot hold."""
    try:
        return json.loads(json.dumps(values, allow_nan=False, default=_python_number))
    except (TypeError, ValueError) as problem:
        raise DataError(
            f"Only finite numbers, texts, lists and None can be kept, but {problem}: "
            f"{values!r}."
        ) from problem


def _python_number(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a {type(value).__name__} arrived")

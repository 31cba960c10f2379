"""What a study is: independent tasks, each with its own seed, and a report of their rows.

A task carries everything that its answer depends on, so that it can run in any order, in
any process, and be run again.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from deeppqr._errors import DataError

if TYPE_CHECKING:
    import polars as pl

NAME = re.compile(r"[A-Za-z0-9._=-]+")


@dataclass(frozen=True)
class Task:
    """One piece of a study; its answer depends on `parameters` and on nothing else."""

    name: str
    """Unique in its study, and a file name: letters, digits and . _ - = only."""
    parameters: dict[str, Any]
    """What JSON can hold; the seed is among them."""

    def __post_init__(self):
        if not NAME.fullmatch(self.name):
            raise DataError(
                "`name` of a task must consist of letters, digits and . _ - = only, since "
                f"it names a file, but it is {self.name!r}."
            )
        if plain(self.parameters) != self.parameters:
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
    """The smallest number that makes sense."""

    def check(self, name: str, value: Any) -> None:
        """Refuse numbers that are too small, before any task meets them."""
        if self.least is None:
            return
        for number in value if isinstance(value, list) else [value]:
            if number < self.least:
                raise DataError(f"`{name}` must be at least {self.least}, not {number}.")


SEEDS = Option(int, "+", [1001, 1002, 1003, 1004, 1005], "one world and data set each")


class Study(ABC):
    """A figure or table of the benchmark: which tasks, what each measures, what it says."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One line, for the list of studies."""
    options: ClassVar[Mapping[str, Option]] = {}
    """Settings beside `seeds`."""
    seeded: ClassVar[bool] = True
    """Whether `seeds` is a setting too. It is not where they would change nothing."""
    times: ClassVar[tuple[str, ...]] = ("seconds",)
    """Columns that no two runs share. They are written to a table of their own."""

    @abstractmethod
    def tasks(self, settings: dict[str, Any]) -> list[Task]:
        """Every task under these settings, which hold a value for each option."""

    @abstractmethod
    def run(self, task: Task) -> list[dict[str, Any]]:
        """The task's rows of the table: numbers, texts and None by column name."""

    @abstractmethod
    def report(self, frame: "pl.DataFrame", folder: Path) -> str:
        """Write figures and tables of all rows to `folder`; return what they say."""


def all_options(study: Study) -> dict[str, Option]:
    """A study's options, with the seeds where it draws by them."""
    return {**({"seeds": SEEDS} if study.seeded else {}), **study.options}


def complete(study: Study, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the defaults filled in, refusing names the study does not know."""
    options = all_options(study)
    unknown = [name for name in settings if name not in options]
    if unknown:
        raise DataError(
            f"The study {study.name} has no setting {unknown[0]!r}; it has "
            f"{sorted(options)}."
        )
    chosen = {name: settings.get(name, options[name].default) for name in options}
    for name, option in options.items():
        option.check(name, chosen[name])
    return plain(chosen)


def choose(setting: str, wanted: list[str], known: Mapping[str, Any]) -> list[str]:
    """The names wanted, refusing those that are not known."""
    for name in wanted:
        if name not in known:
            raise DataError(f"`{setting}` must be among {sorted(known)}, not {name!r}.")
    return wanted


def plain(values: Any) -> Any:
    """Values as JSON gives them back; refuses what JSON cannot hold."""
    try:
        return json.loads(json.dumps(values, allow_nan=False, default=_number))
    except (TypeError, ValueError) as problem:
        raise DataError(
            f"Only finite numbers, texts, lists and None can be kept, but {problem}: "
            f"{values!r}."
        ) from problem


def _number(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a {type(value).__name__} arrived")

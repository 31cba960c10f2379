"""Data cards: source, licence, columns and caveats of each data set."""

import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._errors import DataError

WIDTH, MARGIN = 78, 13  # characters of a printed line, and of its left column


@dataclass(frozen=True)
class Card:
    """The data card of a dataset; print it."""

    name: str
    title: str
    source: str
    licence: str
    columns: Mapping[str, str]
    """What each column means."""
    caveats: tuple[str, ...]
    references: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.title.center(WIDTH).rstrip(), "=" * WIDTH]
        lines += _block("source", self.source) + _block("licence", self.licence)
        lines.append("-" * WIDTH)
        for column, meaning in self.columns.items():
            lines += _block(column, meaning)
        lines.append("-" * WIDTH)
        for caveat in self.caveats:
            lines += _block("mind", caveat)
        for reference in self.references:
            lines += _block("cite", reference)
        return "\n".join([*lines, "=" * WIDTH])


def card(name: str) -> Card:
    """The data card of this name."""
    text = (Path(__file__).parent / "cards.toml").read_text("utf-8")
    cards: dict[str, Any] = tomllib.loads(text)
    if name not in cards:
        raise DataError(f"There is no dataset {name!r}; there are {sorted(cards)}.")
    about = cards[name]
    about |= {key: tuple(about[key]) for key in ("caveats", "references")}
    return Card(name, **about)


def _block(head: str, text: str) -> list[str]:
    margin = " " * MARGIN
    if len(head) >= MARGIN:
        return [
            head,
            *textwrap.wrap(text, WIDTH, initial_indent=margin, subsequent_indent=margin),
        ]
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{head:<{MARGIN}}", subsequent_indent=margin
    )

"""Data cards: source, licence, columns and caveats of each data set."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._errors import DataError
from ..report._layout import framed, labelled

MARGIN = 13  # characters of the left column


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
        remarks = [("mind", caveat) for caveat in self.caveats]
        remarks += [("cite", reference) for reference in self.references]
        origin = [("source", self.source), ("licence", self.licence)]
        sections = (origin, self.columns.items(), remarks)
        blocks = ([line for pair in pairs for line in _block(*pair)] for pairs in sections)
        return framed(self.title, *blocks)


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
    if len(head) >= MARGIN:
        return [head, *labelled(" " * MARGIN, text)]
    return labelled(f"{head:<{MARGIN}}", text)

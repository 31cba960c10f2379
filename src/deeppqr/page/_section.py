"""The parts of a report: sections with texts, tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..report._html import HtmlTable


@dataclass(frozen=True)
class ReportFigure:
    """A figure, what it shows in words, and its numbers."""

    title: str
    svg: Any
    text: str
    numbers: HtmlTable | None = None


@dataclass(frozen=True)
class Code:
    """Something to copy: a program or a reference."""

    title: str
    text: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in this order."""

    title: str
    texts: Sequence[str] = ()
    tables: Sequence[HtmlTable] = ()
    figures: Sequence[ReportFigure] = ()
    codes: Sequence[Code] = ()

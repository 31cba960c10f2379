"""HTML from templates, in which every value is escaped; names and labels as short text."""

import base64
import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

MAX_NAME = 80  # characters of a name or label on a page; longer ones say how long they are
MAX_CELL = 400  # of any other cell


@dataclass(frozen=True)
class HtmlTable:
    """A table of a page: cells are text, and the first of each row names it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers only, and are set to the right."""
        return [all(map(is_number, column)) for column in zip(*self.rows, strict=True)]


def render(template: str, **values: Any) -> str:
    """The page or fragment that a template of this folder makes of some values."""
    return _environment().get_template(template).render(**values)


@cache
def _environment():
    # Only here: `import deeppqr` must not load a template engine.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("deeppqr.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["cell"] = cell_text
    return made


def plain_name(value: Any, limit: int = MAX_NAME) -> str:
    """A name or label as one line of visible characters, cut if it is very long."""
    text = str(value)
    shown = "".join(_visible(letter) for letter in text[:limit])
    return f"{shown}… ({len(text):,} characters)" if len(text) > limit else shown


def quoted(value: Any) -> str:
    """A label inside a sentence."""
    return f"'{plain_name(value, 40)}'"


def cell_text(value: Any) -> str:
    """The text of a table's cell."""
    return plain_name(value, MAX_CELL)


def _visible(letter: str) -> str:
    if letter.isspace():
        return " "
    # Format characters can turn the reading direction of the text around them.
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn")
    return "\ufffd" if hidden else letter


def is_number(text: str) -> bool:
    """Whether a cell is a number, which is set to the right."""
    try:
        float(str(text).replace(",", "").replace("%", ""))
    except ValueError:
        return str(text) in ("", "-")
    return True


def digest_of(script: str) -> str:
    """The source that a Content-Security-Policy allows this script by."""
    found = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(found).decode()}'"


def template_source(name: str) -> str:
    """A file beside the templates, such as the style sheet, as it is."""
    from importlib.resources import files

    return (files("deeppqr.report") / "templates" / name).read_text(encoding="utf-8")

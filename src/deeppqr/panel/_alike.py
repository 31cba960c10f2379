"""Labels that differ and may mean the same: in blanks, case, accents or rounding."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

# Rounding differs in the sixteenth digit; labels that are meant differ in the first few.
ROUNDING = 1e-9


def look_alikes(labels: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Pairs of labels that may mean the same."""
    return [*_alike_in_text(labels), *_alike_as_numbers(labels)]


def _alike_in_text(values: Sequence[Any]) -> Iterator[tuple[str, str]]:
    first: dict[str, str] = {}
    for value in values:
        if isinstance(value, str):
            same = first.setdefault(_plain_form(value), value)
            if same != value:
                yield same, value


def _alike_as_numbers(values: Sequence[Any]) -> Iterator[tuple[float, float]]:
    """Fractions that differ by rounding, such as 0.3 and 0.1 + 0.2."""
    numbers = sorted(value for value in values if isinstance(value, float))
    for one, other in pairwise(numbers):
        if other - one <= ROUNDING * max(abs(one), abs(other)):
            yield one, other


def told_apart(one: Any, other: Any) -> str:
    """Both labels, with characters that look alike written as codes."""
    visible = _visible(str(one)) != _visible(str(other))
    written = repr if visible else ascii
    return f"{written(one)} and {written(other)}"


def _visible(text: str) -> str:
    """What a reader sees: composed characters, none without width."""
    composed = unicodedata.normalize("NFKC", text)
    return "".join(c for c in composed if unicodedata.category(c) != "Cf")


def _plain_form(text: str) -> str:
    plain_text = " ".join(_visible(text).casefold().split())
    try:
        return repr(float(plain_text))
    except ValueError:
        return plain_text

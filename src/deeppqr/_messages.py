"""Parts of messages: counts with plurals, suggestions, values as typed; and warnings."""

import difflib
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from ._errors import DataWarning

LONGEST = 120  # characters of a quoted value: enough to recognise it


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 row", "2,000 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def did_you_mean(word: Any, choices: Iterable[Any]) -> str:
    """A sentence, after a blank, with the closest choice; empty if none is close."""
    by_text = {str(choice): choice for choice in choices}
    # difflib sees nothing in common between 'U' and 'u'.
    same = [text for text in by_text if text.casefold() == str(word).casefold()]
    if same and str(word) not in by_text:
        return f" Did you mean {plain(by_text[same[0]])}?"
    # difflib's default cutoff of 0.6 finds swapped letters and plurals, and little else.
    close = difflib.get_close_matches(str(word), by_text, 1)
    return f" Did you mean {plain(by_text[close[0]])}?" if close else ""


def plain(value: Any) -> str:
    """The value as typed in Python: 2.0, where NumPy prints np.float64(2.0)."""
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", 0) == 0
    text = repr(value.item() if is_scalar else value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def warn_user(text: str) -> None:
    """Warn at the line of the user's code that called the package."""
    frame, level = sys._getframe(1), 2
    # Type checkers of annotations stand between the frames where they are switched on.
    inside = ("deeppqr", "jaxtyping", "beartype")
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, DataWarning, stacklevel=level)

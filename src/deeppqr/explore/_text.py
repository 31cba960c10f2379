"""Names, labels and numbers of a fit as JSON and CSV can carry them to a page."""

import csv
import io
import json
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

LONGEST = 200  # characters of a name or label: enough to recognise it
# What spreadsheets take for the beginning of a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def shown(value: Any) -> str:
    """A name or label as one line of text: nothing in it reorders or hides the rest."""
    text = str(value)[: 4 * LONGEST]
    plain = "".join(
        " " if letter.isspace() else "\ufffd" if _controls(letter) else letter
        for letter in text
    )
    cut = len(plain) > LONGEST or len(str(value)) > len(text)
    return f"{plain[: LONGEST - 1]}…" if cut else plain


def _controls(letter: str) -> bool:
    # Cc and Cf: among them the marks that turn the direction of the text around them.
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn")


def jsonable(value: Any) -> Any:
    """Numbers that are not finite become null, of which JSON has a word."""
    if isinstance(value, dict):
        return {key: jsonable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(each) for each in value]
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, np.generic):
        return jsonable(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def as_json(value: Any) -> bytes:
    text = json.dumps(jsonable(value), allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8")


def as_csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV in which no cell is a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_cell(name) for name in head])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return repr(float(value)) if math.isfinite(value) else ""
    if isinstance(value, str):
        text = shown(value)
        return f"'{text}" if text.startswith(FORMULA) else text
    return value

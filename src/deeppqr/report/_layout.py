"""Printed tables: a title, sections of lines between rules, columns and wrapped text."""

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 78  # fits a terminal of 80 columns


def framed(title: str, *sections: Iterable[str], width: int = WIDTH) -> str:
    """Sections of lines with rules between them, below a centred title."""
    lines = [title.center(width).rstrip()]
    for number, section in enumerate(sections):
        lines += [("-" if number else "=") * width, *section]
    return "\n".join([*lines, "=" * width])


def columns(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of cells as text: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])])
        for first, *rest in lines
    ]


def labelled(label: str, text: str) -> list[str]:
    """Text wrapped to the width, with a label before its first line."""
    margin = " " * len(label)
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=margin)


def listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def decimal(figure: float, digits: int) -> str:
    """A number to so many decimals, never as -0.0, which adding zero turns into 0.0."""
    return f"{round(figure, digits) + 0.0:.{digits}f}"

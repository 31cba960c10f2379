"""What the reports of the studies of the paper's world have in common."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ._tables import Printed, Table, method_table, without_refused

WIDTH = 92


def score_tables(frame: pl.DataFrame, title: str, *, over: str, score: str) -> list[Table]:
    """The table of a score by method, unless there is none to show."""
    if frame[score].is_null().all():
        return []
    return [method_table(frame, title, over=over, score=score)]


def conclude(
    heading: str,
    about: str | None,
    parts: Sequence[Printed],
    frame: pl.DataFrame,
    folder: Path,
) -> str:
    """What was run and found, as text; `summary.md` says the same.

    What has to be known of the fits comes first: `about` the study, those that were
    refused, and a demonstrator that had to learn.
    """
    notes = [*filter(None, [about]), *_refusals(frame), *_demonstrator(frame)]
    whole: list[Printed] = [*map(_Paragraph, notes), *parts]
    pages = "\n\n".join([f"# {heading}", *(part.markdown() for part in whole)])
    (folder / "summary.md").write_text(pages + "\n", encoding="utf-8")
    return "\n\n".join(part.text() for part in whole)


class _Paragraph(str):
    """Running text among tables."""

    def text(self) -> str:
        return textwrap.fill(self, WIDTH)

    def markdown(self) -> str:
        return str(self)


def _refusals(frame: pl.DataFrame) -> list[str]:
    refused = len(frame) - len(without_refused(frame))
    if refused == 0:
        return []
    return [
        f"{refused} of {len(frame)} fits were refused, because an action never "
        "occurs in the demonstrations; they have no score."
    ]


def _demonstrator(frame: pl.DataFrame) -> list[str]:
    if "demonstrator_kl" not in frame.columns:
        return []
    mean = frame["demonstrator_kl"].cast(pl.Float64).mean()
    if mean is None:
        return []
    return [
        "The demonstrations are of a policy that soft Q-learning found; on average it is "
        f"{mean:.3g} nats per decision from the optimal one, whose reward is scored."
    ]

"""What a paper claims, held against a table: "agrees", "disagrees" or "cannot tell"."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import polars as pl

AGREES, DISAGREES, UNDECIDED = "agrees", "disagrees", "cannot tell"
STANDARD_ERRORS = 2.0
"""How far from zero a mean difference must be to decide."""

Scores = Mapping[Hashable, float]
"""A score by seed, or by whatever else pairs two scores."""


class Claim(NamedTuple):
    """A sentence of the paper, whether our numbers bear it out, and those numbers."""

    text: str
    verdict: str
    numbers: str


@dataclass(frozen=True)
class Claims:
    """Claims that are printed like a table, among tables."""

    title: str
    claims: Sequence[Claim]

    def text(self) -> str:
        lines = [f"- {c.verdict}: {c.text} [{c.numbers}]" for c in self.claims]
        return "\n".join([self.title, *lines])

    def markdown(self) -> str:
        lines = [f"- *{c.verdict}*: {c.text} ({c.numbers})" for c in self.claims]
        return "\n".join([f"**{self.title}**", "", *lines])


def claim_below(text: str, lower: Scores, upper: Scores) -> Claim:
    """The claim that one score is below another, judged on the pairs that have both.

    It is borne out if the mean difference is more than two standard errors of the paired
    differences below zero, contradicted if it is as far above; fewer than two pairs
    cannot tell.
    """
    shared = [pair for pair in lower if pair in upper]
    if not shared:
        return Claim(text, UNDECIDED, "nothing to compare")
    means = [fmean(float(scores[pair]) for pair in shared) for scores in (lower, upper)]
    numbers = f"{means[0]:.3g} against {means[1]:.3g}"
    if len(shared) < 2:
        return Claim(text, UNDECIDED, f"{numbers}, one seed")
    gaps = [float(lower[pair]) - float(upper[pair]) for pair in shared]
    gap, error = fmean(gaps), stdev(gaps) / len(gaps) ** 0.5
    verdict = UNDECIDED
    if abs(gap) > STANDARD_ERRORS * error:
        verdict = AGREES if gap < 0 else DISAGREES
    about = f"difference {gap:.2g}, standard error {error:.2g}, {len(gaps)} seeds"
    return Claim(text, verdict, f"{numbers}; {about}")


def scores_by(
    frame: "pl.DataFrame", score: str, *, pair: str = "seed", **where: Any
) -> dict[Hashable, float]:
    """A score by seed, over the rows whose columns have the values of `where`."""
    kept = frame.filter(**where).drop_nulls(score)
    return dict(zip(kept[pair], kept[score], strict=True))

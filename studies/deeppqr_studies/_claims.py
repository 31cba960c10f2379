"""Claims of a paper, tested on a table: "agrees", "disagrees" or "cannot tell"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, stdev
from typing import Any, NamedTuple

import polars as pl
from scipy.special import stdtrit

AGREES, DISAGREES, UNDECIDED = "agrees", "disagrees", "cannot tell"
NOTHING = "nothing to compare"
CONFIDENCE = 0.95
"""Of the interval of the mean difference; a claim is decided if zero is outside it."""

Scores = Mapping[Any, float]
"""A score by seed, or by another key that pairs two scores."""
ScoresOver = Mapping[Any, Scores]
"""Such scores by a size."""


class Claim(NamedTuple):
    """A sentence of the paper, whether our numbers support it, and those numbers."""

    text: str
    verdict: str
    numbers: str


@dataclass(frozen=True)
class Claims:
    """Claims that are printed among tables; an empty list prints "nothing to compare"."""

    title: str
    claims: Sequence[Claim]

    def text(self) -> str:
        lines = [f"- {c.verdict}: {c.text} [{c.numbers}]" for c in self.claims]
        return "\n".join([self.title, *(lines or [f"- {NOTHING}"])])

    def markdown(self) -> str:
        lines = [f"- *{c.verdict}*: {c.text} ({c.numbers})" for c in self.claims]
        return "\n".join([f"**{self.title}**", "", *(lines or [f"- {NOTHING}"])])


def claim_below(
    text: str, lower: Scores, upper: Scores, *, relative: bool = False
) -> Claim:
    """The claim that one score is below another, judged on the pairs that have both.

    It agrees if the 95 % interval of the mean paired difference, by Student's t, is below
    zero, and disagrees if it is above; fewer than two pairs cannot tell. With `relative`
    the test is on logarithms, for scores of very different sizes, and means are geometric;
    a score of zero has no logarithm, and the test is on differences then.
    """
    sides = [(lower[pair], upper[pair]) for pair in lower if pair in upper]
    if not sides:
        return Claim(text, UNDECIDED, NOTHING)
    relative = relative and min(map(min, sides)) > 0
    there, back = (log, exp) if relative else (float, float)
    pairs = [(there(below), there(above)) for below, above in sides]
    means = [back(fmean(side)) for side in zip(*pairs, strict=True)]
    numbers = f"{means[0]:.3g} against {means[1]:.3g}"
    if len(pairs) < 2:
        return Claim(text, UNDECIDED, f"{numbers}, one pair")
    gaps = [below - above for below, above in pairs]
    gap, error = fmean(gaps), stdev(gaps) / len(gaps) ** 0.5
    verdict = UNDECIDED
    if abs(gap) > stdtrit(len(gaps) - 1, (1 + CONFIDENCE) / 2) * error:
        verdict = AGREES if gap < 0 else DISAGREES
    what = "difference of logarithms" if relative else "difference"
    about = f"{what} {gap:.2g}, standard error {error:.2g}, {len(gaps)} pairs"
    return Claim(text, verdict, f"{numbers}; {about}")


def claim_everywhere(text: str, claims: Mapping[str, Claim]) -> Claim:
    """The claim that the same holds in every place.

    It disagrees if one place does; else it cannot tell if one place cannot.
    """
    verdicts = {claim.verdict for claim in claims.values()}
    for verdict in (DISAGREES, UNDECIDED, AGREES):
        if verdict in verdicts:
            numbers = "; ".join(
                f"{where}: {claim.numbers.split(';')[0]}"
                + ("" if claim.verdict == AGREES else f", {claim.verdict}")
                for where, claim in claims.items()
            )
            return Claim(text, verdict, numbers)
    return Claim(text, UNDECIDED, NOTHING)


def claim_at_every(
    over: str, text: str, lower: ScoresOver, upper: ScoresOver, *, relative: bool = False
) -> Claim:
    """The claim that one score is below another at every value of `over`.

    It is tested at each value with the seeds as pairs, and not on all pairs together: what
    holds at one value may not hold at another.
    """
    found = {
        f"{over} = {size:g}": claim_below(
            text, lower.get(size, {}), upper.get(size, {}), relative=relative
        )
        for size in sorted({*lower, *upper})
    }
    return claim_everywhere(text, found)


def scores_by(
    frame: pl.DataFrame, score: str, *, pair: str = "seed", **where: Any
) -> dict[Any, float]:
    """A score by seed, over the rows whose columns have the values of `where`."""
    kept = frame.filter(**where).drop_nulls(score)
    return dict(zip(kept[pair], kept[score], strict=True))


def scores_over(
    frame: pl.DataFrame, over: str, score: str, **where: Any
) -> dict[Any, dict[Any, float]]:
    """The same by every value of the column `over`."""
    kept = frame.filter(**where)
    return {
        size: scores_by(kept, score, **{over: size}) for size in sorted(set(kept[over]))
    }

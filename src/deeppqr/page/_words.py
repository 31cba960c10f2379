"""What to believe of a fit and what not, in sentences made from its figures."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..plots._axes import inside_box
from ..plots._checks import calibration
from ..plots._curves import errors_of_means
from ..plots._style import number_text
from ..report._estimates import NORMAL_975
from ..report._html import plain_name, quoted
from ..report._identification import flow_factors

if TYPE_CHECKING:
    from .._fit import Fit

MAX_NAMED = 6  # actions named in a sentence


@dataclass(frozen=True)
class Averages:
    """Each action's mean reward over the data's states, with errors where there are any."""

    fit: "Fit"

    @cached_property
    def weight(self) -> np.ndarray:
        assert self.fit.data is not None
        return self.fit.data.weight / self.fit.data.weight.sum()

    @cached_property
    def rewards(self) -> np.ndarray:
        """At the states that the fit keeps; NaN where a table has none."""
        return self.fit._reward_of(self.fit.seen.state)

    @cached_property
    def mean(self) -> np.ndarray:
        known = np.isfinite(self.rewards)
        mass = (known * self.weight[:, None]).sum(axis=0)
        total = np.nansum(self.rewards * self.weight[:, None], axis=0)
        return np.where(mass > 0, total / np.maximum(mass, 1e-300), np.nan)

    @cached_property
    def error(self) -> np.ndarray | None:
        found = errors_of_means(self.fit, self.fit.seen.state, self.weight)
        return None if found is None else found[0]


@dataclass(frozen=True)
class Words:
    """The sentences at the head of a report."""

    verdict: str
    believe: tuple[str, ...]
    care: tuple[str, ...]


def words_of(fit: "Fit", averages: Averages) -> Words:
    """The sentences for a fit."""
    believe = [_anchor(fit), *_compared(fit, averages), _calibrated(fit)]
    return Words(_verdict(fit), tuple(believe), tuple(_care(fit)))


def _verdict(fit: "Fit") -> str:
    figures, wrong = tuple(fit.diagnostics), fit.diagnostics.warnings
    if not wrong:
        return f"None of the {len(figures)} diagnostics objects to these rewards."
    serious = [each for each in wrong if each.verdict in ("trouble", "no signal")]
    names = ", ".join(each.name for each in (serious or wrong))
    if serious:
        return (
            f"{len(serious)} of {len(figures)} diagnostics say trouble ({names}): settle "
            "these before you use the rewards."
        )
    return (
        f"{len(wrong)} of {len(figures)} diagnostics ask for a second look ({names}); none "
        "says trouble."
    )


def _anchor(fit: "Fit") -> str:
    data, anchor = fit.data, fit.estimate.anchor
    assert data is not None
    prob = np.exp(fit.estimate.policy.log_prob(fit.seen.state)[:, anchor])
    if inside_box(fit):
        share = next(each for each in fit.diagnostics if each.name == "anchor_share")
        return (
            f"Levels are known through the anchor, {_label(fit, anchor)}, a point of a "
            f"continuum: {share.value:.1%} of the decisions lie near it, and log density "
            "and next states there are read from them. Over the states of the data the "
            f"estimated density is {number_text(float(prob.min()))} there at least, of one "
            "on average."
        )
    return (
        f"Levels are known through the anchor, {_label(fit, anchor)}, taken in "
        f"{data.share[anchor]:.1%} of the decisions ({data.rows[anchor]:,} rows). Over the "
        f"states of the data its estimated probability is {number_text(float(prob.min()))} "
        "at least."
    )


def _compared(fit: "Fit", averages: Averages) -> list[str]:
    """Which actions pay more than the anchor on average, beyond their errors."""
    error = averages.error
    if error is None:
        return []
    anchor, factors = fit.estimate.anchor, flow_factors(fit)
    # A lump sum and a payment per period are compared as payments per period.
    mean, margin = factors * averages.mean, factors * NORMAL_975 * error
    gap = mean - mean[anchor]
    others = [a for a in range(len(fit.actions)) if a != anchor]
    groups = {
        "pay more than": [a for a in others if gap[a] > margin[a]],
        "pay less than": [a for a in others if gap[a] < -margin[a]],
        "cannot be told apart from": [a for a in others if abs(gap[a]) <= margin[a]],
    }
    parts = [
        f"{_listed(fit, found)} {verb} the anchor"
        for verb, found in groups.items()
        if found
    ]
    where = "On average over the states of the data, by 95 % intervals: "
    if (factors != 1).any():
        where = f"{where[:-2]}, lump sums counted as what they are worth a period: "
    found = [where + "; ".join(parts) + "."] if parts else []
    best = max(others, key=lambda action: gap[action])
    found.append(
        f"The highest average is that of {_label(fit, best)}: "
        f"{number_text(mean[best])} ({number_text(mean[best] - margin[best])} to "
        f"{number_text(mean[best] + margin[best])}), against {number_text(mean[anchor])} "
        "of the anchor."
    )
    return found


def _calibrated(fit: "Fit") -> str:
    found = calibration(fit)
    expected = "as chance would have it" if found.apart <= 0.1 * found.groups else "many"
    return (
        "The choices that follow from the fit agree with the data to within "
        f"{found.largest:.3f} in every tenth of the states; {found.apart} of "
        f"{found.groups} shares lie beyond their 95 % interval ({expected})."
    )


def _care(fit: "Fit") -> list[str]:
    found = [_sentence(each) for each in fit.diagnostics.warnings]
    assumed = f"The discount {fit.discount:g}"
    if fit.temperature != 1:
        assumed += f", the temperature {fit.temperature:g}"
    if fit.estimate.anchor_reward.is_zero:
        known = "0 in every state"
    else:
        known = "given as a known function of the state"
    found.append(
        f"{assumed} and the reward of the anchor ({known}) are assumed, not estimated; no "
        "interval covers a mistake in them."
    )
    zero = fit.estimate.anchor_reward.is_zero
    if fit.temperature == 1 and zero:
        found.append(
            "Rewards are in units of the agents' own noise: only ratios and signs have a "
            "meaning, until the temperature is known (fit.select_temperature)."
        )
    if not hasattr(fit.reward_function, "covariance"):
        found.append(
            "There are no standard errors in closed form for this estimator: resample "
            "units with fit.bootstrap before a difference is called one."
        )
    else:
        found.append(
            "Bands and intervals hold at each point by itself, not for whole curves; they "
            "are of the model as chosen, clustered by unit."
        )
    found.append(
        "Faint lines and hatched areas lie outside the data, where the reward is the "
        "model's guess."
    )
    return found


def _sentence(figure) -> str:
    meaning = f"{figure.name} = {number_text(figure.value)} ({figure.verdict}): "
    meaning += plain_name(figure.meaning, 400)
    return f"{meaning}. What to do: {figure.advice}." if figure.advice else f"{meaning}."


def _label(fit: "Fit", action: int) -> str:
    return quoted(fit.actions[action])


def _listed(fit: "Fit", actions: list[int]) -> str:
    named = [_label(fit, action) for action in actions[:MAX_NAMED]]
    more = len(actions) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")

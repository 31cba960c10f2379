"""The printed summary of a fit, with its rewards over the panel's states."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._shapes import PerAction, PerRow
from ._layout import decimal, framed, labelled, listed

if TYPE_CHECKING:
    from .._fit import Fit

TAILS = (0.05, 0.95)  # quantiles, since the extremes of rewards are often extrapolated
MAX_ACTIONS, MAX_LABEL = 8, 16  # rows of the table, characters of an action's label


def summarise(fit: "Fit") -> str:
    """The printable table of `Fit.summary`."""
    panel, seconds = fit.provenance["panel"], fit.provenance["seconds"]
    head = [
        f"decisions {panel['rows']:,}   units {panel['units']:,}   "
        f"next states {panel['next_states']:,}   terminal {panel['terminal']:,}",
        f"states    {listed(fit.encoding.columns)}",
        f"actions   {fit.space or listed(fit.actions)}   (anchor: {fit.anchor})",
        *measure_lines(fit),
        f"discount  {fit.discount:g}   temperature {fit.temperature:g}   "
        f"seed {fit.provenance['settings']['seed']}",
    ]
    # The letters of the paper's P, Q and R stages.
    titles = {"policy": "P policy", "anchor_value": "Q anchor", "reward": "R reward"}
    stages, diagnostics = [], []
    for stage, title in titles.items():
        # Joint estimation finds Q with the reward: that stage has no time of its own.
        spent = f" [{seconds[stage]:.1f} s]" if stage in seconds else ""
        note = f"{fit.stages[stage]}{spent}"
        stages += labelled(f"{title}  ", note)
    for figure in fit.diagnostics:
        diagnostics.append(f"{figure.name:<20}{figure.value:>10.4g}  {figure.verdict}")
        # In words where there is something to do: all the others' would be a screen.
        if figure.verdict != "ok":
            diagnostics += labelled("    ", figure.meaning)
            diagnostics += labelled("    do: ", figure.advice)
    rewards = [lines] if (lines := reward_lines(fit)) else []
    title = "PQR: reward identified by an anchor action"
    return framed(title, head, stages, *rewards, diagnostics)


def measure_lines(fit: "Fit") -> list[str]:
    """What densities of amounts count by, and how to convert; none for finitely many."""
    if fit.space is None:
        return []
    volume = fit.space.log_volume
    lines = [
        f"measure   mass one on the box; per unit of amount: log density - {volume:.4g}"
    ]
    if len(fit.space.points):
        shift = fit.temperature * volume
        lines[0] = lines[0].replace("box;", "box and on each atom;")
        lines.append(
            f"          and rewards of amounts against an atom: {-shift:+.4g} (see Mixed)"
        )
    return lines


def reward_range(reward: PerAction, weight: PerRow) -> dict[str, tuple[float, ...]]:
    """Mean and outer quantiles of each action's reward, over the rows where it is known.

    Plain numbers, so that a fit can keep them when it no longer has its panel.
    """
    found: dict[str, list[float]] = {"mean": [], "low": [], "high": []}
    for column in reward.T:
        known = np.isfinite(column) & (weight > 0)
        figures = [float("nan")] * 3
        if known.any():
            values, mass = column[known], weight[known]
            # Weighted quantiles exist in NumPy for this method alone.
            ends = np.quantile(values, TAILS, weights=mass, method="inverted_cdf")
            figures = [np.average(values, weights=mass), *ends]
        for name, figure in zip(found, figures, strict=True):
            found[name].append(float(figure))
    return {name: tuple(figures) for name, figures in found.items()}


def rescaled_range(found: dict[str, Any], factor: float) -> dict[str, Any]:
    """The same figures of a reward that is `factor` times as large."""
    return {
        name: tuple(factor * figure for figure in figures)
        for name, figures in found.items()
    }


def reward_lines(fit: "Fit") -> list[str]:
    """A heading and a line for each action; none where the fit does not know them."""
    found = fit.provenance.get("reward")
    if found is None:
        return []
    labels = [str(label)[:MAX_LABEL] for label in fit.actions]
    labels[fit.estimate.anchor] += " (known)"
    count, shown = len(labels), labels[:MAX_ACTIONS]
    title = "reward over states"
    if count > MAX_ACTIONS:
        title = f"reward, {MAX_ACTIONS} of {count}"
    wide = max(map(len, [title, *shown])) + 1
    low, high = (f"{100 * tail:g} %" for tail in TAILS)
    # Closed-form errors come with joint estimation only.
    errors = "standard_errors" if hasattr(fit.reward_function, "covariance") else "project"
    lines = [f"{title:<{wide}}{'mean':>10}{low:>10}{high:>10}  s.e. by fit.{errors}"]
    table = np.array([found[name] for name in ("mean", "low", "high")]).T
    written = _written(table)
    for index, label in enumerate(shown):
        figures = "".join(f"{figure:>10}" for figure in written[index])
        lines.append(f"{label:<{wide}}{figures}")
    return lines


def _written(table: Float[np.ndarray, "action figure"]) -> list[list[str]]:
    """Figures to the same decimals: four digits of the largest."""
    largest = float(np.nanmax(np.abs(table), initial=0.0))
    if not 1e-6 < largest < 1e7:
        return [[f"{figure:.3g}" for figure in row] for row in table]
    digits = int(np.clip(3 - np.floor(np.log10(largest)), 0, 9))
    return [[decimal(each, digits) for each in row] for row in table]

"""The printed summary of a fit, with its rewards over the panel's states."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._shapes import PerAction, PerRow
from ._identification import ENDS, identification, terminal_actions
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
    stated = labelled("", identification(fit))
    return framed(title, head, stages, *rewards, diagnostics, stated)


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
    lumps = terminal_actions(fit)
    for index in lumps:
        labels[index] += ", once"
    count = len(labels)
    # Lump sums last: they are not to be read beside payments per period.
    order = [index for index in range(count) if index not in lumps] + lumps
    shown = order[:MAX_ACTIONS]
    title = "reward over states"
    if count > MAX_ACTIONS:
        title = f"reward, {MAX_ACTIONS} of {count}"
    wide = max(map(len, [title, *(labels[index] for index in shown)])) + 1
    low, high = (f"{100 * tail:g} %" for tail in TAILS)
    table = np.array([found[name] for name in ("mean", "low", "high")]).T
    written = _written(table)
    errors = _written_errors(found, written) if "error" in found else None
    heading = f"{'s.e.':>10}" if errors else ""
    lines = [f"{title:<{wide}}{'mean':>10}{heading}{low:>10}{high:>10}"]
    lines[0] += "" if errors else "  s.e. by fit.bootstrap"
    for index in shown:
        mean, *ends = written[index]
        figures = [mean, *([errors[index]] if errors else []), *ends]
        cells = "".join(f"{figure:>10}" for figure in figures)
        lines.append(f"{labels[index]:<{wide}}{cells}")
    for index in lumps:
        lines += labelled(
            "  ",
            f"{fit.actions[index]} ends the process (after {100 * ENDS:g} % of its "
            "decisions or more): its reward is a lump sum beside the others' flows, worth "
            f"as much as {(1 - fit.discount) * found['mean'][index]:.4g} a period for ever "
            "((1 - discount) times it).",
        )
    return lines


def _written_errors(found: dict[str, Any], written: list[list[str]]) -> list[str]:
    """Standard errors to the decimals of the means; a dash where nothing was estimated."""
    digits = len(written[0][0].partition(".")[2])
    return [
        decimal(error, digits) if error > 0 and "e" not in written[0][0] else "-"
        for error in found["error"]
    ]


def _written(table: Float[np.ndarray, "action figure"]) -> list[list[str]]:
    """Figures to the same decimals: four digits of the largest."""
    largest = float(np.nanmax(np.abs(table), initial=0.0))
    if not 1e-6 < largest < 1e7:
        return [[f"{figure:.3g}" for figure in row] for row in table]
    digits = int(np.clip(3 - np.floor(np.log10(largest)), 0, 9))
    return [[decimal(each, digits) for each in row] for row in table]

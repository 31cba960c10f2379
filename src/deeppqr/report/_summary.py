"""The printed summary of a fit."""

from typing import TYPE_CHECKING

from ._layout import framed, labelled, listed
from ._rewards import reward_lines

if TYPE_CHECKING:
    from .._fit import Fit


def summarise(fit: "Fit") -> str:
    """The printable table of `Fit.summary`."""
    panel, seconds = fit.provenance["panel"], fit.provenance["seconds"]
    head = [
        f"decisions {panel['rows']:,}   units {panel['units']:,}   "
        f"next states {panel['next_states']:,}   terminal {panel['terminal']:,}",
        f"states    {listed(fit.encoding.columns)}",
        f"actions   {listed(fit.actions)}   (anchor: {fit.anchor})",
        f"discount  {fit.discount:g}   temperature {fit.temperature:g}   "
        f"seed {fit.provenance['settings']['seed']}",
    ]
    # The letters of the paper's P, Q and R stages.
    titles = {"policy": "P policy", "anchor_value": "Q anchor", "reward": "R reward"}
    stages, diagnostics = [], []
    for stage, title in titles.items():
        note = f"{fit.stages[stage]} [{seconds[stage]:.1f} s]"
        stages += labelled(f"{title}  ", note)
    for figure in fit.diagnostics:
        diagnostics.append(f"{figure.name:<20}{figure.value:>10.4g}  {figure.verdict}")
        diagnostics += labelled("    ", figure.meaning)
    rewards = [lines] if (lines := reward_lines(fit)) else []
    title = "PQR: reward identified by an anchor action"
    return framed(title, head, stages, *rewards, diagnostics)

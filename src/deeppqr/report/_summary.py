"""The printed summary of a fit."""

from typing import TYPE_CHECKING

from ._rewards import reward_lines

if TYPE_CHECKING:
    from .._fit import Fit

WIDTH = 78  # fits a terminal of 80 columns


def summarise(fit: "Fit") -> str:
    """The printable table of `Fit.summary`."""
    panel, seconds = fit.provenance["panel"], fit.provenance["seconds"]
    lines = [
        "PQR: reward identified by an anchor action".center(WIDTH).rstrip(),
        "=" * WIDTH,
        f"decisions {panel['rows']:,}   units {panel['units']:,}   "
        f"next states {panel['next_states']:,}   terminal {panel['terminal']:,}",
        f"states    {', '.join(map(str, fit.encoding.columns))}",
        f"actions   {', '.join(map(str, fit.actions))}   (anchor: {fit.anchor})",
        f"discount  {fit.discount:g}   temperature {fit.temperature:g}   "
        f"seed {fit.provenance['settings']['seed']}",
        "-" * WIDTH,
    ]
    # The letters of the paper's P, Q and R stages.
    titles = {"policy": "P policy", "anchor_value": "Q anchor", "reward": "R reward"}
    for stage, title in titles.items():
        note = f"{fit.stages[stage]} [{seconds[stage]:.1f} s]"
        lines += wrap(note, first=f"{title}  ")
    lines.append("-" * WIDTH)
    rewards = reward_lines(fit)
    lines += [*rewards, "-" * WIDTH] if rewards else []
    for figure in fit.diagnostics:
        head = f"{figure.name:<20}{figure.value:>10.4g}  {figure.verdict}"
        lines += [head, *wrap(figure.meaning, first="    ")]
    lines.append("=" * WIDTH)
    return "\n".join(lines)


def wrap(text: str, *, first: str) -> list[str]:
    """Lines no longer than the table, the first with a title in front."""
    import textwrap

    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first)
    )

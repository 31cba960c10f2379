"""Figures in the style of a journal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Okabe and Ito's colours, which people with any kind of colour blindness tell apart, in
# an order in which neighbours also differ in lightness. Their yellow is left out: lines
# in it cannot be seen on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, FAINT = "#1b1c1d", "#d8d9da"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "axes.prop_cycle": f"cycler('color', {list(PALETTE)})",
    "grid.color": FAINT,
    "figure.dpi": 120,
    "savefig.dpi": 200,
}


def scatter_rewards(
    truth: np.ndarray,
    estimates: Mapping[str, np.ndarray],
    *,
    actions: Sequence[Any],
    anchor: Any,
    path: Path,
) -> None:
    """A panel per method: estimated against true reward, a colour per action."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(3.4 * len(estimates), 3.4), layout="constrained")
        # Without pyplot, whose global state belongs to the caller.
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, len(estimates), sharex=True, sharey=True, squeeze=False)
        # About 1,000 points per action: more hide one another and make large files.
        shown = slice(None, None, max(1, len(truth) // 1_000))
        limits = [float(truth.min()), float(truth.max())]
        for axis, (name, estimate) in zip(axes[0], estimates.items(), strict=True):
            axis.plot(limits, limits, color="0.3", linewidth=0.8, zorder=3)
            for index, label in enumerate(actions):
                if label != anchor:  # its reward is known, and would lie on the line
                    axis.scatter(
                        truth[shown, index],
                        estimate[shown, index],
                        s=4,
                        alpha=0.4,
                        linewidths=0,
                        label=f"action {label}",
                    )
            axis.set_title(name)
            axis.set_xlabel("true reward")
        axes[0, 0].set_ylabel("estimated reward")
        axes[0, -1].legend(markerscale=3, loc="upper left", handletextpad=0.1)
        figure.savefig(path)

"""Figures in the style of a journal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
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

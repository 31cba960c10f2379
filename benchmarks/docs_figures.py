"""Draw the figures of the README and of the ten-minute starts.

    python benchmarks/docs_figures.py

The README's first figure, docs/images/recovery.png, is drawn by `deeppqr demo`.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import deeppqr

IMAGES = Path(__file__).parent.parent / "docs" / "images"


def firms() -> None:
    """The economist's payoff curve."""
    panel = deeppqr.worlds.FirmWorld().simulate(units=400, periods=20, seed=1)
    fit = deeppqr.PQR(discount=0.95, anchor="exit", anchor_reward=5.0).fit(panel)
    save(fit.plot.reward("capital", actions=["wait", "small", "large"]), "start-firms")


def app() -> None:
    """The data scientist's curve, also in the README."""
    panel = deeppqr.worlds.AppWorld().simulate(units=2_000, periods=30, seed=1)
    fit = deeppqr.PQR(discount=0.95, anchor="nothing").fit(panel)
    save(fit.plot.reward("weeks", actions=["nothing", "open", "buy"]), "start-app")


def save(axes, name: str) -> None:
    figure = getattr(axes, "figure", None) or axes.flat[0].figure
    figure.savefig(IMAGES / f"{name}.png", dpi=110, bbox_inches="tight")
    print(f"{name}.png")


if __name__ == "__main__":
    firms()
    app()

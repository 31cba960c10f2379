"""The main job on an embedded default: simulate, fit, compare with the truth."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ._files import new_folder
from ._fit import Fit
from ._pqr import PQR
from .worlds import PaperWorld


@dataclass(frozen=True)
class Score:
    """How far an estimated reward is from the truth, over the non-anchor actions."""

    method: str
    mse: float
    nmse: float
    """Relative to predicting zero: 1 is as good as knowing nothing."""
    correlation: float


def score(
    method: str,
    estimate: Float[np.ndarray, "row action"],
    truth: Float[np.ndarray, "row action"],
    anchor: int = 0,
) -> Score:
    """Compare rewards; the anchor's is known and does not count."""
    estimate, truth = (np.delete(r, anchor, axis=1) for r in (estimate, truth))
    mse = float(np.mean((estimate - truth) ** 2))
    spread = estimate.std() > 0
    correlation = np.corrcoef(estimate.ravel(), truth.ravel())[0, 1] if spread else 0.0
    return Score(method, mse, mse / float(np.mean(truth**2)), float(correlation))


def compare(world: PaperWorld, fit: Fit, states: np.ndarray) -> list[Score]:
    """PQR's reward beside what is often taken for one."""
    truth, q = world.reward(states), fit.q(states)
    return [
        score("PQR", fit.reward(states), truth),
        score("Q read as the reward, minus Q(anchor)", q - q[:, :1], truth),
        score("Q read as the reward", q, truth),
        score("predicting zero", np.zeros_like(truth), truth),
    ]


def run_demo(
    folder: Path,
    *,
    p: int = 5,
    reward_scale: float = 1.0,
    steps: int = 50_000,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Simulate the paper's world, fit, compare; leave the results in `folder`."""
    import polars as pl

    world = PaperWorld(p=p, reward_scale=reward_scale, seed=seed)
    with new_folder(folder) as partial:
        say(f"Simulating {steps:,} decisions of an optimal agent with {p} state variables")
        panel = world.simulate(steps=steps, seed=seed + 1)
        say("Fitting: policy, anchor value, reward")
        fit = PQR(discount=world.discount, anchor=0, seed=seed).fit(panel)
        # Fresh demonstrations, thinned: states of the same law that were not fitted.
        states = world.simulate(steps=steps, seed=seed + 2).state[::10]
        scores = compare(world, fit, states)
        table = format_scores(scores)
        fit.save(partial / "fit")
        panel.to_frame().write_parquet(partial / "demonstrations.parquet")
        pl.DataFrame([vars(row) for row in scores]).write_csv(partial / "table.csv")
        draw_comparison(world, fit, states, partial / "rewards.png")
        text = f"{fit.summary()}\n\n{table}"
        (partial / "report.txt").write_text(text + "\n", encoding="utf-8")
    return (
        f"{text}\n\nIn {folder}/: fit/ (the model), table.csv, rewards.png, report.txt and "
        "demonstrations.parquet"
    )


def format_scores(scores: list[Score]) -> str:
    """The comparison as a text table."""
    lines = [f"{'Reward recovered by':<40}{'MSE':>10}{'NMSE':>10}{'corr.':>8}"]
    for row in scores:
        mse, nmse = f"{row.mse:.3g}", f"{row.nmse:.3g}"
        lines.append(f"{row.method:<40}{mse:>10}{nmse:>10}{row.correlation:>8.2f}")
    lines.append("NMSE 1 is as good as predicting zero; the anchor's reward is not scored.")
    return "\n".join(lines)


def draw_comparison(world: PaperWorld, fit: Fit, states: np.ndarray, path: Path) -> None:
    """Estimated against true rewards: PQR beside Q read as the reward."""
    from .report import scatter_rewards

    q = fit.q(states)
    scatter_rewards(
        world.reward(states),
        {"PQR": fit.reward(states), "Q read as the reward, minus Q(anchor)": q - q[:, :1]},
        actions=fit.actions,
        anchor=fit.anchor,
        path=path,
    )

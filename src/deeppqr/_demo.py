"""The main job on an embedded default: simulate, fit, compare with the truth."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ._files import new_folder
from ._fit import Fit
from ._pqr import PQR
from .metrics import RewardScore, score_reward
from .worlds import PaperWorld


def compare(world: PaperWorld, fit: Fit, states: np.ndarray) -> dict[str, RewardScore]:
    """PQR's reward beside what is often taken for one."""
    truth, q = world.reward(states), fit.q(states)
    estimates = {
        "PQR": fit.reward(states),
        "Q read as the reward, minus Q(anchor)": q - q[:, :1],
        "Q read as the reward": q,
        "predicting zero": np.zeros_like(truth),
    }
    return {name: score_reward(reward, truth) for name, reward in estimates.items()}


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
        pl.DataFrame([{"method": name, **row._asdict()} for name, row in scores.items()]).write_csv(partial / "table.csv")
        draw_comparison(world, fit, states, partial / "rewards.png")
        text = f"{fit.summary()}\n\n{table}"
        (partial / "report.txt").write_text(text + "\n", encoding="utf-8")
    return (
        f"{text}\n\nIn {folder}/: fit/ (the model), table.csv, rewards.png, report.txt and "
        "demonstrations.parquet"
    )


def format_scores(scores: dict[str, RewardScore]) -> str:
    """The comparison as a text table."""
    lines = [f"{'Reward recovered by':<40}{'MSE':>10}{'NMSE':>10}{'corr.':>8}"]
    for name, row in scores.items():
        mse, nmse = f"{row.mse:.3g}", f"{row.nmse:.3g}"
        lines.append(f"{name:<40}{mse:>10}{nmse:>10}{row.correlation:>8.2f}")
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

"""`deeppqr demo`: simulate the paper's world, fit, and compare with the truth."""

import argparse
from itertools import count, islice
from pathlib import Path
from typing import Any

import deeppqr

from .._files import check_output, new_folder
from ._common import add_common, add_job, add_no_report, named, say

EXAMPLES = """\
  deeppqr demo                          # half a minute on two cores
  deeppqr demo --p 2 --steps 5000       # quicker, and rougher
"""


def register(jobs) -> None:
    parser = add_job(
        jobs, "demo", "simulate, fit and compare with the true reward", EXAMPLES
    )
    parser.add_argument(
        "--out", type=Path, help="folder to write (default: demo, demo-2, ...)"
    )
    parser.add_argument("--p", type=int, default=5, help="state variables")
    parser.add_argument("--reward-scale", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=50_000)
    add_no_report(parser)
    add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write the fit, the comparison, its figure and the data to a new folder."""
    import polars as pl

    from ..page._truth import write_demo_report
    from ..report._figures import scatter_rewards

    folder, seed = arguments.out or _free_name(), arguments.seed
    check_output(folder, "--out")
    world = deeppqr.worlds.PaperWorld(**named(arguments, ("p", "reward_scale", "seed")))
    with new_folder(folder) as partial:
        say(
            arguments,
            f"Simulating {arguments.steps:,} decisions of an optimal agent with "
            f"{arguments.p} state variables",
        )
        panel = world.simulate(steps=arguments.steps, seed=seed + 1)
        say(arguments, "Fitting: policy, anchor value, reward")
        fit = deeppqr.PQR(discount=world.discount, anchor=0, seed=seed).fit(panel)
        # New demonstrations from the same policy, so that no state was fitted; one in ten,
        # because consecutive states are alike.
        states = world.simulate(steps=arguments.steps, seed=seed + 2).state[::10]
        truth, estimates = world.reward(states), compared_rewards(fit, states)
        score = deeppqr.metrics.score_reward
        scores = {name: score(reward, truth) for name, reward in estimates.items()}
        fit.save(partial / "fit")
        panel.to_frame().write_parquet(partial / "demonstrations.parquet")
        rows = [{"method": name, **score._asdict()} for name, score in scores.items()]
        pl.DataFrame(rows).write_csv(partial / "table.csv")
        shown = dict(islice(estimates.items(), 2))
        labels = {"actions": fit.actions, "anchor": fit.anchor}
        scatter_rewards(truth, shown, **labels, path=partial / "rewards.png")
        text = f"{fit.summary()}\n\n{format_scores(scores)}"
        (partial / "report.txt").write_text(text + "\n", encoding="utf-8")
        if not arguments.no_report:
            say(arguments, "Writing the report")
            write_demo_report(fit, world.reward, scores, partial)
    written = "fit/ (the model), table.csv, rewards.png, report.txt and "
    if not arguments.no_report:
        written = f"report.html (open it in a browser), recovery.png, {written}"
    say(arguments, f"{text}\n\nIn {folder}/: {written}demonstrations.parquet")


def compared_rewards(fit: "deeppqr.Fit", states: Any) -> dict[str, Any]:
    """PQR's reward, and Q and zero taken as rewards."""
    q = fit.q(states)
    # Q is what imitation learns, and is often read as a reward.
    return {
        "PQR": fit.reward(states),
        "Q read as the reward, minus Q(anchor)": q - q[:, :1],
        "Q read as the reward": q,
        "predicting zero": 0.0 * q,
    }


def format_scores(scores: dict[str, Any]) -> str:
    """The comparison as a text table."""
    lines = [f"{'Reward recovered by':<40}{'MSE':>10}{'NMSE':>10}{'corr.':>8}"]
    for name, score in scores.items():
        mse, nmse = f"{score.mse:.3g}", f"{score.nmse:.3g}"
        lines.append(f"{name:<40}{mse:>10}{nmse:>10}{score.correlation:>8.2f}")
    lines.append("NMSE 1 is as good as predicting zero; the anchor's reward is not scored.")
    return "\n".join(lines)


def _free_name() -> Path:
    names = (Path("demo" if i == 1 else f"demo-{i}") for i in count(1))
    return next(name for name in names if not name.exists())

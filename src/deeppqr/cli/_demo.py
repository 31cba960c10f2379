"""`deeppqr demo`: simulate the paper's world, fit, and compare with the truth."""

import argparse
from itertools import count
from pathlib import Path

from ._common import add_common, say


def register(jobs) -> None:
    parser = jobs.add_parser("demo", help="the main job on a world with a known reward")
    parser.add_argument(
        "--out", type=Path, help="folder to write (default: demo, demo-2, ...)"
    )
    parser.add_argument("--p", type=int, default=5, help="state variables")
    parser.add_argument("--reward-scale", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=50_000)
    add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from .._demo import run_demo
    from .._files import refuse_existing

    folder = arguments.out or _free_name()
    refuse_existing(folder)
    text = run_demo(
        folder,
        p=arguments.p,
        reward_scale=arguments.reward_scale,
        steps=arguments.steps,
        seed=arguments.seed,
        say=lambda line: say(arguments, line),
    )
    say(arguments, text)


def _free_name() -> Path:
    names = (Path("demo" if i == 1 else f"demo-{i}") for i in count(1))
    return next(name for name in names if not name.exists())

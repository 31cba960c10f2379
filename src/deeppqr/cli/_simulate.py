"""`deeppqr simulate`: decisions of an optimal agent in a synthetic world."""

import argparse
from pathlib import Path

import deeppqr

from .._messages import counted
from ._common import add_common, add_job, check_table_name, named, say, write_table

EXAMPLES = """\
  deeppqr simulate paper --p 5 --steps 50000 --seed 0 --out demos.parquet
  deeppqr simulate tabular --states 7 --actions 3 --steps 20000 --out demos.csv
"""


def register(jobs) -> None:
    parser = add_job(jobs, "simulate", "decisions of an optimal agent in a world", EXAMPLES)
    parser.add_argument("world", choices=("paper", "tabular"))
    parser.add_argument("--p", type=int, default=5, help="state variables (paper)")
    parser.add_argument("--reward-scale", type=float, default=1.0, help="(paper)")
    parser.add_argument("--states", type=int, default=7, help="(tabular)")
    parser.add_argument("--actions", type=int, default=3, help="(tabular)")
    parser.add_argument("--discount", type=float, default=0.9)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=50_000, help="in all")
    parser.add_argument("--units", type=int, default=50)
    parser.add_argument("--world-seed", type=int, default=0, help="draws the reward")
    parser.add_argument("--out", type=Path, required=True, help="CSV or Parquet to write")
    add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    check_table_name(arguments.out)
    settings = named(arguments, ("discount", "temperature"))
    settings["seed"] = arguments.world_seed
    if arguments.world == "paper":
        settings |= named(arguments, ("p", "reward_scale"))
        world = deeppqr.worlds.PaperWorld(**settings)
    else:
        size = (arguments.states, arguments.actions)
        world = deeppqr.worlds.random_tabular(*size, **settings)
    panel = world.simulate(**named(arguments, ("steps", "units", "seed")))
    write_table(panel.to_frame(), arguments.out)
    # A file has states only, so the state after each unit's last decision is lost.
    seen = counted(len(panel) - panel.num_units, "next state")
    say(
        arguments,
        f"{panel}\nwritten to {arguments.out}. Each unit's last next state is not in the "
        f"file, so that {seen} will be seen when it is read.",
    )

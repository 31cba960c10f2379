"""`deeppqr simulate`: decisions of an optimal agent in a synthetic world."""

import argparse
from pathlib import Path

import deeppqr

from .._messages import counted
from ._common import add_common, add_job, check_table_name, named, say, write_table

EXAMPLES = """\
  deeppqr simulate paper --p 5 --steps 50000 --seed 0 --out demos.parquet
  deeppqr simulate tabular --states 7 --actions 3 --steps 20000 --out demos.csv
  deeppqr simulate firms --units 400 --periods 20 --out firms.csv
  deeppqr simulate app --units 2000 --periods 30 --out log.csv
"""


PANELS = ("firms", "app")


def register(jobs) -> None:
    parser = add_job(jobs, "simulate", "decisions of an optimal agent in a world", EXAMPLES)
    parser.add_argument("world", choices=("paper", "tabular", "firms", "app"))
    parser.add_argument("--p", type=int, default=5, help="state variables (paper)")
    parser.add_argument("--reward-scale", type=float, default=1.0, help="(paper)")
    parser.add_argument("--states", type=int, default=7, help="(tabular)")
    parser.add_argument("--actions", type=int, default=3, help="(tabular)")
    parser.add_argument(
        "--discount", type=float, help="0.9; 0.95 a year or week for firms and app"
    )
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=50_000, help="in all (paper, tabular)")
    parser.add_argument("--periods", type=int, help="of each unit at most (firms, app)")
    parser.add_argument("--units", type=int, help="50; 400 firms; 500 customers")
    parser.add_argument("--world-seed", type=int, default=0, help="draws the reward")
    parser.add_argument("--out", type=Path, required=True, help="CSV or Parquet to write")
    add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    check_table_name(arguments.out)
    given = vars(arguments)
    settings = {
        name: given[name] for name in ("discount", "temperature") if given[name] is not None
    }
    if arguments.world in PANELS:
        _write_log(arguments, settings)
        return
    settings["seed"] = arguments.world_seed
    arguments.units = 50 if arguments.units is None else arguments.units
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


def _write_log(arguments: argparse.Namespace, settings: dict) -> None:
    """A log with names, times and ends, as firms and customers leave it behind."""
    if arguments.world == "firms":
        world = deeppqr.worlds.FirmWorld(seed=arguments.world_seed, **settings)
    else:
        world = deeppqr.worlds.AppWorld(**settings)
    given = {"units": arguments.units, "periods": arguments.periods}
    size = {name: value for name, value in given.items() if value is not None}
    frame = world.frame(seed=arguments.seed, **size)
    write_table(frame, arguments.out)
    unit, time = frame.columns[:2]
    say(
        arguments,
        f"{counted(len(frame), 'decision')} by {frame[unit].n_unique():,} units, written "
        f"to {arguments.out}. Options of deeppqr fit: "
        f"--state {' '.join(world.state_names)} --action action "
        f"--unit {unit} --time {time} --terminal ends "
        f"--anchor {world.anchor} --anchor-reward {world.anchor_reward:g} "
        f"--discount {world.discount:g}",
    )

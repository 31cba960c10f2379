"""Ours beside the peers that are installed, on the same data, one line for each cell.

    python benchmarks/bench.py                  # a few minutes
    python benchmarks/bench.py --full --runs 3  # all sizes
    python benchmarks/bench.py --only peers --out rows.csv

Every cell runs in a process of its own, under a time limit: `cold s` is the first fit
there, compilation included and imports not, `warm s` the second one, and `peak MB` the
largest resident memory of the process. `error` is the mean squared error of the rewards of
all actions but the anchor, over that of the anchor's reward in their place. imitation is
looked for in `.venv-adapters` and econirl in `.venv-peers`, which the Makefile makes: where
a library is missing its lines say so.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
PEERS = {"imitation": ROOT / ".venv-adapters", "econirl": ROOT / ".venv-peers"}
QUICK_LIMIT, FULL_LIMIT = 180.0, 3_600.0
# Rows of a table of predictions. Two blocks for each core at least, and a second or more.
PREDICTED = {"reward": 1_000_000, "all": 50_000}
# Of imitation's generator: the first number takes about as long as our fit.
QUICK_STEPS, FULL_STEPS = (50_000, 300_000), (50_000, 300_000, 2_000_000)
SECTIONS = ("sizes", "peers", "buses", "predictions", "parquet")


class Cell(NamedTuple):
    """What is measured in one process."""

    method: str
    world: str
    size: dict[str, Any]

    @property
    def title(self) -> str:
        return ", ".join(f"{name} {value:,}" for name, value in self.size.items())


class Found(NamedTuple):
    cold: float
    warm: float
    peak: float
    error: float


def quick_sizes() -> Iterator[Cell]:
    yield Cell("deeppqr", "paper", {"rows": 10_000, "p": 5})
    yield Cell("deeppqr", "paper", {"rows": 50_000, "p": 5})
    yield Cell("deeppqr", "paper", {"rows": 10_000, "p": 40})
    yield Cell("deeppqr", "paper", {"rows": 10_000, "p": 5, "discount": 0.99})
    yield Cell("deeppqr", "smooth", {"rows": 10_000, "actions": 2})
    yield Cell("deeppqr", "smooth", {"rows": 10_000, "actions": 16})
    yield Cell("deeppqr", "table", {"rows": 20_000, "states": 10})
    yield Cell("deeppqr", "table", {"rows": 20_000, "states": 1_000})


def full_sizes() -> Iterator[Cell]:
    for rows in (10_000, 50_000, 100_000, 1_000_000):
        yield Cell("deeppqr", "paper", {"rows": rows, "p": 5})
    for p in (10, 40, 160, 320):
        yield Cell("deeppqr", "paper", {"rows": 50_000, "p": p})
    for discount in (0.99, 0.999, 0.9999):
        yield Cell("deeppqr", "paper", {"rows": 50_000, "p": 5, "discount": discount})
    for actions in (2, 8, 32, 64):
        yield Cell("deeppqr", "smooth", {"rows": 20_000, "actions": actions})
    for states in (10, 100, 1_000):
        yield Cell("deeppqr", "table", {"rows": 50_000, "states": states})


def problem(world: str, size: dict[str, Any], seed: int) -> Any:
    """A model, a panel, states that are judged, their rewards, and the anchor's column."""
    import engine

    import deeppqr
    from deeppqr.worlds import random_tabular

    rows = size["rows"]
    if world == "paper":
        found = engine.paper(size["p"], 10.0, rows, seed, size.get("discount", 0.9))
        return (*found, 0)
    if world == "smooth":
        model, panel, states, truth, known = engine.smooth(4, size["actions"], rows, seed)
        return model, panel, states, truth, known, panel.actions.index(model.anchor)
    tabular = random_tabular(size["states"], 3, seed=seed)
    panel = tabular.simulate(steps=rows, units=rows // 100, seed=100_000 + seed)
    known = lambda states: tabular.reward(states)[:, 0]
    model = deeppqr.PQR(discount=0.9, anchor=0, anchor_reward=known)
    states = np.unique(panel.state, axis=0)
    return model, panel, states, tabular.reward(states), known(states)[:, None], 0


def relative_error(found: np.ndarray, truth: np.ndarray, known: Any, anchor: int) -> float:
    """One where every action is given the anchor's reward."""
    others = np.arange(truth.shape[1]) != anchor
    gap = (found - truth)[:, others]
    return float(np.nanmean(gap**2) / ((truth - known)[:, others] ** 2).mean())


def ours(cell: Cell, seed: int) -> Found:
    model, panel, states, truth, known, anchor = problem(cell.world, cell.size, seed)
    fits, seconds = [], []
    for _ in range(2):
        start = time.perf_counter()
        fits.append(model.fit(panel))
        seconds.append(time.perf_counter() - start)
    error = relative_error(fits[0].reward(states), truth, known, anchor)
    return Found(*seconds, peak_memory(), error)


def predictions(cell: Cell, seed: int) -> Found:
    """The second and third predictions of many rows; the error is of the fit behind."""
    model, panel, states, truth, known, anchor = problem("paper", cell.size, seed)
    fit = model.fit(panel)
    tables = None if cell.method == "all" else [cell.method]
    many = np.resize(panel.state, (PREDICTED[cell.method], panel.state.shape[1]))
    fit.predict(states, only=tables)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        fit.predict(many, only=tables)
        seconds.append(time.perf_counter() - start)
    error = relative_error(fit.reward(states), truth, known, anchor)
    return Found(*seconds, peak_memory(), error)


def airl(cell: Cell, seed: int) -> Found:
    """imitation's AIRL, which is handed the environment as well."""
    import gymnasium
    import torch
    from imitation.algorithms.adversarial.airl import AIRL
    from imitation.data.types import Transitions
    from imitation.rewards.reward_nets import BasicShapedRewardNet
    from imitation.util import logger
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    from deeppqr.mdp import WorldEnv
    from deeppqr.worlds import PaperWorld

    _, panel, states, truth, known, anchor = problem(cell.world, cell.size, seed)
    world = PaperWorld(p=cell.size["p"], reward_scale=10.0, seed=seed)
    torch.manual_seed(seed)

    def single() -> Any:
        narrow = WorldEnv(world, horizon=100)  # in float32, as its networks are
        return gymnasium.wrappers.TransformObservation(
            narrow, lambda seen: seen.astype(np.float32)
        )

    envs = DummyVecEnv([single] * 8)
    start = time.perf_counter()
    rows = np.flatnonzero(panel.is_transition)
    learner = PPO("MlpPolicy", envs, n_steps=256, batch_size=256, gamma=0.9, seed=seed)
    net = BasicShapedRewardNet(
        envs.observation_space, envs.action_space, discount_factor=0.9
    )
    trainer = AIRL(
        demonstrations=Transitions(
            obs=panel.state[rows].astype(np.float32),
            acts=panel.action[rows],
            infos=np.array([{}] * len(rows)),
            next_obs=panel.next_state[rows].astype(np.float32),
            dones=np.zeros(len(rows), bool),
        ),
        demo_batch_size=1_024,
        venv=envs,
        gen_algo=learner,
        reward_net=net,
        custom_logger=logger.configure(None, format_strs=[]),
    )
    trainer.train(cell.size["steps"])
    spent = time.perf_counter() - start
    seen = torch.as_tensor(states, dtype=torch.float32)
    found = np.empty(truth.shape)
    for action in range(truth.shape[1]):
        chosen = torch.nn.functional.one_hot(
            torch.full((len(seen),), action), truth.shape[1]
        )
        with torch.no_grad():  # the part that is no shaping
            paid = net.base(seen, chosen.float(), seen, torch.zeros(len(seen)))
        found[:, action] = paid.numpy()
    # Identified up to a function of the state: the anchor's own is known to be zero.
    found -= found[:, [anchor]]
    return Found(spent, np.nan, peak_memory(), relative_error(found, truth, known, anchor))


def peak_memory() -> float:
    """Of this process so far, in MB."""
    # Kilobytes on Linux, bytes on macOS.
    unit = 2**20 if platform.system() == "Darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


MEASURES: dict[str, Callable[[Cell, int], Found]] = {
    "deeppqr": ours,
    "imitation AIRL": airl,
    "reward": predictions,
    "all": predictions,
}


def measure_apart(cell: Cell, seed: int, python: Path, limit: float) -> Found | str:
    """`MEASURES` in a process of its own, or in words why there is nothing."""
    command = [str(python), __file__, "--cell", json.dumps([*cell, seed])]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:g} s"
    if ran.returncode != 0:
        return "failed: " + (ran.stderr.strip().splitlines() or ["no message"])[-1]
    return Found(*json.loads(ran.stdout.splitlines()[-1]))


def why_missing(peer: str) -> str | None:
    """Why a peer cannot run, in words; None if it can."""
    python = PEERS[peer] / "bin/python"
    if not python.exists():
        return f"skipped: there is no {PEERS[peer].name}; make {PEERS[peer].name}/.ready"
    ran = subprocess.run([python, "-c", f"import {peer}"], capture_output=True, text=True)
    if ran.returncode:
        return f"skipped: {ran.stderr.strip().splitlines()[-1]}"
    return None


def python_of(method: str) -> Path | str:
    if method != "imitation AIRL":
        return Path(sys.executable)
    return why_missing("imitation") or PEERS["imitation"] / "bin/python"


def table(title: str, cells: list[Cell], asked: argparse.Namespace) -> list[dict]:
    """Measure and print, with the spread over runs where there are several."""
    print(f"\n{title}")
    print(
        f"{'method':<16}{'cell':<36}{'cold s':>22}{'warm s':>9}{'peak MB':>9}{'error':>9}"
    )
    rows = []
    for cell in cells:
        name = f"{cell.method:<16}{f'{cell.world}, {cell.title}':<36}"
        python = python_of(cell.method)
        if isinstance(python, str):
            print(f"{name}  {python}", flush=True)
            continue
        found: list[Found] = []
        for run in range(asked.runs):
            one = measure_apart(cell, asked.seed + run, python, asked.limit)
            if isinstance(one, str):
                print(f"{name}  {one}", flush=True)
                continue
            found.append(one)
            about = {"section": title, "method": cell.method, "world": cell.world}
            rows.append({**about, "cell": cell.title, "run": run, **one._asdict()})
        if found:
            mean = Found(*np.mean(np.array(found), axis=0))
            cold = [one.cold for one in found]
            spread = f" ({min(cold):.2f}-{max(cold):.2f})" if len(found) > 1 else ""
            warm = "-" if np.isnan(mean.warm) else f"{mean.warm:.2f}"
            took = f"{mean.cold:.2f}{spread}"
            print(
                f"{name}{took:>22}{warm:>9}{mean.peak:>9.0f}{mean.error:>9.4f}", flush=True
            )
    return rows


def run_script(python: Path, script: str, *words: str) -> None:
    """Another benchmark, which prints a table of its own."""
    sys.stdout.flush()
    subprocess.run([python, ROOT / "benchmarks" / script, *words], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="all sizes: some hours")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--runs", type=int, default=1, help="of each cell, other seeds")
    parser.add_argument("--seed", type=int, default=3001, help="of the first run")
    parser.add_argument("--limit", type=float, help="seconds for each process")
    parser.add_argument("--out", type=Path, help="a CSV file of all rows")
    parser.add_argument("--imitation", type=Path, help="another environment that has it")
    parser.add_argument("--econirl", type=Path, help="another environment that has it")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cell:
        method, world, size, seed = json.loads(asked.cell)
        print(json.dumps(MEASURES[method](Cell(method, world, size), seed)))
        return
    for peer in PEERS:
        PEERS[peer] = getattr(asked, peer) or PEERS[peer]
    asked.limit = asked.limit or (FULL_LIMIT if asked.full else QUICK_LIMIT)
    steps, rows = (FULL_STEPS if asked.full else QUICK_STEPS), []
    if "sizes" in asked.only:
        sizes = full_sizes() if asked.full else quick_sizes()
        rows += table("deeppqr's default fit as sizes grow", list(sizes), asked)
    if "peers" in asked.only:
        size = {"rows": 50_000, "p": 5}
        cells = [Cell("deeppqr", "paper", size)]
        cells += [Cell("imitation AIRL", "paper", {**size, "steps": n}) for n in steps]
        rows += table("Rewards of the paper's world beside a peer's", cells, asked)
    if "predictions" in asked.only:
        cells = [Cell(name, "paper", {"rows": 50_000, "p": 5}) for name in PREDICTED]
        numbers = ", ".join(f"{name} {number:,}" for name, number in PREDICTED.items())
        rows += table(f"Predictions, seconds for these rows: {numbers}", cells, asked)
    if "buses" in asked.only:
        missing = why_missing("econirl")
        print(f"\nRust's buses{f'; econirl {missing}' if missing else ''}", flush=True)
        packages = ["deeppqr"] if missing else ["deeppqr", "econirl"]
        samples = ["4", "1-4"] if asked.full else ["4"]
        python = Path(sys.executable) if missing else PEERS["econirl"] / "bin/python"
        words = ["--packages", *packages, "--samples", *samples]
        run_script(python, "bus_peers.py", *words)
    if "parquet" in asked.only:
        print("\nThe paper's world, p = 10, from Parquet files", flush=True)
        sizes = ["1e5", "1e6", "1e7"] if asked.full else ["1e5"]
        run_script(Path(sys.executable), "scale.py", *sizes)
    if asked.out:
        import polars as pl

        pl.DataFrame(rows).write_csv(asked.out)


if __name__ == "__main__":
    main()

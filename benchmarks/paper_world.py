"""The default fit on the paper's world: error, time and memory, printed as a table.

    python benchmarks/paper_world.py [--p 5 40] [--seeds 1] [--steps 50000]

Each cell runs in a process of its own, so that times include compilation and the peak
memory is that cell's. Seeds of omega are 0, 1, ...; demonstrations use 100 + seed and
the states that are scored 200 + seed.
"""

import argparse
import json
import subprocess
import sys
from itertools import product


def one_cell(p: int, scale: float, seed: int, steps: int) -> dict[str, float]:
    """Simulate, fit and score one world."""
    import resource
    import time

    import deeppqr

    start = time.perf_counter()
    world = deeppqr.worlds.PaperWorld(p=p, reward_scale=scale, seed=seed)
    panel = world.simulate(steps=steps, seed=100 + seed)
    simulated = time.perf_counter()
    fit = deeppqr.PQR(discount=0.9, anchor=0).fit(panel)
    fitted = time.perf_counter()
    states = world.simulate(steps=steps, seed=200 + seed).state[::10]
    truth, q = world.reward(states), fit.q(states)
    nmse = lambda reward: deeppqr.metrics.score_reward(reward, truth).nmse
    return {
        "simulate_s": simulated - start,
        "fit_s": fitted - simulated,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "pqr": nmse(fit.reward(states)),
        "grounded_q": nmse(q - q[:, :1]),
        "q": nmse(q),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--p", type=int, nargs="+", default=[5, 40])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument(
        "--cell", nargs=3, metavar=("P", "SCALE", "SEED"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.cell:
        p, scale, seed = arguments.cell
        print(json.dumps(one_cell(int(p), float(scale), int(seed), arguments.steps)))
        return
    print(f"paper world, {arguments.steps:,} steps; reward NMSE (zero = 1)")
    print("  p scale seed      PQR  Q - Q(anchor)         Q  simulate s   fit s  peak MB")
    for p, scale, seed in product(arguments.p, (1.0, 10.0), range(arguments.seeds)):
        cell = [sys.executable, __file__, "--cell", str(p), str(scale), str(seed)]
        cell += ["--steps", str(arguments.steps)]
        row = json.loads(subprocess.run(cell, check=True, capture_output=True).stdout)
        print(
            f"{p:3d} {scale:5g} {seed:4d} {row['pqr']:8.4f} {row['grounded_q']:14.4f} "
            f"{row['q']:9.4g} {row['simulate_s']:11.1f} {row['fit_s']:7.1f} "
            f"{row['peak_mb']:8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

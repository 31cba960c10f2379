"""Bootstrap replicates of a default fit on a JAX device, beside the CPU and its limits.

    python benchmarks/gpu.py                      # 10^6 rows, 256 replicates, JAX's device
    python benchmarks/gpu.py --rows 1e4 --replicates 32 --units 100
    python benchmarks/gpu.py --precisions highest default --out gpu.csv

The paper's world with five variables and five actions at scale 10, discount 0.9. The fit,
its rows' look ahead and the compilation are timed apart from the replicates. A few
replicates are made again on the CPU and in each precision; differences are in standard
errors of the coefficients. Operations and bytes are counted from the sizes, and compared
with a large product and a large copy on the same device.
"""

import argparse
import csv
import os
import time

import jax
import jax.numpy as jnp
import numpy as np

import deeppqr
from deeppqr.inference._resample import draw_units
from deeppqr.inference.warm import _sums as sums
from deeppqr.inference.warm._refits import Refits
from deeppqr.inference.warm._start import hold
from deeppqr.worlds import PaperWorld

SEED, SCALE, P, DISCOUNT = 3001, 10.0, 5, 0.9
PRECISIONS = ("highest", "high", "default")
FIGURES: list[tuple[str, str]] = []


def say(name: str, value: object) -> None:
    FIGURES.append((name, str(value)))
    print(f"{name:<52}{value}", flush=True)


def timed(call):
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def best_of(call, times: int = 5) -> float:
    jax.block_until_ready(call())
    return min(timed(lambda: jax.block_until_ready(call()))[1] for _ in range(times))


def ceilings(device) -> dict[str, float]:
    """What the device does at best: products in each precision, and copies."""
    size = 8_192 if device.platform != "cpu" else 1_024
    key = jax.random.key(0)
    square = jax.device_put(jax.random.normal(key, (size, size), jnp.float32), device)
    found = {}
    for name in PRECISIONS:
        product = jax.jit(lambda a, p=name: jnp.matmul(a, a, precision=p))
        found[name] = 2 * size**3 / best_of(lambda p=product: p(square)) / 1e12
        say(f"product of {size:,} squared, {name}, TFLOP/s", f"{found[name]:.1f}")
    length = 2**30 if device.platform != "cpu" else 2**25
    long = jax.device_put(jnp.ones(length, jnp.float32), device)
    twice = jax.jit(lambda a: a * 2)
    found["copy"] = 8 * length / best_of(lambda: twice(long)) / 1e12
    say("read and write, TB/s", f"{found['copy']:.2f}")
    return found


def work(refits: Refits, replicates: int, rounds: float, steps: float) -> dict[str, float]:
    """Operations and bytes of the large arrays, for so many replicates."""
    block = refits.value_block
    actions, few, features = block.ahead.shape
    rows, width = len(refits.held.membership.unit), block.slope.shape[2]
    valued = len(refits.valued.rows)
    near = block.near.shape[2]
    per_round = 2 * rows * actions * (features + 2 * width)
    per_step = 2 * few * (actions * (features + width) + features)
    per_step += 2 * valued * (actions + 1) * features
    once = 2 * rows * width**2
    flops = replicates * (rounds * per_round + steps * per_step + once)
    batches = -(-replicates // refits.batch)
    held = 4 * rows * actions * (features + 2 * width + 2 * near + 3)
    # Q, its logarithm, probabilities and residuals, each written once and read once.
    passing = 4 * rows * actions * replicates * 8
    return {
        "flops": float(flops),
        "bytes": float(batches * rounds * held + rounds * passing),
    }


def run(refits: Refits, count: np.ndarray):
    found = list(refits.replicates(count))
    theta = np.concatenate([one.theta for one in found], axis=1)
    done = np.concatenate([one.converged for one in found])
    return theta - refits.base.theta, done, found


def parts(refits: Refits, units: int) -> None:
    """Seconds of each sum over rows for one batch, apart."""
    with jax.default_matmul_precision(refits.precision):
        one = np.ones((units, refits.batch))
        weights = jax.device_put(one.astype(np.float32), refits.device)
        at = jax.device_put(refits._start(one), refits.device)
        shared, block, valued = refits.shared, refits.value_block, refits.valued
        error, prob, _ = sums.value_residual(block, shared, valued, at)
        step = jnp.zeros_like(at.extra)
        choices = lambda: [sums.choice_sums(b, shared, at, weights) for b in refits.blocks]
        fitted = at._replace(**{n: getattr(at, n)[..., :1] for n in at._fields})
        squares = lambda: [
            sums.information(b, shared, fitted, weights) for b in refits.blocks
        ]
        named = {
            "gradient, all rows": choices,
            "information, all rows": squares,
            "Bellman residual": lambda: sums.value_residual(block, shared, valued, at),
            "normal equations": lambda: sums.normal_product(shared, valued, prob, step),
            "spreading what is left, at rest": lambda: sums.spread(
                block, shared, valued, at, error, prob, step
            ),
        }
        for name, call in named.items():
            say(f"one batch of {refits.batch}: {name}, ms", f"{1e3 * best_of(call, 3):.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--units", type=float, default=10_000)
    parser.add_argument("--replicates", type=int, default=256)
    parser.add_argument("--check", type=int, default=4, help="replicates made on the CPU")
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS[:1])
    parser.add_argument("--device", help="cpu or gpu; by default JAX's own choice")
    parser.add_argument("--out", help="CSV file of the figures")
    asked = parser.parse_args()
    rows, units = int(asked.rows), int(asked.units)
    device = jax.devices(asked.device)[0]
    say("device", f"{device.device_kind} ({device.platform}), jax {jax.__version__}")
    say("cores", len(os.sched_getaffinity(0)))
    limit = ceilings(device)

    world = PaperWorld(p=P, reward_scale=SCALE, seed=SEED)
    panel, seconds = timed(lambda: world.simulate(steps=rows, units=units, seed=5))
    say(f"{rows:,} rows of {units:,} units made, s", f"{seconds:.1f}")
    model = deeppqr.PQR(discount=DISCOUNT, anchor=0)
    held, seconds = timed(lambda: hold(model, panel))
    say("default fit on the CPU, s", f"{seconds:.1f}")
    refits, seconds = timed(lambda: Refits(held, device=device))
    say("look ahead of all rows on the CPU, and to the device, s", f"{seconds:.1f}")
    say("coefficients, features", f"{len(held.fit.theta)}, {held.problem.features.width}")
    say(
        "the fit's own rounds continued move theta by, nats",
        f"{refits.base.gain.max():.1e}",
    )

    numbers = range(asked.replicates)
    count = np.stack([draw_units(units, 0, number)[0] for number in numbers], axis=1)
    parts(refits, units)
    errors = None
    for precision in asked.precisions:
        here = refits.on(device, precision=precision)
        _, first = timed(lambda r=here: run(r, count[:, : r.batch]))
        (theta, done, found), seconds = timed(lambda r=here: run(r, count))
        rounds = np.mean([one.rounds for one in found])
        steps = np.mean([one.steps for one in found])
        each = seconds * min(1.0, here.batch / asked.replicates)
        needed = work(here, asked.replicates, rounds, steps)
        floor = needed["flops"] / limit[precision] / 1e12
        moving = needed["bytes"] / limit["copy"] / 1e12
        say(f"{precision}: compilation, s", f"{max(first - each, 0):.1f}")
        say(f"{precision}: {asked.replicates} replicates, s", f"{seconds:.2f}")
        say(
            f"{precision}: converged, rounds, value steps",
            f"{done.sum()}, {rounds}, {steps}",
        )
        say(f"{precision}: TFLOP in products", f"{needed['flops'] / 1e12:.0f}")
        say(f"{precision}: TFLOP/s", f"{needed['flops'] / seconds / 1e12:.1f}")
        say(f"{precision}: s at the rate of large products", f"{floor:.2f}")
        say(f"{precision}: s to move the large arrays", f"{moving:.2f}")
        if errors is None:
            exact, errors = theta, theta.std(axis=1, ddof=1)
        off = np.abs(theta - exact).max() / errors.max()
        worst = (np.abs(theta - exact) / errors[:, None]).max()
        say(f"{precision}: largest difference, standard errors", f"{worst:.1e} ({off:.1e})")
    inverse = np.linalg.inv(held.fit.information + np.diag(held.fit.diagonal))
    sampling = np.sqrt(np.diag(inverse @ held.fit.information @ inverse))
    say(
        "sd of draws over the likelihood's alone, median",
        f"{np.median(errors / sampling):.2f}",
    )
    if asked.check and device.platform != "cpu":
        there = refits.on("cpu")
        few = count[:, : asked.check]
        (theta, _, _), seconds = timed(lambda: run(there, few))
        worst = (np.abs(theta - exact[:, : asked.check]) / errors[:, None]).max()
        say(f"the first {asked.check} on the CPU, s with compilation", f"{seconds:.1f}")
        say("CPU and device differ at most, standard errors", f"{worst:.1e}")
    if asked.out:
        with open(asked.out, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("figure", "value"), *FIGURES])


if __name__ == "__main__":
    main()

"""Times and errors of the default fit on panels of several kinds, one line each.

    python benchmarks/engine.py            # all
    python benchmarks/engine.py firms many # some

Compilation and the choice of the law are included. Errors are mean squared errors of the
rewards of all actions but the anchor, over the mean square of the rewards less the
anchor's; slopes of the firms are printed with the intervals that came with the fit.
"""

import resource
import sys
import time
from collections.abc import Callable

import numpy as np

import deeppqr
from deeppqr.worlds import FirmWorld, PaperWorld, SmoothWorld


def paper(
    p: int, scale: float, steps: int = 50_000, seed: int = 3001, discount: float = 0.9
):
    world = PaperWorld(p=p, reward_scale=scale, seed=seed, discount=discount)
    panel = world.simulate(steps=steps, units=50, seed=100_000 + seed)
    scored = world.simulate(steps=20_000, units=50, seed=200_000 + seed).state[::10]
    model = deeppqr.PQR(discount=discount, anchor=0)
    return model, panel, scored, world.reward(scored), 0.0


def smooth(dim: int, actions: int, steps: int, seed: int = 3001):
    world = SmoothWorld(dim=dim, num_actions=actions, seed=seed, labels=True)
    panel = world.simulate(steps=steps, units=steps // 20, seed=100_000 + seed)
    scored = world.simulate(steps=2_000, units=100, seed=200_000 + seed).state
    known = world.anchor_reward
    model = deeppqr.PQR(discount=world.discount, anchor=world.anchor, anchor_reward=known)
    return model, panel, scored, world.reward(scored), known(scored)[:, None]


def firms(seed: int = 3001):
    world = FirmWorld(seed=0)
    panel = world.simulate(units=400, periods=20, seed=seed)
    model = deeppqr.PQR(
        discount=world.discount, anchor=world.anchor, anchor_reward=world.anchor_reward
    )
    states = panel.encoding.decode(panel.state)
    return model, panel, states, world.reward(panel.state), 0.0


def many(seed: int = 3001):
    """25 actions, 17 numbers and three categories of six levels; no truth is known."""
    rng = np.random.default_rng(seed)
    rows, units = 12_000, 400
    numbers = rng.normal(size=(rows, 17))
    levels = rng.integers(6, size=(rows, 3))
    score = numbers[:, :4] @ rng.normal(size=(4, 25)) / 2
    score += rng.normal(size=(6, 25))[levels[:, 0]] / 2
    action = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    state = np.empty((rows, 20), dtype=object)
    state[:, :17], state[:, 17:] = numbers, np.array(list("abcdef"), dtype=object)[levels]
    after = np.roll(state, -1, axis=0)
    unit = np.arange(rows) // (rows // units)
    panel = deeppqr.Panel.from_arrays(state, action, after, unit=unit)
    return deeppqr.PQR(discount=0.9, anchor=0), panel, state[:500], None, 0.0


PANELS: dict[str, Callable] = {
    "paper p=5 scale 1": lambda: paper(5, 1.0),
    "paper p=5 scale 10": lambda: paper(5, 10.0),
    "paper p=40 scale 1": lambda: paper(40, 1.0),
    "paper 10^6 rows": lambda: paper(5, 1.0, 1_000_000),
    "smooth 4 x 6": lambda: smooth(4, 6, 20_000),
    "smooth 6 x 25": lambda: smooth(6, 25, 12_000),
    "firms": firms,
    "many actions": many,
}


def main() -> None:
    asked = sys.argv[1:]
    print(f"{'panel':<20}{'rows':>9}{'seconds':>9}{'MB':>7}{'error':>9}{'covered':>9}")
    for name, build in PANELS.items():
        if asked and not any(word in name for word in asked):
            continue
        model, panel, states, truth, known = build()
        start = time.perf_counter()
        fit = model.fit(panel)
        spent = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        error, covered = np.nan, np.nan
        if truth is not None:
            others = np.arange(len(fit.actions)) != fit.actions.index(fit.anchor)
            low, high = fit.interval(states)
            gap = (fit.reward(states) - truth)[:, others]
            error = float((gap**2).mean() / ((truth - known)[:, others] ** 2).mean())
            covered = float(((low <= truth) & (truth <= high))[:, others].mean())
        row = f"{spent:>9.1f}{peak:>7.0f}{error:>9.4f}{covered:>9.2f}"
        print(f"{name:<20}{len(panel):>9,}{row}", flush=True)


if __name__ == "__main__":
    main()

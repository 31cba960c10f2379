"""Numbers that a change of structure must not move, and the fits that give them.

`python tests/pinned/cases.py` writes `numbers.json` anew: after a change that is meant to
move numbers, which CHANGELOG.md then says. `--check` compares to the last digit instead,
which holds on one machine and one thread, with `DEEPPQR_DATA` set; the test allows for
other machines' rounding.
"""

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # sums over several threads round in another order
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"), "1")

import numpy as np
import polars as pl

import deeppqr
from deeppqr import datasets
from deeppqr.baselines import NFXP, MileageIncrements, bus_costs
from deeppqr.policy import Logit
from deeppqr.worlds import KnownCostBus, PaperWorld, random_tabular

FILE = Path(__file__).parent / "numbers.json"
NEEDS_DATA = {"rust_group_4", "rust_nfxp"}
SLOW = {"default_on_firms", "default_on_the_paper_world", "paper_as_written"}


def default_on_a_table() -> dict:
    """Few states: frequencies, the exact solve, means; g is a function of the state."""
    world = random_tabular(seed=4)
    panel = world.simulate(steps=6_000, units=60, seed=5)
    known = lambda states: world.mdp.reward[states[:, 0].astype(int), 0]
    fit = deeppqr.PQR(discount=0.9, anchor=0, anchor_reward=known).fit(panel)
    return _numbers(fit, world.states)


def default_on_the_paper_world() -> dict:
    """Continuous states: every candidate policy, joint estimation, the law of moves."""
    world = PaperWorld(p=2, reward_scale=5.0, seed=1)
    panel = world.simulate(steps=2_000, units=20, seed=2)
    fit = deeppqr.PQR(discount=0.9, anchor=0).fit(panel)
    return _numbers(fit, panel.state[::400])


def default_on_firms() -> dict:
    """Categories, an exit with a known value, ends: laws by regression."""
    panel = firms()
    fit = deeppqr.PQR(discount=0.95, anchor="exit", anchor_reward=2.0).fit(panel)
    return _numbers(fit, panel.encoding.decode(panel.state[::200]))


def quick_combinations() -> dict:
    """Stages by name, in combinations that take no networks."""
    world = PaperWorld(p=2, reward_scale=5.0, seed=3)
    panel = world.simulate(steps=1_500, units=30, seed=4)
    states, found = panel.state[::300], {}
    for policy, solver, reward in (
        ("logit", "linear", "linear"),
        ("logit", "averager", "likelihood"),
        ("boosted", "linear", "regression"),
    ):
        model = deeppqr.PQR(
            discount=0.9,
            anchor=0,
            anchor_reward="x1",
            policy=policy,
            anchor_value=solver,
            reward=reward,
        )
        name = f"{policy} {solver} {reward}"
        found[name] = _numbers(model.fit(panel), states)
    return found


def paper_as_written() -> dict:
    """AIRL, FQI-I and RE with the paper's optimiser: three kinds of networks."""
    world = PaperWorld(p=2, reward_scale=5.0, seed=3)
    panel = world.simulate(steps=1_000, units=20, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", deeppqr.NotConvergedWarning)
        fit = deeppqr.PQR.paper(discount=0.9, anchor=0).fit(panel)
    return _numbers(fit, panel.state[::200])


def known_cost_bus() -> dict:
    """A projection with its errors and its test, by influence functions."""
    world = KnownCostBus()
    panel = world.simulate(steps=6_000, units=60, seed=1)
    fit = deeppqr.PQR(
        discount=world.discount,
        anchor="replace",
        anchor_reward=-5.0,
        policy="frequency",
        anchor_value="renewal",
        reward="table",
    ).fit(panel)
    column = panel.encoding.names[0]
    found = fit.project([column], panel)
    assert found.test is not None
    return {
        "theta": found.theta.tolist(),
        "errors": found.standard_errors.tolist(),
        "test": list(found.test),
    }


def rust_group_4() -> dict:
    """PQR on Rust's buses, started at a quadratic logit, and its projection."""
    panel = datasets.bus((4,))
    model = deeppqr.PQR(discount=0.9999, anchor="replace", policy=Logit(degree=2))
    with warnings.catch_warnings():  # 33 replacements in 4,292 months
        warnings.simplefilter("ignore", deeppqr.WeakOverlapWarning)
        fit = model.fit(panel)
    bins = np.arange(0.0, 80.0, 20.0)[:, None]
    found = fit.project(["1", panel.encoding.names[0]], panel, replicates=3)
    return {
        **_numbers(fit, bins),
        "theta": found.theta.tolist(),
        "errors": found.standard_errors.tolist(),
    }


def rust_nfxp() -> dict:
    """The nested fixed point on groups 1 to 4."""
    panel = datasets.bus()
    law = MileageIncrements(counts=datasets.bus_increments())
    fit = NFXP(0.9999, bus_costs("linear"), law).fit(panel)
    table = fit.estimates()
    return {"values": table.values.tolist(), "errors": table.standard_errors.tolist()}


def study_table() -> dict:
    """A study's table as the command line writes it."""
    from deeppqr.cli import main

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = f"study samq-bus --seeds 1001 --steps 1000 --quiet --out {out}"
        assert main(command.split()) == 0
        rows = pl.read_csv(out / "table.csv").to_dicts()
    return {str(number): row for number, row in enumerate(rows)}


def firms(rows_per_firm: int = 15, number: int = 80) -> deeppqr.Panel:
    """Firms that wait, invest or exit, by a policy of no theory: data, not truth."""
    rng = np.random.default_rng(0)
    rows = []
    for firm in range(number):
        industry, capital = rng.choice(["food", "steel", "toys"]), rng.uniform(0, 2)
        for year in range(rows_per_firm):
            drift = 0.4 * capital - 0.3 * (industry == "toys")
            scores = np.array([0.5, drift, -2.0 - 0.3 * capital]) + rng.gumbel(size=3)
            action = ("wait", "invest", "exit")[int(scores.argmax())]
            rows.append((firm, year, industry, capital, action, action == "exit"))
            if action == "exit":
                break
            capital = 0.9 * capital + 0.3 * (action == "invest") + 0.1 * rng.normal()
    names = ["firm", "year", "industry", "capital", "action", "ends"]
    return deeppqr.Panel.from_frame(
        pl.DataFrame(rows, schema=names, orient="row"),
        state=["capital", "industry"],
        action="action",
        unit="firm",
        time="year",
        terminal="ends",
    )


def _numbers(fit: deeppqr.Fit, states) -> dict:
    return {
        "reward": fit.reward(states).tolist(),
        "q": fit.q(states).tolist(),
        "log_policy": fit.log_policy(states).tolist(),
        "diagnostics": {
            figure.name: figure.value
            for figure in fit.diagnostics
            if figure.name not in ("bellman_residual", "condition")  # rounding decides
        },
    }


CASES: dict[str, Callable[[], dict]] = {
    case.__name__: case
    for case in (
        default_on_a_table,
        default_on_the_paper_world,
        default_on_firms,
        quick_combinations,
        paper_as_written,
        known_cost_bus,
        rust_group_4,
        rust_nfxp,
        study_table,
    )
}


def available() -> list[str]:
    """Cases whose data are here."""
    there = bool(os.environ.get("DEEPPQR_DATA"))
    return [name for name in CASES if there or name not in NEEDS_DATA]


def _main(check: bool) -> None:
    found = {}
    for name in available():
        found[name] = json.loads(json.dumps(CASES[name]()))
        print(name, "done", flush=True)
    if not check:
        FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    pinned = json.loads(FILE.read_text(encoding="utf-8"))
    moved = [name for name in found if found[name] != pinned[name]]
    print("moved:", moved or "nothing")
    sys.exit(bool(moved))


if __name__ == "__main__":
    _main("--check" in sys.argv)

"""Rust's buses by deeppqr and by econirl on the same panel, printed as a table.

    python benchmarks/bus_peers.py [--samples 4 loader 1-4] [--methods NFXP NPL CCP]

Each fit runs in a process of its own, under a time limit: `cold s` is the first fit there,
compilation included and imports not, `warm s` the median of those after it, of five or
of as many as begin within ten seconds. The sample `loader` is group 4 as econirl's own
loader has it; the others are `deeppqr.datasets.bus`. `make peers` installs econirl.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

import deeppqr
from deeppqr import datasets
from deeppqr.baselines import NFXP, NPL, HotzMiller, MileageIncrements, bus_costs
from deeppqr_studies.published import SAMPLES, TABLE_IX

DISCOUNT, BINS = 0.9999, 90
WARM_FITS, WARM_SECONDS = 5, 10.0
ESTIMATORS = {
    ("deeppqr", "NFXP, full"): "NFXP",
    ("deeppqr", "NFXP, two steps"): "NFXP",
    ("deeppqr", "NPL"): "NPL",
    ("deeppqr", "CCP"): "CCP",
    ("econirl", "NFXP, default"): "NFXP",
    ("econirl", "NFXP, Table IX"): "NFXP",
    ("econirl", "NFXP, nk"): "NFXP",
    ("econirl", "NPL"): "NPL",
    ("econirl", "CCP"): "CCP",
    ("econirl", "CCP, tight"): "CCP-tight",
}
"""By package and name: the method, whose warm time is compared."""
METHODS = ["NFXP", "NPL", "CCP"]
OURS = {"NFXP": "NFXP, two steps", "NPL": "NPL", "CCP": "CCP", "CCP-tight": "CCP"}
"""With what econirl's time is compared; its NFXP takes the law as given, too."""
ON_LOADER = [("deeppqr", "NFXP, two steps"), ("econirl", "NFXP, default")]
"""The others are handed Rust's counts of increments, which that panel has not."""


class Estimate(NamedTuple):
    """RC and theta11, in Rust's units."""

    theta: list[float]
    errors: list[float]
    log_likelihood: float
    """Of the decisions; a pseudo-likelihood where the method maximises one."""
    converged: bool


class Sample(NamedTuple):
    """A panel and the law of the mileage that goes with it."""

    panel: deeppqr.Panel
    law: MileageIncrements
    increments: np.ndarray | None
    """Of the month into each row, as Rust counts."""


def load(sample: str) -> Sample:
    if sample == "loader":
        return Sample(loader_panel(), MileageIncrements(bins=BINS), None)
    groups = SAMPLES[sample]
    law = MileageIncrements(bins=BINS, counts=datasets.bus_increments(groups))
    return Sample(datasets.bus(groups, bins=BINS), law, increments(groups))


def loader_panel() -> deeppqr.Panel:
    """Group 4 as econirl's loader has it."""
    from econirl.datasets import load_rust_bus  # pyright: ignore[reportMissingImports]

    frame = load_rust_bus(4, original=True)
    frame["decision"] = frame["replaced"].map({0: "keep", 1: "replace"})
    return deeppqr.Panel.from_frame(
        frame,
        state="mileage_bin",
        action="decision",
        unit="bus_id",
        time="period",
        actions=["keep", "replace"],
    )


def increments(groups: tuple[int, ...]) -> np.ndarray:
    """The rows behind `datasets.bus_increments`, in the panel's order."""
    frame = datasets.bus_frame(groups).sort("bus", "period")
    bus, level = frame["bus"].to_numpy(), frame["bin"].to_numpy()
    replaced = frame["replace"].to_numpy()[:-1] == 1
    rise = np.where(replaced, level[1:] + 1, level[1:] - level[:-1])
    return rise[bus[1:] == bus[:-1]]


def ours(name: str, sample: Sample) -> Callable[[], Estimate]:
    costs = bus_costs("linear", bins=BINS)
    estimator = {
        "NFXP, full": NFXP(DISCOUNT, costs, sample.law, full=True),
        "NFXP, two steps": NFXP(DISCOUNT, costs, sample.law),
        "NPL": NPL(DISCOUNT, costs, sample.law),
        "CCP": HotzMiller(DISCOUNT, costs, sample.law),
    }[name]

    def fit() -> Estimate:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = estimator.fit(sample.panel)
        stopped = any(issubclass(w.category, deeppqr.NotConvergedWarning) for w in said)
        rows = found.estimates().table()[:2]
        theta, errors = zip(*[(r.estimate, r.standard_error) for r in rows], strict=True)
        return Estimate(list(theta), list(errors), found.log_likelihood, not stopped)

    return fit


def econirl(name: str, sample: Sample) -> Callable[[], Estimate]:
    import pandas as pd
    from econirl.core.types import DDCProblem, TrajectoryPanel  # pyright: ignore[reportMissingImports]
    from econirl.datasets import rust_bus_reward_spec  # pyright: ignore[reportMissingImports]
    from econirl.estimation.ccp import CCPEstimator  # pyright: ignore[reportMissingImports]
    from econirl.estimation.nfxp import NFXPEstimator  # pyright: ignore[reportMissingImports]
    from econirl.estimators import NFXP as Default  # pyright: ignore[reportMissingImports]

    panel, reward = sample.panel, rust_bus_reward_spec(BINS)
    columns = {"state": panel.state[:, 0].astype(int), "action": panel.action}
    frame = pd.DataFrame({**columns, "id": panel.unit})
    rows = TrajectoryPanel.from_dataframe(frame, state="state", action="action", id="id")

    def default() -> Estimate:
        model = Default(n_states=BINS, discount=DISCOUNT, utility=reward).fit(rows)
        errors = [model.se_[name] for name in model.params_]
        return in_rusts_units(
            model.coef_, errors, model.log_likelihood_, bool(model.converged_)
        )

    if name == "NFXP, default":
        return default

    _, law = sample.law.fit(panel)
    problem = DDCProblem(num_states=BINS, num_actions=2, discount_factor=DISCOUNT)
    handed = np.moveaxis(law.transition, 1, 0)
    of_moves = {
        "transition_probabilities": law.shares,
        "transition_increments": sample.increments,
    }
    full = {"se_method": "full_likelihood_bhhh"}
    strict = {"inner_tol": 1e-13, "outer_tol": 1e-10, "outer_max_iter": 2000}
    make, extra = {
        "NFXP, Table IX": (lambda: NFXPEstimator(**full, **strict), of_moves),
        "NFXP, nk": (lambda: NFXPEstimator(**full, inner_solver="nk"), of_moves),
        "NPL": (lambda: CCPEstimator(**full, mode="npl"), of_moves),
        "CCP": (lambda: CCPEstimator(mode="one_step"), {}),
        "CCP, tight": (lambda: CCPEstimator(mode="one_step", outer_tol=1e-10), {}),
    }[name]

    def fit() -> Estimate:
        utility = reward.to_linear_utility()
        found = make().estimate(rows, utility, problem, handed, **extra)
        return in_rusts_units(
            found.parameters, found.standard_errors, found.log_likelihood, found.converged
        )

    return fit


def in_rusts_units(theta: Any, errors: Any, likelihood: Any, converged: Any) -> Estimate:
    """econirl has the cost per bin first; Rust's theta11 is a thousand times that."""
    both = [np.asarray(values, dtype=float)[:2] for values in (theta, errors)]
    (cost, replacement), (cost_error, replacement_error) = both
    return Estimate(
        [float(replacement), float(1000 * cost)],
        [float(replacement_error), float(1000 * cost_error)],
        float(likelihood),
        bool(converged),
    )


def measure(sample: str, package: str, name: str) -> dict[str, Any]:
    """Fit once cold and then warm."""
    loaded = load(sample)
    prepare = {"deeppqr": ours, "econirl": econirl}[package]
    fit = prepare(name, loaded)
    seconds: list[float] = []
    estimate = None
    while len(seconds) <= WARM_FITS and sum(seconds[1:]) < WARM_SECONDS:
        start = time.perf_counter()
        estimate = fit()
        seconds.append(time.perf_counter() - start)
    assert estimate is not None
    warm = float(np.median(seconds[1:]))
    times = {"rows": len(loaded.panel), "cold": seconds[0], "warm": warm}
    return {**estimate._asdict(), **times}


def measure_apart(cell: tuple[str, str, str], *, limit: float) -> dict[str, Any] | str:
    """`measure` in a process of its own, or in words why there is nothing."""
    command = [sys.executable, __file__, "--cell", *cell]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:g} s"
    if ran.returncode != 0:
        return "failed: " + (ran.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(ran.stdout.splitlines()[-1])


def line(package: str, name: str, sample: str, row: dict[str, Any], our_warm: Any) -> str:
    published = TABLE_IX["4" if sample == "loader" else sample, DISCOUNT]
    shown = [
        f"{value:8.4f} ({error:.4f})"
        for value, error in zip(row["theta"], row["errors"], strict=True)
    ]
    off = []
    for parameter, value in zip(("RC", "theta11"), row["theta"], strict=True):
        printed = published[parameter]
        off.append(f"{(value - printed.value) / printed.error:+9.4f}")  # pyright: ignore
    ratio = f"{row['warm'] / our_warm:7.3g}" if our_warm else f"{'-':>7}"
    return (
        f"{package:<8} {name:<16} {row['rows']:5d} {shown[0]} {shown[1]} "
        f"{row['log_likelihood']:10.4f} {row['cold']:7.2f} {row['warm']:7.3f} {ratio} "
        f"{off[0]} {off[1]}{'' if row['converged'] else '  NOT CONVERGED'}"
    )


HEADER = (
    "package  estimator         rows       RC (s.e.)      theta11 (s.e.)     "
    "log-lik.  cold s  warm s  x ours    RC off  th11 off"
)


def installed(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} (not installed)"


def main() -> None:
    parser = argparse.ArgumentParser()
    samples, packages = ["4", "loader", "1-4"], ["deeppqr", "econirl"]
    parser.add_argument("--samples", nargs="+", choices=samples, default=samples)
    parser.add_argument("--packages", nargs="+", choices=packages, default=packages)
    parser.add_argument("--methods", nargs="+", choices=[*OURS], default=METHODS)
    parser.add_argument("--limit", type=float, default=180, help="seconds per process")
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(*arguments.cell)))
        return
    print(", ".join(installed(name) for name in [*packages, "jax", "numpy"]))
    for sample in arguments.samples:
        where = "group 4 of econirl's loader" if sample == "loader" else f"groups {sample}"
        print(f"\n{where}, discount {DISCOUNT:g}, linear costs, {BINS} bins\n{HEADER}")
        warm: dict[str, float] = {}
        for (package, name), method in ESTIMATORS.items():
            left_out = sample == "loader" and (package, name) not in ON_LOADER
            if left_out or package not in arguments.packages:
                continue
            if method not in arguments.methods:
                continue
            row = measure_apart((sample, package, name), limit=arguments.limit)
            if isinstance(row, str):
                print(f"{package:<8} {name:<16} {row}", flush=True)
                continue
            if package == "deeppqr":
                warm[name] = row["warm"]
            our_warm = warm.get(OURS[method]) if package != "deeppqr" else None
            print(line(package, name, sample, row, our_warm), flush=True)


if __name__ == "__main__":
    main()

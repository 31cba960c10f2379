"""How far from the truth an efficient estimate of the bus of known cost is on average.

    python benchmarks/bus_floor.py --seeds 2001 2002 2003 2004 2005

The default finds that the reward of keeping is a constant and a line in the mileage, and
estimates them by maximum likelihood: no estimator that must find both is better on average
in large samples. Its standard errors say how large its mean absolute percentage error is to
be expected (the mean of a normal variable's size is 0.80 of its standard deviation); the
error found stands beside. A smaller one needs knowledge, as that the constant is zero.
"""

import argparse

import numpy as np
import polars as pl

import deeppqr
from deeppqr_studies._problem import known_anchor, make_problem, preferences

MEAN_SIZE = np.sqrt(2 / np.pi)


def errors(buses: int, seed: int) -> dict[str, float]:
    """The MAPE to be expected and the one found, at the held-out decisions."""
    problem = make_problem(
        {"world": "known-cost-bus", "trajectories": buses, "irrelevant": 0}, seed
    )
    world = problem.world
    model = deeppqr.PQR(**preferences(world), **known_anchor(world))
    fit = model.fit(problem.panel)
    assert problem.held_out is not None
    at = np.arange(len(problem.states)), problem.held_out.action
    size = np.abs(problem.reward[at])
    found = np.abs(fit.reward(problem.states)[at] - problem.reward[at]) / size
    expected = MEAN_SIZE * fit.standard_errors(problem.states)[at] / size
    return {
        "buses": buses,
        "seed": seed,
        "expected": 100 * float(expected.mean()),
        "found": 100 * float(found.mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The floor of the bus of known cost")
    parser.add_argument("--buses", type=int, nargs="+", default=[500, 1_000, 2_500, 5_000])
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[2001, 2002, 2003, 2004, 2005]
    )
    arguments = parser.parse_args()
    rows = [errors(buses, seed) for buses in arguments.buses for seed in arguments.seeds]
    means = pl.DataFrame(rows).group_by("buses", maintain_order=True)
    print(means.agg(pl.len().alias("seeds"), pl.col("expected", "found").mean().round(2)))


if __name__ == "__main__":
    main()

"""Counterfactuals beside the exact truth: errors and coverage of their intervals.

    python benchmarks/counterfactuals.py bus:100 firms:10 paper-3-5:10 --out rows.csv

Replicate i has a panel of its own seed; the paper's worlds differ, too. Bus: 10 % of the
replacement cost is paid by somebody else, over 60 periods and in the long run. Firms: large
investments are paid 0.2, over 20 years (firms exit, so there is no long run). Paper: the
actions but the anchor are paid 0.3, over 10 periods and in the long run. The truth starts
from the same states. Rows of replicates that are in the file already are kept, so that a
stopped run goes on where it was. The summary stands in docs/tables/counterfactuals.csv.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import log_softmax

import deeppqr
from deeppqr.mdp import TabularMDP, solve_soft
from deeppqr.worlds import FirmWorld, KnownCostBus, PaperWorld
from deeppqr.worlds._firms import CAPITAL, DEMAND, INDUSTRIES, MAX_AGE

BUS_PAID, FIRM_PAID, PAPER_PAID = 0.5, 0.2, 0.3
PERIODS = {"bus": 60, "firms": 20, "paper": 10}
LONG_RUN = 3_000  # periods after which the worlds' chains are where they stay
SEED = 5_000
# Places that a jump leads to in the paper's world, of 8,192, and periods after which its
# paths have forgotten where they began: with a jump in every hundred decisions, 99.8 %.
JUMPS, SETTLED = 1_024, 600


def bus(replicate: int):
    """A bus panel, the fit's answer, and the true figures before and after."""
    world = KnownCostBus()
    panel = world.simulate(steps=20_000, units=200, seed=SEED + replicate)
    model = deeppqr.PQR(discount=0.95, anchor="replace", anchor_reward=-5.0, reward="joint")
    ask = {"transfer": {"replace": BUS_PAID}, "periods": PERIODS["bus"]}
    answer = model.fit(panel).counterfactual(panel, **ask)
    start = np.bincount(answer.states[:, 0].astype(int) - 1, minlength=20)
    truth = []
    for paid in (0.0, BUS_PAID):
        reward = world.mdp.reward + paid * np.eye(2)[1]
        mdp = TabularMDP(reward, world.mdp.transition, 0.95)
        solution = solve_soft(mdp)
        policy = np.exp(solution.log_policy)
        moves = np.einsum("sa,sat->st", policy, mdp.transition)
        told = (policy, lambda u, moves=moves: moves @ u, start / start.sum())
        found = followed(*told, PERIODS["bus"], long_run=True)
        truth.append(labelled(found, world.actions, start @ solution.value / start.sum()))
    return answer, *truth


def firms(replicate: int):
    panel = FirmWorld().simulate(units=400, periods=20, seed=SEED + replicate)
    model = deeppqr.PQR(discount=0.95, anchor="exit", anchor_reward=5.0)
    ask = {"transfer": {"large": FIRM_PAID}, "periods": PERIODS["firms"]}
    answer = model.fit(panel).counterfactual(panel, **ask)
    states = panel.encoding.encode_any(answer.states)
    told = states, PERIODS["firms"]
    return answer, firm_truth(*told), firm_truth(*told, paid=FIRM_PAID)


def firm_truth(encoded, periods: int, paid: float = 0.0) -> dict:
    """The firms' true figures from these states if large investments are paid so much."""
    world = FirmWorld()
    reward = world._rewards.copy()
    reward[..., world.actions.index("large")] += paid
    world.__dict__["_rewards"] = reward  # the world's solution follows from it
    policy = np.exp(log_softmax(world._q, axis=-1))
    start = np.zeros((len(INDUSTRIES), MAX_AGE + 1, len(CAPITAL), len(DEMAND)))
    np.add.at(start, world._cell(encoded), 1 / len(encoded))

    def step(values):
        older = values[:, np.minimum(np.arange(MAX_AGE + 1) + 1, MAX_AGE)]
        moves = world.capital_law, older, world.demand_law
        ahead = np.einsum("akl,iglmc,dm->igkdac", *moves, optimize=True)
        return np.einsum("igkda,igkdac->igkdc", policy[..., :-1], ahead)

    found = followed(policy, step, start, periods, long_run=False)
    return labelled(found, world.actions, world.value(encoded).mean())


def paper(replicate: int, p: int, scale: float):
    told = {"p": p, "reward_scale": scale, "seed": SEED + replicate}
    world = PaperWorld(**told)
    panel = world.simulate(steps=10_000, units=50, seed=2 * SEED + replicate)
    ask = {"transfer": dict.fromkeys(range(1, 5), PAPER_PAID), "periods": PERIODS["paper"]}
    answer = deeppqr.PQR(discount=0.9, anchor=0).fit(panel).counterfactual(panel, **ask)
    truth = []
    for paid in (0.0, PAPER_PAID):
        changed = PaperWorld(**told, premium=paid)
        # Lines through the states that paths start from and that jumps lead to. The first
        # points of a Sobol sequence fill the box evenly; every eighth would fill a part.
        jumps = changed.jump_states[:JUMPS]
        found = paper_paths(changed, answer.states, jumps, PERIODS["paper"])
        # The long run does not depend on the start: lines of jumps are enough.
        settled = paper_paths(changed, jumps, jumps, 1, long_run=True)
        found["long run"] = settled["long run"]
        value = changed.value(answer.states).mean()
        truth.append(labelled(found, world.actions, value))
    return answer, *truth


def paper_paths(world, states, jumps, periods: int, *, long_run: bool = False):
    """The paper's world followed exactly from these states, a jump leading to `jumps`."""
    lines, q = world.solve_lines(np.concatenate([states, jumps]))
    policy = np.exp(log_softmax(q, axis=1))
    start = np.bincount(lines.home[: len(states)], minlength=len(q)) / len(states)
    landing = lines.home[len(states) :]

    def step(values):
        landed = values[landing].mean(axis=0)
        found = np.zeros_like(values)
        for action in range(policy.shape[1]):
            inside = lines.inside[:, action, None]
            ahead = np.where(inside, values[lines.target[:, action]], landed)
            found += policy[:, action, None] * ahead
        return found

    told = {"long_run": long_run, "most": SETTLED}
    return followed(policy, step, start, periods, **told)


def followed(policy, step, start, periods: int, *, long_run: bool, most: int = LONG_RUN):
    """Shares of decisions now, over the periods and in the long run; decisions of each."""
    flow = np.concatenate([policy, np.ones((*policy.shape[:-1], 1))], axis=-1)
    axes = list(range(start.ndim))
    read = lambda values: np.tensordot(start, values, axes=(axes, axes))
    found = {"now": read(flow)}
    total, values = np.zeros(flow.shape[-1]), flow
    for period in range(max(periods, most if long_run else 0)):
        if period < periods:
            total = total + read(values)
        values = step(values)
    found[f"{periods} periods"] = total
    if long_run:
        found["long run"] = read(values)
    return found


def labelled(found: dict, actions, value: float) -> dict:
    """Figures by the keys of an answer."""
    figures = {("now", "value", None): value}
    for horizon, sums in found.items():
        for action, share in zip(actions, sums[:-1] / sums[-1], strict=True):
            figures[horizon, "probability", action] = share
        if "periods" in horizon:
            figures[horizon, "decisions", None] = sums[-1]
    return figures


def score(kind: str, replicate: int) -> list[dict]:
    """A row for each figure of one replicate."""
    name, *sizes = kind.split("-")
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    if name == "paper":
        answer, old, new = paper(replicate, int(sizes[0]), float(sizes[1]))
    else:
        answer, old, new = {"bus": bus, "firms": firms}[name](replicate)
    seconds = time.perf_counter() - begun
    rows = []
    for each in answer.figures:
        key = (each.horizon, each.quantity, each.action)
        if key not in new:
            continue
        truth = new[key] - old[key]
        rows.append(
            {
                "kind": kind,
                "replicate": replicate,
                "figure": each.name,
                "change": each.change,
                "truth": truth,
                "standard error": each.standard_error,
                "covered": int(each.low <= truth <= each.high),
                "after": each.after,
                "true after": new[key],
                "after covered": int(
                    abs(each.after - new[key]) <= 1.96 * each.standard_error_after
                ),
                "seconds": seconds,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("asked", nargs="+", metavar="KIND:REPLICATES")
    parser.add_argument("--out", type=Path, required=True, help="CSV file of all figures")
    parser.add_argument("--summary", type=Path, help="CSV file of means by figure")
    arguments = parser.parse_args()
    rows = pl.read_csv(arguments.out).to_dicts() if arguments.out.exists() else []
    done = {(row["kind"], row["replicate"]) for row in rows}
    for part in arguments.asked:
        kind, _, replicates = part.partition(":")
        for replicate in range(int(replicates or 1)):
            if (kind, replicate) not in done:
                rows += score(kind, replicate)
                pl.DataFrame(rows).write_csv(arguments.out, float_precision=6)
    frame = pl.DataFrame(rows)
    error = pl.col("change") - pl.col("truth")
    summary = frame.group_by("kind", "figure", maintain_order=True).agg(
        pl.len().alias("replicates"),
        pl.col("truth").mean(),
        error.mean().alias("bias"),
        error.pow(2).mean().sqrt().alias("rmse"),
        pl.col("standard error").mean(),
        pl.col("covered").mean(),
        pl.col("after covered").mean(),
    )
    if arguments.summary:
        summary.write_csv(arguments.summary, float_precision=4)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=150, float_precision=4):
        print(summary)


if __name__ == "__main__":
    main()

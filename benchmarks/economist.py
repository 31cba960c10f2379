"""An economist's questions to a panel of firms, each one call, beside the exact truth.

    python benchmarks/economist.py --summary docs/tables/economist.csv

400 firms over 20 years wait, invest or exit for a known scrap value. Asked are the slopes
of the payoffs as a LaTeX table, the payoff of a large investment along capital with a band,
what happens over 20 years if a tenth of a large investment's fixed cost is paid, how much
averages rest on the scrap value and the discount, and a report. The table has the seconds
of each call, and how many of the true figures lie in the intervals.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import polars as pl
from counterfactuals import firm_truth

import deeppqr
from deeppqr.worlds import FirmWorld
from deeppqr.worlds._firms import CAPITAL, PAYOFF, SCRAP

UNITS, YEARS = 400, 20
COLUMNS = ["1", "capital", "age", "demand", "industry"]
# A tenth of the fixed cost of a large investment.
PAID = -0.1 * PAYOFF[2, 0]
# Scrap values and discounts that one may doubt.
SCRAPS, DISCOUNTS = (SCRAP - 0.5, SCRAP + 0.5), (0.9, 0.97)


class Asked:
    """Calls with their seconds, and their intervals beside the truth."""

    def __init__(self):
        self.rows: list[dict] = []

    def call(self, question: str, function, *arguments, **options):
        begun = time.perf_counter()
        answer = function(*arguments, **options)
        seconds = time.perf_counter() - begun
        self.rows.append({"question": question, "seconds": round(seconds, 1)})
        return answer

    def compare(self, estimate, low, high, truth) -> None:
        """Note how far the last answer is from the truth, and how often it is covered."""
        estimate, low, high, truth = map(np.ravel, (estimate, low, high, truth))
        within = (low <= truth) & (truth <= high)
        self.rows[-1] |= {
            "figures": len(truth),
            "true ones in the interval": int(within.sum()),
            "largest error": float(np.abs(estimate - truth).max()),
        }


def ask(seed: int, folder: Path) -> Asked:
    """All questions to one panel; tables, the figure and the report go to a folder."""
    world = FirmWorld()
    panel = world.simulate(units=UNITS, periods=YEARS, seed=seed)
    model = deeppqr.PQR(discount=0.95, anchor="exit", anchor_reward=SCRAP)
    asked = Asked()
    fit = asked.call("fit", model.fit, panel)

    slopes = asked.call("slopes", fit.project, COLUMNS, panel)
    (folder / "slopes.tex").write_text(slopes.estimates().latex(), encoding="utf-8")
    true = {
        f"{action}: {name}": value
        for action, named in world.slopes.items()
        for name, value in named.items()
    }
    told = [true[name] for name in slopes.names]
    asked.compare(slopes.theta, *slopes.interval(), told)

    # A firm of ten years with usual demand, along capital: the band holds the whole curve.
    line = pl.DataFrame(
        {"capital": CAPITAL, "age": 10.0, "demand": 0.0, "industry": "food"}
    )
    axes = asked.call("payoff curve with a band", fit.plot.reward, "capital")
    axes.figure.savefig(folder / "payoff.svg")
    low, high = asked.call("band at 61 states", fit.interval, line, simultaneous=True)
    states = fit.encoding.encode_any(line)
    large = fit.actions.index("large")
    curves = [part[:, large] for part in (fit.reward(line), low, high)]
    asked.compare(*curves, world.reward(states)[:, large])

    options: dict = {"transfer": {"large": PAID}, "periods": YEARS}
    paid = asked.call("a tenth paid, 20 years", fit.counterfactual, panel, **options)
    start = fit.encoding.encode_any(paid.states)
    before, after = firm_truth(start, YEARS), firm_truth(start, YEARS, paid=PAID)
    known = [
        (each, after[key] - before[key])
        for each in paid.figures
        if (key := (each.horizon, each.quantity, each.action)) in after
    ]
    figures = np.array([(each.change, each.low, each.high, true) for each, true in known])
    asked.compare(*figures.T)

    options = {"anchor_bounds": SCRAPS, "discounts": DISCOUNTS, "temperatures": []}
    options |= {"seeds": 0, "folds": 0}
    resting = asked.call("scrap value and discount", fit.sensitivity, panel, **options)
    average = resting.weight @ world.reward(fit.encoding.encode_any(resting.states))
    base = [row for row in resting.rows if row.kind == "as fitted"]
    columns = zip(*((row.estimate, row.low, row.high) for row in base), strict=True)
    asked.compare(*columns, average)

    results = [slopes, paid, resting]
    asked.call("report", fit.report, folder / "report.html", results=results)
    for answer in (slopes, paid, resting):
        print(answer, "\n")
    for each, true in known:
        print(f"{each.name}: {each.change:.4f}, in truth {true:.4f}")
    return asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=5_000, help="of the panel")
    parser.add_argument(
        "--out", type=Path, default=Path("economist"), help="new folder of what is made"
    )
    parser.add_argument("--summary", type=Path, help="CSV file of seconds and coverage")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True)
    asked = ask(arguments.seed, arguments.out)
    found = pl.from_dicts(asked.rows, infer_schema_length=None)
    if arguments.summary:
        found.write_csv(arguments.summary, float_precision=3)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=120, float_precision=3):
        print(found)
    print(f"{found['seconds'].sum():.1f} seconds in all")


if __name__ == "__main__":
    main()

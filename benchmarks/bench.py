"""Ours beside the peers that are installed, on the same data, one line for each cell.

    python benchmarks/bench.py                  # a few minutes
    python benchmarks/bench.py --full --runs 3  # all sizes
    python benchmarks/bench.py --only peers --limit 1200 --out docs/tables/bench.csv

Every cell runs in a process of its own, under a time limit: `cold s` is the first fit
there, compilation included and imports not, `warm s` the second one, `cpu s` processor
seconds of the first, which other work on the machine hardly moves, and `peak MB` the
largest resident memory of the process. `error` is the mean squared error of the rewards of
all actions but the anchor, over that of the anchor's reward in their place. imitation is
looked for in `.venv-adapters` and econirl in `.venv-peers`, which the Makefile makes: where
a library is missing its lines say so. In the file of `--out`, cells that were run again
replace their former rows, and other rows stay; `bench_figure.py` draws it.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from bench_cells import (
    ECONIRL,
    MEASURES,
    PREDICTED,
    Cell,
    Found,
    full_sizes,
    genpqr_settings,
    quick_sizes,
)

ROOT = Path(__file__).parents[1]
PEERS = {"imitation": ROOT / ".venv-adapters", "econirl": ROOT / ".venv-peers"}
QUICK_LIMIT, FULL_LIMIT = 180.0, 3_600.0
# Of imitation's generator: the first number takes about as long as our fit.
QUICK_STEPS, FULL_STEPS = (50_000, 300_000), (50_000, 300_000, 2_000_000)
SECTIONS = ("sizes", "peers", "genpqr", "buses", "predictions", "parquet")
SIZES_TITLE = "deeppqr's default fit as sizes grow"
PEERS_TITLE = "Rewards of the paper's world beside the peers'"
DESIGN_TITLE = "genpqr's published design: mean squared error at decisions"


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
    peer = method.split()[0]
    if peer not in PEERS:
        return Path(sys.executable)
    return why_missing(peer) or PEERS[peer] / "bin/python"


def table(title: str, cells: list[Cell], asked: argparse.Namespace) -> list[dict]:
    """Measure and print, with the spread over runs where there are several."""
    print(f"\n{title}")
    columns = "".join(f"{name:>9}" for name in ("warm s", "cpu s", "peak MB", "error"))
    print(f"{'method':<26}{'cell':<40}{'cold s':>22}{columns}")
    rows = []
    for cell in cells:
        name = f"{cell.method:<26}{f'{cell.world}, {cell.title}':<40}"
        python = python_of(cell.method)
        if isinstance(python, str):
            print(f"{name}  {python}", flush=True)
            continue
        found: list[Found] = []
        for run in range(asked.runs):
            one = measure_apart(cell, asked.seed + run, python, asked.limit)
            if isinstance(one, str):
                print(f"{name}  {one}", flush=True)
                one = Found(*[np.nan] * 5, one)
            else:
                found.append(one)
            about = {"section": title, "method": cell.method, "world": cell.world}
            about |= {"cell": cell.title, "run": run, "cores": cores()}
            rows.append({**about, **one._asdict()})
        if found:
            print(name + line(found), flush=True)
    return rows


def line(found: list[Found]) -> str:
    """Means over runs, and the range of the first times."""
    mean = Found(*np.mean([one[:-1] for one in found], axis=0))
    cold = [one.cold for one in found]
    spread = f" ({min(cold):.2f}-{max(cold):.2f})" if len(found) > 1 else ""
    shown = lambda value, digits=2: "-" if np.isnan(value) else f"{value:.{digits}f}"
    took = f"{mean.cold:.2f}{spread}"
    return (
        f"{took:>22}{shown(mean.warm):>9}{shown(mean.cpu):>9}{shown(mean.peak, 0):>9}"
        f"{mean.error:>9.4f}  {found[-1].note}"
    ).rstrip()


def cores() -> int:
    """How many this process may use, and so those that it starts."""
    threads = os.environ.get("OMP_NUM_THREADS")
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    return min(allowed, int(threads)) if threads else allowed


def published() -> list[dict]:
    """What genpqr's authors report for their design, as rows; the times are theirs."""
    import genpqr_design

    title, rows = DESIGN_TITLE, []
    for (number, shift), figures in genpqr_design.PUBLISHED.items():
        cell = Cell("", "genpqr", {"rows": number, "shift": shift})
        for method, error, seconds in figures:
            found = Found(seconds, *[np.nan] * 3, error, "published, mean of 100 draws")
            about = {"section": title, "method": f"genpqr {method}", "world": cell.world}
            about |= {"cell": cell.title, "run": 0, "cores": None}
            rows.append({**about, **found._asdict()})
            print(f"{about['method']:<26}{f'genpqr, {cell.title}':<40}{line([found])}")
    return rows


def keep(path: Path, rows: list[dict]) -> None:
    """Write the rows into a file, in place of those of the same cells."""
    import polars as pl

    new = pl.DataFrame(rows, infer_schema_length=None)
    if path.exists():
        old = pl.read_csv(path, infer_schema_length=None)
        place = ["section", "method", "cell"]
        kept = old.join(new, on=place, how="anti", maintain_order="left")
        new = pl.concat([kept, new], how="diagonal_relaxed")
    new.write_csv(path, float_precision=6)


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
    words = "lines with one of these words, such as 'AIRL, rows 50,000, p 5, steps 50,000'"
    parser.add_argument("--lines", nargs="+", help=words)
    parser.add_argument("--runs", type=int, default=1, help="of each cell, other seeds")
    parser.add_argument("--seed", type=int, default=3001, help="of the first run")
    parser.add_argument("--limit", type=float, help="seconds for each process")
    parser.add_argument("--out", type=Path, help="a CSV file, whose other rows stay")
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
    named = lambda cell: f"{cell.method}, {cell.title}"
    chosen = lambda cells: [
        cell
        for cell in cells
        if not asked.lines or any(words in named(cell) for words in asked.lines)
    ]
    steps = FULL_STEPS if asked.full else QUICK_STEPS

    def done(rows: list[dict]) -> None:
        if asked.out and rows:
            keep(asked.out, rows)

    if "sizes" in asked.only:
        sizes = full_sizes() if asked.full else quick_sizes()
        done(table(SIZES_TITLE, chosen(sizes), asked))
    if "peers" in asked.only:
        size = {"rows": 50_000, "p": 5}
        cells = [Cell("deeppqr", "paper", size)]
        cells += [Cell("imitation AIRL", "paper", {**size, "steps": n}) for n in steps]
        cells += [Cell(name, "paper", size) for name in ECONIRL]
        done(table(PEERS_TITLE, chosen(cells), asked))
    if "genpqr" in asked.only:
        settings = genpqr_settings()
        done(table(DESIGN_TITLE, chosen(settings), asked) + published())
    if "predictions" in asked.only:
        cells = [Cell(name, "paper", {"rows": 50_000, "p": 5}) for name in PREDICTED]
        numbers = ", ".join(f"{name} {number:,}" for name, number in PREDICTED.items())
        title = f"Predictions, seconds for these rows: {numbers}"
        done(table(title, chosen(cells), asked))
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


if __name__ == "__main__":
    main()

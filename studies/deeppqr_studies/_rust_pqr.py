"""PQR on Rust's buses: his two parameters, the cost curve, the demand for engines.

PQR never solves the agents' problem. The anchor is to replace, with reward zero, so that
r(x, keep) = RC - c(x). Prices are multiples of the estimated RC, on our reading of Rust's
axis: what is paid for an engine is known in dollars, and RC is that price in the units of
the reward.
"""

from typing import ClassVar

from ._study import Option, Study, Task, choose
from ._table_ix import SAMPLES

BINS = 90
REPLICATES_PER_TASK = 10
PRICES = tuple(round(0.25 + 0.05 * number, 2) for number in range(28))
"""Of an engine, as multiples of the estimated RC: 0.25 to 1.6."""
PARAMETERS = ("RC", "theta11")
LEVEL = 0.95


class RustPQR(Study):
    """A task for the estimates on each sample, and one for ten bootstrap replicates."""

    name = "rust-pqr"
    title = "PQR on Rust's bus engines: RC and theta11, cost curve, demand for engines"
    seeded = False  # a replicate's number says which buses it draws
    options: ClassVar = {
        "samples": Option(str, "+", ["4", "1-4", "1-3"], "groups of buses"),
        "replicates": Option(int, None, 200, "of the bootstrap over buses", 0),
        "first_replicate": Option(int, None, 0, "the number of the first of them"),
    }

    def tasks(self, settings):
        samples = choose("samples", settings["samples"], SAMPLES)
        first = settings["first_replicate"]
        last = first + settings["replicates"]
        tasks = [Task(f"{sample}_estimates", {"sample": sample}) for sample in samples]
        for sample in samples:
            for start in range(first, last, REPLICATES_PER_TASK):
                end = min(start + REPLICATES_PER_TASK, last)
                about = {"sample": sample, "replicates": [start, end]}
                tasks.append(Task(f"{sample}_replicates={start}-{end - 1}", about))
        return tasks

    def run(self, task):
        from ._rust_pqr_fits import draws, estimates

        if "replicates" in task.parameters:
            return draws(**task.parameters)
        return estimates(**task.parameters)

    def report(self, frame, folder):
        from ._rust_pqr_report import report

        return report(frame, folder)

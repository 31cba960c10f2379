"""The airline study: its settings and tasks."""

from __future__ import annotations

from typing import Any, ClassVar

from .._study import Option, Study, Task, check_choices
from ._findings import IDENTIFIED
from ._fits import ESTIMATORS, NEVER, NUM_MARKETS, PARTS, POOLED
from ._report import report

REPLICATES_PER_TASK = 20  # what a stopped run computes again, at most


class Airline(Study):
    """A task for each sample and method, and one for twenty bootstrap replicates."""

    name = "airline"
    title = "airline market entry: rewards, predictions, competition (the paper's data)"
    options: ClassVar = {
        "seeds": Option(int, "+", [0], "of the fits"),
        "carriers": Option(str, "+", list(IDENTIFIED), "codes of carriers"),
        "methods": Option(str, "+", list(ESTIMATORS), f"among {', '.join(ESTIMATORS)}"),
        "pooled": Option(
            str,
            "*",
            ["default", "paper", "splgd", "logit", "network", "same"],
            "methods on all carriers at once, with carrier effects",
        ),
        "replicates": Option(int, None, 40, "of the bootstrap over markets", 0),
        "markets": Option(
            int, None, NUM_MARKETS, "how many, evenly spaced; all by default", 1
        ),
    }

    def tasks(self, settings):
        number = settings["markets"]
        carriers = check_choices("carriers", settings["carriers"], IDENTIFIED)
        tasks = [Task("data", {"part": "data"}), Task(NEVER, {"part": "never"})]
        for seed in settings["seeds"]:
            about = {"markets": number, "seed": seed}
            for method in check_choices("pooled", settings["pooled"], ESTIMATORS):
                tasks.append(_fit_task(POOLED, method, about))
            for carrier in carriers:
                for method in check_choices("methods", settings["methods"], ESTIMATORS):
                    tasks.append(_fit_task(carrier, method, about))
        for carrier in carriers:
            for start in range(0, settings["replicates"], REPLICATES_PER_TASK):
                end = min(start + REPLICATES_PER_TASK, settings["replicates"])
                about = {"sample": carrier, "markets": number, "replicates": [start, end]}
                name = f"{carrier}_replicates={start}-{end - 1}"
                tasks.append(Task(name, {"part": "replicates", **about}))
        return tasks

    def run(self, task):
        parameters = dict(task.parameters)
        return PARTS[parameters.pop("part")](**parameters)

    def report(self, frame, folder):
        return report(frame, folder)


def _fit_task(sample: str, method: str, about: dict[str, Any]) -> Task:
    name = f"{sample}_{method}_seed={about['seed']}"
    return Task(name, {"part": "fit", "sample": sample, "method": method, **about})

"""The paper's real-world study: which markets carriers serve, and what serving is worth.

Decisions of periods 13 and 14 are fitted, those of period 15 foreseen. The anchor is to
stay out of a market, with reward zero.
"""

from typing import ClassVar

from ._study import Option, Study, Task, choose

NEVER = "TW"
IDENTIFIED = ("AA", "AS", "B6", "CO", "DL", "HP", "NW", "OTHER", "UA", "US", "WN")
POOLED = "pooled"
METHODS = {
    "default": "PQR with every stage chosen by itself",
    "paper": "PQR.paper under the airline hyperparameters, steps read as gradient steps",
    "paper-epochs": "the same, steps read as passes over the rows",
    "splgd": "SPL-GD, planning for itself",
    "logit": "a logit of serving on the state",
    "network": "a network in its place",
    "same": "same as last period, at the rates of periods 13 and 14",
    "light": "PQR with a logit policy and joint estimation without networks",
}
FITTED = ("default", "paper", "paper-epochs", "light", "splgd")
"""Methods that say what serving is worth."""
TRAIN, TEST = (13, 14), 15
"""Periods that are fitted, and the one that is foreseen."""
DISCOUNT = 0.95
COMPETITORS = (5, 6, 7, 8, 9)
TOP = 5
"""Markets of a carrier that are shown: its most rewarding."""
REPLICATES_PER_TASK = 20
LEVEL = 0.95


class Airline(Study):
    """A task for each sample and method, and one for twenty bootstrap replicates."""

    name = "airline"
    title = "airline market entry: rewards, predictions, competition (the paper's data)"
    options: ClassVar = {
        "seeds": Option(int, "+", [0], "of the fits"),
        "carriers": Option(str, "+", list(IDENTIFIED), "codes of carriers"),
        "methods": Option(str, "+", list(METHODS), f"among {', '.join(METHODS)}"),
        "pooled": Option(
            str,
            "*",
            ["default", "paper", "splgd", "logit", "network", "same"],
            "methods on all carriers at once, with carrier effects",
        ),
        "replicates": Option(int, None, 40, "of the bootstrap over markets", 0),
        "markets": Option(int, None, 1770, "how many, evenly spaced; all by default", 1),
    }

    def tasks(self, settings):
        number = settings["markets"]
        carriers = choose("carriers", settings["carriers"], dict.fromkeys(IDENTIFIED))
        tasks = [Task("data", {"part": "data"}), Task(NEVER, {"part": "never"})]
        for seed in settings["seeds"]:
            about = {"markets": number, "seed": seed}
            for method in choose("pooled", settings["pooled"], METHODS):
                tasks.append(_fit(POOLED, method, about))
            for carrier in carriers:
                for method in choose("methods", settings["methods"], METHODS):
                    tasks.append(_fit(carrier, method, about))
        for carrier in carriers:
            for start in range(0, settings["replicates"], REPLICATES_PER_TASK):
                end = min(start + REPLICATES_PER_TASK, settings["replicates"])
                about = {"sample": carrier, "markets": number, "replicates": [start, end]}
                name = f"{carrier}_replicates={start}-{end - 1}"
                tasks.append(Task(name, {"part": "replicates", **about}))
        return tasks

    def run(self, task):
        from ._airline_fits import PARTS

        parameters = dict(task.parameters)
        return PARTS[parameters.pop("part")](**parameters)

    def report(self, frame, folder):
        from ._airline_report import report

        return report(frame, folder)


def _fit(sample: str, method: str, about: dict) -> Task:
    name = f"{sample}_{method}_seed={about['seed']}"
    return Task(name, {"part": "fit", "sample": sample, "method": method, **about})

"""Convergence: errors of r and Q against the number of decisions, and Theorem 2's terms."""

from typing import Any, ClassVar

from ._cells import PAPER_OPTIONS, cell_name, paper_cells
from ._kinds import described
from ._study import Option, Study, Task, choose

METHODS = described("default", "paper", "paper-epochs")
ERRORS = {
    "nmse": "error of r over its mean square",
    "q_nmse": "mean squared error of Q over its variance",
    "q_centred_nmse": "error of Q's differences between actions over their variance",
}
TERMS = {
    "reward_mae": "|r error|",
    "reward_bound": "its bound",
    "q_mae": "|Q error|",
    "q_bound": "its bound",
    "complexity_q": "FQI-I's labels",
    "rows_q": "on rows",
    "complexity_reward": "RE's labels",
    "rows_reward": "on rows",
    "missing": "discount^N",
    "policy_error": "|log pi error|",
    "policy_error_max": "its maximum",
}
MEANING = """\
Errors are at the same fresh decisions whatever was fitted, absolute ones over states and
actions as the optimal agent has them. The bounds are Theorem 2's with its unknown constant
C at one and without the terms that vanish with n: their order is what they tell. Labels'
complexities sqrt(2 y' H^-1 y / n) are on some distinct inputs at unit norm, as many for
every n where there are that many; fewer are spread farther apart, with fewer to share a
label's norm, and the term is larger for that reason alone."""


class Convergence(Study):
    """How fast r and Q are learned, beside what Theorem 2 says of it."""

    name = "convergence"
    title = "errors of r and Q by the number of decisions, and the terms of Theorem 2"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "p": PAPER_OPTIONS["p"]._replace(default=[5]),
        "steps": PAPER_OPTIONS["steps"]._replace(
            nargs="+", default=[1_000, 10_000, 100_000, 1_000_000]
        ),
        "kernel_rows": Option(int, None, 1_000, "inputs of each labels' complexity", 2),
        "methods": Option(str, "+", ["default", "paper"], f"among {', '.join(METHODS)}"),
    }

    def tasks(self, settings):
        methods = choose("methods", settings["methods"], METHODS)
        rows = settings["kernel_rows"]
        tasks = []
        for steps in settings["steps"]:
            for cell in paper_cells({**settings, "steps": steps}):
                for seed in settings["seeds"]:
                    for method in methods:
                        label = f"{cell_name(cell)}_{method}_seed={seed}"
                        about = {"method": method, "kernel_rows": rows, "seed": seed}
                        tasks.append(Task(label, {"cell": cell, **about}))
        return tasks

    def run(self, task):
        from ._convergence_fits import converge

        return [converge(**task.parameters)]

    def report(self, frame, folder):
        from ._paper_report import conclude
        from ._tables import method_table

        found: list[Any] = []
        by_cell = sorted(frame.group_by("scale", "p"), key=lambda group: group[0])
        for (scale, p), part in by_cell:
            where = f"scale {scale:g}, p = {p}"
            for score, words in ERRORS.items():
                title = f"{where}: {words} (standard error)"
                found.append(method_table(part, title, over="steps", score=score))
            found += [_terms(part, where), _claims(part, where)]
        for score, words in ERRORS.items():
            _draw(by_cell, folder, score, words)
        _draw_bounds(by_cell, folder)
        return conclude("Convergence", MEANING, found, frame, folder)


def _terms(frame, where: str) -> Any:
    from ._tables import Table, means

    columns = {term: means(frame, ["method", "steps"], term) for term in TERMS}
    rows = [
        [f"{method}, n = {steps:,}", *(str(columns[t][method, steps]) for t in TERMS)]
        for method, steps in frame.select("method", "steps")
        .unique(maintain_order=True)
        .rows()
    ]
    title = f"{where}: Theorem 2's terms (standard error)"
    return Table(title, ["", *TERMS.values()], rows)


def _draw(by_cell, folder, score: str, words: str) -> None:
    """A panel per scale and p."""
    from ._figures import chart_of, draw_charts
    from ._tables import means

    charts = [
        chart_of(
            means(part, ["method", "steps"], score),
            title=f"scale {scale:g}, p = {p}",
            x_label="decisions n",
            y_label=words,
            level=1.0,
        )
        for (scale, p), part in by_cell
    ]
    draw_charts(charts, folder, f"convergence-{score.replace('_', '-')}")


def _draw_bounds(by_cell, folder) -> None:
    """Absolute errors of r with their bound and its terms, a panel per cell and method."""
    from ._figures import Chart, draw_charts
    from ._tables import means

    shown = {
        "reward_bound": "bound of r's error, C = 1",
        "complexity_q": "FQI-I's labels",
        "complexity_reward": "RE's labels",
        "reward_mae": "error of r",
        "policy_error": "error of log pi",
    }
    charts = []
    for (scale, p), part in by_cell:
        for (method,), of_method in part.group_by("method", maintain_order=True):
            lines = {
                words: {n: mean for (n,), mean in means(of_method, ["steps"], term).items()}
                for term, words in shown.items()
            }
            title = f"{method}, scale {scale:g}, p = {p}"
            charts.append(
                Chart(title, "decisions n", "mean absolute error, and terms", lines)
            )
    draw_charts(charts, folder, "convergence-bound")


def _claims(frame, where: str) -> Any:
    """Errors that fall with n, and stay below what bounds them."""
    from ._claims import Claims, claim_below, scores_by

    claims = []
    fewest, most = frame["steps"].min(), frame["steps"].max()
    for method in frame["method"].unique(maintain_order=True):
        part = frame.filter(method=method)
        for error, name in (("reward_mae", "r"), ("q_mae", "Q")):
            if fewest != most:
                text = f"The error of {name} by {method} is smaller at n = {most:,}"
                sides = [scores_by(part, error, steps=n) for n in (most, fewest)]
                text += f" than at {fewest:,}"
                claims.append(claim_below(text, *sides, relative=True))
            text = f"At n = {most:,} the error of {name} by {method} is below its bound"
            bound = error.replace("mae", "bound")
            sides = [scores_by(part, score, steps=most) for score in (error, bound)]
            claims.append(claim_below(text, *sides, relative=True))
    return Claims(f"{where}: claims of Theorem 2", claims)

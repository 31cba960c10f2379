"""Sensitivity: the agent's discount or temperature is not the one estimators assume."""

from __future__ import annotations

from typing import Any, ClassVar

from .._claims import Claims, claim_below, scores_by
from .._figures import chart_of, draw_charts
from .._methods import METHODS, methods_without, pqr_kinds
from .._problem import PAPER_OPTIONS, cell_tasks_of, make_problem, paper_cells
from .._scores import anchor_share, other_errors, reward_errors, try_method
from .._study import Option, Study, check_choices
from .._tables import means, score_tables, write_summary

ASSUMED = {"discount": 0.9, "temperature": 1.0}
POSSIBLE_METHODS = methods_without("oracle", "one-parameter")
"""The oracle knows the truth, whatever it is told, and the other is for buses."""
COLUMNS = ("nmse", "mse", "correlation", "q_mse", "policy_kl")
DEFAULT_METHODS = ["default", "paper", "paper-epochs", "regression", "maxent", "zero"]
WORDS = {"discount": "true discount", "temperature": "true temperature"}
ABOUT = (
    "Demonstrations come from agents of different discounts at temperature 1, and of "
    "different temperatures at discount 0.9; every estimator is told discount 0.9 and "
    "temperature 1. MaxEnt-IRL is grounded at the anchor and needs no discount. Errors are "
    "over the actions other than the anchor, relative to the mean square of r: zero scores "
    "1."
)


class Sensitivity(Study):
    """Errors as the true discount and temperature leave the assumed ones."""

    name = "sensitivity"
    title = "errors where the discount or the temperature is not the assumed one"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "p": PAPER_OPTIONS["p"]._replace(default=[10]),
        "discounts": Option(float, "*", [0.0, 0.5, 0.9], "true ones; 0.9 is assumed"),
        "temperatures": Option(float, "*", [0.1, 0.5, 1.0], "true ones; 1 is assumed"),
        "methods": Option(
            str, "+", DEFAULT_METHODS, f"among {', '.join(POSSIBLE_METHODS)}"
        ),
    }

    def tasks(self, settings):
        agents = [
            {**ASSUMED, name: value}
            for name in ASSUMED
            for value in settings[f"{name}s"]
            # The agent whose values are the assumed ones belongs to both series.
            if name == "discount" or {**ASSUMED, name: value} != ASSUMED
        ]
        if ASSUMED["temperature"] in settings["temperatures"] and ASSUMED not in agents:
            agents.append(dict(ASSUMED))
        cells = [
            {**cell, **agent, "assumed": dict(ASSUMED)}
            for cell in paper_cells(settings)
            for agent in agents
        ]
        methods = check_choices("methods", settings["methods"], POSSIBLE_METHODS)
        return cell_tasks_of(cells, settings["seeds"], "method", methods)

    def run(self, task):
        return [sensitivity_row(**task.parameters)]

    def report(self, frame, folder):
        parts, charts = [], []
        for (p, scale), part in frame.group_by(["p", "scale"], maintain_order=True):
            where = f"p = {p:g}, scale {scale:g}"
            for name, other in (("discount", "temperature"), ("temperature", "discount")):
                series = part.filter(**{other: ASSUMED[other]})
                title = f"Mean NMSE of r (standard error) by {WORDS[name]}, {where}"
                parts += score_tables(series, title, over=name, score="nmse")
                charts.append(_chart(series, name, where))
            parts += _claims(part, where)
        draw_charts(charts, folder, "sensitivity")
        return write_summary("Sensitivity", ABOUT, parts, frame, folder)


def sensitivity_row(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Errors over the actions other than the anchor."""
    problem = make_problem(cell, seed)
    estimate, row = try_method(cell, METHODS, method, problem, seed)
    row |= {"anchor_share": anchor_share(problem), **dict.fromkeys(COLUMNS)}
    if estimate is None:
        return row
    errors = {**reward_errors(problem, estimate), **other_errors(problem, estimate)}
    return {**row, **errors}


def _chart(frame, name: str, where: str) -> Any:
    return chart_of(
        means(frame, ["method", name], "nmse"),
        title=where,
        x_label=f"{WORDS[name]}; assumed: {ASSUMED[name]:g}",
        y_label="NMSE of r",
        level=1.0,
        ticks={value: f"{value:g}" for value in frame[name].unique()},
    )


def _claims(frame, where: str) -> list[Any]:
    def scores(method: str, discount: float = 0.9, temperature: float = 1.0):
        agent = frame.filter(discount=discount, temperature=temperature)
        return scores_by(agent, "nmse", method=method)

    blocks = []
    for pqr in pqr_kinds(frame):
        pairs = {
            "at discount 0 MaxEnt-IRL is better than PQR": (
                scores("maxent", 0.0),
                scores(pqr, 0.0),
            ),
            "at discount 0.9 PQR is better than MaxEnt-IRL": (
                scores(pqr),
                scores("maxent"),
            ),
            "MaxEnt-IRL is better at discount 0 than at 0.9": (
                scores("maxent", 0.0),
                scores("maxent"),
            ),
            "PQR is better at discount 0.5 than at 0": (scores(pqr, 0.5), scores(pqr, 0.0)),
            "PQR is better at discount 0.9 than at 0.5": (scores(pqr), scores(pqr, 0.5)),
            "PQR does not blow up: wrong by 0.9 in the discount, it is better than "
            "MaxEnt-IRL at 0.9": (scores(pqr, 0.0), scores("maxent")),
            "PQR is better at temperature 1 than at 0.5": (
                scores(pqr),
                scores(pqr, temperature=0.5),
            ),
            "PQR is better at temperature 0.5 than at 0.1": (
                scores(pqr, temperature=0.5),
                scores(pqr, temperature=0.1),
            ),
            "PQR is more sensitive to the temperature: better at discount 0 than at "
            "temperature 0.1": (scores(pqr, 0.0), scores(pqr, temperature=0.1)),
        }
        found = [claim_below(text, *pair, relative=True) for text, pair in pairs.items()]
        blocks.append(Claims(f"What the paper claims, PQR being {pqr}, {where}", found))
    return blocks

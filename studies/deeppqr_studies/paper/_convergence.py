"""Convergence: errors of r and Q against the number of decisions, and Theorem 2's terms."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import log
from statistics import fmean, stdev
from typing import Any, ClassVar

import numpy as np

import deeppqr

from .._claims import Claims, claim_below, scores_by
from .._figures import Chart, chart_of, draw_charts
from .._methods import METHODS, Estimate
from .._problem import (
    MAX_SCORED,
    PAPER_OPTIONS,
    Problem,
    cell_name,
    make_problem,
    paper_cells,
    scored_states,
)
from .._scores import NOTE_LENGTH, q_errors, reward_errors, timed
from .._study import Option, Study, Task, check_choices
from .._tables import MISSING, Mean, Table, means, method_table, write_summary
from ._regressions import anchor_regression, kernel_complexity, reward_regression, unit_norm

POSSIBLE_METHODS = ["default", "paper", "paper-epochs"]
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
        "methods": Option(
            str, "+", ["default", "paper"], f"among {', '.join(POSSIBLE_METHODS)}"
        ),
    }

    def tasks(self, settings):
        methods = check_choices("methods", settings["methods"], POSSIBLE_METHODS)
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
        return [converge(**task.parameters)]

    def report(self, frame, folder):
        found: list[Any] = []
        by_cell = sorted(frame.group_by("scale", "p"), key=lambda group: group[0])
        for (scale, p), part in by_cell:
            where = f"scale {scale:g}, p = {p}"
            for score, words in ERRORS.items():
                title = f"{where}: {words} (standard error)"
                found.append(method_table(part, title, over="steps", score=score))
            found += [*_exponents(part, where), _terms(part, where), _claims(part, where)]
        for score, words in ERRORS.items():
            _draw(by_cell, folder, score, words)
        _draw_bounds(by_cell, folder)
        return write_summary("Convergence", MEANING, found, frame, folder)


def converge(
    cell: dict[str, Any], method: str, kernel_rows: int, seed: int
) -> dict[str, Any]:
    """The row of a method at one number of decisions."""
    problem = make_problem(cell, seed)
    # The same states for every number of decisions, so that errors can be compared.
    states = scored_states(problem.world, MAX_SCORED, cell["units"], seed)
    problem = replace(problem, states=states)
    estimate, seconds = timed(METHODS[method], problem, seed)
    assert estimate.fit is not None
    assert estimate.q is not None
    terms = bound_terms(problem, estimate.fit, kernel_rows=kernel_rows, seed=seed)
    return {
        **cell,
        "method": method,
        "given": estimate.given,
        "seed": seed,
        **reward_errors(problem, estimate),
        **q_errors(problem.q, estimate.q(problem.states)),
        **absolute_errors(problem, estimate),
        **terms,
        "kernel_rows": kernel_rows,
        "demonstrator_kl": problem.demonstrator_kl,
        "seconds": seconds,
        "note": estimate.note[:NOTE_LENGTH],
    }


def absolute_errors(problem: Problem, estimate: Estimate) -> dict[str, float]:
    """Mean absolute errors over states and actions as the optimal agent has them."""
    assert estimate.q is not None
    chance = np.exp(problem.log_policy)
    gaps = {
        "reward_mae": estimate.reward(problem.states) - problem.reward,
        "q_mae": estimate.q(problem.states) - problem.q,
    }
    return {
        name: float(np.mean(np.sum(chance * np.abs(gap), axis=1)))
        for name, gap in gaps.items()
    }


def bound_terms(
    problem: Problem, fit: deeppqr.Fit, *, kernel_rows: int, seed: int
) -> dict[str, Any]:
    r"""The terms of Theorem 2, and both bounds with its unknown constant C at one.

    $$\frac{C}{1-\gamma} c_Q + \gamma^N \frac{2C}{1-\gamma}
    + \frac{\gamma\alpha\epsilon_\pi}{1-\gamma}, \qquad
    \frac{(1+\gamma)C}{1-\gamma} c_Q + c_r + \gamma^N C(1+\gamma)
    + \frac{2\alpha\epsilon_\pi}{1-\gamma},$$
    without the terms that vanish with n. FQI-I's labels are those of its last round, and
    a direct solve has no N: nothing is missing.
    """
    discount, panel = fit.discount, problem.panel
    rng = np.random.default_rng(seed)
    at_anchor = panel.has_next & (panel.action == problem.anchor)
    some = _distinct(panel, panel.state, at_anchor, kernel_rows, rng)
    of_q = anchor_regression(fit, some)
    both = np.column_stack([panel.state, panel.action])
    some = _distinct(panel, both, panel.has_next, kernel_rows, rng)
    of_reward = reward_regression(fit, some)
    # The theorem's labels for FQI-I are the anchor's Q: g + discount V(s'), with g = 0.
    q_term = kernel_complexity(of_q.state, discount * of_q.target)
    inputs = np.column_stack([of_reward.state, of_reward.action])
    reward_term = kernel_complexity(inputs, of_reward.target)
    rounds = fit.provenance["rounds"]
    missing = 0.0 if rounds is None else discount**rounds
    gap = np.abs(fit.log_policy(problem.states) - problem.log_policy)
    largest = fit.temperature * float(gap.max())
    horizon = 1 / (1 - discount)
    return {
        "complexity_q": q_term,
        "complexity_reward": reward_term,
        "rows_q": len(of_q.target),
        "rows_reward": len(of_reward.target),
        "rounds": rounds,
        "missing": missing,
        "policy_error": float(np.mean(np.sum(np.exp(problem.log_policy) * gap, axis=1))),
        "policy_error_max": float(gap.max()),
        "q_bound": horizon * (q_term + 2 * missing + discount * largest),
        "reward_bound": (1 + discount) * (horizon * q_term + missing)
        + reward_term
        + 2 * horizon * largest,
    }


def _distinct(
    panel: deeppqr.Panel,
    inputs: np.ndarray,
    among: np.ndarray,
    rows: int,
    rng: np.random.Generator,
) -> deeppqr.Panel:
    """Some rows at random, one for each direction of the inputs.

    Paths return to states where they have been, and the kernel depends on an input's
    direction only.
    """
    order = rng.permutation(np.flatnonzero(among))[: 2 * rows]
    unit = unit_norm(inputs[order])
    _, first = np.unique(np.round(unit, 9), axis=0, return_index=True)
    kept = np.zeros(len(panel), dtype=bool)
    kept[order[np.sort(first)[:rows]]] = True
    return panel.select(kept)


def _terms(frame, where: str) -> Any:
    columns = {term: means(frame, ["method", "steps"], term) for term in TERMS}
    rows = [
        [f"{method}, n = {steps:,}", *(str(columns[t][method, steps]) for t in TERMS)]
        for method, steps in frame.select("method", "steps")
        .unique(maintain_order=True)
        .rows()
    ]
    title = f"{where}: Theorem 2's terms (standard error)"
    return Table(title, ["", *TERMS.values()], rows)


def _exponents(frame, where: str) -> list[Any]:
    """By which power of n the error of r falls, between every size and the next or last."""
    sizes = sorted(set(frame["steps"]))
    spans = dict.fromkeys([*pairwise(sizes), *((size, sizes[-1]) for size in sizes[:-1])])
    rows = []
    for method in frame["method"].unique(maintain_order=True):
        scores = [scores_by(frame, "nmse", method=method, steps=steps) for steps in sizes]
        by_size = dict(zip(sizes, scores, strict=True))
        cells = []
        for few, many in spans:
            both = [seed for seed in by_size[few] if by_size[many].get(seed)]
            falls = [
                log(by_size[many][s] / by_size[few][s]) / log(many / few) for s in both
            ]
            cells.append(str(_mean(falls)) if falls else MISSING)
        rows.append([method, *cells])
    columns = ["method", *(f"{few:,} to {many:,}" for few, many in spans)]
    title = f"{where}: power of n by which the error of r changes (standard error)"
    return [Table(title, columns, rows)] if spans else []


def _mean(values: list[float]) -> Mean:
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return Mean(fmean(values), error, len(values))


def _draw(by_cell, folder, score: str, words: str) -> None:
    """A panel per scale and p."""
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
    """That errors fall with n, and that they stay below their bounds."""
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

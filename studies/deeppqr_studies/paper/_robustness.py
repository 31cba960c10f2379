"""Robustness: the reward is one of the state alone, so that no action is an anchor.

PQR is told that some action earns nothing, which is false. D-AIRL and SPL-GD are told that
the reward does not depend on the action, which is true.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import deeppqr

from .._claims import Claims, claim_below, scores_by
from .._figures import draw_dots
from .._methods import METHODS, Estimate, Method, pqr_kinds
from .._problem import (
    PAPER_OPTIONS,
    MisstatedWorld,
    cell_tasks_of,
    make_problem,
    paper_cells,
    preferences,
)
from .._scores import try_method
from .._study import Option, Study, check_choices
from .._tables import means, score_tables, write_summary

DEFAULT_METHODS = [
    "default",
    "paper",
    "paper-epochs",
    "limit",
    "dairl",
    "splgd",
    "splgd-truth",
    "zero",
]
COLUMNS = ("mse", "nmse", "centred_mse", "centred_nmse")
SCORES = {"nmse": "as it is", "centred_nmse": "up to a constant"}
ABOUT = (
    "The reward is scale tanh(s'omega/p), the same for all five actions; a randomly chosen "
    "action is believed to earn nothing, which is false. Every method is scored against "
    "that true reward. PQR cannot find it: under the belief it identifies the true one "
    "shaped so that the believed anchor earns nothing, which explains the decisions "
    "equally well. `limit` is the shaped reward computed from the truth, to which PQR "
    "tends as data grow; an estimate shrunk towards zero can be closer to r, by accident. "
    "D-AIRL and SPL-GD are told that the reward is one of the state, which is true, and "
    "are scored without grounding. D-AIRL's theorem also asks "
    "for deterministic transitions; here they are random where a step would leave the box. "
    "D-AIRL, and SPL-GD without the truth, find the reward up to a constant and set its "
    "mean over the demonstrations to zero; the score up to a constant is theirs. Errors "
    "are over all five actions, relative to the mean square, or the variance, of r: zero "
    "scores 1."
)


def dairl(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """D-AIRL with a reward of the state alone, as its theorem assumes."""
    return _ungrounded(
        deeppqr.baselines.DAIRL(**preferences(world), state_only=True, seed=seed), panel
    )


def splgd(world: Any, panel: deeppqr.Panel, seed: int, **truth: Any) -> Estimate:
    """SPL-GD with a reward linear in the state, planning for itself."""
    baseline = deeppqr.baselines.SPLGD(
        **preferences(world), state_only=True, seed=seed, **truth
    )
    return _ungrounded(baseline, panel)


def splgd_truth(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """The same given the true Q and V."""
    return splgd(world, panel, seed, q=world.q, value=world.value)


def limit(world: MisstatedWorld, panel: deeppqr.Panel, seed: int) -> Estimate:
    """What PQR tends to as data grow: the reward, shaped by the false anchor."""
    del panel, seed

    def reward(states):
        return world.world.shaped_reward(states, world.anchor)

    return Estimate(reward, given="the true policy, the transitions")


def _ungrounded(baseline: Any, panel: deeppqr.Panel) -> Estimate:
    """The reward as it is: grounded at an anchor, one of the state alone would be zero."""
    fit = baseline.fit(panel)
    return Estimate(fit.reward, given=fit.given, note=fit.note)


STATE_ONLY_METHODS: dict[str, Method] = {
    **{name: METHODS[name] for name in ("default", "regression", "paper", "paper-epochs")},
    "limit": limit,
    "dairl": dairl,
    "splgd": splgd,
    "splgd-truth": splgd_truth,
    "zero": METHODS["zero"],
}


class Robustness(Study):
    """Errors where the belief that an action is an anchor is false."""

    name = "robustness"
    title = "a reward of the state alone, where no action is an anchor"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "p": PAPER_OPTIONS["p"]._replace(default=[10]),
        "methods": Option(
            str, "+", DEFAULT_METHODS, f"among {', '.join(STATE_ONLY_METHODS)}"
        ),
    }

    def tasks(self, settings):
        methods = check_choices("methods", settings["methods"], STATE_ONLY_METHODS)
        features = {"state_only": True, "assumed": {"anchor": "random"}}
        cells = [{**cell, **features} for cell in paper_cells(settings)]
        return cell_tasks_of(cells, settings["seeds"], "method", methods)

    def run(self, task):
        return [robustness_row(**task.parameters)]

    def report(self, frame, folder):
        parts, dots = [], {}
        for (p, scale), part in frame.group_by(["p", "scale"], maintain_order=True):
            where = f"p = {p:g}, scale {scale:g}"
            for score, words in SCORES.items():
                title = f"Mean NMSE of r {words} (standard error), {where}"
                parts += score_tables(part, title, over="p", score=score)
                found = means(part, ["method"], score)
                dots[f"{where}\n{words}"] = {name: mean for (name,), mean in found.items()}
            parts.append(_claims(part, where))
        draw_dots(dots, folder, "robustness", x_label="NMSE of r")
        return write_summary("Robustness", ABOUT, parts, frame, folder)


def robustness_row(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Errors over all actions, as they are and up to a constant."""
    problem = make_problem(cell, seed)
    estimate, row = try_method(cell, STATE_ONLY_METHODS, method, problem, seed)
    row |= {"anchor": problem.anchor, **dict.fromkeys(COLUMNS)}
    if estimate is None:
        return row
    truth = problem.reward
    gap = estimate.reward(problem.states) - truth
    return {
        **row,
        "mse": float(np.mean(gap**2)),
        "nmse": float(np.mean(gap**2) / np.mean(truth**2)),
        "centred_mse": float(np.var(gap)),
        "centred_nmse": float(np.var(gap) / np.var(truth)),
    }


def _claims(frame, where: str) -> Any:
    def scores(method: str, score: str):
        return scores_by(frame, score, method=method)

    found = []
    present = frame["method"].unique(maintain_order=True).to_list()
    for rival in present:
        if rival not in ("dairl", "zero", "limit"):
            text = f"D-AIRL is closer to the reward than {rival}, up to a constant"
            pair = scores("dairl", "centred_nmse"), scores(rival, "centred_nmse")
            found.append(claim_below(text, *pair, relative=True))
    limit = [name for name in present if name == "limit"]
    for method in [*limit, *pqr_kinds(frame)]:
        text = f"PQR has no guarantee: zero is closer to the reward than {method}"
        pair = scores("zero", "nmse"), scores(method, "nmse")
        found.append(claim_below(text, *pair, relative=True))
    return Claims(f"What the paper claims, {where}", found)

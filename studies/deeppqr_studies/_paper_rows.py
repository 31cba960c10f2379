"""Rows of the studies of the paper's world: a method on a problem, in numbers.

A method may refuse data in which the anchor, or another action, never occurs. That is an
outcome too: its row has the refusal as its note, and None for every score. So a table has
the same columns whatever was found.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from deeppqr._errors import ActionNeverTaken, AnchorNeverTaken, DataError
from ._measure import NOTE_LENGTH, other_errors, reward_errors, timed
from ._methods import METHODS, NOTHING, Estimate, Method
from ._problem import Problem, pose
from ._state_only import STATE_ONLY
from ._tables import REFUSED

OVERLAP = ("anchor_share", "anchor_share_rarest", "anchor_min_prob")
"""The diagnostics that say whether the anchor is taken often enough."""
VERDICTS = ("ok", "watch", "trouble")
ROBUSTNESS_SCORES = ("mse", "nmse", "centred_mse", "centred_nmse")
SENSITIVITY_SCORES = ("nmse", "mse", "correlation", "q_mse", "policy_kl")
SELECTION_SCORES = ("nmse_as_told", "selected", "ratio", "error", "nmse")
SUPPORT_SCORES = (
    *("mse", "nmse", "level_error"),
    *(f"{name}_verdict" for name in OVERLAP),
    "overlap",
)


def robustness_row(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Errors over all actions, as they are and up to a constant."""
    problem = pose(cell, seed)
    estimate, row = _begin(cell, STATE_ONLY, method, problem, seed)
    row |= {"anchor": problem.anchor, **dict.fromkeys(ROBUSTNESS_SCORES)}
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


def sensitivity_row(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Errors over the actions other than the anchor."""
    problem = pose(cell, seed)
    estimate, row = _begin(cell, METHODS, method, problem, seed)
    row |= {"anchor_share": _anchor_share(problem), **dict.fromkeys(SENSITIVITY_SCORES)}
    if estimate is None:
        return row
    errors = {**reward_errors(problem, estimate), **other_errors(problem, estimate)}
    return {**row, **errors}


def selection_row(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """The temperature found from the average reward of the decisions, and its error."""
    problem = pose(cell, seed)
    estimate, row = _begin(cell, METHODS, method, problem, seed)
    panel = problem.panel
    taken = np.arange(len(panel)), panel.action
    average = float(problem.world.reward(panel.state)[taken].mean())
    row |= {"average_reward": average, "anchor_share": _anchor_share(problem)}
    row |= dict.fromkeys(SELECTION_SCORES)
    if estimate is None:
        return row
    row["nmse_as_told"] = reward_errors(problem, estimate)["nmse"]
    if estimate.fit is None:
        raise DataError(f"The method {method!r} has no temperature to select.")
    try:
        found = estimate.fit.select_temperature(panel, average=average)
    except DataError as refusal:
        return {**row, "note": str(refusal)[:NOTE_LENGTH]}
    moved = Estimate(estimate.fit.at_temperature(found).reward)
    ratio = found / problem.world.temperature
    return {
        **row,
        "selected": found,
        "ratio": ratio,
        "error": abs(ratio - 1),
        "nmse": reward_errors(problem, moved)["nmse"],
    }


def support_row(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Errors relative to the reward without its premium, and what the diagnostics say."""
    problem = pose(cell, seed)
    estimate, row = _begin(cell, METHODS, method, problem, seed)
    row["anchor_share"] = _anchor_share(problem)
    row["expected_share"] = float(np.exp(problem.log_policy[:, problem.anchor]).mean())
    row |= dict.fromkeys(SUPPORT_SCORES)
    if estimate is None:
        return {**row, "overlap": REFUSED}
    gap, truth = (
        np.delete(reward, problem.anchor, axis=1)
        for reward in (estimate.reward(problem.states) - problem.reward, problem.reward)
    )
    size = np.mean((truth - problem.world.premium) ** 2)
    row |= {
        "mse": float(np.mean(gap**2)),
        "nmse": float(np.mean(gap**2) / size),
        "level_error": float(gap.mean()),
    }
    if estimate.diagnostics is not None:
        verdicts = {name: estimate.diagnostics[name].verdict for name in OVERLAP}
        row |= {f"{name}_verdict": verdict for name, verdict in verdicts.items()}
        row["overlap"] = max(verdicts.values(), key=VERDICTS.index)
    return row


def _begin(
    cell: dict[str, Any], methods: Mapping[str, Method], name: str, problem: Problem, seed
) -> tuple[Estimate | None, dict[str, Any]]:
    """What a method finds, unless it refuses, and the row that says what was run."""
    flat = {key: value for key, value in cell.items() if not isinstance(value, dict)}
    row = {**flat, "method": name, "given": NOTHING, "seed": seed}
    if problem.demonstrator_kl is not None:
        row["demonstrator_kl"] = problem.demonstrator_kl
    try:
        estimate, seconds = timed(methods[name], problem, seed)
    except (ActionNeverTaken, AnchorNeverTaken) as refusal:
        note = f"{REFUSED}: {refusal}"
        return None, {**row, "seconds": None, "note": note[:NOTE_LENGTH]}
    row |= {"given": estimate.given, "seconds": seconds}
    return estimate, {**row, "note": estimate.note[:NOTE_LENGTH]}


def _anchor_share(problem: Problem) -> float:
    return float(np.mean(problem.panel.action == problem.anchor))

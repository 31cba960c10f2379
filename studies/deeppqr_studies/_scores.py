"""Scores of an estimate against the truth, and the rows that hold them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import deeppqr

from ._methods import NOTHING, Estimate, Method
from ._problem import Problem
from ._tables import REFUSED

NOTE_LENGTH = 200  # characters of a note that a table keeps; some are paragraphs


def timed(method: Method, problem: Problem, seed: int) -> tuple[Estimate, float]:
    """The estimate of a method and the seconds it took."""
    start = time.perf_counter()
    estimate = method(problem.assumed_world, problem.panel, seed)
    return estimate, round(time.perf_counter() - start, 3)


def reward_errors(problem: Problem, estimate: Estimate) -> dict[str, float]:
    """How far the reward is from the truth, over the actions other than the anchor."""
    found = deeppqr.metrics.score_reward(
        estimate.reward(problem.states), problem.reward, anchor=problem.anchor
    )
    return {"nmse": found.nmse, "mse": found.mse, "correlation": found.correlation}


def other_errors(problem: Problem, estimate: Estimate) -> dict[str, float | None]:
    """How far Q is from the truth, as it is, and the policy, in nats per decision."""
    q_mse = policy_kl = None
    if estimate.q is not None:
        q_mse = float(np.mean((estimate.q(problem.states) - problem.q) ** 2))
    if estimate.log_policy is not None:
        found = estimate.log_policy(problem.states)
        policy_kl = deeppqr.metrics.policy_kl(found, problem.log_policy)
    return {"q_mse": q_mse, "policy_kl": policy_kl}


def q_errors(truth: np.ndarray, q: np.ndarray) -> dict[str, float]:
    """How far Q is from the truth: as it is, its mean, and between the actions of a state.

    An error is also given as a share of the truth's own variance: of all values for Q as
    it is, within states for differences between actions.
    """
    gap = q - truth
    mse, between = float(np.mean(gap**2)), _centred_square(gap)
    return {
        "q_mse": mse,
        "q_nmse": mse / float(np.var(truth)),
        "q_bias": float(np.mean(gap)),
        "q_centred_mse": between,
        "q_centred_nmse": between / _centred_square(truth),
    }


def _centred_square(values: np.ndarray) -> float:
    """The mean square around each state's mean."""
    return float(np.mean((values - values.mean(axis=1, keepdims=True)) ** 2))


def mape(problem: Problem, estimate: Estimate) -> float | None:
    """Mean absolute error of r in percent, at held-out decisions as they occur."""
    if problem.held_out is None:
        return None
    taken = np.arange(len(problem.states)), problem.held_out.action
    truth = problem.reward[taken]
    return float(100 * np.mean(np.abs(estimate.reward(problem.states)[taken] / truth - 1)))


def try_method(
    cell: dict[str, Any], methods: Mapping[str, Method], name: str, problem: Problem, seed
) -> tuple[Estimate | None, dict[str, Any]]:
    """The estimate of a method, None if it refuses the data, and the start of its row.

    A method refuses data in which the anchor, or another action, never occurs. The row
    then has the refusal as its note, and its scores are to be None: a table has the same
    columns whatever was refused.
    """
    flat = {key: value for key, value in cell.items() if not isinstance(value, dict)}
    row = {**flat, "method": name, "given": NOTHING, "seed": seed}
    if problem.demonstrator_kl is not None:
        row["demonstrator_kl"] = problem.demonstrator_kl
    try:
        estimate, seconds = timed(methods[name], problem, seed)
    except (deeppqr.ActionNeverTaken, deeppqr.AnchorNeverTaken) as refusal:
        note = f"{REFUSED}: {refusal}"
        return None, {**row, "seconds": None, "note": note[:NOTE_LENGTH]}
    row |= {"given": estimate.given, "seconds": seconds}
    return estimate, {**row, "note": estimate.note[:NOTE_LENGTH]}


def anchor_share(problem: Problem) -> float:
    """The share of the demonstrated decisions that are the anchor."""
    return float(np.mean(problem.panel.action == problem.anchor))

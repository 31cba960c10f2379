"""One method or variant on one problem, scored against the truth."""

import time
from typing import Any

import numpy as np

from deeppqr._demo import score
from ._cells import cell_name
from ._methods import METHODS, Estimate, Method
from ._problem import Problem, pose
from ._variants import VARIANTS

NOTE_LENGTH = 200
SAMQ_SLOPES = np.array([-1.0, 0.0, 0.0])


def measure(cell: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """The row of a method: its errors, its time, what it was given."""
    problem = pose(cell, seed)
    estimate, seconds = timed(METHODS[method], problem, seed)
    return {
        **cell,
        "method": method,
        "given": estimate.given,
        "seed": seed,
        **reward_errors(problem, estimate),
        **other_errors(problem, estimate),
        "mape": mape(problem, estimate),
        "slope_mse": slope_error(problem, estimate)
        if cell["world"] == "samq-bus"
        else None,
        "verdict": estimate.diagnostics and estimate.diagnostics["held_out_gain"].verdict,
        "demonstrator_kl": problem.demonstrator_kl,
        "seconds": seconds,
        "note": estimate.note[:NOTE_LENGTH],
    }


def budget(cell: dict[str, Any], variant: str, seed: int) -> dict[str, Any]:
    """The row of a variant: the error of every part, at the scored states."""
    problem = pose(cell, seed)
    estimate, seconds = timed(VARIANTS[variant], problem, seed)
    return {
        "cell": cell_name(cell).replace("_", " "),
        **cell,
        "variant": variant,
        "given": estimate.given,
        "seed": seed,
        **part_errors(problem, estimate),
        **reward_errors(problem, estimate),
        "demonstrator_kl": problem.demonstrator_kl,
        "seconds": seconds,
        "note": estimate.note[:NOTE_LENGTH],
    }


def timed(method: Method, problem: Problem, seed: int) -> tuple[Estimate, float]:
    """The estimate of a method and the seconds it took."""
    start = time.perf_counter()
    estimate = method(problem.as_told, problem.panel, seed)
    return estimate, round(time.perf_counter() - start, 3)


def reward_errors(problem: Problem, estimate: Estimate) -> dict[str, float]:
    """How far the reward is from the truth, over the actions other than the anchor."""
    found = score("", estimate.reward(problem.states), problem.reward, problem.anchor)
    return {"nmse": found.nmse, "mse": found.mse, "correlation": found.correlation}


def other_errors(problem: Problem, estimate: Estimate) -> dict[str, float | None]:
    """How far Q is from the truth, as it is, and the policy, in nats per decision."""
    q_mse = policy_kl = None
    if estimate.q is not None:
        q_mse = float(np.mean((estimate.q(problem.states) - problem.q) ** 2))
    if estimate.log_policy is not None:
        gap = problem.log_policy - estimate.log_policy(problem.states)
        policy_kl = float(np.mean(np.sum(np.exp(problem.log_policy) * gap, axis=1)))
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


def slope_error(problem: Problem, estimate: Estimate) -> float:
    """Mean squared error of the slopes of r(., 1) on the state, over the demonstrations."""
    states = problem.panel.state
    columns = np.column_stack([np.ones(len(states)), states])
    reward = estimate.reward(states)[:, problem.panel.action_index(1)]
    slopes = np.linalg.lstsq(columns, reward, rcond=None)[0][1:]
    return float(np.mean((slopes - SAMQ_SLOPES) ** 2))


def part_errors(problem: Problem, estimate: Estimate) -> dict[str, float]:
    r"""Errors of log pi, of V and of what follows an action rather than the anchor.

    With $h = (Q - r)/\gamma$ the continuation, the last is that of
    $h(s,a) - h(s,a^A)$. V and it are relative to the truth's own size.
    """
    assert estimate.q is not None
    assert estimate.log_policy is not None
    states, anchor = problem.states, problem.anchor
    log_policy, q = estimate.log_policy(states), estimate.q(states)
    value = _value(problem, q, log_policy)
    true_value = _value(problem, problem.q, problem.log_policy)
    ahead = _differences(q - estimate.reward(states), anchor)
    true_ahead = _differences(problem.q - problem.reward, anchor)
    missed = np.mean((ahead - true_ahead) ** 2)
    return {
        "log_policy_mse": float(np.mean((log_policy - problem.log_policy) ** 2)),
        "value_nmse": float(np.var(value - true_value) / np.var(true_value)),
        "continuation_nmse": float(missed / np.mean(true_ahead**2)),
    }


def _value(problem: Problem, q: np.ndarray, log_policy: np.ndarray) -> np.ndarray:
    anchor = problem.anchor
    return q[:, anchor] - problem.world.temperature * log_policy[:, anchor]


def _differences(ahead: np.ndarray, anchor: int) -> np.ndarray:
    """From the anchor's column, for the other actions."""
    return np.delete(ahead - ahead[:, [anchor]], anchor, axis=1)

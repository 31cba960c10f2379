"""One fit of the study of convergence: its errors, and the terms that Theorem 2 bounds
them by."""

from dataclasses import replace
from typing import Any

import numpy as np

from deeppqr._fit import Fit
from deeppqr.panel import Panel
from ._kernel import kernel_complexity, unit_norm
from ._measure import NOTE_LENGTH, q_errors, reward_errors, timed
from ._methods import METHODS, Estimate
from ._problem import MAX_SCORED, Problem, pose, scored_states
from ._regressions import anchor_regression, reward_regression


def converge(
    cell: dict[str, Any], method: str, kernel_rows: int, seed: int
) -> dict[str, Any]:
    """The row of a method at one number of decisions."""
    posed = pose(cell, seed)
    # The same states whatever was fitted, or errors could not be compared.
    states = scored_states(posed.world, MAX_SCORED, cell["units"], seed)
    problem = replace(posed, states=states)
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
    problem: Problem, fit: Fit, *, kernel_rows: int, seed: int
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
    ahead = 1 / (1 - discount)
    return {
        "complexity_q": q_term,
        "complexity_reward": reward_term,
        "rows_q": len(of_q.target),
        "rows_reward": len(of_reward.target),
        "rounds": rounds,
        "missing": missing,
        "policy_error": float(np.mean(np.sum(np.exp(problem.log_policy) * gap, axis=1))),
        "policy_error_max": float(gap.max()),
        "q_bound": ahead * (q_term + 2 * missing + discount * largest),
        "reward_bound": (1 + discount) * (ahead * q_term + missing)
        + reward_term
        + 2 * ahead * largest,
    }


def _distinct(
    panel: Panel, inputs: np.ndarray, among: np.ndarray, rows: int, rng: np.random.Generator
) -> Panel:
    """Some rows at random, one for each direction of the inputs.

    Paths come back to where they were, and of an input the kernel sees the direction.
    """
    order = rng.permutation(np.flatnonzero(among))[: 2 * rows]
    unit = unit_norm(inputs[order])
    _, first = np.unique(np.round(unit, 9), axis=0, return_index=True)
    kept = np.zeros(len(panel), dtype=bool)
    kept[order[np.sort(first)[:rows]]] = True
    return panel.select(kept)

"""One fit of the study of training errors: what each of its networks was left with."""

from typing import Any

import numpy as np

from deeppqr._fit import Fit
from deeppqr.panel import Panel
from deeppqr.policy import AIRLPolicy, log_shares
from ._measure import NOTE_LENGTH, timed
from ._methods import METHODS
from ._problem import SCORED, Problem, pose
from ._regressions import Regression, anchor_regression, noise, reward_regression

MAX_ROWS = 5_000
"""Decisions that a loss is the mean over; more are thinned out evenly."""


def training_errors(cell: dict[str, Any], method: str, seed: int) -> list[dict[str, Any]]:
    """A row for each network: its loss where it was trained and on fresh decisions."""
    problem = pose(cell, seed)
    world, panel = problem.world, problem.panel
    estimate, seconds = timed(METHODS[method], problem, seed)
    fit = estimate.fit
    assert fit is not None
    sizes = {"steps": cell["steps"], "units": cell["units"]}
    fresh = problem.demonstrator.simulate(**sizes, seed=SCORED + seed)
    shares = log_shares(panel)
    panel, fresh = _thinned(panel), _thinned(fresh)
    found = {
        "policy": _of_policy(problem, fit, shares, panel, fresh),
        "q": _of_regression(
            world, fit, *(anchor_regression(fit, d) for d in (panel, fresh))
        ),
        "reward": _of_regression(
            world, fit, *(reward_regression(fit, d) for d in (panel, fresh))
        ),
    }
    figures = fit.diagnostics
    found["policy"]["diagnostic"] = figures["held_out_gain"].value
    found["q"]["diagnostic"] = figures["bellman_residual"].value
    found["reward"]["diagnostic"] = figures["anchor_residual"].value
    about = {
        **cell,
        "method": method,
        "given": estimate.given,
        "seed": seed,
        "demonstrator_kl": problem.demonstrator_kl,
        "seconds": seconds,
        "note": estimate.note[:NOTE_LENGTH],
    }
    return [{**about, "network": name, **losses} for name, losses in found.items()]


def _thinned(panel: Panel) -> Panel:
    return panel.select(np.arange(len(panel)) % -(-len(panel) // MAX_ROWS) == 0)


def _of_policy(
    problem: Problem, fit: Fit, shares: np.ndarray, panel: Panel, fresh: Panel
) -> dict[str, Any]:
    """Log-loss per decision, beside the demonstrator's own and that of fixed shares."""

    def losses(data: Panel) -> list[float]:
        taken = np.arange(len(data)), data.action
        learned = fit.estimate.policy.log_prob(data.state)[taken]
        # The demonstrator's loss on these very decisions: luck is common to both.
        truth = problem.demonstrator.log_policy(data.state)[taken]
        return [-float(np.mean(values)) for values in (learned, truth, shares[data.action])]

    game = fit.estimate.policy
    return {
        **_named(losses(panel), losses(fresh)),
        "game_loss": float(game.loss_trace[-1]) if isinstance(game, AIRLPolicy) else None,
        "target_truth": None,
    }


def _of_regression(
    world: Any, fit: Fit, trained: Regression, fresh: Regression
) -> dict[str, Any]:
    """Mean squares, beside the noise in the target and the target's variance."""
    trained_losses, fresh_losses = (
        [found.loss, noise(world, fit, found), float(np.var(found.target))]
        for found in (trained, fresh)
    )
    return {
        **_named(trained_losses, fresh_losses),
        "game_loss": None,
        "target_truth": float(np.var(world.value(trained.next_state))),
    }


def _named(trained: list[float], fresh: list[float]) -> dict[str, float]:
    """Loss, floor and loss of the best constant, on both sets of decisions."""
    names = ("loss", "floor", "constant")
    return {
        **dict(zip(names, trained, strict=True)),
        **dict(zip([f"fresh_{name}" for name in names], fresh, strict=True)),
    }

"""Training error: the final losses of the three networks, beside the least possible."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import deeppqr

from .._claims import Claims, claim_at_every, scores_over
from .._figures import chart_of, draw_charts
from .._methods import METHODS, pqr_kinds
from .._problem import (
    PAPER_OPTIONS,
    SEED_SCORED,
    Problem,
    cell_tasks_of,
    make_problem,
    paper_cells,
)
from .._scores import NOTE_LENGTH, timed
from .._study import Option, Study, check_choices
from .._tables import MISSING, Table, means, write_summary
from ._regressions import Regression, anchor_regression, noise, reward_regression

POSSIBLE_METHODS = ["paper", "paper-epochs", "default"]
NETWORKS = {
    "policy": "log-loss per decision",
    "q": "mean square of V(s') - E[V(s')|s, anchor]",
    "reward": "mean square of V(s') - E[V(s')|s,a]",
}
MAX_ROWS = 5_000  # decisions that a loss is the mean over; more are thinned out evenly
MEANING = """\
`loss` is on the decisions that were fitted, `fresh` on as many others. `floor` is the
least that can be had: the demonstrator's own log-loss, or the part of V(s') that a jump
leaves to chance. `constant` is the loss of predicting shares of actions, or the mean of
V(s'). V is the fit's own: where the policy is close to uniform, V hardly varies and both
losses are small for that reason; `true V` is the variance that the true V(s') has. AIRL's
own loss is a game's, where 2 log 2 = 1.386 is a draw. `diagnostic` is the fit's
held_out_gain, bellman_residual or anchor_residual.
The paper shows these losses in a figure and draws no conclusion from it."""


class TrainingError(Study):
    """The paper's figure "Final loss on the training datasets of neural networks"."""

    name = "training-error"
    title = "the final losses of the three networks, beside their floors"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "methods": Option(
            str, "+", POSSIBLE_METHODS, f"among {', '.join(POSSIBLE_METHODS)}"
        ),
    }

    def tasks(self, settings):
        methods = check_choices("methods", settings["methods"], POSSIBLE_METHODS)
        return cell_tasks_of(paper_cells(settings), settings["seeds"], "method", methods)

    def run(self, task):
        return training_errors(**task.parameters)

    def report(self, frame, folder):
        found: list[Any] = []
        for (scale,), part in sorted(frame.group_by("scale"), key=lambda group: group[0]):
            for network in NETWORKS:
                found.append(_table(part.filter(network=network), network, scale))
            found.append(_claims(part, scale))
            _draw(part, folder, f"training-error-scale-{scale:g}")
        return write_summary("Training error", MEANING, found, frame, folder)


def training_errors(cell: dict[str, Any], method: str, seed: int) -> list[dict[str, Any]]:
    """A row for each network: its loss where it was trained and on fresh decisions."""
    problem = make_problem(cell, seed)
    world, panel = problem.world, problem.panel
    estimate, seconds = timed(METHODS[method], problem, seed)
    fit = estimate.fit
    assert fit is not None
    sizes = {"steps": cell["steps"], "units": cell["units"]}
    fresh = problem.demonstrator.simulate(**sizes, seed=SEED_SCORED + seed)
    shares = _log_shares(panel)
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


def _thinned(panel: deeppqr.Panel) -> deeppqr.Panel:
    return panel.select(np.arange(len(panel)) % -(-len(panel) // MAX_ROWS) == 0)


def _log_shares(panel: deeppqr.Panel) -> np.ndarray:
    """Log of the share of each action, with one more decision of each: none is zero."""
    count = np.bincount(panel.action, panel.weight, panel.num_actions) + 1.0
    return np.log(count / count.sum())


def _of_policy(
    problem: Problem,
    fit: deeppqr.Fit,
    shares: np.ndarray,
    panel: deeppqr.Panel,
    fresh: deeppqr.Panel,
) -> dict[str, Any]:
    """Log-loss per decision, beside the demonstrator's own and that of fixed shares."""

    def losses(data: deeppqr.Panel) -> list[float]:
        taken = np.arange(len(data)), data.action
        learned = fit.estimate.policy.log_prob(data.state)[taken]
        # On the same decisions, so that their sampling error is common to both losses.
        truth = problem.demonstrator.log_policy(data.state)[taken]
        return [-float(np.mean(values)) for values in (learned, truth, shares[data.action])]

    # Only AIRL's policy has a trace of losses, those of its discriminator.
    trace = getattr(fit.estimate.policy, "loss_trace", None)
    return {
        **_named(losses(panel), losses(fresh)),
        "game_loss": None if trace is None else float(trace[-1]),
        "target_truth": None,
    }


def _of_regression(
    world: Any, fit: deeppqr.Fit, trained: Regression, fresh: Regression
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


def _table(frame, network: str, scale: float) -> Any:
    """A row per p and method."""
    names = {
        "loss": "loss",
        "floor": "floor",
        "constant": "constant",
        "fresh_loss": "fresh",
        "fresh_floor": "its floor",
        "target_truth": "true V",
        "game_loss": "AIRL's",
        "diagnostic": "diagnostic",
        "seconds": "seconds",
    }
    shown = {key: name for key, name in names.items() if frame[key].count() > 0}
    columns = {key: means(frame, ["p", "method"], key) for key in shown}
    rows = [
        [
            f"p = {p}, {method}",
            *(str(columns[key].get((p, method), MISSING)) for key in shown),
        ]
        for p, method in frame.select("p", "method").unique(maintain_order=True).rows()
    ]
    title = f"Scale {scale:g}, {network}: {NETWORKS[network]} (standard error)"
    return Table(title, ["", *shown.values()], rows)


def _draw(frame, folder, name: str) -> None:
    """A panel per network: final losses by p, their floors in grey."""
    charts = []
    for network, words in NETWORKS.items():
        part = frame.filter(network=network)
        floors: dict[str, dict[Any, float]] = {}
        for (method, p), mean in means(part, ["method", "p"], "floor").items():
            same = network == "policy"  # the true policy is one for all
            floors.setdefault("floor" if same else f"floor, {method}", {})[p] = mean.value
        charts.append(
            chart_of(
                means(part, ["method", "p"], "loss"),
                title=f"network for {network}",
                x_label="state variables p",
                y_label=words,
                y_scale="linear" if network == "policy" else "log",
                published=floors,
            )
        )
    draw_charts(charts, folder, name, sharey=False)


def _claims(frame, scale: float) -> Any:
    """That each network predicts better than a constant, tested at every p."""
    claims = []
    for method in pqr_kinds(frame):
        for network in NETWORKS:
            where = {"method": method, "network": network}
            loss, constant = (
                scores_over(frame, "p", score, **where)
                for score in ("fresh_loss", "fresh_constant")
            )
            text = (
                f"On fresh decisions {method} predicts better than a constant ({network}), "
                "at every p"
            )
            claims.append(claim_at_every("p", text, loss, constant, relative=True))
    return Claims(f"What trained networks would show, at scale {scale:g}", claims)

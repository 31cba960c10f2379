"""Q recovery: the error of Q as the paper's networks are trained, beside MaxEnt-IRL's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars as pl

import deeppqr

from .._claims import Claims, claim_at_every, scores_over
from .._figures import Chart, draw_charts
from .._methods import DESCRIPTIONS, Estimate, default, paper, paper_epochs, pqr_kinds
from .._problem import PAPER_OPTIONS, cell_name, known_anchor, make_problem, paper_cells
from .._scores import NOTE_LENGTH, other_errors, q_errors, timed
from .._study import Option, Study, Task, check_choices
from .._tables import Table, means, method_table, write_summary

METHOD_DESCRIPTIONS = {
    **{name: DESCRIPTIONS[name] for name in ("paper", "paper-epochs", "default")},
    "maxent": "MaxEnt-IRL given the true Q at the origin, as in the paper",
    "maxent-raw": "MaxEnt-IRL given nothing: its energies as they are",
}
TRAINED = ("paper", "paper-epochs")
"""Methods of which a share of the training can be run."""
SCORES = {
    "q_mse": "mean squared error of Q",
    "q_nmse": "mean squared error of Q over its variance",
    "q_centred_nmse": "error of Q's differences between actions over their variance",
}


def maxent_q(world: Any, panel: deeppqr.Panel, seed: int, *, know_origin: bool) -> Estimate:
    """MaxEnt-IRL's energies read as Q, shifted to the true Q(0, anchor) if it is known."""
    origin = None
    if know_origin:
        zero, label = np.zeros(world.p), known_anchor(world)["anchor"]
        at_zero = world.q(zero[None])[0, panel.action_index(label)]
        origin = (zero, label, float(at_zero))
    baseline = deeppqr.baselines.MaxEntIRL(world.temperature, q_at_origin=origin, seed=seed)
    fit = baseline.fit(panel)
    return Estimate(
        fit.reward, q=fit.reward, log_policy=fit.log_policy, given=fit.given, note=fit.note
    )


FITS: dict[str, Callable[..., Estimate]] = {
    "paper": paper,
    "paper-epochs": paper_epochs,
    "default": default,
    "maxent": partial(maxent_q, know_origin=True),
    "maxent-raw": partial(maxent_q, know_origin=False),
}


class QRecovery(Study):
    """The paper's figure "MSE for Q-function recovery", one task per point of a curve."""

    name = "q-recovery"
    title = "the error of Q along the training of the paper's networks"
    options: ClassVar = {
        **PAPER_OPTIONS,
        "progress": Option(
            float, "+", [0.1, 0.25, 0.5, 1.0], "shares of the paper's training steps"
        ),
        "methods": Option(str, "+", list(FITS), f"among {', '.join(FITS)}"),
    }

    def tasks(self, settings):
        methods = check_choices("methods", settings["methods"], FITS)
        _refuse_other_shares(settings["progress"])
        tasks = []
        for cell in paper_cells(settings):
            for seed in settings["seeds"]:
                for method in methods:
                    shares = settings["progress"] if method in TRAINED else [None]
                    for share in shares:
                        about = {"method": method, "progress": share, "seed": seed}
                        tasks.append(Task(_label(cell, **about), {"cell": cell, **about}))
        return tasks

    def run(self, task):
        return [recover_q(**task.parameters)]

    def report(self, frame, folder):
        frame = frame.with_columns(pl.col("progress").cast(pl.Float64))
        found: list[Any] = [_methods_table(frame)]
        for (scale,), part in sorted(frame.group_by("scale"), key=lambda group: group[0]):
            for score, words in SCORES.items():
                found.append(_table(part, f"scale {scale:g}: {words}", score))
                _draw(part, folder, f"{score.replace('_', '-')}-scale-{scale:g}", score)
            found.append(_claims(part, scale))
        return write_summary("Q recovery", None, found, frame, folder)


def recover_q(
    cell: dict[str, Any], method: str, progress: float | None, seed: int
) -> dict[str, Any]:
    """The row of a method: errors of its Q at fresh states of the demonstrations."""
    problem = make_problem(cell, seed)
    fit = FITS[method] if progress is None else partial(FITS[method], progress=progress)
    estimate, seconds = timed(fit, problem, seed)
    assert estimate.q is not None
    return {
        **cell,
        "method": method,
        "progress": progress,
        "given": estimate.given,
        "seed": seed,
        **q_errors(problem.q, estimate.q(problem.states)),
        "policy_kl": other_errors(problem, estimate)["policy_kl"],
        "demonstrator_kl": problem.demonstrator_kl,
        "seconds": seconds,
        "note": estimate.note[:NOTE_LENGTH],
    }


def _refuse_other_shares(progress: list[float]) -> None:
    wrong = [share for share in progress if not 0 < share <= 1]
    if wrong:
        raise deeppqr.DataError(
            "`progress` must be shares of the training, above 0 and at most 1, but "
            f"{wrong[0]:g} is among them. 0.25 stops after a quarter of the steps."
        )


def _label(cell: dict[str, Any], method: str, progress: float | None, seed: int) -> str:
    stage = "" if progress is None else f"_progress={progress:g}"
    return f"{cell_name(cell)}_{method}{stage}_seed={seed}"


def _methods_table(frame) -> Any:
    known = frame.select("method", "given").unique(maintain_order=True).rows()
    rows = [[f"{method}: {METHOD_DESCRIPTIONS[method]}", given] for method, given in known]
    return Table("What was run", ["method", "given"], rows)


def _table(frame, title: str, score: str) -> Any:
    """A row per method and share of training, a column per p."""
    share = pl.format("{}, {} % of training", "method", (100 * pl.col("progress")).round(1))
    named = pl.when(pl.col("progress").is_null()).then("method").otherwise(share)
    relabelled = frame.with_columns(named.alias("method"))
    return method_table(relabelled, f"{title} (standard error)", over="p", score=score)


def _draw(frame, folder, name: str, score: str) -> None:
    """A panel per p: curves over training, dashed levels of what has no such training."""
    charts = []
    for (p,), part in sorted(frame.group_by("p"), key=lambda group: group[0]):
        curves, whole = (
            part.filter(pl.col("progress").is_null() == is_whole)
            for is_whole in (False, True)
        )
        lines: dict[str, dict[Any, Any]] = {}
        for (method, share), mean in means(curves, ["method", "progress"], score).items():
            lines.setdefault(method, {})[share] = mean
        levels = {key[0]: mean for key, mean in means(whole, ["method"], score).items()}
        charts.append(
            Chart(
                title=f"p = {p}",
                x_label="share of the training steps" if lines else "",
                y_label=SCORES[score],
                lines=lines,
                levels=levels,
                level=None if score == "q_mse" else 1.0,
            )
        )
    draw_charts(charts, folder, name)


def _claims(frame, scale: float) -> Any:
    """What the paper says of its figure, judged at every p where both sides have run."""
    claims: list[Any] = []

    def errors(method: str, progress: float | None = None) -> dict[Any, Any]:
        kept = frame.filter(pl.col("progress").eq_missing(pl.lit(progress)))
        return scores_over(kept, "p", "q_nmse", method=method)

    def smaller(text: str, one: dict[Any, Any], other: dict[Any, Any]) -> None:
        if one and other:
            claim = claim_at_every("p", f"{text}, at every p", one, other, relative=True)
            claims.append(claim)

    maxent = errors("maxent")
    for method in pqr_kinds(frame):
        whole = errors(method, 1.0 if method in TRAINED else None)
        text = f"With sufficient training, Q by {method} is more accurate than by maxent"
        smaller(text, whole, maxent)
        shares = frame.filter(method=method)["progress"].drop_nulls().unique().sort()
        if len(shares) < 2:
            continue
        first, last = errors(method, shares[0]), errors(method, shares[-1])
        early = f"at {100 * shares[0]:g} % of its training"
        text = f"Not well trained ({early}), Q by {method} is poorer than by maxent"
        smaller(text, maxent, first)
        text = f"Q by {method} is less accurate {early} than at {100 * shares[-1]:g} %"
        smaller(text, last, first)
    text = "The true Q at the origin improves MaxEnt-IRL's Q"
    smaller(text, maxent, errors("maxent-raw"))
    title = f"Claims of the paper at scale {scale:g}, by error of Q over its variance"
    return Claims(title, claims)

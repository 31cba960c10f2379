"""One fit of the study of Q: a method, for some the beginning of its training, scored."""

from functools import partial
from typing import Any

import numpy as np

from deeppqr.baselines import MaxEntIRL
from deeppqr.panel import Panel
from ._measure import NOTE_LENGTH, other_errors, q_errors, timed
from ._methods import Estimate, default, paper, paper_epochs
from ._problem import anchoring, pose


def maxent_q(world: Any, panel: Panel, seed: int, *, told: bool) -> Estimate:
    """MaxEnt-IRL's energies read as Q; told, they meet the true Q(0, anchor)."""
    origin = None
    if told:
        zero, label = np.zeros(world.p), anchoring(world)["anchor"]
        at_zero = world.q(zero[None])[0, panel.action_index(label)]
        origin = (zero, label, float(at_zero))
    fit = MaxEntIRL(world.temperature, q_at_origin=origin, seed=seed).fit(panel)
    return Estimate(
        fit.reward, q=fit.reward, log_policy=fit.log_policy, given=fit.given, note=fit.note
    )


FITS = {
    "paper": paper,
    "paper-epochs": paper_epochs,
    "default": default,
    "maxent": partial(maxent_q, told=True),
    "maxent-raw": partial(maxent_q, told=False),
}


def recover_q(
    cell: dict[str, Any], method: str, progress: float | None, seed: int
) -> dict[str, Any]:
    """The row of a method: errors of its Q at fresh states of the demonstrations."""
    problem = pose(cell, seed)
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

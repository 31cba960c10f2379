"""Error budget: what each estimated part costs, found by replacing it with the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

import deeppqr

from ._figures import draw_dots
from ._methods import Estimate, Method, default, estimate_pqr, oracle
from ._problem import WORLD_OPTIONS, Problem, cell_name, cell_tasks, make_problem
from ._scores import NOTE_LENGTH, reward_errors, timed
from ._study import Option, Study, check_choices
from ._tables import MISSING, Table, means, write_markdown

# Expectations on buses with irrelevant variables are means over this many draws, whose
# error is a fifth of that of one observed next state. Time grows in proportion.
DRAWS = 30
WITHOUT = {"true reward class": ["samq-bus"]}
ERRORS = {
    "log_policy_mse": "log pi, mean square",
    "value_nmse": "V centred, NMSE",
    "continuation_nmse": "continuation differences, NMSE",
    "nmse": "r, NMSE",
}


def true_policy(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """The policy is the true one; value, law and reward are estimated with it."""
    policy = deeppqr.policy.Given(world.log_policy)
    found = estimate_pqr(world, panel, seed, policy=policy)
    return replace(found, given="the true policy")


def true_law(world: Any, panel: deeppqr.Panel, seed: int) -> Estimate:
    """Expectations of the next state are those of the true law; the policy is estimated."""
    found = estimate_pqr(world, panel, seed, transition=_law(world))
    return replace(found, given="the true transitions")


def _law(world: Any) -> Any:
    """The law of a world, by draws where there are too many outcomes to list."""
    if isinstance(world, deeppqr.worlds.PaperWorld):
        return world.transition
    if isinstance(world, deeppqr.worlds.KnownCostBus) and world.irrelevant == 0:
        mileage = np.arange(1.0, len(world.mdp.reward) + 1)
        return mileage[:, None], world.mdp.transition

    def draw(states: np.ndarray, action: Any, rng: np.random.Generator) -> np.ndarray:
        taken = np.full(len(states), world.actions.index(action))
        return world.next_states(states, taken, rng)

    return deeppqr.mdp.Law(draw, draws=DRAWS)


VARIANTS: dict[str, Method] = {
    "estimated": default,
    "true policy": true_policy,
    "true law": true_law,
    "true reward class": oracle,
}
"""The estimator with one part replaced by the truth, in the order of the report."""


class ErrorBudget(Study):
    """What the estimated policy and law each add to the error of the reward."""

    name = "error-budget"
    title = "what each estimated part costs: one at a time is replaced by the truth"
    options: ClassVar = {
        **WORLD_OPTIONS,
        "p": WORLD_OPTIONS["p"]._replace(default=[5, 20]),
        "trajectories": WORLD_OPTIONS["trajectories"]._replace(default=[1000]),
        "irrelevant": WORLD_OPTIONS["irrelevant"]._replace(default=[5]),
        "variants": Option(str, "+", list(VARIANTS), "what is replaced by the truth"),
    }

    def tasks(self, settings):
        variants = check_choices("variants", settings["variants"], VARIANTS)
        return cell_tasks(settings, "variant", variants, without=WITHOUT)

    def run(self, task):
        return [budget(**task.parameters)]

    def report(self, frame, folder):
        tables, dots = [], {}
        for (cell,), part in frame.group_by("cell", maintain_order=True):
            tables.append(_table(cell, part))
            found = means(part, ["variant"], "nmse")
            dots[cell.replace(" ", "\n", 1)] = {
                variant: mean for (variant,), mean in found.items()
            }
        draw_dots(dots, folder, "error-budget", x_label="NMSE of r")
        write_markdown("Error budget", tables, folder)
        return "\n\n".join(table.text() for table in tables)


def budget(cell: dict[str, Any], variant: str, seed: int) -> dict[str, Any]:
    """The row of a variant: the error of every part, at the scored states."""
    problem = make_problem(cell, seed)
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


def part_errors(problem: Problem, estimate: Estimate) -> dict[str, float]:
    r"""Errors of log pi, of V and of the continuation $h = (Q - r)/\gamma$.

    The last is that of $h(s,a) - h(s,a^A)$, on which the reward depends. V and it are
    relative to the truth's own size.
    """
    assert estimate.q is not None
    assert estimate.log_policy is not None
    states, anchor = problem.states, problem.anchor
    log_policy, q = estimate.log_policy(states), estimate.q(states)
    value = _value(problem, q, log_policy)
    true_value = _value(problem, problem.q, problem.log_policy)
    continuation = _differences(q - estimate.reward(states), anchor)
    true_continuation = _differences(problem.q - problem.reward, anchor)
    missed = np.mean((continuation - true_continuation) ** 2)
    return {
        "log_policy_mse": float(np.mean((log_policy - problem.log_policy) ** 2)),
        "value_nmse": float(np.var(value - true_value) / np.var(true_value)),
        "continuation_nmse": float(missed / np.mean(true_continuation**2)),
    }


def _value(problem: Problem, q: np.ndarray, log_policy: np.ndarray) -> np.ndarray:
    anchor = problem.anchor
    return q[:, anchor] - problem.world.temperature * log_policy[:, anchor]


def _differences(values: np.ndarray, anchor: int) -> np.ndarray:
    """What the other actions have beyond the anchor."""
    return np.delete(values - values[:, [anchor]], anchor, axis=1)


def _table(cell: str, frame) -> Any:
    found = {error: means(frame, ["variant"], error) for error in ERRORS}
    variants = list(frame["variant"].unique(maintain_order=True))
    rows = [
        [variant, *(str(found[error].get((variant,), MISSING)) for error in ERRORS)]
        for variant in variants
    ]
    return Table(f"{cell}: mean error (standard error)", ["", *ERRORS.values()], rows)

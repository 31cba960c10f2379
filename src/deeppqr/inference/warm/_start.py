"""What warm refits hold: a default fit's terms, penalties, features and places."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax.random as jr
import numpy as np
from jaxtyping import Num
from scipy import sparse
from scipy.special import log_softmax

from ..._errors import DataError
from ..._shapes import Codes, PerRow, States
from ...anchor._anchor_reward import resolve_anchor_reward
from ...diagnostics._identification import check_identified
from ...learners._chunks import row_slices
from ...learners._row_threads import over_blocks, row_threads
from ...panel._panel import Panel
from ...panel.scan._scan import in_memory
from ...policy._policy import clip
from ...policy._resolve import resolve as resolve_policy
from ...reward._joint import Joint
from ...reward._rounds import Agent, Fitted
from ...reward._value_problem import ValueProblem
from ._law_shift import LawShift, PairShift, law_shift

if TYPE_CHECKING:
    from ..._pqr import PQR

# Numbers in E[phi(s')|s,a] that may be held, in float32: 12 GB.
MAX_NUMBERS = 3_000_000_000
# Rows that are looked up at once.
POSED_ROWS = 16_384
# Rounds in which the value is brought to rest at the fit's coefficients.
SETTLING = 20


@dataclass(frozen=True, eq=False)
class Held:
    """A default fit in the terms of its refits: arrays of rows, and what they share."""

    agent: Agent
    fit: Fitted
    factor: float
    """By which held-out decisions shrink the penalised coefficients."""
    problem: ValueProblem
    """The rows that the value is found on, at rest at the fit's coefficients."""
    value: tuple[np.ndarray, np.ndarray]
    """The estimate's value as `ValueFunction` has it: weights, and what they leave."""
    rows: "Rows | None"
    """All rows, where the problem's are some of them."""
    membership: "Membership"
    shift: LawShift
    num_units: int

    @property
    def shrinkage(self) -> np.ndarray:
        """What each coefficient is multiplied by in the estimate."""
        return np.where(self.fit.basis.group >= 0, self.factor, 1.0)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows' states, actions and weights."""

    state: States
    action: Codes
    weight: PerRow


@dataclass(frozen=True, eq=False)
class Membership:
    """Whose decisions the rows are: one unit's, or several units' where they are pooled."""

    unit: Codes
    weight: PerRow
    pooled: Any = None
    """Weights of (row, unit), sparse; the rows are then their own units."""

    def count(self, count: Num[np.ndarray, "unit replicate"]) -> np.ndarray:
        found = count if self.pooled is None else self.pooled @ count
        return np.asarray(found, dtype=np.float32)


def hold(model: "PQR", panel: Panel) -> Held:
    """Fit a model as `PQR.fit` does, and keep what its refits need."""
    core, everyone = in_memory(panel) if model.policy == "auto" else (panel, None)
    anchor = check_identified(core, model.anchor)
    anchor_reward = resolve_anchor_reward(model.anchor_reward, core.encoding)
    _, estimator = model._stages(core, anchor)
    if not isinstance(estimator, Joint) or core.space is not None:
        raise DataError(
            "Warm refits start from a default fit of finitely many actions, but this "
            f"model's reward is estimated by {type(estimator).__name__}. Leave `warm` out: "
            "then every replicate is a fit from scratch."
        )
    seen: list = []
    key, _, _ = jr.split(jr.key(model.seed), 3)
    with row_threads():
        start = clip(
            resolve_policy(model.policy).fit(core, key=key).policy, core, floor=model.clip
        )
        known = {"discount": model.discount, "temperature": model.temperature}
        estimator.estimate(
            core,
            start,
            anchor_reward,
            anchor,
            **known,
            everyone=everyone,
            watch=lambda *found: seen.append(found),
        )
        task, found, held_out = seen[0]
        if task.agent.anchor_ends and not anchor_reward.is_zero:
            raise DataError(
                "Warm refits are not for anchors that end the process and earn something: "
                "what the reward is shrunk to depends on the law there. Leave `warm` out: "
                "then every replicate is a fit from scratch."
            )
        problem, fit = found.problem, found.fit
        value = _value(task, problem, fit, held_out.factor)
        _settle(problem, fit)
        shift = law_shift(core, task.learned.law, problem.value_function(None))
    decisions, rows, whole = task.decisions, None, core
    if everyone is not None:
        rows, whole = Rows(panel.state, panel.action, panel.weight), panel
        shift = _of_panel(shift, core, panel)
    elif len(found.rows) < len(decisions.state):
        rows = Rows(decisions.state, decisions.action, decisions.weight)
    if decisions.pooled:
        shape = (len(decisions.action), core.num_units)
        place = (decisions.at, core.unit[decisions.panel_row])
        weight = core.weight[decisions.panel_row]
        pooled = sparse.csr_array((weight, place), shape)
        every = np.arange(shape[0])
        membership = Membership(every, np.ones(shape[0]), pooled)
    else:
        membership = Membership(whole.unit, whole.weight)
    size = len(membership.unit) * core.num_actions * problem.features.width
    if size > MAX_NUMBERS:
        raise DataError(
            f"Warm refits hold where the actions of all {len(membership.unit):,} decisions "
            f"lead, which takes {size * 4 / 1e9:,.0f} GB here, and "
            f"{MAX_NUMBERS * 4 / 1e9:.0f} GB is the most. Refit a panel of some units."
        )
    return Held(
        task.agent,
        fit,
        held_out.factor,
        problem,
        value,
        rows,
        membership,
        shift,
        whole.num_units,
    )


def _value(task: Any, problem: ValueProblem, fit: Fitted, factor: float):
    """The value of the estimate, whose coefficients may be shrunk."""
    kept = problem.q, problem.left, problem.value_weight
    if factor < 1:
        theta = np.where(fit.basis.group >= 0, factor, 1.0) * fit.theta
        columns = problem.columns(fit.basis)
        reward = problem.default + fit.basis.combine(columns, theta)
        problem.evaluate(reward, rounds=SETTLING, tol=1e-5)
    weights = [problem.value_weight]
    if not task.anchor_reward.is_zero:
        earned = task.anchor_reward(problem.state)
        weights.append(problem.weights_of_repeating(task.anchor, earned))
    found = np.stack(weights, axis=1), problem.left
    problem.q, problem.left, problem.value_weight = kept
    return found


def _settle(problem: ValueProblem, fit: Fitted) -> None:
    """Bring value and policy to rest at the coefficients; set the change of Q with them."""
    columns = problem.columns(fit.basis)
    reward = problem.default + fit.basis.combine(columns, fit.theta)
    problem.evaluate(reward, rounds=SETTLING, tol=1e-5)
    problem.factor(np.exp(log_softmax(problem.q, axis=1)))
    fit.successor = problem.successor_weights(fit.basis, columns)


def _of_panel(shift: LawShift, core: Panel, panel: Panel) -> LawShift:
    """The shift with the whole panel's numbers of units, of which the core has some."""
    labels = {label: place for place, label in enumerate(panel.unit_labels)}
    unit = np.array([labels[label] for label in core.unit_labels])
    return replace(shift, surprises=shift.surprises.of_units(unit))  # pyright: ignore


@dataclass(frozen=True, eq=False)
class Posed:
    """A block of rows as arrays, actions first; see `_sums.Block`."""

    slope: np.ndarray
    ahead: np.ndarray
    near: np.ndarray
    share: np.ndarray
    reset: np.ndarray
    q: np.ndarray
    level: np.ndarray
    """The mean of Q in each row, which is taken out of it."""
    action: np.ndarray
    pair: np.ndarray
    column: np.ndarray


def posed(held: Held, problem: ValueProblem) -> Posed:
    """The rows of a problem, whose value is that of the fit's rows."""
    fit, discount = held.fit, held.agent.discount
    value_weight, number = held.problem.value_weight, problem.num_actions
    columns = problem.columns(fit.basis)
    bare = problem.default + fit.basis.combine(columns, fit.theta)
    bare = bare + discount * problem.project(value_weight)
    level = bare.mean(axis=1)
    weight = (discount * fit.successor).astype(problem.dtype)
    slope = np.zeros((number, len(columns), len(fit.theta)), np.float32)
    for action in range(number):
        values, used = fit.basis.slopes(columns, action)
        slope[action][:, used] = values
        slope[action] += problem.ahead[action] @ weight
    empty = np.zeros((number, len(columns), 0))
    near, share = (empty, empty) if problem.near is None else problem.near
    if problem.near is not None:
        near, share = np.moveaxis(near, 1, 0), np.moveaxis(share, 1, 0)
    places = held.shift.places(problem.state)
    pairs = isinstance(held.shift, PairShift)
    return Posed(
        slope,
        problem.ahead.astype(np.float32),
        near.astype(np.int32),
        share.astype(np.float32),
        problem.reset.T.astype(np.float32),
        (bare - level[:, None]).T.astype(np.float32),
        level,
        problem.action.astype(np.int32),
        places.T.astype(np.int32) if pairs else np.zeros((number, 0), np.int32),
        np.zeros((len(columns), 0), np.float32) if pairs else places.astype(np.float32),
    )


def pose_rows(held: Held):
    """All rows in blocks, each with its rows' places among them."""
    if held.rows is None:
        yield slice(0, len(held.problem.action)), posed(held, held.problem)
        return
    every, problem = held.rows, held.problem

    def look(rows: slice) -> tuple[slice, Posed]:
        given = every.state[rows], every.action[rows], every.weight[rows]
        block = held.agent.pose(*given, problem.features, problem.neighbours)
        return rows, posed(held, block)

    with row_threads():
        yield from over_blocks(look, row_slices(len(every.action), POSED_ROWS))


def level_of_value(held: Held, posed: Posed) -> np.ndarray:
    """The rows' means of Q less the value by its features alone."""
    problem = held.problem
    return posed.level - problem.here.astype(np.float64) @ problem.value_weight

"""Counterfactuals that a page can ask for: other states, a payment, an action less."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._messages import plain
from ..panel._encoding import LARGEST
from ._states import Controls, as_codes, probabilities, read_index, read_value
from ._text import as_csv, shown

if TYPE_CHECKING:
    from .._fit import Fit

KINDS = ("state", "transfer", "remove")
# States of the data that agents start from. With all 5,000 an answer takes twice as long
# and moves by about a hundredth of the spread between states.
STARTS = 1_500
MAX_PERIODS = 1_000
# The number by which the page asks for a payment for each unit of an amount.
PER_UNIT = -1
HEAD = (
    "horizon",
    "quantity",
    "action",
    "before",
    "after",
    "change",
    "low",
    "high",
    "depends_on_anchor",
)


def what_if(fit: "Fit", controls: Controls, question: dict[str, Any]) -> dict[str, Any]:
    """The answer to a counterfactual: figures before and after, and what they rest on."""
    kind = question.get("kind")
    if kind not in KINDS:
        raise DataError(f"`kind` must be one of {list(KINDS)}, but it is {plain(kind)}.")
    every = max(1, -(-len(fit.seen.state) // STARTS))
    state = fit.seen.state[::every]
    if kind == "state":
        title, rows, notes = _other_states(fit, controls, state, question)
    else:
        title, rows, notes = _other_problem(fit, state, kind, question)
    notes = [f"Averages over {len(state):,} states of the data.", *notes]
    table = as_csv(HEAD, ([row[name] for name in HEAD] for row in rows))
    return {"title": title, "rows": rows, "notes": notes, "csv": table}


def _other_states(
    fit: "Fit", controls: Controls, state: np.ndarray, question: dict[str, Any]
) -> tuple[str, list[dict[str, Any]], list[str]]:
    """One column changed everywhere, the agents' problem as it was."""
    column = controls.index(question.get("column"))
    spec, mode = controls.columns[column], question.get("mode", "set")
    if mode not in ("set", "add") or (mode == "add" and spec.kind != "numeric"):
        raise DataError(
            '`mode` must be "set", or "add" for a numeric column, but it is '
            f"{plain(mode)}, and {shown(spec.name)!r} is {spec.kind}."
        )
    value = read_value(spec, question.get("value"))
    codes = as_codes(fit, state)
    codes[:, column] = codes[:, column] + value if mode == "add" else value
    changed = fit.encoding.encode_any(controls.raw(codes.tolist()))
    before, after = (_averages(fit, each) for each in (state, changed))
    rows = [
        _row("now", quantity, label, old, new)
        for quantity in ("probability", "reward")
        for label, old, new in zip(
            fit.actions, before[quantity], after[quantity], strict=True
        )
    ]
    written = f"{value:g}"
    if spec.kind != "numeric":
        written = shown(controls.described()[column]["levels"][int(value)])
    sign = "= " if mode == "set" else "+ " if value >= 0 else ""
    outside = float(np.mean(~fit.seen.inside(changed)))
    notes = [
        "The agents' problem stays as it was: rewards and choices at other states.",
        f"{outside:.0%} of the changed states lie outside the data; figures there are "
        "extrapolated.",
    ]
    return f"{shown(spec.name)} {sign}{written}", rows, notes


def _averages(fit: "Fit", state: np.ndarray) -> dict[str, np.ndarray]:
    reward = fit._reward_of(state)
    known = np.isfinite(reward)
    total = np.where(known, reward, 0.0).sum(axis=0)
    mean = np.divide(
        total, known.sum(axis=0), where=known.any(axis=0), out=np.full_like(total, np.nan)
    )
    return {"reward": mean, "probability": probabilities(fit, state).mean(axis=0)}


def _other_problem(
    fit: "Fit", state: np.ndarray, kind: str, question: dict[str, Any]
) -> tuple[str, list[dict[str, Any]], list[str]]:
    """A payment for an action or an action less, the agents' problem solved again."""
    options: dict[str, Any] = {"states": fit.encoding.decode(state)}
    per_unit = fit.space is not None and question.get("action") == PER_UNIT
    label = None if per_unit else _action(fit, question.get("action"))
    if kind == "transfer":
        amount = _amount(question.get("amount"))
        to = "each unit of the amount" if per_unit else shown(label)
        title = f"{amount:+g} for {to}, in every period"
        rates = [amount] * (1 if fit.space is None else fit.space.dimensions)
        options["transfer"] = rates if per_unit else {label: amount}
    elif per_unit:
        raise DataError(
            "Amounts cannot be taken away one by one: take an atom, or tax each unit."
        )
    else:
        title = f"without {shown(label)}"
        options["remove"] = [label]
    periods = question.get("periods")
    if periods is not None:
        whole = isinstance(periods, int) and not isinstance(periods, bool)
        if not whole or not 1 <= periods <= MAX_PERIODS:
            raise DataError(
                f"The number of periods must be a whole number from 1 to {MAX_PERIODS:,}, "
                f"but it is {plain(periods)}."
            )
        options["periods"] = periods
        title += f", over {periods} periods"
    found: Any = fit.counterfactual(**options)
    rows = [
        _row(each.horizon, each.quantity, each.action, each.before, each.after)
        | {"low": each.low, "high": each.high, "depends_on_anchor": each.depends_on_anchor}
        for each in found.figures
    ]
    return title, rows, [found.identification, *found.notes]


def _action(fit: "Fit", code: Any) -> Any:
    """The label of an action by its number; over amounts an atom's."""
    known = len(fit.actions) if fit.space is None else len(fit.space.points)
    if not known:
        raise DataError(
            "These amounts have no atoms to pay or to take away: pay each unit of the "
            "amount."
        )
    return fit.actions[read_index(code, known, "action")]


def _amount(value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not abs(value) <= LARGEST:
        raise DataError(f"The amount must be a finite number, but it is {plain(value)}.")
    return float(value)


def _row(
    horizon: str, quantity: str, action: Any, before: float, after: float
) -> dict[str, Any]:
    return {
        "horizon": horizon,
        "quantity": quantity,
        "action": None if action is None else shown(action),
        "before": float(before),
        "after": float(after),
        "change": float(after - before),
        "low": float("nan"),
        "high": float("nan"),
        "depends_on_anchor": False,
    }

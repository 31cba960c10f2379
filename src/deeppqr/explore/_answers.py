"""The answers of a fit to a page's questions: plain numbers and text for JSON."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._messages import plain
from ..report._interval import normal_interval
from ._states import Controls, probabilities
from ._text import as_csv, shown
from ._what_if import PER_UNIT

if TYPE_CHECKING:
    from .._fit import Fit

LEVEL = 0.95
QUANTITIES = ("reward", "q", "probability")
CURVE_ACTIONS = 6  # drawn at once: as many as there are colours that all people tell apart


@dataclass(frozen=True, eq=False)
class Answers:
    """A fit that answers; nothing changes between questions, so that tabs are apart."""

    fit: "Fit"
    name: str
    controls: Controls

    @classmethod
    def of(cls, fit: "Fit", name: str) -> "Answers":
        return cls(fit, name, Controls.of(fit))

    def about(self) -> dict[str, Any]:
        """What the page shows before any question."""
        fit = self.fit
        panel = fit.provenance.get("panel", {})
        concerns = [
            {"name": figure.name, "verdict": figure.verdict, "meaning": figure.meaning}
            for figure in fit.diagnostics.warnings
        ]
        return {
            "name": shown(self.name),
            "rows": panel.get("rows"),
            "units": panel.get("units"),
            "discount": fit.discount,
            "temperature": fit.temperature,
            "actions": [shown(action) for action in fit.actions],
            "anchor": fit.estimate.anchor,
            "columns": self.controls.described(),
            "typical": self.controls.typical,
            "sample": self.controls.sample,
            "concerns": concerns,
            "level": LEVEL,
            "shown_actions": self._most_taken(),
            "payable": self._payable(),
            "note": self._note(),
        }

    def _payable(self) -> list[dict[str, Any]]:
        """What a payment can go to, with the number by which the page asks for it."""
        fit = self.fit
        if fit.space is None:
            return [{"code": k, "name": shown(a)} for k, a in enumerate(fit.actions)]
        atoms = fit.actions[: len(fit.space.points)]
        found = [{"code": PER_UNIT, "name": "each unit of the amount"}]
        return found + [{"code": k, "name": shown(a)} for k, a in enumerate(atoms)]

    def _note(self) -> str:
        """What the page's probabilities are, where actions are amounts."""
        if self.fit.space is None:
            return ""
        return (
            f"Actions are amounts in {self.fit.space!r}: rewards and Q are shown for some "
            "of them, and a probability is that of all amounts nearest to one."
        )

    def at_state(self, question: dict[str, Any]) -> dict[str, Any]:
        """Reward, Q and choice at one state, and a curve along one of its columns."""
        controls = self.controls
        state = controls.read(question.get("state"))
        column = controls.index(question.get("along", 0))
        quantity = question.get("quantity", "reward")
        if quantity not in QUANTITIES:
            raise DataError(
                f"`quantity` must be one of {list(QUANTITIES)}, but it is "
                f"{plain(quantity)}."
            )
        points = controls.along(column, state[column])
        rows = [state] + [[*state[:column], x, *state[column + 1 :]] for x in points]
        found = self._evaluate(rows)
        names = ("reward", "low", "high", "q", "probability")
        table = {name: found[name][0] for name in names}
        curve: dict[str, Any] = {"x": points, "column": column, "quantity": quantity}
        curve["y"] = found[quantity][1:].T
        if quantity == "reward":
            curve |= {"low": found["low"][1:].T, "high": found["high"][1:].T}
        curve["inside"] = found["inside"][1:]
        return {
            "table": table,
            "value": found["value"][0],
            "inside": found["inside"][0],
            "errors": found["errors"],
            "curve": curve,
            "csv": self._csv(rows, found),
        }

    def _evaluate(self, rows: list[list[float]]) -> dict[str, Any]:
        fit, raw = self.fit, self.controls.raw(rows)
        state = fit.encoding.encode_any(raw)
        found = fit.estimate(state)
        reward = fit._reward_of(state)
        try:
            low, high = normal_interval(reward, fit.standard_errors(raw), LEVEL)
            errors = ""
        except DataError as problem:  # not every estimator brings errors along
            low = high = np.full(reward.shape, np.nan)
            errors = str(problem)
        return {
            "reward": reward,
            "low": low,
            "high": high,
            "q": found.q,
            "probability": probabilities(fit, state),
            "value": found.value,
            "inside": fit.seen.inside(state),
            "errors": errors,
        }

    def _csv(self, rows: list[list[float]], found: dict[str, Any]) -> str:
        """The chosen state and the curve's, one row for each of them and each action."""
        raw, labels = self.controls.raw(rows), [shown(a) for a in self.fit.actions]
        names = ("reward", "low", "high", "q", "probability")
        head = [*(str(n) for n in self.fit.encoding.names), "action", *names]
        lines = [
            [*raw[row].tolist(), label]
            + [float(found[name][row, code]) for name in names]
            + [float(found["value"][row]), bool(found["inside"][row])]
            for row in range(len(rows))
            for code, label in enumerate(labels)
        ]
        return as_csv([*head, "value", "inside_data"], lines)

    def _most_taken(self) -> list[int]:
        """The actions that are drawn at first: the most likely in the data, in order."""
        fit = self.fit
        state = fit.seen.state[:: max(1, len(fit.seen.state) // 500)]
        share = probabilities(fit, state).mean(axis=0)
        order = np.argsort(-share, kind="stable")[:CURVE_ACTIONS]
        return sorted(int(code) for code in order)

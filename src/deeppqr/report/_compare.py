r"""What moved between two fits, such as this week's and last week's.

Both rewards are averaged over the same states, those in the newer fit's data, so that a
change is the reward's and not the states'. For each action
$$z = (\bar r_{new} - \bar r_{old}) / \sqrt{se_{new}^2 + se_{old}^2},$$
as if the two fits had no decision in common. Where they share some, as when a week is
added to the data, the estimates move together and the true error is smaller: z then errs
towards "no change".
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._errors import BadRows, DataError, NoInfluenceFunction
from .._messages import counted
from .._shapes import States
from ._estimates import decimals
from ._grid import MISSING, Grid
from ._interval import check_level
from ._layout import decimal, listed

if TYPE_CHECKING:
    from .._fit import Fit


@dataclass(frozen=True, eq=False)
class Comparison:
    """Average rewards of two fits by action, with z; print it."""

    actions: tuple[Any, ...]
    """Those that both fits have; the anchor among them has no error."""
    earlier: Float[np.ndarray, " action"]
    later: Float[np.ndarray, " action"]
    standard_errors: Float[np.ndarray, " action"]
    """Of the change; NaN where a fit brings no errors along."""
    probability: Float[np.ndarray, "fit action"]
    """Mean probability of each action: earlier, later."""
    level: float
    notes: tuple[str, ...]

    @property
    def change(self) -> Float[np.ndarray, " action"]:
        return self.later - self.earlier

    @property
    def z(self) -> Float[np.ndarray, " action"]:
        """Changes in standard errors; NaN where there is no error."""
        known = self.standard_errors > 0
        error = np.where(known, self.standard_errors, np.nan)
        return self.change / error

    @property
    def critical(self) -> float:
        """What |z| must exceed, so that all actions together stay below by chance with
        probability `level` (Bonferroni)."""
        from scipy.special import ndtri

        tested = max(1, int((self.standard_errors > 0).sum()))
        return float(ndtri(1 - (1 - self.level) / (2 * tested)))

    @property
    def moved(self) -> tuple[Any, ...]:
        """Actions whose average reward moved beyond its error."""
        with np.errstate(invalid="ignore"):
            beyond = np.abs(self.z) > self.critical
        return tuple(a for a, one in zip(self.actions, beyond, strict=True) if one)

    def rows(self) -> list[dict[str, Any]]:
        """One row per action: a tidy table."""
        return [
            {
                "action": action,
                "earlier": float(self.earlier[index]),
                "later": float(self.later[index]),
                "change": float(self.change[index]),
                "standard_error": float(self.standard_errors[index]),
                "z": float(self.z[index]),
                "moved": action in self.moved,
                "probability_earlier": float(self.probability[0, index]),
                "probability_later": float(self.probability[1, index]),
            }
            for index, action in enumerate(self.actions)
        ]

    def __str__(self) -> str:
        head = ("action", "earlier", "later", "change", "s.e.", "z", "P earlier", "P later")
        # The last column stands only where it says something.
        mark = ("",) if self.moved else ()
        lines: list[tuple[str, ...]] = []
        for row in self.rows():
            digits = decimals(row["standard_error"], row["later"])
            names = ("earlier", "later", "change", "standard_error")
            figures = [decimal(row[name], digits) for name in names]
            figures.append(decimal(row["z"], 2))
            shares = [decimal(row[f"probability_{w}"], 3) for w in ("earlier", "later")]
            cells = [MISSING if each == "nan" else each for each in figures + shares]
            said = ("moved" if row["moved"] else "",) if mark else ()
            lines.append((str(row["action"]), *cells, *said))
        title = "Average rewards, this fit against an earlier one"
        notes = (*self.notes, self._verdict())
        return Grid(title, (*head, *mark), tuple(lines), notes).text()

    def _verdict(self) -> str:
        if not (self.standard_errors > 0).any():
            return "Whether a change is more than chance cannot be said without errors."
        chance = f"(|z| above {self.critical:.2f}, {self.level:.0%} over all actions)"
        if not self.moved:
            return f"No average moved beyond its error {chance}."
        return f"Moved beyond its error {chance}: {listed(self.moved)}."


def compare(fit: "Fit", earlier: "Fit", *, level: float = 0.95) -> Comparison:
    """What moved from an earlier fit to this one: average rewards by action, with z.

    Averages are over the states in this fit's data, for both.

    Parameters
    ----------
    level
        The probability that no action is said to have moved if none has.
    """

    check_level(level)
    theirs = earlier.encoding.names
    if fit.encoding.names != theirs:
        raise DataError(
            "Two fits can be compared if they have the same state columns in the same "
            f"order, but this one has {fit.encoding.names} and the earlier {theirs}."
        )
    actions = tuple(action for action in fit.actions if action in earlier.actions)
    if not actions:
        raise DataError(
            "Two fits can be compared if they have actions in common, but this one has "
            f"{list(fit.actions)} and the earlier {list(earlier.actions)}."
        )
    state, before, notes = _common_states(fit, earlier)
    notes = [*notes, *_differences(fit, earlier)]
    columns = [fit.actions.index(action) for action in actions]
    earlier_columns = [earlier.actions.index(action) for action in actions]
    variance = sum(
        _mean_errors(one, at)[chosen] ** 2
        for one, at, chosen in ((fit, state, columns), (earlier, before, earlier_columns))
    )
    probability = np.stack(
        [
            np.exp(earlier.estimate.policy.log_prob(before)).mean(axis=0)[earlier_columns],
            np.exp(fit.estimate.policy.log_prob(state)).mean(axis=0)[columns],
        ]
    )
    return Comparison(
        actions,
        _mean_rewards(earlier, before)[earlier_columns],
        _mean_rewards(fit, state)[columns],
        np.sqrt(variance),
        probability,
        level,
        tuple(notes),
    )


def _common_states(fit: "Fit", earlier: "Fit") -> tuple[np.ndarray, np.ndarray, list[str]]:
    """States of this fit's data as each of the two encodes them, in columns of its own."""
    state = fit.seen.state
    raw = fit.encoding.decode(state)
    used = np.arange(len(raw))
    while True:
        try:
            before = earlier.encoding.encode_any(raw[used])
            break
        except BadRows as problem:  # a level that the earlier data did not have
            used = used[~problem.rows]
            if not len(used):
                raise DataError(
                    "Two fits can be compared at states that both know, but the earlier "
                    f"fit knows none of this one's: {problem}"
                ) from None
    notes = [f"Over the same {counted(len(used), 'state')} of this fit's data."]
    if len(used) < len(state):
        lost = counted(len(state) - len(used), "state")
        notes.append(f"Left out: {lost} with a category that the earlier fit lacks.")
    return state[used], before, notes


def _differences(fit: "Fit", earlier: "Fit") -> list[str]:
    """Sentences on what else differs: settings, actions, size, verdicts."""
    said = []
    for name in ("anchor", "discount", "temperature"):
        old, new = getattr(earlier, name), getattr(fit, name)
        if old != new:
            said.append(
                f"The {name} was {old} and is {new}: the two answer different questions."
            )
    for one, other, when in ((fit, earlier, "now"), (earlier, fit, "before")):
        only = [action for action in one.actions if action not in other.actions]
        if only:
            said.append(f"Only {when}: {listed(only)}.")
    rows = [each.provenance["panel"]["rows"] for each in (earlier, fit)]
    said.append(f"Decisions: {rows[0]:,} before, {rows[1]:,} now.")
    verdicts = {figure.name: figure.verdict for figure in earlier.diagnostics}
    changed = [
        f"{figure.name} {verdicts[figure.name]} -> {figure.verdict}"
        for figure in fit.diagnostics
        if verdicts.get(figure.name, figure.verdict) != figure.verdict
    ]
    if changed:
        said.append(f"Verdicts that changed: {listed(changed)}.")
    return said


def _mean_rewards(fit: "Fit", state: States) -> Float[np.ndarray, " action"]:
    """Averages over the states whose reward is known: a table may lack some."""
    reward = fit._reward_of(state)
    known = np.isfinite(reward)
    total = np.where(known, reward, 0.0).sum(axis=0)
    return np.divide(total, known.sum(axis=0), where=known.any(axis=0), out=total * np.nan)


def _mean_errors(fit: "Fit", state: States) -> Float[np.ndarray, " action"]:
    """Of each action's mean over the states; NaN where the fit has none in closed form."""
    known = np.isfinite(fit._reward_of(state))
    weight = known / np.maximum(known.sum(axis=0), 1)
    try:
        return fit._errors().mean_errors(state, weight, fit.estimate)
    except NoInfluenceFunction:
        return np.full(len(fit.actions), np.nan)

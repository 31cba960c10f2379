"""Changed states: average rewards and choices at other values of the state.

The agents' problem stays the same, so nothing is solved again: r(s, a) and pi(a | s) are
evaluated at other states. Each result says how far these lie from the data.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerRow
from ..inference._bands import Bands, needed_draws
from ..inference._bootstrap import Bootstrap, bootstrap, require_model, require_own_panel
from ..panel._panel import Panel, require_panel
from ..panel._user_function import call_with_states
from ..report._layout import WIDTH, decimal, framed
from ._support import Support, find_support

if TYPE_CHECKING:
    from .._fit import Fit
    from .._pqr import PQR

Change = Mapping[str, Any] | Callable[[np.ndarray], Any]
AS_SEEN = "as seen"
QUANTITIES = ("reward", "probability")


@dataclass(frozen=True, eq=False)
class ChangedStates:
    """Averages over states as they were seen and as they might have been; print it."""

    labels: tuple[str, ...]
    """The scenarios; the first is the states as they were seen."""
    actions: tuple[Any, ...]
    estimate: Float[np.ndarray, "scenario quantity action"]
    """Mean reward and mean probability of each action."""
    support: tuple[Support, ...]
    bootstrap: Bootstrap | None = None
    level: float = 0.95

    def mean(self, quantity: str, action: Any) -> Float[np.ndarray, " scenario"]:
        """The mean `"reward"` or `"probability"` of an action in each scenario."""
        return self.estimate[(slice(None), *self._at(quantity, action))]

    def band(self, quantity: str, action: Any) -> Bands:
        """The band that holds the means of all scenarios at once."""
        if self.bootstrap is None:
            raise DataError(
                "Bands need `replicates`: fit.counterfactual(..., replicates=200)."
            )
        at = (slice(None), *self._at(quantity, action))
        draws = self.bootstrap.draws[(slice(None), *at)]
        part = replace(self.bootstrap, estimate=self.bootstrap.estimate[at], draws=draws)
        found = part.bands(np.arange(len(self.labels)), self.level)
        return replace(found, estimate=self.mean(quantity, action))

    def rows(self) -> list[dict[str, Any]]:
        """One row per scenario and action: a tidy table."""
        found = []
        for number, label in enumerate(self.labels):
            for action in self.actions:
                row = {"scenario": label, "action": action}
                for quantity in QUANTITIES:
                    row[quantity] = float(self.mean(quantity, action)[number])
                    if self._has_bands:
                        band = self.band(quantity, action)
                        row[f"{quantity}_low"] = float(band.low[number])
                        row[f"{quantity}_high"] = float(band.high[number])
                row |= vars(self.support[number]) | {"mark": self.support[number].mark}
                found.append(row)
        return found

    def __str__(self) -> str:
        rows = self.rows()
        wide = max(map(len, self.labels))
        act = 2 + max(8, *(len(str(action)) for action in self.actions))
        band = f"{'low':>9}{'high':>9}" if self._has_bands else ""
        head = f"{'':<{wide}}  {'action':<{act}}{'reward':>9}{band}"
        body = [f"{head}{'probability':>13}{band}  support"]
        for row in rows:
            line = f"{row['scenario']:<{wide}}  {row['action']!s:<{act}}"
            for quantity, size, digits in (("reward", 9, 3), ("probability", 13, 4)):
                line += decimal(row[quantity], digits).rjust(size)
                if self._has_bands:
                    ends = (row[f"{quantity}_low"], row[f"{quantity}_high"])
                    line += "".join(decimal(end, digits).rjust(9) for end in ends)
            body.append(line if row["scenario"] == AS_SEEN else f"{line}  {row['mark']}")
        width = max(WIDTH, *map(len, body))
        wrapped = (textwrap.wrap(n, width, subsequent_indent="  ") for n in self._notes())
        notes = [line for lines in wrapped for line in lines]
        return framed("Changed states", body[:1], body[1:], notes, width=width)

    def _notes(self) -> list[str]:
        said = [f"{each.mark}: {each}" for each in _worst(self.support)]
        if np.isnan(self.estimate).any():
            said.append(
                "nan: some of these states and actions never occurred together, so a table "
                'has no reward for them; reward="linear" or "joint" has one everywhere'
            )
        if self.bootstrap is not None:
            share = f"{100 * self.level:g}%, over all scenarios at once; "
            said.append(f"bands: {share if self._has_bands else ''}{self.bootstrap.note}")
            if self._has_bands and self.bootstrap.few_draws(self.level):
                needed = needed_draws(self.level)
                said.append(f"such few draws make bands too narrow; take {needed} or more")
        return said

    @property
    def _has_bands(self) -> bool:
        return self.bootstrap is not None and len(self.bootstrap.draws) > 1

    def _at(self, quantity: str, action: Any) -> tuple[int, int]:
        if quantity not in QUANTITIES:
            raise DataError(f"`quantity` must be one of {QUANTITIES}, not {quantity!r}.")
        if action not in self.actions:
            raise DataError(
                f"`action` must be one of {list(self.actions)}, not {action!r}."
            )
        return QUANTITIES.index(quantity), self.actions.index(action)


@dataclass(frozen=True, eq=False)
class MeansAt:
    """Mean reward and choice probabilities of a fit in each scenario.

    A class and not a closure, so that it can be pickled for other processes.
    """

    scenarios: tuple[np.ndarray, ...]
    """Columns of the states, one array for each scenario."""
    weight: PerRow

    def __call__(self, fit: "Fit") -> Float[np.ndarray, "scenario quantity action"]:
        weight = self.weight / self.weight.sum()
        found = []
        for states in self.scenarios:
            probability = np.exp(fit.log_policy(states))
            found.append([weight @ fit.reward(states), weight @ probability])
        return np.array(found)


def changed_states(
    fit: "Fit",
    panel: Panel,
    change: Change,
    *,
    states: Any = None,
    replicates: int = 0,
    model: "PQR | None" = None,
    level: float = 0.95,
    **options: Any,
) -> ChangedStates:
    """Average rewards and choices of a fit at changed states.

    Parameters
    ----------
    panel
        What it was fitted on: its states say where the data have support, and its units
        are drawn for the bands.
    change
        New values by column, each one value or a list: the n-th entries of all lists are
        one scenario. Or a function of a NumPy array of the state columns as given,
        objects where one is categorical, that returns such an array.
    states
        Where to start from, a frame or an array; the panel's own if None.
    replicates
        Of the bootstrap over units, for bands; 0 for none.
    model
        What the bootstrap refits: the fit's own model, or a faster one of the same kind,
        whose spread is then put around this fit's averages.
    options
        Of `deeppqr.bootstrap`: `seed`, `workers`, `executor`.
    """
    require_panel(panel)
    encoding = fit.encoding
    if states is None:
        start, weight = panel.state, panel.weight
    else:
        start = encoding.encode_any(states)
        weight = np.ones(len(start))
        if len(start) == 0:
            raise DataError(
                "`states` must hold one state at least to average over, but it is empty."
            )
    # The states as seen come first, so that every scenario can be compared with them.
    scenarios = {AS_SEEN: encoding.decode(start), **_scenarios(fit, start, change)}
    statistic = MeansAt(tuple(scenarios.values()), weight)
    draws = None
    if replicates:
        refit = require_model(fit) if model is None else model
        if not callable(getattr(refit, "fit", None)):
            raise DataError(f"`model` must be a deeppqr.PQR, but {model!r} arrived.")
        require_own_panel(fit, panel)
        # With another, faster model the bootstrap is centred at that model's estimate;
        # only its spread is used.
        own = statistic(fit) if model is None else None
        draws = bootstrap(
            refit, panel, statistic, replicates=replicates, estimate=own, **options
        )
    # Encoded again, because a function may have changed categories.
    encoded = [encoding.encode_any(each) for each in scenarios.values()]
    support = tuple(find_support(panel, start, encoded))
    means = (fit.actions, statistic(fit), support)
    return ChangedStates(tuple(scenarios), *means, draws, level)


def _scenarios(fit: "Fit", start: np.ndarray, change: Change) -> dict[str, np.ndarray]:
    """The changed columns by label."""
    raw = fit.encoding.decode(start)
    if callable(change):
        about: dict[str, Any] = {"role": "change", "returns": "the states changed"}
        about |= {"names": fit.encoding.names, "shape": raw.shape}
        return {"changed": call_with_states(change, raw, **about)}
    if not isinstance(change, Mapping) or not change:
        raise DataError(
            "`change` must hold new values by column, such as {'price': [1, 2]}, or be a "
            f"function of the states, but {change!r} arrived."
        )
    names = fit.encoding.names
    for column in change:
        if column not in names:
            raise DataError(
                f"`change` names the column {column!r}, which is not among the state "
                f"columns {names}."
            )
    listed = {name: _listed(values) for name, values in change.items()}
    lengths = {name: len(values) for name, values in listed.items()}
    number = max(lengths.values())
    wrong = [name for name, length in lengths.items() if length not in (1, number)]
    if wrong or number == 0:
        raise DataError(
            "`change` must have as many values for each column, or one, but the numbers of "
            f"values are {lengths}."
        )
    found = {}
    for scenario in range(number):
        changed, words = raw.copy(), []
        for name, values in listed.items():
            value = values[scenario if len(values) > 1 else 0]
            try:
                changed[:, names.index(name)] = value
            except (TypeError, ValueError) as problem:
                raise DataError(
                    f"`change` gives the column {name!r} the value {value!r}, but it was "
                    "numeric in the panel. Give a number."
                ) from problem
            words.append(f"{name} = {value}")
        found[", ".join(words)] = changed
    return found


def _listed(values: Any) -> list[Any]:
    # A text is one value, although Python counts it as a sequence.
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, np.ndarray)):
        return [values]
    return list(values)


def _worst(support: tuple[Support, ...]) -> list[Support]:
    """One scenario for each mark that occurs, apart from the states as seen."""
    marks = {each.mark: each for each in sorted(support[1:], key=lambda s: s.outside)}
    return list(marks.values())

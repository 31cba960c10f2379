r"""What an estimate rests on: the anchor's reward, the discount, the seed, the units.

All figures are averages of rewards over the panel's states, $\psi_a = E[r(S,a)]$. In the
anchor's reward they are linear: $\psi(g) = \psi(0) + E[h(S) g(S)]$ with h the sensitivity
curve, so that bounds on g give sharp bounds in closed form. Another action whose reward is
known, too, is tested against the estimate and pooled with it by minimum distance.
Discounts, seeds and folds of units are refits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerAction, PerRow, States
from ..cluster._executor import Failed
from ..cluster._resolve import resolve
from ..inference._bootstrap import require_model, require_own_panel
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel, require_panel
from ..progress import track
from ..report._interval import check_level, normal_interval
from ._normalisation import anchor_gradient, bounds_at
from ._problem import Setting, set_up
from ._scenario import amount_at
from ._sensitivity_table import BASE, Sensitivity, SensitivityRow
from ._uncertainty import covariance_of

if TYPE_CHECKING:
    from .._fit import Fit
    from .._pqr import PQR

# Rows over which averages of a refit are taken, evenly spaced.
AVERAGED = 6_000


def sensitivity(
    fit: "Fit",
    panel: Panel,
    *,
    anchor_bounds: Any = None,
    anchors: Mapping[Any, Any] | None = None,
    discounts: Sequence[float] | None = None,
    temperatures: Sequence[float] | None = None,
    seeds: int = 1,
    folds: int = 3,
    level: float = 0.95,
    executor: Any = "here",
) -> Sensitivity:
    """How much the average rewards move with what was assumed, in one table.

    Parameters
    ----------
    panel
        What the fit was made from.
    anchor_bounds
        A pair (low, high) of numbers, columns' names or functions of the states between
        which the anchor's reward lies: adds the sharp bounds of every average.
    anchors
        Other actions whose reward is known, with it: `{"wait": 0.0}`. Each is tested
        against the estimate, and averages pooled with all of them are shown.
    discounts, temperatures
        Others to compare with; by default discounts with half and twice as much weight on
        the future, 1 / (1 - discount), and half and twice the temperature.
    seeds
        Refits with other seeds.
    folds
        Refits without one of so many parts of the units; 0 for none.
    executor
        Where refits run: `"here"`, `"cores"`, `"cores:N"` or a `deeppqr.cluster` executor.
    """
    require_panel(panel)
    check_level(level)
    model = require_model(fit)
    require_own_panel(fit, panel)
    if discounts is None:
        rest = 1 - fit.discount
        discounts = [d for d in (1 - 2 * rest, 1 - rest / 2) if 0 < d < 1]
    if temperatures is None:
        temperatures = [fit.temperature / 2, fit.temperature * 2]
    for discount in discounts:
        check_preferences(discount, 1.0)
    for temperature in temperatures:
        check_preferences(fit.discount, temperature)
    _check_counts(seeds, folds, panel)

    setting = set_up(fit, panel, None)
    state, weight = setting.state, setting.start
    estimate, covariance = _averages(fit, state, weight)
    base = _lines(BASE, "", fit.actions, estimate, covariance, level)
    curve = _curve(setting)
    rows = [*base, *_about_anchor(setting, curve, estimate, anchor_bounds)]
    notes = []
    if anchors:
        more, words = _about_anchors(setting, anchors, level)
        rows += more
        notes += words
    for temperature in temperatures:
        rows += _at_temperature(fit, temperature, state, weight, level)
    rows += _refitted(model, panel, fit, discounts, seeds, folds, level, executor)
    return Sensitivity(
        tuple(rows),
        fit.actions,
        fit.anchor,
        level,
        fit.encoding.decode(state),
        weight,
        # Per unit of g in one state, whatever share of the panel it holds.
        curve / np.where(weight > 0, weight, np.nan)[:, None],
        tuple(notes),
    )


def _at_action(mass: PerRow, code: int, number: int) -> PerAction:
    found = np.zeros((len(mass), number))
    found[:, code] = mass
    return found


def _lines(
    kind: str, value: str, actions, estimate, covariance, level: float
) -> Iterator[SensitivityRow]:
    """A row for each action, with its interval."""
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    low, high = normal_interval(estimate, error, level)
    for code, action in enumerate(actions):
        figures = (estimate[code], error[code], low[code], high[code])
        yield SensitivityRow(kind, value, action, *map(float, figures))


def _curve(setting: Setting) -> Float[np.ndarray, "node action"]:
    """By how much each action's average moves with g at each node."""
    number = setting.reward.shape[1]
    columns = [
        anchor_gradient(setting, _at_action(setting.start, code, number))
        for code in range(number)
    ]
    return np.stack(columns, axis=1)


def _about_anchor(setting: Setting, curve, estimate, given: Any):
    """The averages if g were one more everywhere, and their bounds."""
    actions = setting.fit.actions
    unknown = np.full((len(actions), len(actions)), np.nan)
    moved = estimate + curve.sum(axis=0)
    yield from _lines("anchor's reward", "+ 1", actions, moved, unknown, 0.95)
    if given is None:
        return
    known = setting.fit.estimate.anchor_reward(setting.state)
    low, high = (end - known for end in bounds_at(setting, given))
    least = np.where(curve > 0, low[:, None], high[:, None])
    most = np.where(curve > 0, high[:, None], low[:, None])
    ends = [estimate + (curve * error).sum(axis=0) for error in (least, most)]
    for value, end in zip(("lowest", "highest"), ends, strict=True):
        yield from _lines("anchor's reward", value, actions, end, unknown, 0.95)


def _about_anchors(setting: Setting, anchors: Mapping, level: float):
    """A test of each other anchor, and the averages pooled with all of them."""
    from scipy.stats import chi2

    fit, mass = setting.fit, setting.start
    number = setting.reward.shape[1]
    # What is known is compared on average and along each state column.
    scaled = (setting.state - mass @ setting.state) / (setting.state.std(axis=0) + 1e-300)
    columns = np.column_stack([np.ones(len(mass)), scaled])
    gaps, gradients, words = [], [], []
    for label, known in anchors.items():
        code = fit.actions.index(label) if label in fit.actions else -1
        if code < 0 or label == fit.anchor:
            raise DataError(
                "`anchors` must name actions other than the fit's own anchor "
                f"{fit.anchor!r}, among {list(fit.actions)}, but it has {label!r}."
            )
        reward = amount_at(known, setting.state, fit.encoding, "anchors")
        gap = mass * (setting.reward[:, code] - reward)
        own = [_at_action(mass * column, code, number) for column in columns.T]
        moments = columns.T @ gap
        gaps.append(moments)
        gradients.append(own)
        covariance = covariance_of(fit, setting.state, own)[0]
        statistic, df = _quadratic(moments, covariance)
        p = float(chi2.sf(statistic, df))
        verdict = "agrees with" if p >= 0.05 else "contradicts"
        words.append(
            f"{label!r} as an anchor {verdict} {fit.anchor!r}: chi-squared({df}) = "
            f"{statistic:.2f}, p = {p:.3f}."
        )
    every = [part for own in gradients for part in own]
    means = [_at_action(mass, code, number) for code in range(number)]
    joint = covariance_of(fit, setting.state, [*means, *every])[0]
    with_means, among = joint[:number, number:], joint[number:, number:]
    inverse = np.linalg.pinv(among, rcond=1e-8, hermitian=True)
    # Minimum distance: the estimate moves as far as its errors go with the gaps.
    pooled = mass @ setting.reward - with_means @ inverse @ np.concatenate(gaps)
    covariance = joint[:number, :number] - with_means @ inverse @ with_means.T
    names = ", ".join(repr(label) for label in anchors)
    rows = _lines("anchors pooled", names, fit.actions, pooled, covariance, level)
    return list(rows), words


def _quadratic(moments: np.ndarray, covariance: np.ndarray) -> tuple[float, int]:
    """The test statistic and its degrees of freedom: directions that vary."""
    if not np.isfinite(covariance).all():
        raise DataError(
            "Anchors can be compared where the fit has errors in closed form: with the "
            "default reward, or with tables of counts."
        )
    df = int(
        np.linalg.matrix_rank(covariance, tol=1e-8 * covariance.trace(), hermitian=True)
    )
    inverse = np.linalg.pinv(covariance, rcond=1e-8, hermitian=True)
    return float(moments @ inverse @ moments), df


def _at_temperature(fit: "Fit", temperature: float, state: States, weight, level: float):
    """Averages at another temperature: the reward is affine in it, nothing is refitted."""
    try:
        other = fit.at_temperature(temperature)
    except DataError:  # rewards in which it is entangled with g
        return
    estimate, covariance = _averages(other, state, weight)
    yield from _lines(
        "temperature", f"{temperature:g}", fit.actions, estimate, covariance, level
    )


def _averages(fit: "Fit", state: States, weight: PerRow):
    """Mean rewards over some states, with their covariance where it has a closed form."""
    number = len(fit.actions)
    gradients = [_at_action(weight, code, number) for code in range(number)]
    return weight @ fit._reward_of(state), covariance_of(fit, state, gradients)[0]


@dataclass(frozen=True, eq=False)
class Refit:
    """Averages of a refit, over the same states whatever it was fitted on.

    A class and not a closure, so that it can be pickled for other processes.
    """

    panel: Panel
    state: States
    weight: PerRow

    def __call__(self, item: "tuple[PQR, int, int]"):
        model, fold, folds = item
        panel = self.panel
        if folds:
            panel = panel.select(panel.unit % folds != fold)
        return _averages(model.fit(panel), self.state, self.weight)


def _refitted(
    model: "PQR", panel: Panel, fit: "Fit", discounts, seeds, folds, level, executor
) -> list[SensitivityRow]:
    """Rows of all refits, in the order they are asked for."""
    every = max(1, -(-len(panel) // AVERAGED))
    weight = panel.weight[::every] / panel.weight[::every].sum()
    call = Refit(panel, panel.state[::every], weight)
    names, items = [], []
    for discount in discounts:
        names.append(("discount", f"{discount:g}"))
        items.append((replace(model, discount=discount), 0, 0))
    for seed in range(model.seed + 1, model.seed + 1 + seeds):
        names.append(("seed", str(seed)))
        items.append((replace(model, seed=seed), 0, 0))
    for fold in range(folds):
        names.append(("units", f"without part {fold + 1} of {folds}"))
        items.append((model, fold, folds))
    found: dict[int, Any] = {}
    with track("Sensitivity", len(items)) as progress:
        for place, result in resolve(executor).run(call, items):
            found[place] = result
            progress.advance(note=" ".join(names[place]))
    rows: list[SensitivityRow] = []
    for place, (kind, value) in enumerate(names):
        result = found[place]
        if isinstance(result, Failed):
            raise DataError(f"The refit for {kind} {value} failed: {result.message}")
        estimate, covariance = result
        rows += _lines(kind, value, fit.actions, estimate, covariance, level)
    return rows


def _check_counts(seeds: Any, folds: Any, panel: Panel) -> None:
    for name, value in (("seeds", seeds), ("folds", folds)):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or value < 0:
            raise DataError(f"`{name}` must be a whole number, 0 or more, not {value!r}.")
    if folds == 1 or folds > panel.num_units:
        raise DataError(
            f"`folds` must be 0, or 2 to the number of units, {panel.num_units}, but it is "
            f"{folds}."
        )

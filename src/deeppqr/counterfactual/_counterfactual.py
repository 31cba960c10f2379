"""One grammar of counterfactuals: a changed problem, solved again and compared."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._shapes import PerAction
from ..inference._fitted_law import law_is_learned
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel
from ..report._interval import check_level, normal_interval
from ._answer import AtStates, Counterfactual, Figure
from ._law_error import LawError
from ._measures import REWARD, Measure, measure
from ._normalisation import bounds, depends, statement
from ._problem import Posed, Setting, set_up
from ._scenario import Scenario, read_scenario
from ._support import seen_support
from ._uncertainty import NO_ERRORS, covariance_of

if TYPE_CHECKING:
    from .._fit import Fit

Key = tuple[str, str, Any]


def counterfactual(
    fit: "Fit",
    panel: Panel | None = None,
    *,
    states: Any = None,
    transfer: Any = None,
    remove: Any = None,
    add: Any = None,
    scale: Any = None,
    transition: Any = None,
    discount: float | None = None,
    periods: int | None = None,
    anchor_bounds: Any = None,
    level: float = 0.95,
) -> Counterfactual:
    r"""Choices, rewards and values if the agents' problem were another one.

    The problem is solved again with the fit's rewards: by Newton's method where states are
    few, on the features of the fitted value elsewhere. Standard errors are by the delta
    method, through the policy that follows from the changed rewards. With the panel that
    was fitted they count the error of a learned law, too; without it only what that does
    to the rewards.

    Parameters
    ----------
    panel
        What it was fitted on. Its states are where agents start, and it says where actions
        lead if the fit does not hold that. A fit just made needs none: it keeps a sample
        of the states.
    states
        Where agents start instead: a frame or an array.
    transfer
        What is paid to actions on top of their rewards: a number, a column's name or a
        function of the states by action, `{"wait": 0.5}`; or a function of the states with
        a column for each action. A tax is negative.
    remove, add
        Actions that are not available any more, and `NewAction`s by their labels.
    scale
        A factor of all rewards, or of some actions' (`{"large": 0.9}`), before transfers.
    transition
        Other transitions of the fit's actions: an array (state, action, next_state), a
        pair (states, array), a function of states and an action, a `deeppqr.mdp.Law`, or
        `Edited`, which changes the places that the learned law leads to.
    discount
        Another discount.
    periods
        Also report what happens in so many periods from these states: the answer where
        units exit.
    anchor_bounds
        A pair of what the anchor may earn: the changes' ranges over all rewards of the
        anchor between them.

    References
    ----------
    [kalouptsidi2021].
    """
    check_level(level)
    if discount is not None:
        check_preferences(discount, 1.0)
    _check_periods(periods)
    scenario = read_scenario(
        fit.actions,
        fit.encoding,
        fit.discount,
        transfer=transfer,
        remove=remove,
        add=add,
        scale=scale,
        transition=transition,
        discount=discount,
    )
    encoded = None if states is None else fit.encoding.encode_any(states)
    setting = set_up(fit, panel, encoded)
    compared = _Compared(setting, scenario, periods)
    before, after = setting.before(), setting.after(scenario)
    law = LawError.of(setting)
    keys, pairs = compared.figures(before, after, law)
    sides = [side for old, new in pairs for side in (new, old)]
    gradients = [side.gradient for side in sides]
    if law is None:
        both, how = covariance_of(fit, setting.state, gradients)
    else:
        direct = np.stack([side.by_law for side in sides])
        both, how = law.covariance(gradients, direct, before), "delta method"
    # Odd rows are before, even ones after; the change is their difference.
    to_change = np.kron(np.eye(len(keys)), [[1.0, -1.0]])
    covariance = to_change @ both @ to_change.T
    moving = np.array([depends(quantity, scenario) for _, quantity, _ in keys])
    ranges = np.full((2, len(keys)), np.nan)
    if anchor_bounds is not None:
        # Of the mean reward, which every g moves, a range would say nothing.
        asked = moving & np.array([quantity != REWARD for _, quantity, _ in keys])
        ranges = bounds(setting, compared.changes, anchor_bounds, asked)
    variance = np.sqrt(np.maximum(np.diag(both), 0.0)).reshape(-1, 2)
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    figures = []
    for at, (name, (old, new)) in enumerate(zip(keys, pairs, strict=True)):
        change = new.value - old.value
        low, high = normal_interval(np.array(change), error[at : at + 1], level)
        figures.append(
            Figure(
                *name,
                old.value,
                new.value,
                change,
                float(error[at]),
                float(low[0]),
                float(high[0]),
                float(variance[at, 1]),
                float(variance[at, 0]),
                bool(moving[at]),
                float(ranges[0, at]),
                float(ranges[1, at]),
            )
        )
    words = ", ".join(scenario.words) or "nothing changed"
    asked = setting.state[setting.asked]
    return Counterfactual(
        f"Counterfactual: {words}",
        tuple(figures),
        covariance,
        level,
        fit.encoding.decode(asked),
        _at(setting, before, fit.actions),
        _at(setting, after, scenario.labels),
        seen_support(fit.seen, asked),
        statement(scenario, fit.anchor),
        tuple(_notes(setting, before, how, counted=law is not None)),
    )


class _Sided:
    """A figure of one problem: its value and gradient by the fit's rewards."""

    def __init__(self, value: float, gradient: PerAction, by_law: np.ndarray):
        self.value, self.gradient, self.by_law = value, gradient, by_law


class _Compared:
    """Figures of the problem before and after, matched by name."""

    def __init__(self, setting: Setting, scenario: Scenario, periods: int | None):
        self.setting, self.scenario, self.periods = setting, scenario, periods
        environment = setting.changed_environment(scenario)
        # The long run is compared where there is one before and after.
        self.long_run = not (setting.environment.ends() or environment.ends())

    def figures(self, before: Posed, after: Posed, law: LawError | None = None):
        """Keys, and for each the figure before and after."""
        labels, number = self.setting.fit.actions, len(self.setting.fit.actions)
        count = 0 if law is None else law.count
        same = lambda by_reward: by_reward
        back = lambda by_reward: self.scenario.to_old(by_reward, number)
        old = self._of(before, labels, same, law and law.sequels(before, None), count)
        told = law and law.sequels(after, self.scenario)
        new = self._of(after, self.scenario.labels, back, told, count)
        none = _Sided(0.0, np.zeros_like(self.setting.reward), np.zeros(count))
        keys = list(dict.fromkeys([*old, *new]))
        # Shares of added actions after those of the others of the same horizon.
        spans = list(dict.fromkeys(horizon for horizon, _, _ in keys))
        keys.sort(key=lambda one: (spans.index(one[0]), one[2] is None))
        return keys, [(old.get(one, none), new.get(one, none)) for one in keys]

    def changes(self, reward: PerAction):
        """The changes, and their gradients, at other rewards of the fit."""
        setting = self.setting
        zero = np.zeros_like(reward)
        before = setting.posed(setting.environment, reward, zero)
        _, pairs = self.figures(before, setting.after(self.scenario, reward))
        values = np.array([new.value - old.value for old, new in pairs])
        return values, [new.gradient - old.gradient for old, new in pairs]

    def _of(
        self, posed: Posed, labels: tuple[Any, ...], back, sequels: Any, count: int
    ) -> dict[Key, _Sided]:
        """One problem's figures by their names."""
        told: dict[str, Any] = {"periods": self.periods, "long_run": self.long_run}
        told["transfers"] = self.scenario.transfer is not None
        found = measure(posed, self.setting.fit.temperature, sequels=sequels, **told)
        nothing = np.zeros(count)
        return {
            key(each, labels): _Sided(
                each.value,
                back(each.by_reward),
                nothing if sequels is None else each.by_law,
            )
            for each in found
        }


def key(each: Measure, labels: tuple[Any, ...]) -> Key:
    """Which figure it is: horizon, quantity and the action's label."""
    action = None if each.column is None else labels[each.column]
    return each.horizon, each.quantity, action


def _at(setting: Setting, posed: Posed, labels: tuple[Any, ...]) -> AtStates:
    rows = setting.asked
    value = posed.solved.value[rows] * setting.fit.temperature
    return AtStates(labels, posed.prob[rows], posed.reward[rows], value)


def _notes(setting: Setting, before: Posed, how: str, *, counted: bool):
    """What the answer rests on."""
    with_law = ", the law's part clustered by unit" if counted else ""
    yield f"Standard errors: {how}{with_law}."
    if not counted and how != NO_ERRORS and law_is_learned(setting.law):
        yield (
            "The errors of the learned law are left out, but for what they do to the "
            "rewards."
        )
    given = np.exp(setting.fit.estimate.policy.log_prob(setting.state[setting.asked]))
    gap = float(np.abs(given - before.prob[setting.asked]).mean())
    # A hundredth of a probability would be seen in most tables.
    if gap > 0.01:
        yield (
            f"The fit's own policy differs from the one solved for before the change by "
            f"{gap:.3f} on average: its reward and its policy were estimated apart."
        )


def _check_periods(periods: Any) -> None:
    whole = isinstance(periods, (int, np.integer)) and not isinstance(periods, bool)
    if periods is not None and not (whole and periods >= 1):
        raise DataError(
            f"`periods` must be a whole number, 1 or more, but it is {periods!r}."
        )

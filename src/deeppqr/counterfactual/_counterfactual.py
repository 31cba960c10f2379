"""One grammar of counterfactuals: a changed problem, solved again and compared."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._shapes import PerAction
from ..inference._fitted_law import law_is_learned
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel
from ..report._interval import check_level, normal_interval
from ._amounts import given_masses, read_amount_scenario, set_up_amounts, tally_of_amounts
from ._answer import AtStates, Counterfactual, Figure
from ._law_error import LawError
from ._measures import AMOUNT, REWARD, SHARE, Tally, measure
from ._normalisation import bounds, depends, statement
from ._problem import Posed, Setting, set_up
from ._scenario import Scenario, read_scenario
from ._support import seen_support
from ._uncertainty import NO_ERRORS, covariance_of

if TYPE_CHECKING:
    from .._fit import Fit


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
        a column for each action. A tax is negative. Over amounts: what a unit of the amount
        is paid, such as -0.1; a function of the states and the actions, a row each; or
        what atoms are paid, `{0.0: 0.5}`.
    remove, add
        Actions that are not available any more, and `NewAction`s by their labels. Over
        amounts atoms may be removed, and nothing added.
    scale
        A factor of all rewards, or of some actions' (`{"large": 0.9}`), before transfers.
    transition
        Other transitions of the fit's actions: an array (state, action, next_state), a
        pair (states, array), a function of states and an action, a `deeppqr.mdp.Law`, or
        `Edited`, which changes the places that the learned law leads to.
    discount
        Another discount. Over amounts it, `transfer`, `remove` and `scale` can change.
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
    changes: dict[str, Any] = {"transfer": transfer, "remove": remove, "scale": scale}
    changes |= {"add": add, "transition": transition, "discount": discount}
    encoded = None if states is None else fit.encoding.encode_any(states)
    if fit.space is None:
        scenario = read_scenario(fit.actions, fit.encoding, fit.discount, **changes)
        setting = set_up(fit, panel, encoded)
    else:
        scenario = read_amount_scenario(fit, **changes)
        setting = set_up_amounts(fit, panel, encoded)
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
        _at(setting, before, compared.tallies[0], fit.actions),
        _at(setting, after, compared.tallies[1], scenario.labels),
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
        fit = setting.fit
        if fit.space is None:
            self.tallies = Tally.of_shares(fit.actions), Tally.of_shares(scenario.labels)
        else:
            every = range(setting.reward.shape[1])
            kept = [each.follows for each in scenario.available if each.follows is not None]
            self.tallies = tally_of_amounts(fit, every), tally_of_amounts(fit, kept)

    def figures(self, before: Posed, after: Posed, law: LawError | None = None):
        """Keys, and for each the figure before and after."""
        number = self.setting.reward.shape[1]
        count = 0 if law is None else law.count
        same = lambda by_reward: by_reward
        back = lambda by_reward: self.scenario.to_old(by_reward, number)
        told = law and law.sequels(before, None)
        old = self._of(before, self.tallies[0], same, told, count)
        told = law and law.sequels(after, self.scenario)
        new = self._of(after, self.tallies[1], back, told, count)
        none = _Sided(0.0, np.zeros_like(self.setting.reward), np.zeros(count))
        keys = list(dict.fromkeys([*old, *new]))
        # Shares of added actions after those of the others of the same horizon.
        spans = list(dict.fromkeys(horizon for horizon, _, _ in keys))
        order = (SHARE, AMOUNT)
        place = lambda name: order.index(name) if name in order else len(order)
        keys.sort(key=lambda one: (spans.index(one[0]), place(one[1])))
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
        self, posed: Posed, tally: Tally, back, sequels: Any, count: int
    ) -> dict[tuple[str, str, Any], _Sided]:
        """One problem's figures by their names."""
        told: dict[str, Any] = {"periods": self.periods, "long_run": self.long_run}
        told["transfers"] = self.scenario.transfer is not None
        found = measure(posed, self.setting.fit.temperature, tally, sequels=sequels, **told)
        nothing = np.zeros(count)
        return {
            each.key: _Sided(
                each.value,
                back(each.by_reward),
                nothing if sequels is None else each.by_law,
            )
            for each in found
        }


def _at(setting: Setting, posed: Posed, tally: Tally, labels: tuple[Any, ...]) -> AtStates:
    rows = setting.asked
    value = posed.solved.value[rows] * setting.fit.temperature
    prob, reward = posed.prob[rows], posed.reward[rows]
    if setting.fit.space is None:
        return AtStates(labels, prob, reward, value)
    counted = prob @ tally.each
    shares = [at for at, (quantity, _) in enumerate(tally.names) if quantity == SHARE]
    amounts = [at for at, (quantity, _) in enumerate(tally.names) if quantity == AMOUNT]
    expected = (prob * reward).sum(axis=1, keepdims=True)
    atoms = tuple(tally.names[at][1] for at in shares)
    return AtStates(atoms, counted[:, shares], expected, value, counted[:, amounts])


def _notes(setting: Setting, before: Posed, how: str, *, counted: bool):
    """What the answer rests on."""
    with_law = ", the law's part clustered by unit" if counted else ""
    yield f"Standard errors: {how}{with_law}."
    if not counted and how != NO_ERRORS and law_is_learned(setting.law):
        yield (
            "The errors of the learned law are left out, but for what they do to the "
            "rewards."
        )
    asked = setting.state[setting.asked]
    if setting.fit.space is None:
        given = np.exp(setting.fit.estimate.policy.log_prob(asked))
        gap = float(np.abs(given - before.prob[setting.asked]).mean())
    else:  # half the sum over the nodes: by how much any set of amounts may differ
        given = given_masses(setting.fit, asked)
        gap = float(np.abs(given - before.prob[setting.asked]).sum(axis=1).mean() / 2)
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

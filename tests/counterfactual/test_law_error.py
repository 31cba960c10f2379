"""What the error of a learned law does to a counterfactual, against refits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import deeppqr
from deeppqr.counterfactual import Edited, NewAction
from deeppqr.counterfactual._counterfactual import _Compared
from deeppqr.counterfactual._law_error import LawError, _bare
from deeppqr.counterfactual._problem import set_up
from deeppqr.counterfactual._scenario import read_scenario
from deeppqr.law._regression import Regression
from deeppqr.law._table import Table
from deeppqr.law._transition import Steps
from deeppqr.reward._joint_reward import JointReward

STATES = np.array([[0.0], [1.0], [1.0], [3.0]])
TABLE: dict[str, Any] = {"policy": "frequency", "anchor_value": "exact", "reward": "table"}
# Central differences of the weights miss by the square of this and by rounding over it,
# both below 1e-7 of figures of size ten.
STEP = 1e-4


def turned(after, action):
    """The first state in place of the last one."""
    return np.where(after == 3.0, 0.0, after)


ASKED = {
    "transfer": {"transfer": {1: 0.5}},
    "removed": {"remove": 2},
    "added": {"add": {"new": NewAction(like=1, plus=0.2)}},
    "discount": {"discount": 0.6},
    "edited": {"transition": Edited(turned)},
    "scaled": {"scale": {1: 0.7}, "transfer": {0: -0.3}},
}


@pytest.fixture(scope="module", params=[0.0, 0.4], ids=["stays", "ends"])
def panel(request):
    world = deeppqr.worlds.random_tabular(4, 3, seed=3)
    found = world.simulate(steps=2_400, units=24, seed=4)
    ending = np.random.default_rng(0).random(len(found)) < request.param * 0.1
    return replace(found, terminal=ending)


def influences(fit, panel, asked):
    """Keys, and how each figure's change moves with the units' weights."""
    setting = set_up(fit, panel, STATES)
    told = fit.actions, fit.encoding, fit.discount
    scenario = read_scenario(*told, **asked)
    compared = _Compared(setting, scenario, 5)
    before, after = setting.before(), setting.after(scenario)
    law = LawError.of(setting)
    assert law is not None
    keys, pairs = compared.figures(before, after, law)
    direct = np.stack([new.by_law - old.by_law for old, new in pairs])
    pull = np.stack([new.gradient - old.gradient for old, new in pairs])
    return keys, direct, pull, law


@pytest.mark.parametrize("name", ASKED)
def test_a_counted_fit_moves_with_its_units_as_refits_do(panel, name):
    """Policy, law and reward together: the derivative of the whole answer."""
    asked = ASKED[name]
    model = deeppqr.PQR(discount=0.8, anchor=0, anchor_reward=1.0, **TABLE)
    fit = model.fit(panel)
    keys, direct, pull, law = influences(fit, panel, asked)
    found = direct + law.through_table(_bare(fit), pull)
    for unit in (0, 5):
        answers = []
        for sign in (1, -1):
            weight = panel.weight * (1 + sign * STEP * (panel.unit == unit))
            again = model.fit(replace(panel, weight=weight))
            told = {**asked, "states": STATES, "periods": 5}
            answers.append(again.counterfactual(replace(panel, weight=weight), **told))
        moved = [
            (a.change - b.change) / (2 * STEP)
            for a, b in zip(answers[0].figures, answers[1].figures, strict=True)
        ]
        size = np.abs(found).max()
        np.testing.assert_allclose(
            found[:, unit], moved, atol=1e-5 * size, err_msg=str(keys)
        )


@pytest.mark.parametrize("name", ASKED)
def test_at_given_rewards_figures_move_with_the_law_as_another_law_does(panel, name):
    """Of a jointly estimated fit the law alone, its rewards held."""
    model = deeppqr.PQR(discount=0.8, anchor=0, anchor_reward=1.0, reward="joint")
    fit = model.fit(panel)
    reward = fit.reward_function
    assert isinstance(reward, JointReward)
    assert isinstance(reward.law, Table)
    keys, direct, _, law = influences(fit, panel, ASKED[name])
    for unit in (0, 5):
        found = []
        for sign in (1, -1):
            weight = panel.weight * (1 + sign * STEP * (panel.unit == unit))
            other = Table.learn(Steps.of(replace(panel, weight=weight)))
            moved = replace(fit, reward_function=replace(reward, law=other))
            setting = set_up(moved, panel, STATES)
            held = replace(setting, reward=law.setting.reward)
            told = fit.actions, fit.encoding, fit.discount
            compared = _Compared(held, read_scenario(*told, **ASKED[name]), 5)
            found.append(compared.changes(held.reward)[0])
        moved = (found[0] - found[1]) / (2 * STEP)
        size = np.abs(direct).max()
        np.testing.assert_allclose(
            direct[:, unit], moved, atol=1e-5 * size, err_msg=str(keys)
        )


def test_a_joint_fit_keeps_its_choices_under_any_law(panel):
    """The probabilities before the change are what was seen: the reward moves with the
    law, and undoes what it does. Errors of law and reward apart would be far larger."""
    fit = deeppqr.PQR(discount=0.8, anchor=0, reward="joint").fit(panel)
    with_law = fit.counterfactual(panel, transfer={1: 0.5})
    without = fit.counterfactual(fit.encoding.decode(panel.state), transfer={1: 0.5})
    for action in panel.actions:
        mine = with_law["now", "probability", action].standard_error_before
        theirs = without["now", "probability", action].standard_error_before
        share = float((panel.action == action).mean())
        binomial = np.sqrt(share * (1 - share) / len(panel))
        assert mine < 1.25 * binomial
        assert mine < 1.05 * theirs


def test_what_was_given_has_no_error():
    world = deeppqr.worlds.random_tabular(4, 2, seed=3)
    panel = world.simulate(steps=800, units=20, seed=4)
    model = deeppqr.PQR(discount=0.8, anchor=0, transition=world.mdp.transition)
    setting = set_up(model.fit(panel), panel, None)
    assert LawError.of(setting) is None


def test_notes_say_what_is_counted(panel):
    fit = deeppqr.PQR(discount=0.8, anchor=0, reward="joint").fit(panel)
    assert "the law's part clustered by unit" in str(
        fit.counterfactual(panel, transfer={1: 0.5})
    )
    # Without the panel, and from another one, there are no sequels to count.
    for other in (None, panel.select(panel.unit > 3)):
        text = str(fit.counterfactual(other, transfer={1: 0.5}))
        assert "errors of the learned law are left out" in " ".join(text.split())


@pytest.mark.slow
def test_a_regressed_law_moves_with_its_units_as_learned_again():
    """States that do not repeat, the law by regression: its own linear smoother. The
    value's equation is solved by least squares, which leaves a residual that the formula
    takes for zero: a fiftieth is allowed for it."""
    world = deeppqr.worlds.SmoothWorld(seed=1)
    panel = world.simulate(steps=1_500, units=30, seed=2)
    fit = deeppqr.PQR(discount=0.8, anchor=world.actions[0], reward="joint").fit(panel)
    reward = fit.reward_function
    assert isinstance(reward, JointReward)
    first = Regression.learn(Steps.of(panel))
    fit = replace(fit, reward_function=replace(reward, law=first))
    told = fit.actions, fit.encoding, fit.discount
    scenario = read_scenario(*told, transfer={world.actions[1]: 0.5})

    def posed(law):
        moved = replace(fit, reward_function=replace(reward, law=law))
        setting = set_up(moved, panel, None)
        return setting, _Compared(setting, scenario, 5)

    setting, compared = posed(first)
    law = LawError.of(setting)
    assert law is not None
    _, pairs = compared.figures(setting.before(), setting.after(scenario), law)
    direct = np.stack([new.by_law - old.by_law for old, new in pairs])
    for unit in (0, 7):
        found = []
        for sign in (1, -1):
            weight = panel.weight * (1 + sign * STEP * (panel.unit == unit))
            steps = Steps.of(replace(panel, weight=weight))
            again = Regression(steps, first.features)
            found.append(posed(again)[1].changes(setting.reward)[0])
        slope = (found[0] - found[1]) / (2 * STEP)
        np.testing.assert_allclose(direct[:, unit], slope, atol=0.02 * np.abs(direct).max())

"""Changed problems over amounts: exact answers, gradients, what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.counterfactual._amounts import set_up_amounts
from deeppqr.worlds import LinearQuadratic

WORLD = LinearQuadratic()
TAX = -0.4


@pytest.fixture(scope="module")
def control():
    """Linear-quadratic control with one state variable, and its fit."""
    panel = WORLD.simulate(steps=3_000, units=60, seed=1)
    told: dict[str, Any] = {"discount": WORLD.discount, "anchor": 0.0}
    return panel, deeppqr.PQR(**told, anchor_reward=WORLD.anchor_reward).fit(panel)


@pytest.fixture(scope="module")
def investing():
    """Nothing, or an amount up to ten, and more of it in higher states."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=800)
    amount = np.clip(4 + 1.5 * state + 1.5 * rng.normal(size=800), 0.01, 9.99)
    amount[rng.random(800) < 0.4] = 0.0
    after = 0.6 * state + 0.1 * amount + 0.5 * rng.normal(size=800)
    space = deeppqr.Mixed(atoms=[0.0], box=deeppqr.Box(0.0, 10.0))
    told = {"unit": np.arange(800) % 50, "actions": space, "state_names": ["x"]}
    panel = deeppqr.Panel.from_arrays(state[:, None], amount, after[:, None], **told)
    return panel, deeppqr.PQR(discount=0.8, anchor=0.0).fit(panel)


def true_shift(rate: float) -> float:
    """By how much a payment per unit moves the mean action of `WORLD` in every state.

    With r + rate a the value is -P s^2 + b s + c, and the mean action moves by
    a_0 = (rate + discount B b) / (2 H) whatever the state, where
    b = discount A b - 2 discount P A B a_0.
    """
    (((drift,),), ((push,),)) = WORLD.drift.tolist(), WORLD.response.tolist()
    curve, discount = WORLD._optimum.value_cost[0, 0], WORLD.discount
    precision = WORLD._optimum.precision[0, 0]
    # b = k a_0 and a_0 = rate / (2 H) + m b.
    k = -2 * discount * curve * drift * push / (1 - discount * drift)
    m = discount * push / (2 * precision)
    return rate / (2 * precision) / (1 - m * k)


def test_a_tax_on_linear_quadratic_control_moves_actions_as_it_should(control):
    """In closed form; four standard errors are left to the estimate."""
    _, fit = control
    answer = fit.counterfactual(transfer=TAX)
    found = answer["now", "mean amount"]
    assert abs(found.change - true_shift(TAX)) < 4 * found.standard_error
    # In the long run states move too: their mean is m = (A + B K) m + B a_0.
    later, gain = answer["long run", "mean amount"], WORLD._optimum.gain[0, 0]
    push = WORLD.response[0, 0]
    moved = push * true_shift(TAX) / (1 - WORLD.drift[0, 0] - push * gain)
    expected = gain * moved + true_shift(TAX)
    assert abs(later.change - expected) < 4 * later.standard_error
    assert found.standard_error < 0.1 * abs(found.change)


def test_what_all_actions_are_paid_moves_the_value_alone(investing):
    """c in every period is worth c / (1 - discount), and changes no choice."""
    _, fit = investing
    answer = fit.counterfactual(transfer=lambda states, actions: np.full(len(states), 0.7))
    for horizon in ("now", "long run"):
        # The rounds end at a change of 1e-7 of log-odds.
        assert abs(answer[horizon, "mean amount"].change) < 1e-5
        assert abs(answer[horizon, "probability", 0.0].change) < 1e-6
        assert abs(answer[horizon, "transfer"].change - 0.7) < 1e-9
    # The ridge on the features' weights is relative to one row, 1e-3 of 800.
    assert abs(answer["now", "value"].change - 0.7 / 0.2) < 1e-3


def test_before_a_change_the_choices_are_the_fit_s(investing):
    panel, fit = investing
    answer = fit.counterfactual(panel, transfer=TAX)
    mass = np.exp(fit.log_policy(panel.state, 0.0))
    assert abs(answer["now", "probability", 0.0].before - mass.mean()) < 0.01
    assert not any("differs from the one" in note for note in answer.notes)
    table = answer.at_states()
    assert {"probability_0.0_before", "amount_after", "value_after"} <= set(table.columns)


@pytest.mark.parametrize(
    "change",
    [
        {"transfer": TAX, "periods": 3},
        {"transfer": {0.0: 0.5}},
        {"remove": 0.0, "discount": 0.6},
        {"transfer": lambda states, actions: states[:, 0] * actions[:, 0] / 10},
    ],
)
def test_errors_follow_from_how_the_answer_moves_with_the_coefficients(investing, change):
    """The delta method's gradient against the answer at other coefficients."""
    panel, fit = investing
    answer = fit.counterfactual(panel, **change)
    reward = fit.reward_function
    size, axes = np.linalg.eigh(reward.covariance)
    root = axes * np.sqrt(np.maximum(size, 0.0))
    step, moved = 1e-3, []
    for direction in root.T[-2:]:  # the two that move most
        ends = []
        for sign in (-step, step):
            shifted = replace(reward, theta=reward.theta + sign * direction)
            other = replace(fit, reward_function=shifted)
            ends.append(other.counterfactual(panel, **change).changes)
        moved.append((ends[1] - ends[0]) / (2 * step))
    pulled = _gradients(fit, panel, change) @ root[:, -2:]
    np.testing.assert_allclose(np.array(moved).T, pulled, rtol=0.02, atol=2e-4)
    assert len(answer.figures) == len(pulled)


def _gradients(fit, panel, change) -> Any:
    """Those of the changes by the coefficients."""
    from deeppqr.counterfactual._amounts import read_amount_scenario
    from deeppqr.counterfactual._counterfactual import _Compared

    options = dict(change)
    periods = options.pop("periods", None)
    scenario = read_amount_scenario(fit, **options)
    setting = set_up_amounts(fit, panel, None)
    compared = _Compared(setting, scenario, periods)
    _, gradients = compared.changes(setting.reward)
    basis, shapes = fit.reward_function.basis, fit.reward_function.shapes
    at = shapes(shapes.space.nodes().action)
    columns = basis.columns(setting.state)
    every = [basis.average(columns, one @ at).sum(axis=0) for one in gradients]
    return fit.temperature * np.array(every)


def test_the_anchor_s_reward_matters_where_it_can(investing):
    _, fit = investing
    safe = fit.counterfactual(transfer=TAX)
    assert not safe["now", "mean amount"].depends_on_anchor
    assert "cannot move the probabilities" in safe.identification
    moved = fit.counterfactual(discount=0.5, anchor_bounds=(-0.2, 0.2))
    found = moved["now", "mean amount"]
    assert found.depends_on_anchor
    assert found.anchor_low <= found.change <= found.anchor_high


def test_states_that_are_asked_about_are_solved_for_by_the_others(investing):
    """The same states as in the data, given by hand: the same answer."""
    panel, fit = investing
    given = fit.counterfactual(states=panel.state, transfer=TAX)
    mine = fit.counterfactual(panel, transfer=TAX)
    for key in (("now", "value"), ("now", "mean amount")):
        # The rounds end at 1e-7 of log-odds, which V multiplies by 1 / (1 - discount).
        assert abs(given[key].change - mine[key].change) < 1e-5


def test_saved_fits_answer_alike(investing, tmp_path):
    _, fit = investing
    fit.save(tmp_path / "run")
    mine, theirs = (
        each.counterfactual(transfer=TAX) for each in (fit, deeppqr.load(tmp_path / "run"))
    )
    np.testing.assert_allclose(theirs.changes, mine.changes)
    np.testing.assert_allclose(theirs.covariance, mine.covariance)


def test_stages_apart_need_the_panel_and_have_no_errors(control):
    panel, _ = control
    told: dict[str, Any] = {"discount": WORLD.discount, "anchor": 0.0}
    told["reward"] = "regression"
    fit = deeppqr.PQR(**told, anchor_reward=WORLD.anchor_reward).fit(panel)
    with pytest.raises(DataError, match=r"give the panel it was made from"):
        fit.counterfactual(transfer=TAX)
    answer = fit.counterfactual(panel, transfer=TAX)
    assert np.isnan(answer.covariance).all()
    # The stages' density and reward were estimated apart: no error to measure by.
    assert abs(answer["now", "mean amount"].change - true_shift(TAX)) < 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"add": {"a": 1}}, r"`add` is for finitely many actions.*Over amounts there are"),
        ({"transition": np.zeros(3)}, r"`transition` is for finitely many actions"),
        ({"remove": 3.0}, r"`remove` must name atoms of Mixed.*but 3\.0 arrived"),
        ({"remove": 11.0}, r"`remove` must be actions of Mixed"),
        ({"transfer": {2.0: 1.0}}, r"`transfer` as a dict must name atoms.*names 2\.0"),
        ({"transfer": {0.0: 1.0}, "remove": 0.0}, r"atoms of .* that are there"),
        ({"transfer": [1.0, 2.0]}, r"what a unit of the amount is paid.*\[1\.0, 2\.0\]"),
        ({"transfer": "x"}, r"what a unit of the amount is paid"),
        ({"transfer": lambda states: states}, r"`transfer` failed with TypeError"),
        (
            {"transfer": lambda states, actions: actions},
            r"`transfer` must give what is paid for the action.*\(800,\)",
        ),
        (
            {"transfer": lambda states, actions: np.full(len(states), np.nan)},
            r"`transfer` must be finite, but it is nan for the action",
        ),
        ({"scale": {0.0: 2.0}}, r"`scale` must be a finite number, the same for all"),
        ({"scale": np.inf}, r"`scale` must be a finite number"),
    ],
)
def test_changes_that_make_no_sense_are_refused(investing, change, message):
    panel, fit = investing
    with pytest.raises(DataError, match=message):
        fit.counterfactual(panel, **change)


def test_panels_of_others_are_refused(investing, control):
    with pytest.raises(DataError, match=r"must have the states and actions of the fit"):
        investing[1].counterfactual(control[0], transfer=TAX)

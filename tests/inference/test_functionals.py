"""Averages, slopes and contrasts: what linear rewards make of them, and their errors."""

import re

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.inference import reward_influence
from deeppqr.worlds import random_tabular

STATES = np.arange(7.0)[:, None]


def features(states):
    """Action 1 earns a + b x1, action 2 earns c x2 + d (town), nothing else."""
    x, y, west = np.asarray(states[:, 0], float), states[:, 1], states[:, 2] == "west"
    out = np.zeros((len(states), 3, 4))
    out[:, 1, 0], out[:, 1, 1] = 1.0, x
    out[:, 2, 2], out[:, 2, 3] = np.asarray(y, float), west
    return out


@pytest.fixture(scope="module")
def linear():
    """A fit whose reward is linear in two numbers and a category, with its panel."""
    rng = np.random.default_rng(0)
    rows = 1_500
    x, y = rng.normal(size=(2, rows))
    town = rng.choice(["east", "south", "west"], rows)
    frame = {
        "x": x,
        "y": y,
        "town": town,
        "a": rng.integers(3, size=rows),
        "unit": np.arange(rows) // 15,
    }
    import polars as pl

    panel = Panel.from_frame(
        pl.DataFrame(frame), state=["x", "y", "town"], action="a", unit="unit"
    )
    reward = deeppqr.reward.Joint(features=features)
    fit = deeppqr.PQR(discount=0.5, anchor=0, policy="logit", reward=reward).fit(panel)
    return fit, panel


@pytest.fixture(scope="module")
def counted():
    world = random_tabular(seed=4)
    panel = world.simulate(steps=4_000, units=40, seed=5)
    model = deeppqr.PQR(
        discount=0.9, anchor=0, policy="frequency", anchor_value="exact", reward="table"
    )
    return model.fit(panel), panel


def row_of(table, **labels):
    frame = table.frame()
    for name, value in labels.items():
        frame = frame.filter(frame[name] == value)
    assert len(frame) == 1
    return frame.row(0, named=True)


def test_slopes_of_a_linear_reward_are_its_coefficients(linear):
    """Rounding over the step of the difference: 1e-16 of the reward over 1e-3."""
    fit, _ = linear
    theta, covariance = fit.reward_function.theta, fit.reward_function.covariance
    found = fit.slopes("x")
    assert found.values == pytest.approx([theta[1], 0.0], abs=1e-9)
    assert found.standard_errors == pytest.approx([covariance[1, 1] ** 0.5, 0], abs=1e-9)


def test_steps_values_and_slopes_agree_on_a_line(linear):
    fit, panel = linear
    slope = fit.slopes("y", panel).values
    np.testing.assert_allclose(fit.compare("y", panel, step=1).values, slope, atol=1e-8)
    three = fit.compare("y", panel, values=(1.0, 4.0))
    np.testing.assert_allclose(three.values, 3 * slope, atol=1e-8)
    back = fit.compare("y", panel, values=(4.0, 1.0))
    np.testing.assert_allclose(back.values, -three.values)
    np.testing.assert_allclose(back.standard_errors, three.standard_errors)


def test_a_category_has_differences_between_levels(linear):
    fit, _ = linear
    theta = fit.reward_function.theta
    found = fit.slopes("town")
    assert row_of(found, town="west less east", action="2")["estimate"] == pytest.approx(
        theta[3]
    )
    assert row_of(found, town="south less east", action="2")["estimate"] == 0
    pair = fit.compare("town", values=("south", "west"))
    assert row_of(pair, action="2")["estimate"] == pytest.approx(theta[3])


def test_averages_are_means_and_groups_add_up_to_them(linear):
    fit, panel = linear
    reward = fit.reward(panel.encoding.decode(panel.state))
    whole = fit.average(panel)
    np.testing.assert_allclose(whole.values, reward.mean(axis=0))
    parts = fit.average(panel, by="town").frame()
    share = [np.mean(panel.encoding.decode(panel.state)[:, 2] == t) for t in parts["town"]]
    for index, action in enumerate(["0", "1", "2"]):
        rows = (parts["action"] == action).to_numpy()
        total = (parts["estimate"].to_numpy() * share)[rows].sum()
        assert total == pytest.approx(whole.values[index])


def test_taken_averages_are_over_the_rows_that_took_the_action(linear):
    fit, panel = linear
    reward = fit.reward(panel.encoding.decode(panel.state))
    found = fit.average(panel, taken=True)
    expected = [reward[panel.action == a, a].mean() for a in range(3)]
    np.testing.assert_allclose(found.values, expected)
    with pytest.raises(DataError, match=r"fit.average\(panel, taken=True\)"):
        fit.average(taken=True)


def test_errors_are_those_of_the_influence_functions(counted):
    fit, panel = counted
    exact = reward_influence(fit, panel)
    share = np.bincount(panel.state[:, 0].astype(int), minlength=7) / len(panel)
    found = fit.average(panel)
    for action in (1, 2):
        weight = np.zeros((7, 3))
        weight[:, action] = share
        value, error = exact.functional(weight)
        assert found.values[action] == pytest.approx(value)
        assert found.standard_errors[action] == pytest.approx(error)
    gap = fit.compare(None, panel, actions=(1, 2))
    weight[:, 1] = -share
    value, error = exact.functional(weight)
    assert (gap.values[0], gap.standard_errors[0]) == pytest.approx((value, error))


def test_tables_step_to_the_next_value_that_occurs(counted):
    """States 0, 1, ..., 6 equally weighted: mean differences telescope."""
    fit, _ = counted
    reward = fit.reward(STATES)
    found = fit.slopes("s" if "s" in fit.encoding.names else fit.encoding.names[0], STATES)
    np.testing.assert_allclose(found.values, (reward[6] - reward[0])[1:] / 6)
    assert "86 % of them stay in the table" in found.note
    with pytest.raises(DataError, match="None of the 7 states is still in the fit's table"):
        fit.compare(fit.encoding.names[0], STATES, step=0.5)


def test_numbers_are_grouped_by_quartiles_and_labels_as_given(linear):
    fit, panel = linear
    quartiles = fit.average(panel, by="x", actions=[1])
    assert len(quartiles.values) == 4
    theta = fit.reward_function.theta
    order = np.sort(panel.state[:, 0]).reshape(4, -1).mean(axis=1)
    np.testing.assert_allclose(quartiles.values, theta[0] + theta[1] * order, atol=0.02)
    labels = np.where(panel.unit % 2, "odd", "even")
    by_label = fit.average(panel, by=labels, actions=[1])
    assert by_label.labels["group"] == ["even", "odd"]
    both = fit.average(panel, by=["town", "x"], actions=[1])
    assert len(both.values) == 12


def test_weights_count(linear):
    fit, panel = linear
    weight = np.zeros(len(panel))
    weight[3] = 2.0
    one = fit.average(panel, weights=weight)
    state = panel.encoding.decode(panel.state[3:4])
    np.testing.assert_allclose(one.values, fit.reward(state)[0])
    np.testing.assert_allclose(one.standard_errors, fit.standard_errors(state)[0])


def test_tables_have_every_form(linear):
    found = linear[0].average(by="town", level=0.9)
    figures = [
        re.findall(r"\d+\.\d{2,4}", form.replace("$-$", "-"))
        for form in (found.text(), found.markdown(), found.latex(), found.html())
    ]
    assert figures[0] == figures[1] == figures[2] == figures[3]
    assert "90% low" in found.text()
    assert found._repr_html_().startswith("<table>")
    low, high = found.interval()
    np.testing.assert_allclose(found.frame()["low"].to_numpy()[1], low[1])
    assert (found.interval(0.99)[1] >= high).all()


MISTAKES = {
    "column": (lambda fit: fit.slopes("z"), r"one of the state columns \['x', 'y', 'town'"),
    "neither": (lambda fit: fit.compare("x"), "Give one of `step`"),
    "step of a category": (lambda fit: fit.compare("town", step=1), "is a category"),
    "level": (lambda fit: fit.compare("town", values=("x", "west")), "'x' is none of them"),
    "one action": (lambda fit: fit.compare(actions=[1]), "must name the two"),
    "group": (lambda fit: fit.average(by="units"), "`by` must name state columns"),
    "weights": (lambda fit: fit.average(weights=[1.0]), "`weights` must hold a number"),
    "actions": (lambda fit: fit.average(actions="a"), "`actions` must be a list of labels"),
    "confidence": (lambda fit: fit.average(level=95), "`level` must lie between 0 and 1"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(linear, case):
    ask, message = MISTAKES[case]
    with pytest.raises(DataError, match=message):
        ask(linear[0])

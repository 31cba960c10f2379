"""The numbers behind curves and surfaces, against rewards averaged by hand."""

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.plots import reward_curves
from deeppqr.plots._curves import AVERAGED, errors_of_means, reward_surface
from deeppqr.plots._style import number_text
from season_panel import decisions, panel_of


def test_a_curve_is_the_mean_reward_over_the_other_columns(fit):
    curves = reward_curves(fit, "x2")
    rng = np.random.default_rng(0)
    rows = rng.choice(len(fit.seen.state), AVERAGED, replace=False)
    for point in (0, 20, 40):
        states = fit.seen.state[rows].copy()
        states[:, 1] = curves.values[point]
        np.testing.assert_allclose(
            curves.reward[point], fit.reward(states).mean(axis=0), atol=1e-12
        )
    np.testing.assert_array_equal(curves.reward[:, 0], 0.0)  # the anchor's, known


def test_errors_of_means_are_those_of_the_coefficients(fit):
    """The variance of a mean has the covariances between states in it."""
    states, reward = fit.seen.state[:30], fit.reward_function
    weight = np.linspace(1, 2, 30) / np.linspace(1, 2, 30).sum()
    slopes = weight @ reward.slopes(states, np.full(30, 3))
    found = errors_of_means(fit, states, weight)
    assert found is not None
    np.testing.assert_allclose(found[0, 3], np.sqrt(slopes @ reward.covariance @ slopes))
    pointwise = fit.standard_errors(states)
    assert found[0, 3] < weight @ pointwise[:, 3]
    np.testing.assert_array_equal(found[:, 0], 0.0)


def test_errors_at_one_state_are_the_fits(fit):
    curves = reward_curves(fit, "x1", others="typical")
    assert curves.error is not None
    row = fit.seen.state[np.argmin(np.square(
        (fit.seen.state - fit.data.quantiles[50]) / fit.seen.scale
    ).sum(axis=1))]  # fmt: skip
    states = np.repeat(row[None], len(curves.values), axis=0)
    states[:, 0] = curves.values
    np.testing.assert_allclose(curves.reward, fit.reward(states), atol=1e-12)
    np.testing.assert_allclose(curves.error, fit.standard_errors(states), atol=1e-12)


def test_errors_scale_with_the_temperature(fit):
    twice = reward_curves(fit.at_temperature(2.0), "x1")
    once = reward_curves(fit, "x1")
    np.testing.assert_allclose(twice.reward, 2 * once.reward, atol=1e-12)
    assert once.error is not None
    assert twice.error is not None
    np.testing.assert_allclose(twice.error, 2 * once.error, atol=1e-12)


def test_a_category_has_a_point_for_each_level(mixed):
    curves = reward_curves(mixed, "season", others="typical")
    assert curves.values == ("cold", "dry", "wet")
    state = mixed.seen.state[np.argmin(np.square(
        (mixed.seen.state - np.append(mixed.data.quantiles[50, :1], mixed.data.mean[1:]))
        / mixed.seen.scale
    ).sum(axis=1))]  # fmt: skip
    size, busy, _ = mixed.encoding.decode(state[None])[0]
    frame = pl.DataFrame(
        {"size": [size] * 3, "busy": [busy] * 3, "season": ["cold", "dry", "wet"]}
    )
    np.testing.assert_allclose(curves.reward, mixed.reward(frame), atol=1e-12)


def test_a_curve_of_a_counted_table_is_the_table(counted):
    curves = reward_curves(counted, counted.encoding.names[0])
    states = np.array(curves.values)[:, None]
    assert len(states) == 7
    np.testing.assert_array_equal(curves.reward, counted.reward(states))


def test_a_surface_is_the_mean_reward_too(fit):
    surface = reward_surface(fit, "x1", "x3", others="typical")
    curves = reward_curves(fit, "x2", others="typical")
    assert surface.x.column.name == "x1"
    states = np.repeat(fit.seen.state[:1], 2, axis=0)
    base = curves.values  # any: x2 is that of the typical state in both
    assert len(base) == 41
    states[:, 0] = surface.x.values[3]
    states[:, 2] = surface.y.values[5]
    typical = fit.seen.state[np.argmin(np.square(
        (fit.seen.state - fit.data.quantiles[50]) / fit.seen.scale
    ).sum(axis=1))]  # fmt: skip
    states[:, 1] = typical[1]
    assert surface.error is not None
    np.testing.assert_allclose(surface.reward[5, 3], fit.reward(states)[0], atol=1e-12)
    np.testing.assert_allclose(
        surface.error[5, 3], fit.standard_errors(states)[0], atol=1e-12
    )


def test_points_outside_the_data_are_marked(fit):
    curves = reward_curves(fit, "x1")
    assert curves.inside.mean() > 0.9
    far = fit.seen.state[:200] + 1e6
    assert not fit.seen.inside(far).any()


def test_sentences_name_the_extremes_with_their_intervals(fit):
    curves = reward_curves(fit, "x1")
    said = curves.sentence(4, "4", 0.95)
    low = int(np.argmin(curves.reward[:, 4]))
    place = number_text(curves.values[low])
    lowest = f"{number_text(curves.reward[low, 4])} at x1 = {place} (95 % interval "
    assert said.startswith(f"Action 4: lowest, {lowest}")
    assert curves.sentence(0, 0, 0.95) == "Action 0: 0 everywhere."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit: reward_curves(fit, "x9"), r"`column` must be one of the state columns .*'x9'"),
        (lambda fit: reward_curves(fit, "x1", others="mean"), r"`others` must be \"average\" or \"typical\""),
        (lambda fit: reward_surface(fit, "x1", "x1"), "A surface takes two different columns"),
    ],
)  # fmt: skip
def test_wrong_requests_are_refused(fit, call, message):
    with pytest.raises(DataError, match=message):
        call(fit)


def test_a_table_has_no_surface(light):
    frame = decisions(2, rows=600).with_columns(busy=pl.col("busy"))
    panel = panel_of(frame, state=["busy", "season"])
    fit = deeppqr.PQR(discount=0.8, anchor="act 00", reward="table").fit(panel)
    with pytest.raises(DataError, match="reward is a table"):
        reward_surface(fit, "busy", "season")
    curves = reward_curves(fit, "season")
    rewards = fit.reward(frame)[:, 1]
    dry = (frame["season"] == "dry").to_numpy()
    np.testing.assert_allclose(curves.reward[1, 1], rewards[dry].mean(), atol=1e-12)

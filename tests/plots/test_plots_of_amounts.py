"""Figures and the report of fits over amounts."""

import re
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

import deeppqr
from deeppqr.continuous._cells import CellShares, cells_of
from deeppqr.plots._amounts import amount_curves, at_amounts

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def investing():
    """Nothing, or an amount up to ten; a number and a category."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=800)
    town = rng.integers(0, 2, 800)
    amount = np.clip(4 + 1.5 * state + town + 1.5 * rng.normal(size=800), 0.01, 9.99)
    amount[rng.random(800) < 0.4] = 0.0
    after = 0.6 * state + 0.1 * amount + 0.5 * rng.normal(size=800)
    space = deeppqr.Mixed(atoms=[0.0], box=deeppqr.Box(0.0, 10.0))
    names = np.array(["east", "west"], dtype=object)
    told: dict[str, Any] = {
        "unit": np.arange(800) % 50,
        "actions": space,
        "state_names": ["x", "town"],
    }
    given = np.stack([state.astype(object), names[town]], axis=1)
    ahead = np.stack([after.astype(object), names[town]], axis=1)
    panel = deeppqr.Panel.from_arrays(given, amount, ahead, **told)
    return panel, deeppqr.PQR(discount=0.8, anchor=0.0).fit(panel)


@pytest.fixture(scope="module")
def steering():
    """Two amounts, the anchor in the middle of the box."""
    rng = np.random.default_rng(1)
    state = rng.normal(size=(500, 1))
    amount = np.clip(0.5 * state + 0.6 * rng.normal(size=(500, 2)), -1.99, 1.99)
    after = 0.6 * state + 0.2 * amount[:, :1] + 0.4 * rng.normal(size=(500, 1))
    told: dict[str, Any] = {
        "unit": np.arange(500) % 50,
        "actions": deeppqr.Box([-2.0] * 2, [2.0] * 2),
    }
    panel = deeppqr.Panel.from_arrays(state, amount, after, **told)
    return deeppqr.PQR(discount=0.5, anchor=(0.0, 0.0)).fit(panel)


def test_curves_are_the_rewards_and_their_errors_averaged(investing):
    """At one state a curve is fit.reward with fit.standard_errors."""
    _, fit = investing
    curves: Any = amount_curves(fit, "x", others="typical")
    assert len(curves.names) == 3
    from deeppqr.plots._curves import base_states

    states, _, _ = base_states(fit, "typical", 1)
    middle = fit.data.quantiles[50, 0]
    state = fit.encoding.decode(np.column_stack([[middle], states[:, 1:]]))
    inside = slice(1, None)  # the first point is the atom's, a hair beside it
    reward = [fit.reward(state, a)[0] for a in curves.amount[inside]]
    np.testing.assert_allclose(curves.reward[1, inside], reward, rtol=1e-9)
    error = [fit.standard_errors(state, a)[0] for a in curves.amount[inside]]
    np.testing.assert_allclose(curves.error[1, inside], error, rtol=1e-6)
    # The anchor is the atom: it earns zero, without error.
    np.testing.assert_allclose(curves.atom_reward, 0.0, atol=1e-12)
    np.testing.assert_allclose(curves.atom_error, 0.0, atol=1e-12)


def test_shares_of_cells_are_integrals_of_the_density(investing):
    panel, fit = investing
    reward = fit.reward_function
    share = np.exp(CellShares(reward).log_prob(panel.state[:50]))
    np.testing.assert_allclose(share.sum(axis=1), 1.0, atol=1e-12)
    # The atom is the first of the grid, and its share no integral.
    atom = np.exp(fit.log_policy(fit.encoding.decode(panel.state[:50]), 0.0))
    # 400 Gauss-Legendre nodes; the sum over cells is normalised once more.
    np.testing.assert_allclose(share[:, 0], atom, rtol=1e-6)
    # Cells of amounts: nearest of the grid, counted by hand.
    cell = cells_of(reward.shapes.space, reward.grid, panel.amount)
    by_hand = np.abs(panel.amount - reward.grid[1:].T).argmin(axis=1) + 1
    np.testing.assert_array_equal(cell, np.where(panel.amount[:, 0] == 0, 0, by_hand))
    np.testing.assert_array_equal(fit.data.rows, np.bincount(cell, minlength=11))


def test_chosen_amounts_take_the_place_of_the_grid(investing):
    _, fit = investing
    shown: Any = at_amounts(fit, [7.25, 2.5])
    assert shown.actions == (0.0, 2.5, 7.25)
    assert shown.anchor == 0.0
    state = fit.encoding.decode(fit.seen.state[:4])
    np.testing.assert_allclose(shown.reward(state)[:, 2], fit.reward(state, 7.25))
    assert shown.data.share.sum() == pytest.approx(1.0)
    axis = fit.plot.reward("x", actions=[7.25])
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels == ["0.0 (anchor, known)", "7.25"]


def test_every_figure_of_amounts_is_drawn(investing, steering):
    _, fit = investing
    densities = fit.plot.density("x")
    assert len(densities) == 3
    assert all("in the data" in axis.get_title(loc="left") for axis in densities)
    assert len(fit.plot.density("town")) == 2
    # All of the tallest bar is seen, also in panels drawn after the first.
    tallest = max(patch.get_data()[0].max() for a in densities for patch in a.patches)
    assert densities[0].get_ylim()[1] > tallest
    assert fit.plot.amounts().get_xlabel() == "amount"
    assert len(fit.plot.amounts("town").get_legend().get_texts()) == 2
    assert "nearest to each" in fit.plot.policy().get_title(loc="left")
    assert "probability of the anchor" in fit.plot.anchor().get_xlabel()
    answer = fit.counterfactual(transfer=-0.2)
    names = [axis.get_xlabel().split(",")[0] for axis in fit.plot.counterfactual(answer)]
    assert names == ["probability", "mean amount"] * 2
    assert "density of the anchor" in steering.plot.anchor().get_xlabel()
    assert steering.plot.amounts(dimension=1).get_xlabel() == "amount 1"
    steering.plot.density(dimension=1)
    pyplot.close("all")


def test_the_report_has_the_sections_of_every_report_and_one_more(investing, tmp_path):
    panel, fit = investing
    answer = fit.counterfactual(panel, transfer=-0.2)
    page = fit.report(tmp_path / "r.html", results=answer).read_text(encoding="utf-8")
    for title in (
        "Rewards over the amount",
        "Rewards",
        "Identification",
        "The policy against the data",
        "The anchor&#39;s support",
        "Diagnostics",
        "How it was made",
    ):
        assert re.search(rf"<h2[^>]*>\s*{title}", page), title
    assert "mean amount" in page
    assert "actions=deeppqr.Mixed(atoms=[0.0], box=deeppqr.Box(0.0, 10.0))" in page.replace(
        "&#39;", "'"
    )


@pytest.mark.slow
def test_a_continuous_anchor_has_no_probability_in_the_report(steering, tmp_path):
    page = steering.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "a point of a continuum" in page
    assert re.search("the anchor(&#39;|')s density is", page)


def test_saved_fits_draw_the_same(investing, tmp_path):
    _, fit = investing
    fit.save(tmp_path / "run")
    again: Any = deeppqr.load(tmp_path / "run")
    mine, theirs = (amount_curves(each, "x") for each in (fit, again))
    np.testing.assert_allclose(theirs.reward, mine.reward)
    np.testing.assert_allclose(again.data.amount, fit.data.amount)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda plot: plot.amounts("y"), r"`column` must be one of the state columns"),
        (lambda plot: plot.amounts(dimension=1), r"`dimension` must be one of 0 to 0"),
        (lambda plot: plot.reward("x", actions=[11.0]), r"`actions` must be actions of"),
        (lambda plot: plot.density("y"), r"`column` must be one of the state columns"),
    ],
)
def test_what_cannot_be_drawn_is_said(investing, draw, message):
    with pytest.raises(deeppqr.DataError, match=message):
        draw(investing[1].plot)


def test_figures_of_amounts_are_not_for_labels(tabular):
    _, panel = tabular
    fit = deeppqr.PQR(discount=0.9, anchor=0, policy="frequency", reward="table").fit(panel)
    with pytest.raises(deeppqr.DataError, match=r"actions that are amounts, and this fit"):
        fit.plot.amounts()

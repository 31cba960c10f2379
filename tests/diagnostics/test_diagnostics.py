"""Diagnostics measure what they say and warn where they should."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import Panel
from deeppqr.diagnostics._diagnostics import ADVICE
from deeppqr.mdp import TabularMDP
from deeppqr.worlds import TabularWorld, random_tabular

NAMES = [
    "anchor_share",
    "anchor_share_rarest",
    "anchor_min_prob",
    "no_anchor_nearby",
    "anchor_leaves_data",
    "fewest_action_rows",
    "clipped_share",
    "held_out_gain",
    "log_odds_slope",
    "bellman_residual",
    "condition",
    "amplification",
    "anchor_residual",
    "effective_units",
]


@pytest.fixture(scope="module")
def fit(tabular):
    _, panel = tabular
    return deeppqr.PQR(discount=0.9, anchor=0, reward="regression").fit(panel)


def test_every_figure_is_there_with_words(fit):
    assert [figure.name for figure in fit.diagnostics] == NAMES
    assert all(len(figure.meaning) > 20 for figure in fit.diagnostics)
    printed = str(fit.diagnostics)
    assert all(name in printed for name in NAMES)
    with pytest.raises(KeyError, match="anchor_share"):
        fit.diagnostics["nothing"]


def test_shares_are_counted(fit, tabular):
    _, panel = tabular
    assert fit.diagnostics["anchor_share"].value == pytest.approx(
        (panel.action == 0).mean()
    )
    by_state = [np.mean(panel.action[panel.state[:, 0] == s] == 0) for s in range(7)]
    assert fit.diagnostics["anchor_share_rarest"].value == pytest.approx(min(by_state))
    assert fit.diagnostics["effective_units"].value == pytest.approx(100)
    assert fit.diagnostics.warnings == []


def test_no_signal_where_actions_ignore_states(rng):
    state, after = rng.normal(size=(2, 3_000, 2))
    action = rng.integers(0, 3, 3_000)
    panel = Panel.from_arrays(state, action, after, unit=np.arange(3_000) // 30)
    fit = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="regression").fit(
        panel
    )
    gain = fit.diagnostics["held_out_gain"]
    assert gain.verdict == "no signal"
    assert "the data cannot tell the rewards" in gain.meaning
    assert gain in fit.diagnostics.warnings
    assert "no signal" in fit.summary()


def test_signal_where_they_do_not(fit):
    assert fit.diagnostics["held_out_gain"].verdict == "ok"
    assert fit.diagnostics["held_out_gain"].value > 0.05


def test_held_out_gain_is_the_likelihood_gain(tabular):
    """On a large sample it approaches the mutual information of state and action."""
    world, _ = tabular
    panel = world.simulate(steps=200_000, units=200, seed=11)
    fit = deeppqr.PQR(discount=0.9, anchor=0, reward="regression").fit(panel)
    truth = world.log_policy(panel.state)
    shares = np.log(np.bincount(panel.action) / len(panel))
    gain = np.mean((truth - shares)[np.arange(len(panel)), panel.action])
    # The fitted table loses about (7 - 1) * 2 / (2 n) per decision to its own noise.
    assert fit.diagnostics["held_out_gain"].value == pytest.approx(gain, abs=2e-4)


def test_one_unit_is_judged_by_blocks_of_its_rows():
    """Noise is not taken for signal just because one unit has no clusters to compare."""
    verdicts = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        state = rng.normal(size=(400, 1))
        panel = Panel.from_arrays(state, rng.choice([0, 1], 400, p=[0.3, 0.7]), state)
        fit = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="regression").fit(
            panel
        )
        verdicts.append(fit.diagnostics["held_out_gain"].verdict)
    # A one-sided test of size 5 %: more than four of twenty has probability 0.003.
    assert verdicts.count("ok") <= 4


def test_few_rows_of_an_action_are_noted(tabular):
    _, panel = tabular
    keep = np.flatnonzero(panel.action != 2)
    some = np.flatnonzero(panel.action == 2)[:5]
    rows = np.zeros(len(panel), dtype=bool)
    rows[keep], rows[some] = True, True
    fit = deeppqr.PQR(discount=0.9, anchor=0, reward="regression").fit(panel.select(rows))
    figure = fit.diagnostics["fewest_action_rows"]
    assert figure.value == 5
    assert figure.verdict == "trouble"
    assert "the rarest action, 2," in figure.meaning


def test_few_units_are_noted(tabular):
    _, panel = tabular
    fit = deeppqr.PQR(discount=0.9, anchor=0, reward="regression").fit(
        panel.select(panel.unit < 5)
    )
    assert fit.diagnostics["effective_units"].verdict == "trouble"


def test_amplification_of_renewal_and_self_loop_anchors():
    """One under a renewal, 1 / (1 - discount) where the anchor leaves the state alone."""
    base = random_tabular(seed=30)
    for law, expected in ((np.full((7, 7), 1 / 7), 1.0), (np.eye(7), 10.0)):
        moves = base.mdp.transition.copy()
        moves[:, 0] = law
        world = TabularWorld(TabularMDP(base.mdp.reward, moves, 0.9))
        fit = deeppqr.PQR(discount=0.9, anchor=0, transition=moves).fit(
            world.simulate(steps=5_000, units=50, seed=31)
        )
        assert fit.diagnostics["amplification"].value == pytest.approx(expected, rel=1e-9)


def test_anchor_residual_sees_stages_that_disagree(tabular):
    _, panel = tabular
    rough = deeppqr.anchor.Averager(neighbours=2_000)
    fit = deeppqr.PQR(discount=0.9, anchor=0, anchor_value=rough, reward="regression").fit(
        panel
    )
    same = deeppqr.PQR(discount=0.9, anchor=0, reward="regression").fit(panel)
    assert same.diagnostics["anchor_residual"].value < 1e-9
    assert fit.diagnostics["anchor_residual"].value > 0.1


def test_empty_cells_of_a_table_are_counted(rng):
    """Only where there are any; the anchor's own reward is known and does not count."""
    state = rng.integers(0, 4, (600, 1)).astype(float)
    action = rng.integers(0, 3, 600)
    action[(state[:, 0] == 3) & (action == 2)] = 1
    panel = Panel.from_arrays(state, action, state[::-1], unit=np.arange(600) // 20)
    fit = deeppqr.PQR(discount=0.5, anchor=0, policy="logit", reward="table").fit(panel)
    figure = fit.diagnostics["unseen_share"]
    assert figure.value == pytest.approx(np.mean(state == 3) / 2)
    assert figure.verdict == "trouble"
    assert np.isnan(fit.reward([[3.0]])).tolist() == [[False, False, True]]
    whole = deeppqr.PQR(discount=0.5, anchor=0, policy="logit", reward="table").fit(
        panel.select(state[:, 0] < 3)
    )
    assert "unseen_share" not in [figure.name for figure in whole.diagnostics]


def test_summary_is_a_page(fit):
    lines = fit.summary().splitlines()
    assert max(map(len, lines)) <= 78
    assert any("frequencies in 7 distinct states" in line for line in lines)
    assert repr(fit).startswith("Fit(anchor=0, discount=0.9")


def test_warnings_are_one_screen_and_each_says_what_to_do():
    """A panel with almost everything wrong with it, and one with nothing."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=(600, 2))
    action = np.where(rng.random(600) < 0.008, 0, rng.integers(1, 3, 600))
    town = np.char.add("t", rng.integers(0, 150, 600).astype(str))
    columns = {"x1": state[:, 0], "x2": state[:, 1], "town": town, "a": action}
    frame = pl.DataFrame({**columns, "u": np.arange(600) // 150})
    named = {"state": ["x1", "x2", "town"], "action": "a", "unit": "u"}
    with pytest.warns(deeppqr.DataWarning, match="town"):
        panel = Panel.from_frame(frame, **named)
    model = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="linear")
    with pytest.warns(deeppqr.WeakOverlapWarning):
        fit = model.fit(panel)
    assert len(fit.diagnostics.warnings) >= 7
    assert all(figure.advice for figure in fit.diagnostics.warnings)
    lines = fit.summary().splitlines()
    start = max(n for n, line in enumerate(lines) if line.startswith("anchor_share "))
    end = max(n for n, line in enumerate(lines) if line.startswith("---"))
    assert end - start <= 48  # a terminal of 50 lines
    assert max(map(len, lines)) <= 78
    asked = [line for line in lines if line.startswith("    do: ")]
    assert len(asked) == len(fit.diagnostics.warnings)
    good = deeppqr.worlds.SmoothWorld(seed=1).simulate(steps=2_000, units=100, seed=2)
    clean = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="linear").fit(good)
    assert clean.diagnostics.warnings == []
    assert "    do: " not in clean.summary()
    assert len(clean.summary().splitlines()) < 50


def test_every_figure_has_advice(fit):
    page = Path(__file__).parents[2] / "docs" / "diagnostics.md"
    figures = re.findall(r"^## (\w+)$", page.read_text(encoding="utf-8"), re.M)
    assert sorted(figures) == sorted(ADVICE)
    assert {figure.name for figure in fit.diagnostics} <= set(ADVICE)
    assert all(figure.advice == "" for figure in fit.diagnostics if figure.verdict == "ok")

"""Holes in the anchor's support, and categories with few rows, are seen by any policy."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import deeppqr
from deeppqr import Panel
from deeppqr.diagnostics._holes import find_hole
from deeppqr.worlds import FirmWorld, KnownCostBus, PaperWorld, SamqBus, SmoothWorld

QUICK: dict[str, Any] = {"policy": "logit", "reward": "linear"}
FORMS = {
    "slab": lambda x: np.abs(x[:, 0]) < 0.55,
    "edge": lambda x: x[:, 0] > 0.7,
    "ball": lambda x: (x[:, :2] ** 2).sum(axis=1) < 0.8,
    "corner": lambda x: (x[:, 0] > 0) & (x[:, 1] > 0),
}


def choices(rows, width, hole=None, *, seed=0, share=0.2):
    """States, actions and log pi(anchor) of a policy that does not know of the hole."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(rows, width)) * 10.0 ** rng.integers(-2, 4, width)
    prob = share * (1 + 0.5 * np.tanh(state[:, -1] / state[:, -1].std()))
    taken = rng.random(rows) < prob
    if hole is not None:
        taken &= ~hole(state / state.std(axis=0))
    action = np.where(taken, 0, 1 + (rng.random(rows) < 0.5))
    panel = Panel.from_arrays(state, action, np.roll(state, 1, axis=0))
    return panel, np.log(prob)


@pytest.mark.parametrize("form", list(FORMS))
def test_a_hole_of_any_form_is_measured(form):
    panel, log_prob = choices(4_000, 3, FORMS[form])
    inside = FORMS[form](panel.state / panel.state.std(axis=0))
    found = find_hole(panel, 0, log_prob)
    # Balls without an anchor fill most of it and reach beyond it by a few rows.
    assert 0.6 * inside.mean() < found.share < inside.mean() + 0.02
    assert found.expected > 15


def test_a_hole_in_one_of_many_columns_is_named():
    panel, log_prob = choices(4_000, 30, FORMS["slab"])
    found = find_hole(panel, 0, log_prob)
    assert found.share > 0.3
    name, value = found.place.split(" = ")
    assert name == "x1"
    assert abs(float(value)) < 0.55 * panel.state[:, 0].std()


def test_no_hole_where_the_policy_is_right():
    """Fifty panels; one in a thousand is expected to have a false hole."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        width, share = int(rng.integers(1, 8)), float(rng.uniform(0.01, 0.6))
        panel, log_prob = choices(1_500, width, seed=seed, share=share)
        assert find_hole(panel, 0, log_prob).share == 0.0


def test_a_policy_that_knows_the_hole_expects_nothing_there():
    panel, log_prob = choices(4_000, 3, FORMS["slab"])
    inside = FORMS["slab"](panel.state / panel.state.std(axis=0))
    known = np.where(inside, np.log(1e-4), log_prob)
    assert find_hole(panel, 0, known).share == 0.0


def test_sampling_weights_make_no_hole():
    """Anchors that are a fifth as many among the rows, and weigh five times as much."""
    panel, log_prob = choices(6_000, 2, share=0.5)
    keep = (panel.action != 0) | (np.arange(6_000) % 5 == 0)
    assert find_hole(panel.select(keep), 0, log_prob[keep]).share == 0.0
    holed, log_prob = choices(6_000, 2, FORMS["slab"], share=0.5)
    keep = (holed.action != 0) | (np.arange(6_000) % 5 == 0)
    assert find_hole(holed.select(keep), 0, log_prob[keep]).share > 0.2


def test_a_category_without_anchors_is_a_hole():
    rng = np.random.default_rng(3)
    town = rng.integers(0, 4, 2_000)
    action = np.where(town == 2, 1, rng.integers(0, 2, 2_000))
    names = np.array(["east", "north", "south", "west"])[town]
    x = rng.normal(size=2_000)
    frame = {"x": x, "town": names, "a": action}
    panel = Panel.from_frame(_frame(frame), state=["x", "town"], action="a")
    found = find_hole(panel, 0, np.full(2_000, np.log(0.37)))
    assert found.share == pytest.approx(0.25, abs=0.1)
    assert "town" in found.place
    assert "south" in found.place


def test_a_logit_bridges_a_hole_and_the_verdict_says_so():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(3_000, 2))
    score = np.column_stack([np.zeros(3_000), 0.3 + 0.5 * state[:, 0], -0.2 + state[:, 1]])
    score[np.abs(state[:, 0]) < 0.55, 0] = -50.0
    action = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    after = 0.8 * state + 0.6 * rng.normal(size=state.shape)
    panel = Panel.from_arrays(state, action, after, unit=np.arange(3_000) // 10)
    found = deeppqr.PQR(discount=0.9, anchor=0, **QUICK).fit(panel).diagnostics
    others = [each.name for each in found.warnings]
    assert others == ["no_anchor_nearby"]
    assert found["no_anchor_nearby"].verdict == "trouble"
    assert "times near x1 = " in found["no_anchor_nearby"].meaning


@pytest.mark.parametrize(
    ("world", "options", "anchor"),
    [
        (PaperWorld(p=2, seed=1), {"steps": 3_000, "units": 30}, 0),
        (PaperWorld(p=5, reward_scale=10.0, seed=1), {"steps": 3_000, "units": 30}, 0),
        (SmoothWorld(seed=1), {"steps": 3_000, "units": 100}, 0),
        (KnownCostBus(), {"steps": 3_000, "units": 60}, "replace"),
        (KnownCostBus(), {"steps": 3_000, "units": 60}, "keep"),
        (SamqBus(), {"steps": 3_000, "units": 30}, 0),
        (FirmWorld(seed=1), {"units": 200, "periods": 12}, "wait"),
    ],
)
def test_clean_worlds_have_no_hole(world, options, anchor):
    panel = world.simulate(**options, seed=2)
    fit = deeppqr.PQR(discount=0.9, anchor=anchor, **QUICK).fit(panel)
    assert fit.diagnostics["no_anchor_nearby"].verdict == "ok"


def test_it_takes_a_moment():
    panel, log_prob = choices(50_000, 10)
    started = time.perf_counter()
    find_hole(panel, 0, log_prob)
    assert time.perf_counter() - started < 1.0  # 0.1 s on an idle machine


# ---- rows behind a category's levels


def towns(rows, levels, *, seed=0):
    rng = np.random.default_rng(seed)
    town = np.char.add("t", rng.integers(0, levels, rows).astype(str))
    frame = {"x": rng.normal(size=rows), "town": town, "a": rng.integers(0, 2, rows)}
    return Panel.from_frame(_frame(frame), state=["x", "town"], action="a")


def _frame(columns):
    import polars as pl

    return pl.DataFrame(columns)


@pytest.mark.parametrize(
    ("rows", "levels", "verdict"),
    [(1_000, 4, "ok"), (1_000, 30, "watch"), (1_000, 200, "trouble")],
)
def test_levels_with_few_rows_are_noted(rows, levels, verdict):
    crowded = (
        pytest.warns(deeppqr.DataWarning, match="town") if levels > 100 else nullcontext()
    )
    with crowded:
        panel = towns(rows, levels)
    fit = deeppqr.PQR(discount=0.0, anchor=0, anchor_value="averager", **QUICK).fit(panel)
    figure = fit.diagnostics["rows_per_level"]
    assert figure.verdict == verdict
    names, count = np.unique(panel.encoding.decode(panel.state)[:, 1], return_counts=True)
    size = dict(zip(names, count, strict=True))
    behind = [size[town] for town in panel.encoding.decode(panel.state)[:, 1]]
    assert figure.value == pytest.approx(np.median(behind) / 2)
    assert f"level of 'town', which has {len(names)};" in figure.meaning


def test_levels_are_no_concern_without_categories_or_where_they_are_shrunk(tabular):
    _, panel = tabular
    fit = deeppqr.PQR(discount=0.9, anchor=0, reward="regression").fit(panel)
    assert "rows_per_level" not in [figure.name for figure in fit.diagnostics]
    joint = deeppqr.PQR(discount=0.0, anchor=0, reward="joint").fit(towns(300, 20))
    assert "rows_per_level" not in [figure.name for figure in joint.diagnostics]

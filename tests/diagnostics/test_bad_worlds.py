"""Worlds built to be bad, each flagged by the name of what is wrong; clean ones are not."""

import re
import warnings

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import DataWarning, Panel, WeakOverlapWarning
from deeppqr.worlds import PaperWorld, SmoothWorld, random_tabular

QUICK: dict = {"policy": "logit", "reward": "linear"}


def walk(rows=4_000, units=80, seed=0):
    """A frame of a bounded walk whose actions depend on the state: nothing is wrong."""
    rng = np.random.default_rng(seed)
    length = rows // units
    x, chosen = np.zeros((units, length)), np.zeros((units, length), dtype=int)
    now = rng.normal(size=units)
    for time in range(length):
        x[:, time] = now
        odds = np.stack([np.zeros(units), 0.8 * now, -0.5 * now], axis=1)
        chosen[:, time] = (odds + rng.gumbel(size=odds.shape)).argmax(axis=1)
        moved = 0.7 * now + np.array([-0.2, 0.3, 0.0])[chosen[:, time]]
        now = moved + 0.6 * rng.normal(size=units)
    unit, time = np.divmod(np.arange(rows), length)
    columns = {"unit": unit, "time": time, "x": x.ravel(), "a": chosen.ravel()}
    return pl.DataFrame(columns)


def read(frame, *states):
    named = {"state": ["x", *states], "action": "a", "unit": "unit", "time": "time"}
    return Panel.from_frame(frame, **named)


def fitted(panel, **options):
    model = deeppqr.PQR(**({"discount": 0.9, "anchor": 0} | QUICK | options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)
        return model.fit(panel)


def flags(fit):
    return {figure.name for figure in fit.diagnostics.warnings}


def rare_anchor():
    world = PaperWorld(p=2, reward_scale=3.0, seed=1, premium=6.0)
    return fitted(world.simulate(steps=4_000, units=80, seed=2))


def chain_that_leaves():
    """Decisions are observed up to x = 1, and the anchor leads beyond."""
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, size=(3_000, 2))
    action = (rng.random(3_000) < 0.3 + 0.3 * (state[:, 0] > 0)).astype(int)
    after = np.where(action[:, None] == 0, state + 2.5, 0.5 * state)
    unit = np.arange(3_000) // 30
    return fitted(Panel.from_arrays(state, action, after, unit=unit))


def miscalibrated_policy():
    """Odds three times as extreme as those of the decisions."""
    world = SmoothWorld(seed=1)
    panel = world.simulate(steps=4_000, units=100, seed=2)
    told = lambda states: 3.0 * world.log_policy(states)
    extreme = lambda states: (
        told(states) - np.log(np.exp(told(states)).sum(axis=1, keepdims=True))
    )
    return fitted(panel, policy=deeppqr.policy.Given(extreme))


def few_units():
    return fitted(read(walk(units=5, rows=1_000)))


def table():
    return random_tabular(seed=4).simulate(steps=6_000, units=100, seed=5)


def near_singular():
    """I - discount * P of a discount so near one that half of the digits are lost."""
    options = {"policy": "frequency", "reward": "table", "discount": 1 - 1e-9}
    return fitted(table(), **options)


def far_horizon():
    """400 decisions, and agents who look a million periods ahead."""
    return fitted(read(walk(units=20, rows=400)), reward="joint", discount=1 - 1e-6)


FITS = {
    rare_anchor: "anchor_share",
    chain_that_leaves: "anchor_leaves_data",
    miscalibrated_policy: "log_odds_slope",
    few_units: "effective_units",
    near_singular: "condition",
    far_horizon: "amplification",
}


WORLDS = [
    pytest.param(world, marks=[pytest.mark.slow] if world is far_horizon else [])
    for world in FITS
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.__name__)
def test_a_bad_world_is_flagged_by_name(world):
    fit = world()
    assert FITS[world] in flags(fit)
    assert fit.diagnostics[FITS[world]].advice


COLUMNS = {
    "a trend": (
        lambda f: f.with_columns(trend=pl.col("time") * 1.0),
        "'trend' is the time",
    ),
    "the unit's name": (
        lambda f: f.with_columns(firm=pl.col("unit") * 1.0),
        "'firm' numbers the units",
    ),
    "the action itself": (
        lambda f: f.with_columns(profit=10.0 * pl.col("a")),
        "'profit' tells the action",
    ),
    "a column twice": (
        lambda f: f.with_columns(celsius=(pl.col("x") - 32) / 1.8),
        "'celsius' is 'x' again",
    ),
    "nearly a column twice": (
        lambda f: f.with_columns(rounded=pl.col("x").round(3)),
        "'rounded' is 'x' again",
    ),
    "the next state": (
        lambda f: f.with_columns(
            later=pl.col("x").shift(-1).over("unit").fill_null(strategy="forward")
        ),
        "'later' is the next value of 'x'",
    ),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_bad_state_column_is_flagged_by_name(case):
    add, words = COLUMNS[case]
    frame = add(walk())
    with pytest.warns(DataWarning, match=re.escape(words)):
        read(frame, frame.columns[-1])


def test_a_column_twice_leaves_the_solve_well_conditioned():
    """The solve's penalty bears what the column warning is about."""
    frame = walk().with_columns(again=pl.col("x"))
    with pytest.warns(DataWarning, match="'again' is 'x' again"):
        panel = read(frame, "again")
    assert fitted(panel).diagnostics["condition"].verdict == "ok"


CLEAN = {
    "walk": lambda: read(walk()),
    "another walk": lambda: read(walk(seed=3)),
    "smooth": lambda: SmoothWorld(seed=1).simulate(steps=4_000, units=100, seed=2),
    "table": table,
}


@pytest.mark.parametrize("case", CLEAN)
def test_clean_worlds_are_not_flagged(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = fitted(CLEAN[case]())
    assert not flags(fit) & set(FITS.values())

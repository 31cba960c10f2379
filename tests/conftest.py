"""Shared fixtures. Annotations are enforced: every call is checked against its shapes."""

import jax
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import install_import_hook

# Before the package is imported, so that every annotated function is wrapped.
install_import_hook(["deeppqr", "deeppqr_studies"], "typecheck.check")

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jr.key(0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def tabular():
    """A 7 x 3 world and 20,000 decisions in it; the anchor's reward varies."""
    from deeppqr.worlds import random_tabular

    world = random_tabular(seed=4)
    return world, world.simulate(steps=20_000, units=100, seed=5)


@pytest.fixture(scope="session")
def paper():
    """The paper's world at p = 3 and 6,000 decisions in it."""
    from deeppqr.worlds import PaperWorld

    world = PaperWorld(p=3, reward_scale=5.0, seed=1)
    return world, world.simulate(steps=6_000, units=60, seed=2)


@pytest.fixture
def few_jumps(monkeypatch):
    """The paper's world with 64 states to jump to in place of 8,192.

    The sample is part of the world's definition: what holds exactly holds for any.
    """
    monkeypatch.setattr("deeppqr.worlds._paper.JUMPS", 6)


@pytest.fixture
def anchor_reward(tabular):
    """The tabular world's g, as a function of its states."""
    world, _ = tabular
    return lambda states: world.mdp.reward[states[:, 0].astype(int), 0]


HOSTILE_NAME = "<img src=x onerror=alert(1)>"
HOSTILE_LEVELS = ["=1+1", "north", "\u202eevil", "<b>x</b>"]
HOSTILE_ACTIONS = ["none", "<script>alert(2)</script>", "=cmd()"]


@pytest.fixture(scope="session")
def hostile_fit():
    """600 decisions whose names try to be markup and formulas, with every kind of column."""
    import polars as pl

    from deeppqr import PQR, Panel

    rng = np.random.default_rng(0)
    rows = 600
    frame = pl.DataFrame(
        {
            "unit": np.arange(rows) // 12,
            "time": np.arange(rows) % 12,
            "price": rng.normal(size=rows).round(3),
            HOSTILE_NAME: rng.choice(HOSTILE_LEVELS, rows),
            "open": rng.random(rows) < 0.5,
            "action": rng.choice(HOSTILE_ACTIONS, rows, p=[0.5, 0.3, 0.2]),
        }
    )
    panel = Panel.from_frame(
        frame,
        state=["price", HOSTILE_NAME, "open"],
        action="action",
        unit="unit",
        time="time",
    )
    return PQR(discount=0.9, anchor="none").fit(panel)

"""Small fits to draw and report on: numbers, categories, many actions."""

from collections.abc import Callable
from typing import Any

import pytest

import deeppqr
from season_panel import decisions, panel_of

# Fixtures that several folders import are made once for each of them; fits are made once.
_made: dict[str, deeppqr.Fit] = {}


def once(name: str, make: Callable[[], deeppqr.Fit]) -> deeppqr.Fit:
    if name not in _made:
        _made[name] = make()
    return _made[name]


@pytest.fixture(scope="session")
def light():
    """Joint estimation from a logit: quick, and with errors in closed form."""
    return {"policy": "logit", "reward": "joint"}


@pytest.fixture(scope="session")
def fit(paper, light):
    """Of the paper's world at p = 3; five actions, of which 0 is the anchor."""
    world, panel = paper
    model = deeppqr.PQR(discount=world.discount, anchor=0, **light)
    return once("fit", lambda: model.fit(panel.select(panel.unit < 10)))


@pytest.fixture(scope="session")
def mixed(light):
    """A number, a flag and a category; three actions."""
    model = deeppqr.PQR(discount=0.8, anchor="act 00", **light)
    return once("mixed", lambda: model.fit(panel_of(decisions(3))))


@pytest.fixture(scope="session")
def many():
    """Nine actions; no errors in closed form."""
    stages: Any = {"policy": "logit", "anchor_value": "linear", "reward": "linear"}
    model = deeppqr.PQR(discount=0.8, anchor="act 00", **stages)
    return once("many", lambda: model.fit(panel_of(decisions(9))))


@pytest.fixture(scope="session")
def counted(tabular):
    """A counted table over one category-like number."""
    _, panel = tabular
    return once("counted", lambda: deeppqr.PQR(discount=0.9, anchor=0).fit(panel))

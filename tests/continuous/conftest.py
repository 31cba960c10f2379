"""Two worlds of amounts with exact truth: linear-quadratic control, and one built backwards."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.polynomial import hermite_e

import deeppqr
from deeppqr import Box, Mixed, Panel


class World(NamedTuple):
    """Decisions of a world, and what is true of it at any state and action."""

    panel: Panel
    reward: Callable
    log_density: Callable
    """With respect to the measure of the panel's space."""
    anchor_reward: Callable
    discount: float

    def fit(self, **settings):
        told: dict[str, Any] = {"discount": self.discount, "anchor": 0.0}
        told |= {"anchor_reward": self.anchor_reward} | settings
        return deeppqr.PQR(**told).fit(self.panel)

    @property
    def taken(self):
        """States and actions of the decisions."""
        assert self.panel.amount is not None
        return self.panel.state, self.panel.amount


# s' = 0.9 s + 0.5 a + 0.5 e, r = -0.5 s^2 - a^2, discount 0.9, temperature 1.
KEEP, MOVE, NOISE, COST, EFFORT, DISCOUNT = 0.9, 0.5, 0.5, 0.5, 1.0, 0.9


def riccati():
    """P of V = -P s^2 + const, and the policy's slope and standard deviation."""
    p = COST
    for _ in range(2_000):  # a contraction: 0.9^2000 is below rounding
        curve = EFFORT + DISCOUNT * p * MOVE**2
        p = COST + DISCOUNT * p * KEEP**2 - (DISCOUNT * p * KEEP * MOVE) ** 2 / curve
    curve = EFFORT + DISCOUNT * p * MOVE**2
    return p, -DISCOUNT * p * KEEP * MOVE / curve, np.sqrt(0.5 / curve)


def linear_quadratic(rows, seed, units=50):
    """Decisions of the entropy-regularised controller; the box has nearly all of its mass."""
    rng = np.random.default_rng(seed)
    _, slope, sd = riccati()
    state = rng.normal(size=units)
    rows_of = []
    for _ in range(rows // units):
        action = slope * state + sd * rng.normal(size=units)
        after = KEEP * state + MOVE * action + NOISE * rng.normal(size=units)
        rows_of.append((state, action, after))
        state = after
    state, action, after = (
        np.stack(part, axis=1).ravel() for part in zip(*rows_of, strict=True)
    )
    box = Box(-3.2, 3.2)
    inside = np.abs(action) < 3.2
    unit = np.repeat(np.arange(units), rows // units)
    panel = Panel.from_arrays(
        state[inside], action[inside], after[inside], unit=unit[inside], actions=box
    )

    def log_density(s, a):
        spread = ((a[:, 0] - slope * s[:, 0]) / sd) ** 2
        return -0.5 * spread - np.log(sd * np.sqrt(2 * np.pi)) + box.log_volume

    return World(
        panel,
        lambda s, a: -COST * s[:, 0] ** 2 - EFFORT * a[:, 0] ** 2,
        log_density,
        lambda s: -COST * s[:, 0] ** 2,
        DISCOUNT,
    )


def invest_or_not(rows, seed, units=100, discount=0.8):
    """Nothing, or an amount up to ten: Q is chosen, and r follows from it backwards."""
    space = Mixed(atoms=[0.0], box=Box(0.0, 10.0))
    rng = np.random.default_rng(seed)
    nodes = Box(0.0, 10.0).nodes(60)
    deviation, mass = hermite_e.hermegauss(15)
    mass = mass / mass.sum()

    def q(s, a):
        """Of states and amounts in arrays that broadcast."""
        amount = 1.0 + np.tanh(s) - 0.12 * (a - 4 - 2 * np.tanh(s)) ** 2
        return np.where(a == 0, 0.3 * np.sin(s), amount)

    def value(s):
        inside = np.exp(q(s[..., None], nodes.action[:, 0])) @ nodes.weight
        return np.log(np.exp(q(s, np.zeros(1))) + inside)

    def aim(s, a):
        return 0.7 * s + 0.15 * (a - 4) * (a > 0)

    def reward(s, a):
        s, a = s[:, 0], a[:, 0]
        after = value(aim(s, a)[:, None] + 0.6 * deviation) @ mass
        return q(s, a) - discount * after

    def draw(s):
        logits = q(s[:, None], np.append(0.0, nodes.action[:, 0]))
        weights = np.exp(logits) * np.append(1.0, nodes.weight)
        cumulated = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        at = (rng.random((len(s), 1)) > cumulated).sum(axis=1)
        # Between the nodes: rejection from the largest density in the box.
        found = np.zeros(len(s))
        left = np.flatnonzero(at > 0)
        while len(left):
            tried = rng.uniform(0, 10, len(left))
            most = 1.0 + np.tanh(s[left])
            kept = np.log(rng.random(len(left))) < q(s[left], tried) - most
            found[left[kept]] = tried[kept]
            left = left[~kept]
        return found

    state, rows_of = rng.normal(size=units), []
    for _ in range(rows // units):
        action = draw(state)
        after = aim(state, action) + 0.6 * rng.normal(size=units)
        rows_of.append((state, action, after))
        state = after
    state, action, after = (
        np.stack(part, axis=1).ravel() for part in zip(*rows_of, strict=True)
    )
    unit = np.repeat(np.arange(units), rows // units)
    panel = Panel.from_arrays(state, action, after, unit=unit, actions=space)
    return World(
        panel,
        reward,
        lambda s, a: q(s[:, 0], a[:, 0]) - value(s[:, 0]),
        lambda s: reward(s, np.zeros((len(s), 1))),
        discount,
    )


@pytest.fixture(scope="session")
def control():
    """Linear-quadratic control, 4,000 decisions, and its fit."""
    world = linear_quadratic(4_000, seed=0)
    return world, world.fit()


@pytest.fixture(scope="session")
def invested():
    """Nothing or an amount, 4,000 decisions, and its fit."""
    world = invest_or_not(4_000, seed=0)
    return world, world.fit()

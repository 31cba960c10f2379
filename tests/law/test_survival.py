"""How long an action can be repeated, as a law of moves tells it."""

from dataclasses import replace

import numpy as np
import pytest

from deeppqr import Panel
from deeppqr.law._moves import MOVES, Moves
from deeppqr.law._survival import STEPS, Survival
from deeppqr.law._transition import Steps

# Every state and action 20 times, each by a unit of its own: a design, and copies.
pytestmark = pytest.mark.filterwarnings("ignore::deeppqr.DataWarning")

WALL, DISCOUNT = 20.0, 0.9


def learn_walk(*, wall):
    """Action 0 stays, action 1 walks on; from the wall, if any, it leads back to zero."""
    state = np.tile(np.arange(WALL + 1), 40)[:, None]
    action = np.repeat([0, 1], len(state) // 2)
    there = np.where(action[:, None] == 1, state + 1, state)
    if wall:
        there = np.where(there > WALL, 0.0, there)
    steps = Steps.of(Panel.from_arrays(state, action, there, unit=np.arange(len(state))))
    # Rows that weigh a million each: leaves are smoothed by half a row for each fate.
    return Moves.learn(replace(steps, weight=1e6 * steps.weight))


@pytest.fixture(scope="module")
def moves():
    found = learn_walk(wall=True)
    assert found.varied.tolist() == [False, True]
    assert found.fate_of_aim
    return found


def test_the_discounted_time_is_the_geometric_sum(moves):
    """From d steps before the wall: 1 - discount^k for the last k <= d looked up."""
    state = np.arange(WALL + 1)[:, None]
    now, time = Survival(moves, DISCOUNT)(state).T
    left = WALL - state[:, 0]
    last = np.array([max([k for k in STEPS if k <= d], default=0) for d in left])
    # Five chances, each off by half a row in the five million of a leaf at least.
    np.testing.assert_allclose(now, left >= 1, atol=1e-6)
    np.testing.assert_allclose(time, 1 - DISCOUNT**last, atol=1e-6)


def test_each_lookup_multiplies_the_chance_to_go_on(moves):
    """The definition, step by step, with the chances that the law itself gives."""
    state = np.linspace(0, WALL, 57)[:, None]
    survival = Survival(moves, DISCOUNT)
    alive, time, before = np.ones(57), np.zeros(57), 0
    for steps in STEPS:
        here = state + (steps - 1) * moves.step[1]
        alive = alive * moves.chances(here)[:, 1, MOVES]
        time += alive * (DISCOUNT**before - DISCOUNT**steps)
        before = steps
    np.testing.assert_allclose(survival(state)[:, 1], time, atol=1e-12)


def test_repeating_steps_is_adding_them_up(moves):
    """A walk is looked up where its steps add up to; others are followed step by step."""
    weight = moves.weight.copy()
    weight[1, 0] = 1e-300  # a smooth part, though not one that moves anything
    followed = replace(moves, weight=weight)
    state = np.linspace(0, WALL, 57)[:, None]
    np.testing.assert_allclose(
        Survival(followed, DISCOUNT)(state), Survival(moves, DISCOUNT)(state), atol=1e-12
    )


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
def test_coordinates_lie_between_zero_and_one(moves, discount):
    found = Survival(moves, discount)(np.linspace(-5, WALL + 5, 40)[:, None])
    assert found.shape == (40, 2)
    assert (found >= 0).all()
    assert (found <= 1).all()
    if discount == 0:  # only the first period counts, and it is the chance to move on
        np.testing.assert_allclose(found[:, 1], found[:, 0], atol=1e-12)


def test_without_fates_there_is_nothing_to_tell():
    survival = Survival(learn_walk(wall=False), DISCOUNT)
    assert survival.width == 0
    assert survival(np.zeros((3, 1))).shape == (3, 0)

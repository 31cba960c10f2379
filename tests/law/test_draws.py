"""Draws from every law have the law's own expectations.

Tolerances: the mean of n draws of f misses E[f] by sd(f) / sqrt(n), and a maximum over a
few dozen of such means is within five of these errors.
"""

from dataclasses import replace

import numpy as np
import pytest

from deeppqr import Panel
from deeppqr.anchor._known import KnownTransition
from deeppqr.inference._fitted_law import Sampler
from deeppqr.law import _moves, _regression, _table, _transition
from deeppqr.mdp import Law
from deeppqr.panel._cells import Cells

DRAWS = 20_000


def curved(state):
    return np.column_stack([state[:, 0], np.sin(state[:, 0]), state[:, 0] ** 2])


def steps_of(seed, *, ending=0.1, reset=0.1, number=1_500):
    """A walk with noise of eight sizes, resets to a place of its own, and ends."""
    rng = np.random.default_rng(seed)
    state, action = rng.uniform(0, 10, size=(number, 2)), rng.integers(2, size=number)
    noise = rng.integers(-2, 3, size=number) / 10
    after = state + np.column_stack([action + noise, np.zeros(number)])
    resets = rng.random(number) < reset
    after[resets] = rng.uniform(-60, -50, size=(int(resets.sum()), 2))
    unit, terminal = np.arange(number) // 10, rng.random(number) < ending
    panel = Panel.from_arrays(state, action, after, unit=unit, terminal=terminal)
    return _transition.Steps.of(panel)


def agrees(draws, ends, expected):
    """Whether a mean over draws is the expectation, an end counting as zero."""
    values = np.where(ends[:, None], 0.0, draws)
    error = values.std(axis=0) / np.sqrt(len(values))
    np.testing.assert_array_less(np.abs(values.mean(axis=0) - expected), 5 * error + 1e-9)


def drawn(law, state, action, seed=0):
    """Many draws from one state."""
    many, code = np.repeat(state[None], DRAWS, axis=0), np.full(DRAWS, action)
    return law.draw(many, code, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("action", range(2))
def test_draws_of_moves_have_the_laws_expectations(seed, action):
    """Of any function: draws are from the very outcomes that expectations are over."""
    law = _moves.Moves.learn(steps_of(seed))
    assert len(law.landing) > 0
    state = np.array([4.0, 6.0])
    there, ends = drawn(law, state, action)
    expected = law.ahead(curved)(state[None])[0, action]
    agrees(curved(there), ends, expected)
    assert law.survival(state[None], np.array([action]))[0] < 1


@pytest.mark.parametrize("seed", range(2))
def test_draws_of_a_table_have_its_expectations(seed):
    rng = np.random.default_rng(seed)
    state, action = rng.integers(4, size=(400, 1)), rng.integers(2, size=400)
    after = rng.integers(4, size=(400, 1)).astype(float)
    panel = Panel.from_arrays(
        state.astype(float),
        action,
        after,
        unit=np.arange(400) // 10,
        terminal=rng.random(400) < 0.2,
        weight=rng.uniform(0.5, 2, 400),
    )
    law = _table.Table.learn(_transition.Steps.of(panel))
    assert law is not None
    for cell in range(4):
        for code in range(2):
            there, ends = drawn(law, np.array([float(cell)]), code)
            expected = law.ahead(curved)(np.array([[float(cell)]]))[0, code]
            agrees(curved(there), ends, expected)


def test_a_pair_that_always_ends_leads_nowhere():
    panel = Panel.from_arrays(
        np.zeros((40, 1)),
        np.arange(40) % 2,
        np.zeros((40, 1)),
        unit=np.arange(40) // 4,
        terminal=np.arange(40) % 2 == 1,
    )
    law = _table.Table.learn(_transition.Steps.of(panel))
    assert law is not None
    for code, chance in enumerate((0.0, 1.0)):
        _, ends = drawn(law, np.zeros(1), code)
        assert ends.mean() == chance


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("action", range(2))
def test_draws_of_a_regression_have_its_mean(base, action):
    """Of the state and of going on; of curved functions a regression's expectation is its
    own, and no distribution has all of them."""
    steps = steps_of(3, reset=0.0, ending=0.1)
    moves = _moves.Moves.learn(steps) if base else None
    law = _regression.Regression.learn(steps, base=moves)
    state = np.array([4.0, 6.0])
    there, ends = drawn(law, state, action)
    one = lambda s: np.column_stack([s, np.ones(len(s))])
    expected = law.ahead(one)(state[None])[0, action]
    values = np.column_stack([there, np.ones(DRAWS)])
    agrees(values, ends, expected)


def test_errors_of_a_regression_vary_with_the_state():
    """Where the noise is ten times as large, so are the draws' deviations."""
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, size=(4_000, 1))
    size = np.where(state > 0, 1.0, 0.1)
    after = 0.5 * state + size * rng.normal(size=(4_000, 1))
    panel = Panel.from_arrays(
        state, np.arange(4_000) % 2, after, unit=np.arange(4_000) // 9
    )
    law = _regression.Regression.learn(_transition.Steps.of(panel))
    for at, truth in ((-0.5, 0.1), (0.5, 1.0)):
        there, _ = drawn(law, np.array([at]), 0)
        # A standard deviation from 25 rows has a relative error of 1 / sqrt(50).
        assert there.std() == pytest.approx(truth, rel=3 / np.sqrt(50))


@pytest.mark.parametrize("common", [False, True])
def test_draws_of_a_known_function_have_its_expectations(common):
    """Outcomes with probabilities, and a common draw or an end for the rest."""

    def function(states, action):
        places = np.stack([states + action, states - 1], axis=1)
        return places, np.tile([0.5, 0.3], (len(states), 1))

    points = np.array([[-3.0], [7.0]]) if common else None
    law, state = Law(function, common=points), np.array([[2.0]])
    there, ends = law.draw(np.repeat(state, DRAWS, axis=0), 1, np.random.default_rng(0))
    one = lambda s: s[:, 0]
    expected = law.expect(one, state, 1, common_value=law.common_mean(one))
    agrees(there, ends, expected)
    assert ends.mean() == pytest.approx(0.0 if common else 0.2, abs=0.02)


def test_draws_of_a_known_sampler_are_fresh():
    """Expectations use the same random numbers at every call, simulations do not."""
    law = Law(lambda s, a, rng: s + a + rng.normal(size=s.shape), draws=2_000)
    state = np.array([[2.0]])
    there, ends = law.draw(np.repeat(state, DRAWS, axis=0), 1, np.random.default_rng(0))
    assert not ends.any()
    expected = law.expect(lambda s: s[:, 0], state, 1, common_value=0.0)
    # The law's own mean is over 2,000 draws of deviation one.
    assert there.mean() == pytest.approx(float(expected[0]), abs=5 / np.sqrt(2_000))


def test_draws_of_a_known_table_have_its_expectations():
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.ones(4), size=(3, 2))[:, :, :3]  # the rest is an end
    known = KnownTransition(Cells.of(np.arange(3.0)[:, None]), table)
    for cell in range(3):
        for code in range(2):
            there, ends = drawn(known, np.array([float(cell)]), code)
            agrees(curved(there), ends, table[cell, code] @ curved(known.cells.states))


@pytest.fixture(scope="module")
def mixed():
    """A panel of a number, a whole number, a category and a column that never changes."""
    rng = np.random.default_rng(4)
    units, periods = 100, 12
    size = rng.normal(size=units)
    town = rng.integers(3, size=units)
    rows = []
    for unit in range(units):
        stock, weather = 5, 0
        level = size[unit]
        for _ in range(periods):
            rows.append((level, stock, "sun rain snow".split()[weather], size[unit]))
            level = 0.8 * level + 0.3 * rng.normal()
            stock = max(0, stock + rng.integers(-1, 2))
            weather = rng.integers(3)
    names = ["level", "stock", "weather", "size"]
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    frame = {
        **columns,
        "town": np.repeat(town, periods),
        "unit": np.repeat(np.arange(units), periods),
        "action": rng.integers(2, size=len(rows)),
    }
    import polars as pl

    return Panel.from_frame(
        pl.DataFrame(frame, strict=False), state=names, action="action", unit="unit"
    )


@pytest.mark.parametrize("law", ["moves", "regression", "moves and regression"])
def test_states_keep_their_kind(mixed, law):
    """Whole numbers stay whole, categories levels, constants constant, ranges ranges."""
    steps = _transition.Steps.of(mixed)
    moves = _moves.Moves.learn(steps)
    learned = {
        "moves": moves,
        "regression": _regression.Regression.learn(steps),
        "moves and regression": _regression.Regression.learn(steps, base=moves),
    }[law]
    sampler, rng = Sampler.of(learned, mixed), np.random.default_rng(0)
    there, ends = sampler.draw(mixed.state, mixed.action, rng)
    assert not ends.any()
    place = {name: at for at, name in enumerate(mixed.encoding.feature_names)}
    np.testing.assert_array_equal(there[:, place["size"]], mixed.state[:, place["size"]])
    stock = there[:, place["stock"]]
    np.testing.assert_array_equal(stock, np.round(stock))
    assert stock.min() >= 0
    levels = [at for name, at in place.items() if name.startswith("weather")]
    assert set(np.unique(there[:, levels])) == {0.0, 1.0}
    assert (there[:, levels].sum(axis=1) <= 1).all()
    # Weather is drawn afresh: each level in a third of 1,200 rows, a binomial's error.
    share = there[:, levels].mean(axis=0)
    np.testing.assert_allclose(share, 1 / 3, atol=5 * np.sqrt(2 / 9 / len(there)) + 0.02)


def test_the_same_numbers_give_the_same_draws(mixed):
    law = _regression.Regression.learn(_transition.Steps.of(mixed))
    found = [
        law.draw(mixed.state, mixed.action, np.random.default_rng(5)) for _ in range(2)
    ]
    np.testing.assert_array_equal(found[0][0], found[1][0])


def test_rows_that_weigh_nothing_are_never_drawn():
    steps = steps_of(5, reset=0.0, ending=0.0)
    # Half the rows jump far and weigh nothing.
    far = np.arange(len(steps.state)) % 2 == 0
    there = np.where(far[:, None], steps.next_state + 50, steps.next_state)
    other = replace(steps, next_state=there, weight=np.where(far, 0.0, 1.0))
    for learn in (_moves.Moves.learn, _regression.Regression.learn):
        law = learn(other)
        found, _ = law.draw(steps.state, steps.action, np.random.default_rng(0))
        assert found.max() < 30

"""The two buses: published problems, exact solutions, demonstrations."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp

from deeppqr import DataError
from deeppqr.mdp import TabularMDP, solve_soft
from deeppqr.worlds import KnownCostBus, SamqBus

MILEAGE = np.arange(1.0, 21.0)[:, None]


def with_zeros(mileage):
    """States of the SAmQ bus whose irrelevant variables are zero."""
    mileage = np.atleast_1d(np.asarray(mileage, dtype=np.float64))
    return np.column_stack([mileage, np.zeros((len(mileage), 2))])


def tabular_start_value(world, per_unit):
    """V(0) of a SAmQ bus on a grid, U(1, 2) becoming the trapezoidal rule."""
    cells = 14 * per_unit + 1
    state = np.arange(cells) / per_unit
    increment = np.arange(per_unit, 2 * per_unit + 1)
    weight = np.full(len(increment), 1 / per_unit)
    weight[[0, -1]] /= 2
    transition = np.zeros((cells, 2, cells))
    transition[:, 0, 0] = 1
    for step, probability in zip(increment, weight, strict=True):
        reached = np.minimum(np.arange(cells) + step, cells - 1)
        transition[np.arange(cells), 1, reached] += probability
    reward = np.stack([np.zeros(cells), 5 - state], axis=1)
    mdp = TabularMDP(reward, transition, world.discount, world.temperature)
    return solve_soft(mdp).value[0]


def samq_gap(world, mileage):
    """Largest |Q - r - discount E[V(s')]|, by a finer quadrature than the solver's."""
    q, reward = world.q(with_zeros(mileage)), world.reward(with_zeros(mileage))
    points, weights = np.polynomial.legendre.leggauss(200)
    value = world.value(with_zeros(np.add.outer(mileage, 1.5 + points / 2).ravel()))
    ahead = value.reshape(len(mileage), -1) @ weights / 2
    reset = q[:, 0] - reward[:, 0] - world.discount * world.value(with_zeros(0.0))
    # Rounding is relative to the reward, which is as large as the mileage.
    run = (q[:, 1] - reward[:, 1] - world.discount * ahead) / (1 + mileage)
    return np.abs([reset, run]).max()


def assert_follows(world, panel):
    """The score of a correct log-likelihood: mean zero within four standard errors."""
    score = np.eye(2)[panel.action] - np.exp(world.log_policy(panel.state))
    assert abs(score[:, 1].mean()) < 4 * score[:, 1].std() / np.sqrt(len(score))


def test_known_cost_check_value():
    """Q at mileage 1 of an independent prototype, to its three decimals."""
    found = KnownCostBus().q([[1.0]])
    np.testing.assert_allclose(found, [[-52.534, -54.815]], atol=5e-4)


@pytest.mark.parametrize("discount", [0.0, 0.95, 0.9999])
def test_known_cost_q_satisfies_the_soft_bellman_equation(discount):
    """A naive loop over mileages and increments."""
    world = KnownCostBus(discount=discount)
    q, value = world.q(MILEAGE), world.value(MILEAGE)
    tol = 1e-12 * (1 + np.abs(value).max())
    np.testing.assert_allclose(value, logsumexp(q, axis=1), atol=tol)
    for mileage in range(1, 21):
        ahead = [value[min(mileage + step, 20) - 1] for step in (1, 2, 3, 4)]
        keep = -mileage + discount * sum(ahead) / 4
        replace = -5 + discount * value[0]
        np.testing.assert_allclose(q[mileage - 1], [keep, replace], atol=tol)


def test_known_cost_anchor_reward_is_its_reward():
    world = KnownCostBus()
    anchor = world.actions.index(world.anchor)
    assert (world.reward(MILEAGE)[:, anchor] == world.anchor_reward).all()
    np.testing.assert_array_equal(world.reward(MILEAGE)[:, 1 - anchor], -MILEAGE[:, 0])


def test_known_cost_irrelevant_variables_do_not_matter(rng):
    plain, padded = KnownCostBus(), KnownCostBus(irrelevant=3)
    states = np.column_stack([MILEAGE, rng.integers(-10, 11, size=(20, 3))])
    for name in ("reward", "q", "value", "log_policy"):
        expected = getattr(plain, name)(MILEAGE)
        np.testing.assert_array_equal(getattr(padded, name)(states), expected)


def test_known_cost_panel():
    world = KnownCostBus(irrelevant=2)
    panel = world.simulate(steps=20_000, units=200, seed=3)
    assert panel.actions == ("keep", "replace")
    assert panel.state.shape == (20_000, 3)
    assert (np.bincount(panel.unit) == 100).all()
    assert (panel.state[::100, 0] == 1).all()
    added = panel.next_state[:, 0] - panel.state[:, 0]
    capped = panel.next_state[:, 0] == 20
    kept = panel.action == 0
    assert (panel.next_state[~kept, 0] == 1).all()
    assert np.isin(added[kept & ~capped], [1, 2, 3, 4]).all()
    assert (np.unique(panel.state[:, 1:]) == np.arange(-10, 11)).all()
    assert_follows(world, panel)


def test_known_cost_default_panel_is_the_benchmark():
    """1,000 buses of 100 periods; at each mileage the share replaced is the policy's."""
    world = KnownCostBus()
    panel = world.simulate()
    assert panel.state.shape == (100_000, 1)
    assert len(np.unique(panel.unit)) == 1_000
    policy = np.exp(world.log_policy(MILEAGE))[:, 1]
    for mileage in range(1, 8):  # beyond, all but a few are replaced
        replaced = panel.action[panel.state[:, 0] == mileage]
        expected = policy[mileage - 1]
        error = np.sqrt(expected * (1 - expected) / len(replaced))
        assert abs(replaced.mean() - expected) < 4 * error


def test_increments_are_equally_likely(rng):
    world = KnownCostBus()
    states = np.full((8_000, 1), 5.0)
    reached = world.next_states(states, np.zeros(8_000, dtype=int), rng)[:, 0]
    share = np.bincount(reached.astype(int), minlength=10)[6:] / 8_000
    np.testing.assert_allclose(share, 0.25, atol=4 * np.sqrt(0.25 * 0.75 / 8_000))


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9999])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_samq_any_discount_and_temperature(discount, temperature, rng):
    """Off the solver's own grid."""
    world = SamqBus(discount=discount, temperature=temperature)
    assert samq_gap(world, rng.uniform(0, 10, size=20)) < 1e-12 * (1 + world.reset_q)


def test_samq_q_satisfies_the_soft_bellman_equation(rng):
    """Wherever the bus goes, and beyond the edge of the solver's grid."""
    world = SamqBus()
    mileage = np.concatenate([[0.0], rng.uniform(0, 44, size=100), [45, 45.5, 1e3]])
    assert samq_gap(world, mileage) < 1e-11
    states = with_zeros(mileage)
    value = logsumexp(world.q(states), axis=1)
    np.testing.assert_allclose(world.value(states), value, atol=1e-12)


def test_samq_agrees_with_adaptive_quadrature():
    world = SamqBus()
    for mileage in (0.0, 2.345, 6.7):
        mean, _ = quad(lambda s: world.value(with_zeros(s))[0], mileage + 1, mileage + 2)
        expected = 5 - mileage + 0.9 * mean
        assert world.q(with_zeros(mileage))[0, 1] == pytest.approx(expected, abs=1e-10)


def test_samq_agrees_with_a_table():
    """Grids of 1/10, 1/20 and 1/40: their errors fall as the square, then vanish."""
    world = SamqBus()
    coarse, middle, fine = (tabular_start_value(world, n) for n in (10, 20, 40))
    assert (coarse - middle) / (middle - fine) == pytest.approx(4, rel=0.01)
    extrapolated = fine + (fine - middle) / 3
    left = abs(extrapolated - middle - (middle - coarse) / 3)
    assert abs(world.value(with_zeros(0.0))[0] - extrapolated) < left


def test_samq_value_is_what_the_buses_earn():
    """Rewards and entropy of 100 discounted periods, within four standard errors."""
    world, units, periods = SamqBus(), 1_000, 100
    panel = world.simulate(steps=units * periods, units=units, seed=2)
    rows = np.arange(len(panel.action))
    earned = world.reward(panel.state) - world.log_policy(panel.state)
    flow = earned[rows, panel.action].reshape(units, periods)
    rest = 0.9**periods * world.value(panel.next_state[periods - 1 :: periods])
    total = flow @ 0.9 ** np.arange(periods) + rest
    expected = world.value(with_zeros(0.0))[0]
    assert abs(total.mean() - expected) < 4 * total.std() / np.sqrt(units)


def test_samq_irrelevant_variables_do_not_matter(rng):
    world = SamqBus()
    mileage = rng.uniform(0, 10, size=30)
    states = np.column_stack([mileage, rng.uniform(-5, 5, size=(30, 2))])
    for name in ("reward", "q", "value", "log_policy"):
        found, expected = getattr(world, name)(states), getattr(world, name)
        np.testing.assert_array_equal(found, expected(with_zeros(mileage)))


def test_samq_default_panel_is_the_benchmark():
    world = SamqBus()
    panel = world.simulate()
    assert panel.actions == (0, 1)
    assert panel.state.shape == (5_000, 3)
    assert (panel.unit == 0).all()
    assert panel.state[0, 0] == 0
    run = panel.action == 1
    assert (panel.next_state[~run, 0] == 0).all()
    added = (panel.next_state - panel.state)[run, 0]
    assert 1 - 1e-12 < added.min() < 1.01
    assert 1.99 < added.max() < 2 + 1e-12
    assert np.abs(panel.state[:, 1:]).max() < 5
    assert_follows(world, panel)
    anchor = world.actions.index(world.anchor)
    assert (world.reward(panel.state)[:, anchor] == world.anchor_reward).all()


def test_same_seed_same_panel():
    for world in (KnownCostBus(irrelevant=1), SamqBus()):
        one, two, other = (world.simulate(steps=200, units=2, seed=s) for s in (5, 5, 6))
        np.testing.assert_array_equal(one.next_state, two.next_state)
        np.testing.assert_array_equal(one.action, two.action)
        assert (one.next_state != other.next_state).any()


def test_known_cost_messages():
    with pytest.raises(DataError, match="`irrelevant` must be at least 0, but it is -1"):
        KnownCostBus(irrelevant=-1)
    with pytest.raises(DataError, match="`discount` must lie in"):
        KnownCostBus(discount=1.0)
    world = KnownCostBus(irrelevant=2)
    with pytest.raises(DataError, match=r"`states` must have 3 columns.*\(20, 1\)"):
        world.q(MILEAGE)
    with pytest.raises(DataError, match="`states` must have 1 column, one row per state"):
        KnownCostBus().q([1.0, 2.0])
    for wrong in (0.0, 21.0, 2.5, np.nan):
        with pytest.raises(DataError, match=rf"mileage .* 1 to 20, but row 1 has {wrong}"):
            KnownCostBus().log_policy([[1.0], [wrong]])
    with pytest.raises(DataError, match="10 steps do not split evenly over 3 units"):
        world.simulate(steps=10, units=3)


def test_samq_messages():
    with pytest.raises(DataError, match="`temperature` must be at least 0.05"):
        SamqBus(temperature=0.01)
    with pytest.raises(DataError, match="`discount` must lie in"):
        SamqBus(discount=1.0)
    with pytest.raises(DataError, match=r"`states` must have 3 columns.*\(2, 1\)"):
        SamqBus().q(np.zeros((2, 1)))
    for wrong in (-0.5, np.inf, np.nan):
        with pytest.raises(DataError, match=rf"s1 .* at least 0, but row 1 has {wrong}"):
            SamqBus().value(with_zeros([0.0, wrong]))

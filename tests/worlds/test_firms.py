"""Firms that wait, invest or exit: the exact solution, the slopes, the panel."""

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import deeppqr
from deeppqr import DataError
from deeppqr.worlds import FirmWorld

NAMES = ["capital", "age", "demand", "industry"]
CAPITAL = np.linspace(0, 4, 61)
DEMAND = np.linspace(-1.5, 1.5, 11)
GAIN = {"wait": 0.1, "small": 0.25, "large": 0.45}


@pytest.fixture(scope="module")
def world():
    return FirmWorld(seed=2)


@pytest.fixture(scope="module")
def panel(world):
    return world.simulate(seed=3)


def states_of(capital, age, demand, industry):
    """A frame of every combination, the last varying fastest."""
    axes = np.meshgrid(capital, age, demand, industry, indexing="ij")
    columns = dict(zip(NAMES, (axis.ravel() for axis in axes), strict=True))
    return pl.DataFrame(columns, strict=False).cast({"age": pl.Float64})


def rounded_normal(grid, mean, noise):
    """Probabilities of a normal variable rounded to a grid, one point at a time."""
    half = (grid[1] - grid[0]) / 2
    chance = [
        norm.cdf(x + half, mean, noise) - norm.cdf(x - half, mean, noise) for x in grid
    ]
    chance[0] += norm.cdf(grid[0] - half, mean, noise)
    chance[-1] += norm.sf(grid[-1] + half, mean, noise)
    return np.array(chance)


@pytest.mark.parametrize(("discount", "temperature"), [(0.0, 1), (0.95, 1), (0.99, 0.5)])
def test_q_satisfies_the_soft_bellman_equation(discount, temperature):
    """A naive sum over next capitals and demands, at both ends of the ages too."""
    world = FirmWorld(seed=1, discount=discount, temperature=float(temperature))
    for capital, age, demand, industry in [
        (0.0, 0, -1.5, "toys"),
        (CAPITAL[30], 11, 0.0, "cars"),
        (CAPITAL[44], 29, DEMAND[7], "steel"),
        (4.0, 30, 1.5, "food"),
    ]:
        here = states_of([capital], [age], [demand], [industry])
        q, reward = world.q(here)[0], world.reward(here)[0]
        ahead = states_of(CAPITAL, [min(age + 1, 30)], DEMAND, [industry])
        value = world.value(ahead).reshape(len(CAPITAL), len(DEMAND))
        tol = 1e-12 * (1 + np.abs(value).max())
        then = rounded_normal(DEMAND, 0.8 * demand, 0.4)
        for action, gain in GAIN.items():
            reached = rounded_normal(CAPITAL, 0.9 * capital + gain, 0.15)
            target = reward[world.actions.index(action)] + discount * reached @ value @ then
            assert q[world.actions.index(action)] == pytest.approx(target, abs=tol)
        assert q[-1] == reward[-1] == world.anchor_reward == 5
        best = temperature * logsumexp(q / temperature)
        assert world.value(here)[0] == pytest.approx(best, abs=tol)


def test_the_reward_is_the_slopes_times_the_encoded_states(world, panel):
    assert panel.encoding.feature_names == list(world.slopes["wait"])[1:]
    design = np.column_stack([np.ones(len(panel)), panel.state])
    for column, action in enumerate(world.actions):
        expected = design @ list(world.slopes[action].values())
        np.testing.assert_allclose(
            world.reward(panel.state)[:, column], expected, atol=1e-12
        )
    assert world.slopes["large"]["capital"] == 0.3
    assert set(world.slopes["exit"].values()) == {0.0, 5.0}
    effects = world.industry_effects
    steel = effects["steel"] - effects["cars"]
    assert world.slopes["small"]["industry=steel"] == pytest.approx(steel)


def test_exact_pqr_recovers_the_slopes(world):
    """Theorem 1 on the table of an industry's oldest firms, whose last state is the end."""
    table = world.oldest("paper")
    states = states_of(CAPITAL, [30], DEMAND, ["paper"])
    log_policy = np.vstack([world.log_policy(states), np.full((1, 4), -np.log(4))])
    found = deeppqr.exact(
        log_policy,
        table.transition,
        discount=world.discount,
        anchor=world.actions.index(world.anchor),
        anchor_reward=world.anchor_reward,
        terminal=np.arange(len(states) + 1) == len(states),
    )
    tol = 1e-12 / (1 - world.discount)
    np.testing.assert_allclose(found.reward[:-1], table.reward[:-1], atol=tol)
    assert found.value[-1] == 0
    numbers = states.select("capital", "demand").to_numpy()
    design = np.column_stack([np.ones(len(states)), numbers])
    fitted = np.linalg.lstsq(design, found.reward[:-1], rcond=None)[0]
    for column, action in enumerate(world.actions):
        truth = [world.slopes[action][name] for name in ("capital", "demand")]
        np.testing.assert_allclose(fitted[1:, column], truth, atol=100 * tol)


def test_exit_alone_reveals_the_values(world, panel):
    """V = 5 - log pi(exit): the anchor ends the process, so its Q is its reward."""
    value = world.anchor_reward - world.log_policy(panel.state)[:, -1]
    np.testing.assert_allclose(world.value(panel.state), value, atol=1e-12)


def test_decisions_follow_the_policy(world, panel):
    policy = np.exp(world.log_policy(panel.state))
    np.testing.assert_allclose(policy.sum(axis=1), 1, atol=1e-12)
    score = np.eye(4)[panel.action] - policy
    assert (np.abs(score.mean(axis=0)) < 4 * score.std(axis=0) / np.sqrt(len(score))).all()


def test_next_states_follow_the_law(world, panel):
    """Capital inside its grid and demand inside its own, within four standard errors."""
    seen = panel.has_next
    state, ahead = panel.state[seen], panel.next_state[seen]
    gain = np.array([*GAIN.values(), np.nan])[panel.action[seen]]
    moved = ahead[:, 0] - 0.9 * state[:, 0] - gain
    inner = (0.9 * state[:, 0] + gain > 0.8) & (0.9 * state[:, 0] + gain < 3.2)
    assert abs(moved[inner].mean()) < 4 * 0.15 / np.sqrt(inner.sum())
    # Rounding to a grid of step h adds h^2 / 12 to a variance.
    variance = 0.15**2 + (4 / 60) ** 2 / 12
    error = np.sqrt(2 / inner.sum())
    assert abs(moved[inner].var() / variance - 1) < 4 * error
    np.testing.assert_array_equal(ahead[:, 1], np.minimum(state[:, 1] + 1, 30))
    np.testing.assert_array_equal(ahead[:, 3:], state[:, 3:])
    middle = state[:, 2] == 0
    demand = ahead[middle, 2]
    assert abs(demand.mean()) < 4 * demand.std() / np.sqrt(middle.sum())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_action_is_taken_and_exit_is_rare(seed):
    panel = FirmWorld(seed=seed).simulate(seed=seed + 10)
    share = np.bincount(panel.action, minlength=4) / len(panel)
    assert share[:3].min() > 0.15
    assert 0.03 < share[3] < 0.08
    assert 4_000 < len(panel) < 6_500


def test_exits_end_firms(panel):
    assert panel.actions == ("wait", "small", "large", "exit")
    np.testing.assert_array_equal(panel.terminal, panel.action == 3)
    last = np.append(np.diff(panel.unit) != 0, True)
    assert last[panel.terminal].all()
    rows = np.bincount(panel.unit)
    assert rows.max() == 20
    # A firm without an exit has all its years, and its last next state was not seen.
    assert (rows[panel.unit[last & ~panel.terminal]] == 20).all()
    np.testing.assert_array_equal(panel.has_next, ~last)


def test_frame_and_panel_are_the_same_rows(world, panel):
    frame = world.frame(seed=3)
    assert len(frame) == len(panel)
    np.testing.assert_array_equal(world.q(frame), world.q(panel.state))
    assert frame.group_by("firm").agg(pl.col("industry").n_unique())["industry"].max() == 1
    assert frame["industry"].n_unique() == 8
    again = world.frame(seed=3)
    assert frame.equals(again)
    assert not frame.equals(world.frame(seed=4))


def test_messages(world):
    with pytest.raises(DataError, match="`units` must be at least 8.* they are 7 and 20"):
        world.simulate(units=7)
    with pytest.raises(DataError, match="`periods` at least 1, but they are 400 and 0"):
        world.frame(periods=0)
    with pytest.raises(DataError, match="`discount` must lie in"):
        FirmWorld(discount=1.0)
    for name, states in [
        ("capital", states_of([0.01], [3], [0.0], ["toys"])),
        ("age", states_of([0.0], [31], [0.0], ["toys"])),
        ("demand", states_of([0.0], [3], [2.0], ["toys"])),
    ]:
        with pytest.raises(DataError, match=rf"Column {name} .* on its grid .* row 0 has"):
            world.q(states)
    with pytest.raises(DataError, match="'ships'"):
        world.q(states_of([0.0], [3], [0.0], ["ships"]))

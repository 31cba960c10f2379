"""R: the continuation by regression, however it is regressed."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.policy import Training
from deeppqr.reward import Linear, Network

ONE_HOT = make_pipeline(OneHotEncoder(), LinearRegression(fit_intercept=False))


def test_a_saturated_regression_is_the_table(tabular):
    world, panel = tabular
    told = {"discount": 0.9, "anchor": 0}
    table = deeppqr.PQR(reward="table", **told).fit(panel).reward(world.states)
    other = deeppqr.PQR(reward=ONE_HOT, **told).fit(panel).reward(world.states)
    # Least squares of 20,000 rows in double precision.
    np.testing.assert_allclose(other, table, atol=1e-9)


def test_the_table_is_the_exact_kernel_on_counted_transitions(tabular, anchor_reward):
    """PQR on a tabular panel is Theorem 1 with frequencies in place of the truth."""
    from oracles import empirical_transition

    world, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=anchor_reward, reward="regression"
    ).fit(panel)
    expected = deeppqr.exact(
        fit.log_policy(world.states),
        empirical_transition(panel, 7),
        discount=0.9,
        anchor=0,
        anchor_reward=world.mdp.reward[:, 0],
    )
    np.testing.assert_allclose(fit.reward(world.states), expected.reward, atol=1e-10)
    np.testing.assert_allclose(fit.q(world.states), expected.q, atol=1e-10)
    np.testing.assert_allclose(fit.value(world.states), expected.value, atol=1e-10)


def test_pairs_never_seen_have_no_reward(tabular):
    _, panel = tabular
    seen = ~((panel.state[:, 0] == 2) & (panel.action == 1))
    fit = deeppqr.PQR(discount=0.9, anchor=0, reward="table").fit(panel.select(seen))
    reward = fit.reward(np.arange(7.0)[:, None])
    assert np.isnan(reward[2, 1])
    assert np.isfinite(np.delete(reward.ravel(), 2 * 3 + 1)).all()
    assert "1 of 21 (state, action) pairs never seen" in fit.stages["reward"]


def test_auto_generalises_where_pairs_are_missing(tabular):
    _, panel = tabular
    seen = ~((panel.state[:, 0] == 2) & (panel.action == 1))
    fit = deeppqr.PQR(discount=0.9, anchor=0, reward="regression").fit(panel.select(seen))
    assert np.isfinite(fit.reward(np.arange(7.0)[:, None])).all()
    assert "linear regression" in fit.stages["reward"]


@pytest.mark.parametrize(
    "reward",
    [
        pytest.param(Linear(), marks=pytest.mark.slow),
        pytest.param(
            Network(Training(width=32, depth=1, members=2, max_steps=400)),
            marks=pytest.mark.slow,
        ),
        pytest.param(Ridge(), marks=pytest.mark.slow),
    ],
    ids=["linear", "network", "ridge"],
)
def test_rewards_of_a_continuous_world(reward, paper):
    """Better than predicting zero and than the log-odds, for every regression."""
    world, panel = paper[0], paper[1].select(paper[1].unit < 30)
    policy = world.log_policy  # the true one: what is left is the regression's error
    fit = deeppqr.PQR(discount=0.9, anchor=0, policy=policy, reward=reward).fit(panel)
    states = panel.state[::10]
    truth, q = world.reward(states), fit.q(states)
    error = np.mean((fit.reward(states) - truth) ** 2)
    # Linear: 0.11 to 0.20 on panels of seeds 2 to 4, and 0.32 to 0.68 of the log-odds'.
    assert error < 0.6 * np.mean(truth**2)
    assert error < np.mean((q - q[:, :1] - truth) ** 2)


def test_terminal_actions_have_no_continuation():
    """Every action ends the process: r = Q exactly, whatever the discount."""
    rng = np.random.default_rng(2)
    state = rng.integers(0, 3, size=(600, 1)).astype(float)
    nowhere = np.full((600, 1), np.nan)
    action = rng.integers(0, 2, 600)
    panel = Panel.from_arrays(state, action, nowhere, terminal=np.ones(600, bool))
    for reward in ("table", "linear"):
        fit = deeppqr.PQR(discount=0.95, anchor=0, reward=reward).fit(panel)
        states = np.arange(3.0)[:, None]
        np.testing.assert_allclose(fit.reward(states), fit.q(states), atol=0.2)
        if reward == "table":
            np.testing.assert_allclose(fit.reward(states), fit.q(states), atol=1e-12)


def test_messages():
    with pytest.raises(DataError, match=r"`reward` must be one of \['auto', 'joint'"):
        deeppqr.PQR(discount=0.9, anchor=0, reward=3)

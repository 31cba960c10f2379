"""Joint estimation and the likelihood step."""

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, StorageError
from deeppqr.metrics import score_reward
from deeppqr.reward import Joint, Likelihood


@pytest.fixture(scope="module")
def paper():
    world = deeppqr.worlds.PaperWorld(p=3, reward_scale=5.0, seed=1)
    return world, world.simulate(steps=3_000, units=30, seed=7)


@pytest.fixture(scope="module")
def joint(paper):
    return deeppqr.PQR(discount=0.9, anchor=0).fit(paper[1])


@pytest.fixture(scope="module")
def plain(paper):
    return deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="linear").fit(
        paper[1]
    )


def nmse(fit, world):
    states = world.simulate(steps=2_000, units=20, seed=8).state
    return score_reward(fit.reward(states), world.reward(states)).nmse


def test_joint_recovers_more_than_regression(paper, joint, plain):
    world = paper[0]
    assert nmse(joint, world) < nmse(plain, world)
    assert nmse(joint, world) < 0.15


@pytest.mark.slow
def test_joint_as_it_comes_recovers_far_more_than_regression(paper):
    world = paper[0]
    panel = world.simulate(steps=6_000, units=60, seed=7)
    stages = {"discount": 0.9, "anchor": 0, "policy": "logit"}
    joint, plain = (
        nmse(deeppqr.PQR(**stages, reward=name).fit(panel), world)
        for name in ("joint", "linear")
    )
    assert joint < 0.3 * plain
    assert joint < 0.1


def test_policy_value_and_reward_agree(paper, joint):
    states = paper[1].state[:50]
    log_policy, q, value = joint.log_policy(states), joint.q(states), joint.value(states)
    np.testing.assert_allclose(q - value[:, None], log_policy, atol=1e-8)
    np.testing.assert_allclose(np.exp(log_policy).sum(axis=1), 1.0, atol=1e-8)
    assert (joint.reward(states)[:, 0] == 0).all()


def test_it_is_stored_and_scales_with_the_temperature(paper, joint, tmp_path):
    states = paper[1].state[:20]
    loaded = deeppqr.load(joint.save(tmp_path / "fit"))
    np.testing.assert_array_equal(loaded.reward(states), joint.reward(states))
    np.testing.assert_allclose(loaded.q(states), joint.q(states), rtol=1e-6)
    doubled = joint.at_temperature(2.0)
    np.testing.assert_allclose(doubled.reward(states), 2 * joint.reward(states))


def bus_cost(states):
    return np.stack([-states[:, 0], np.zeros(len(states))], axis=1)


def test_a_known_form_on_the_buses(tmp_path):
    world = deeppqr.worlds.KnownCostBus()
    panel = world.simulate(steps=20_000, units=200, seed=3)
    fit = deeppqr.PQR(
        discount=0.95,
        anchor="replace",
        anchor_reward=-5.0,
        policy="logit",
        reward=Joint(features=bus_cost),
    ).fit(panel)
    at = np.array([[4.0]])
    # The standard error of theta in a sample of this size is about 0.01.
    assert -fit.reward(at)[0, 0] / 4 == pytest.approx(1.0, abs=0.04)
    folder = fit.save(tmp_path / "fit")
    with pytest.raises(StorageError, match="reward_features"):
        deeppqr.load(folder)
    loaded = deeppqr.load(folder, reward_features=bus_cost)
    np.testing.assert_array_equal(loaded.reward(at), fit.reward(at))


def test_the_likelihood_step_is_far_better_than_zero(paper, tmp_path):
    world, panel = paper
    fit = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward=Likelihood()).fit(
        panel
    )
    # One step from the logit's value: 0.23 to 0.38 on panels of seeds 7 to 9.
    assert nmse(fit, world) < 0.6
    assert "likelihood" in fit.stages["reward"]
    loaded = deeppqr.load(fit.save(tmp_path / "fit"))
    states = panel.state[:20]
    np.testing.assert_allclose(loaded.reward(states), fit.reward(states), rtol=1e-6)


def test_lines_may_differ_with_a_two_valued_variable():
    """A slope that turns with a regime is found where the regime is one of the states."""
    rng = np.random.default_rng(1)
    state = np.column_stack([rng.normal(size=6_000), rng.integers(2, size=6_000)])
    reward = np.where(state[:, 1] == 1, 1.0, -1.0) * state[:, 0]
    action = (rng.random(6_000) < 1 / (1 + np.exp(-reward))).astype(int)
    panel = deeppqr.Panel.from_arrays(
        state, action, np.roll(state, -1, axis=0), unit=np.arange(6_000) // 20
    )
    fit = deeppqr.PQR(discount=0.0, anchor=0).fit(panel)
    # Four standard errors of a slope on 3,000 rows, whose information is about 1/5 each.
    np.testing.assert_allclose(
        fit.reward(np.array([[1.0, 0.0], [1.0, 1.0]]))[:, 1], [-1.0, 1.0], atol=0.17
    )


def test_where_all_can_be_counted_nothing_else_is_tried():
    world = deeppqr.worlds.random_tabular(num_states=4, num_actions=2, seed=1)
    panel = world.simulate(steps=4_000, units=40, seed=2)
    fit = deeppqr.PQR(discount=0.9, anchor=0).fit(panel)
    assert "taken 30 times or more" in fit.stages["reward"]
    counted = deeppqr.PQR(discount=0.9, anchor=0, reward="table").fit(panel)
    np.testing.assert_array_equal(fit.reward(world.states), counted.reward(world.states))


def test_messages(paper):
    with pytest.raises(DataError, match="`rows` must be at least 1"):
        Joint(rows=0)
    _, panel = paper
    wrong = Joint(features=lambda states: np.ones(3))
    with pytest.raises(DataError, match="`features` must return"):
        deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward=wrong).fit(panel)

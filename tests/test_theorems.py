"""What the paper proves, and what follows from it, to rounding error."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deeppqr
from deeppqr.mdp import TabularMDP
from deeppqr.worlds import TabularWorld, random_tabular


def recover(world, anchor_reward=None, **changes):
    given_reward = world.mdp.reward[:, 0] if anchor_reward is None else anchor_reward
    settings_ = {"discount": world.discount, "temperature": world.temperature, **changes}
    return deeppqr.exact(
        world.solution.log_policy,
        world.mdp.transition,
        anchor=0,
        anchor_reward=given_reward,
        **settings_,
    )


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.9999])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_exact_policy_recovers_exact_reward(discount, temperature, seed):
    """Theorem 1: with the true policy and transitions, nothing is lost."""
    world = random_tabular(discount=discount, temperature=temperature, seed=seed)
    found = recover(world)
    tol = 1e-10 / (1 - discount)
    np.testing.assert_allclose(found.q, world.solution.q, atol=tol, rtol=0)
    np.testing.assert_allclose(found.value, world.solution.value, atol=tol, rtol=0)
    np.testing.assert_allclose(found.reward, world.mdp.reward, atol=tol, rtol=0)


@settings(max_examples=40, deadline=None)
@given(
    num_states=st.integers(1, 12),
    num_actions=st.integers(2, 5),
    discount=st.floats(0.0, 0.999),
    temperature=st.floats(0.1, 10.0),
    seed=st.integers(0, 10_000),
)
def test_recovery_for_any_table(num_states, num_actions, discount, temperature, seed):
    world = random_tabular(
        num_states, num_actions, discount=discount, temperature=temperature, seed=seed
    )
    found = recover(world)
    tol = 1e-10 / (1 - discount)
    np.testing.assert_allclose(found.reward, world.mdp.reward, atol=tol, rtol=0)


def test_wrong_anchor_reward_shapes_the_answer(rng):
    """Misstating g by c(s) shifts r by phi(s) - discount E[phi(s') | s, a]: Lemma 2."""
    world = random_tabular(seed=7)
    error = rng.normal(size=7)
    shaped = recover(world, world.mdp.reward[:, 0] + error).reward
    phi = np.linalg.solve(np.eye(7) - 0.9 * world.mdp.transition[:, 0], error)
    expected = world.mdp.reward + phi[:, None] - 0.9 * world.mdp.transition @ phi
    np.testing.assert_allclose(shaped, expected, atol=1e-11)


def test_a_state_only_reward_has_no_anchor_worth_nothing():
    """The paper's robustness case: every action pays r(s), one is taken to pay zero.

    The claim g = 0 is wrong by -r, and the answer is shaped by just that much: for the
    false anchor it is zero, for the others it is not the truth.
    """
    base = random_tabular(seed=13).mdp
    reward = np.repeat(base.reward[:, :1], 3, axis=1)
    world = TabularWorld(TabularMDP(reward, base.transition, 0.9))
    found = recover(world, np.zeros(7)).reward
    phi = np.linalg.solve(np.eye(7) - 0.9 * base.transition[:, 0], -reward[:, 0])
    shaped = reward + phi[:, None] - 0.9 * base.transition @ phi
    np.testing.assert_allclose(found, shaped, atol=1e-11)
    np.testing.assert_allclose(found[:, 0], 0, atol=1e-11)
    assert np.abs(found - reward)[:, 1:].max() > 0.1


def test_the_anchor_keeps_its_reward(rng):
    """r(s, anchor) = g(s), also for a g that is wrong."""
    world = random_tabular(seed=8)
    claimed = rng.normal(size=7)
    found = recover(world, claimed)
    np.testing.assert_allclose(found.reward[:, 0], claimed, atol=1e-11)


def test_no_future_makes_the_reward_the_action_value():
    world = random_tabular(discount=0.0, seed=9)
    found = recover(world)
    np.testing.assert_array_equal(found.reward, found.q)


def test_reward_is_affine_in_the_temperature():
    """r(alpha) = alpha r(1, g = 0) + G - discount E[G(s')], G = (I - discount P_A)^-1 g."""
    world = random_tabular(seed=10)
    g, moves = world.mdp.reward[:, 0], world.mdp.transition
    bare = recover(world, np.zeros(7), temperature=1.0).reward
    level = np.linalg.solve(np.eye(7) - 0.9 * moves[:, 0], g)
    for temperature in (0.3, 2.0):
        expected = temperature * bare + level[:, None] - 0.9 * moves @ level
        found = recover(world, g, temperature=temperature).reward
        np.testing.assert_allclose(found, expected, atol=1e-11)


def test_relabelling_states_changes_nothing(rng):
    world = random_tabular(seed=11)
    order = rng.permutation(7)
    found = deeppqr.exact(
        world.solution.log_policy[order],
        world.mdp.transition[order][:, :, order],
        discount=0.9,
        anchor=0,
        anchor_reward=world.mdp.reward[order, 0],
    )
    np.testing.assert_allclose(found.reward, world.mdp.reward[order], atol=1e-11)


def test_any_action_can_be_the_anchor():
    world = random_tabular(seed=12)
    for anchor in range(3):
        found = deeppqr.exact(
            world.solution.log_policy,
            world.mdp.transition,
            discount=0.9,
            anchor=anchor,
            anchor_reward=world.mdp.reward[:, anchor],
        )
        np.testing.assert_allclose(found.reward, world.mdp.reward, atol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 1.0}, r"`discount` must lie in \[0, 1\), but it is 1.0"),
        ({"temperature": 0.0}, "`temperature` must be positive and finite, but it is 0.0"),
        (
            {"anchor_reward": [1.0, 2.0]},
            r"finite number or 7 of them, .* shape \(2,\) arrived",
        ),
        ({"anchor_reward": np.nan}, "1 of it not finite"),
        ({"anchor": 3}, "`anchor` must be an action's index from 0 to 2, but it is 3"),
    ],
)
def test_exact_refuses(change, message):
    world = random_tabular()
    arguments = {"discount": 0.9, "anchor": 0, **change}
    with pytest.raises(deeppqr.DataError, match=message):
        deeppqr.exact(world.solution.log_policy, world.mdp.transition, **arguments)


def test_exact_refuses_what_is_no_policy_or_no_law():
    world = random_tabular()
    policy, moves = world.solution.log_policy, world.mdp.transition
    with pytest.raises(deeppqr.DataError, match="log-probabilities that sum to one"):
        deeppqr.exact(policy + 0.1, moves, discount=0.9, anchor=0)
    with pytest.raises(deeppqr.DataError, match="state 0, action 0 sum to 2"):
        deeppqr.exact(policy, 2 * moves, discount=0.9, anchor=0)
    with pytest.raises(deeppqr.DataError, match=r"\(7, 3, 7\) to match `log_policy`"):
        deeppqr.exact(policy, moves[:, :2], discount=0.9, anchor=0)

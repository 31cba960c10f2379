"""What every reward estimator obeys, said through `PQR` and its fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import deeppqr
from deeppqr import PQR, Panel
from deeppqr.policy import Given, Training
from deeppqr.reward import Joint, Likelihood, Linear, Network
from oracles import empirical_transition, frequency_table

STATES = np.arange(5.0)[:, None]
ESTIMATORS = {
    "auto": "auto",
    "table": "table",
    "regression": "regression",
    "linear": Linear(),
    "joint": Joint(),
    "likelihood": Likelihood(),
    "scikit-learn": Ridge(),
    "network": Network(Training(width=8, depth=1, members=1, max_steps=20)),
}
# Those whose penalties leave constants free, so that what is constant is exact.
EXACT = ("auto", "table", "regression", "linear", "joint", "likelihood", "scikit-learn")
# Solving (I - 0.9 P) x = b in double precision loses two digits of sixteen; sums of a
# thousand rows lose three more.
ROUNDING = 1e-9

few = settings(max_examples=8, deadline=None)


def simulate(steps=1_500):
    world = deeppqr.worlds.random_tabular(num_states=5, num_actions=3, seed=3)
    return world.simulate(steps=steps, units=30, seed=4)


@pytest.fixture(scope="module")
def panel():
    return simulate()


@pytest.fixture(scope="module")
def shares(panel):
    """The policy that the panel shows, without the smoothing that estimators add."""
    return np.log(frequency_table(panel, 5))


def fit(panel, reward, shares=None, **changes):
    policy = "logit"
    if shares is not None:
        policy = Given(lambda states: shares[states[:, 0].astype(int)])
    told = {"discount": 0.9, "anchor": 0, "policy": policy, "reward": reward, **changes}
    return PQR(**told).fit(panel)


def varying(states):
    return np.sin(states[:, 0])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_anchor_earns_what_it_is_known_to_earn(name, panel):
    found = fit(panel, ESTIMATORS[name], anchor_reward=varying)
    np.testing.assert_array_equal(found.reward(STATES)[:, 0], varying(STATES))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_without_a_future_the_reward_is_the_action_value(name, panel):
    found = fit(panel, ESTIMATORS[name], discount=0.0, anchor_reward=varying)
    np.testing.assert_allclose(found.reward(STATES), found.q(STATES), atol=ROUNDING)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_another_temperature_needs_no_other_fit(name, panel):
    """Affine: r(2) from the fit at one, and halfway between r(1) and r(3)."""
    estimator = ESTIMATORS[name]
    one = fit(panel, estimator, anchor_reward=varying)
    two = fit(panel, estimator, anchor_reward=varying, temperature=2.0)
    moved = one.at_temperature(2.0).reward(STATES)
    # Joint estimation shrinks towards g, and a refit in other units does so anew.
    again = 0.01 * np.ptp(moved) if name in ("auto", "joint") else ROUNDING
    np.testing.assert_allclose(moved, two.reward(STATES), atol=again)
    three = one.at_temperature(3.0).reward(STATES)
    np.testing.assert_allclose(moved, (one.reward(STATES) + three) / 2, atol=ROUNDING)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("level", [-2.0, 0.5])
def test_a_constant_more_for_the_anchor_is_that_much_more_for_all(name, level, panel):
    """G = c / (1 - discount) and r_g = G - discount G = c, where nothing ends."""
    estimator = ESTIMATORS[name]
    if name == "scikit-learn":
        estimator = Ridge(alpha=1e-3)
    base = fit(panel, estimator).reward(STATES)
    more = fit(panel, estimator, anchor_reward=level).reward(STATES)
    # The anchor's linear solve is a ridge's: its constant is free, to a condition of 1e4.
    # Joint estimation keeps its features in float32, seven digits, and adds up 1,500 rows.
    atol = 1e-3 if name in ("auto", "joint") else 1e-7
    np.testing.assert_allclose(more, base + level, atol=atol)


@pytest.mark.parametrize("reward", ["table", "regression", Likelihood()], ids=str)
def test_a_misstated_anchor_shapes_the_reward(reward, panel, shares):
    """Lemma 2 on counted transitions: phi(s) - discount E[phi(s')|s, a] more."""
    base = fit(panel, reward, shares).reward(STATES)
    told = fit(panel, reward, shares, anchor_reward=varying).reward(STATES)
    moves = empirical_transition(panel, 5)
    phi = np.linalg.solve(np.eye(5) - 0.9 * moves[:, 0], varying(STATES))
    np.testing.assert_allclose(told, base + phi[:, None] - 0.9 * moves @ phi, atol=1e-8)


@few
@given(
    discount=st.floats(0.0, 0.95), temperature=st.floats(0.2, 5.0), anchor=st.integers(0, 2)
)
def test_the_table_is_theorem_one_on_counts(panel, shares, discount, temperature, anchor):
    told = {"discount": discount, "temperature": temperature, "anchor": anchor}
    found = fit(panel, "table", shares, anchor_reward=varying, **told)
    exact = deeppqr.exact(
        shares, empirical_transition(panel, 5), anchor_reward=varying(STATES), **told
    )
    np.testing.assert_allclose(found.reward(STATES), exact.reward, atol=ROUNDING)
    np.testing.assert_allclose(found.q(STATES), exact.q, atol=10 * ROUNDING)
    np.testing.assert_allclose(found.value(STATES), exact.value, atol=10 * ROUNDING)


def saturated(states):
    """A feature for every state and every action but the anchor."""
    cell = states[:, 0].astype(int)
    columns = np.zeros((len(states), 3, 2, 5))
    for action in (1, 2):
        columns[np.arange(len(states)), action, action - 1, cell] = 1.0
    return columns.reshape(len(states), 3, 10)


@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_a_likelihood_that_can_be_anything_is_the_table(discount, panel, shares):
    """Maximum likelihood with a number for every pair reproduces the shares: r = Q - ..."""
    counted = fit(panel, "table", shares, discount=discount)
    found = fit(panel, Likelihood(features=saturated), shares, discount=discount)
    # Newton's last step is of the order of its tolerance, 1e-3 nats in 1,500 rows.
    np.testing.assert_allclose(found.reward(STATES), counted.reward(STATES), atol=1e-4)
    np.testing.assert_allclose(found.log_policy(STATES), shares, atol=1e-4)


@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_joint_estimation_that_can_be_anything_is_the_table(discount, panel, shares):
    """Its value follows from its reward, but so does the table's."""
    counted = fit(panel, "table", shares, discount=discount)
    found = fit(panel, Joint(features=saturated), shares, discount=discount)
    np.testing.assert_allclose(found.reward(STATES), counted.reward(STATES), atol=1e-4)


@pytest.mark.parametrize(
    "reward", [Joint(features=saturated), Likelihood(features=saturated)]
)
def test_with_the_true_policy_the_truth_is_found(reward):
    """Likelihood at the true value: within four standard errors of the identified reward."""
    world = deeppqr.worlds.random_tabular(num_states=5, num_actions=3, discount=0.5, seed=3)
    panel = world.simulate(steps=20_000, units=50, seed=4)
    found = fit(panel, reward, world.solution.log_policy, discount=0.5)
    truth = deeppqr.exact(
        world.solution.log_policy, world.mdp.transition, discount=0.5, anchor=0
    )
    # A pair's log-odds have the variance 1/n_a + 1/n_anchor, the rarest pair's the
    # largest; the transitions add discount^2 times the values' variance over n_a.
    count = np.zeros((5, 3))
    np.add.at(count, (panel.state[:, 0].astype(int), panel.action), 1)
    odds = 1 / count[:, 1:] + 1 / count[:, :1]
    moves = 0.25 * truth.value.var() * odds
    error = (found.reward(STATES) - truth.reward)[:, 1:]
    assert np.abs(error / np.sqrt(odds + moves)).max() < 4


def test_the_order_of_units_and_rows_does_not_matter(panel):
    rng = np.random.default_rng(0)
    order = rng.permutation(len(panel))
    mixed = Panel.from_arrays(
        panel.state[order],
        panel.action[order],
        panel.next_state[order],
        unit=rng.permutation(30)[panel.unit[order]],
    )
    kept = panel.has_next.all()
    assert kept  # otherwise rows would have to stay in the order of time
    for policy in ("frequency", "logit"):
        one, other = (
            fit(part, "table", policy=policy).reward(STATES) for part in (panel, mixed)
        )
        # The logit stops at a gradient of 1e-4 per row, whose path rounding may change.
        atol = ROUNDING if policy == "frequency" else 1e-4
        np.testing.assert_allclose(one, other, atol=atol)


@pytest.mark.parametrize("reward", ["table", "regression", Joint()])
def test_the_names_of_actions_do_not_matter(reward, panel, shares):
    """Three actions in another order, the anchor among them."""
    order = np.array([2, 0, 1])  # the new number of each action
    renamed = Panel.from_arrays(
        panel.state, order[panel.action], panel.next_state, unit=panel.unit
    )
    one = fit(panel, reward, shares).reward(STATES)
    other = fit(renamed, reward, shares[:, np.argsort(order)], anchor=2).reward(STATES)
    # Joint estimation adds up float32 numbers in another order.
    atol = 1e-3 if isinstance(reward, Joint) else 1e-7
    np.testing.assert_allclose(other[:, order], one, atol=atol)


@few
@given(seed=st.integers(0, 1_000))
def test_a_weight_of_two_is_the_row_twice(panel, seed):
    twice = np.random.default_rng(seed).random(len(panel)) < 0.3
    weighted = Panel.from_arrays(
        panel.state, panel.action, panel.next_state, unit=panel.unit, weight=1.0 + twice
    )
    rows = np.append(np.arange(len(panel)), np.flatnonzero(twice))
    repeated = Panel.from_arrays(
        panel.state[rows], panel.action[rows], panel.next_state[rows], unit=panel.unit[rows]
    )
    table = np.zeros((5, 3))
    np.add.at(table, (panel.state[:, 0].astype(int), panel.action), 1.0 + twice)
    shown = np.log(table / table.sum(axis=1, keepdims=True))
    for reward in ("table", Likelihood(features=saturated)):
        one, other = (fit(p, reward, shown).reward(STATES) for p in (weighted, repeated))
        # Weights are scaled to a mean of one, so Newton's tolerance, in nats, differs.
        np.testing.assert_allclose(one, other, atol=ROUNDING if reward == "table" else 4e-4)


@pytest.mark.parametrize("name", ["table", "joint", "likelihood"])
def test_policy_value_and_action_values_agree(name, panel):
    """Q - V = temperature log pi, whichever stage the policy comes from."""
    found = fit(panel, ESTIMATORS[name], temperature=2.0, anchor_reward=varying)
    advantage = found.q(STATES) - found.value(STATES)[:, None]
    np.testing.assert_allclose(advantage, 2 * found.log_policy(STATES), atol=ROUNDING)
    total = np.exp(found.log_policy(STATES)).sum(axis=1)
    np.testing.assert_allclose(total, 1.0, atol=1e-6)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_seed_gives_the_same_reward(name, panel):
    one, two = (fit(panel, ESTIMATORS[name], seed=5).reward(STATES) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_few_rows_for_the_rounds_are_enough(tabular):
    """Seven states, three actions and five folds make 105 decisions; a fifth of them."""
    fit(tabular[1], Joint(rows=21))

"""One-step estimates: the influence function by finite differences, and coverage."""

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.inference import one_step
from deeppqr.inference._one_step import uncentred_influence
from deeppqr.worlds import random_tabular

GAMMA, ALPHA = 0.9, 1.3


def normalisations(rng, prob):
    """One action, all alike, and any: the weights nu of sum_a nu r = g."""
    anchor = np.zeros_like(prob)
    anchor[:, 0] = 1.0
    return {
        "anchor": anchor,
        "uniform": np.full_like(prob, 1 / prob.shape[1]),
        "random": rng.dirichlet(np.ones(prob.shape[1]), len(prob)),
    }


def solve_world(moves, nu, g):
    """What a law of (state, action, next state) implies: log pi, V, r and P."""
    mass = moves.sum(axis=2)
    log_prob = np.log(mass / mass.sum(axis=1, keepdims=True))
    law = moves / mass[:, :, None]
    mixed = np.einsum("sa,sat->st", nu, law)
    bonus = g - ALPHA * (nu * log_prob).sum(axis=1)
    value = np.linalg.solve(np.eye(len(g)) - GAMMA * mixed, bonus)
    return log_prob, value, ALPHA * log_prob + value[:, None] - GAMMA * law @ value, law


def psi(moves, nu, g, w, by_state):
    reward, mass = solve_world(moves, nu, g)[2], moves.sum(axis=2)
    if by_state:
        return float(mass.sum(axis=1) @ (w * reward).sum(axis=1))
    return float((mass * w * reward).sum())


@pytest.mark.parametrize("by_state", [False, True], ids=["decisions", "states"])
@pytest.mark.parametrize("kind", ["anchor", "uniform", "random"])
@pytest.mark.parametrize("seed", range(3))
def test_the_influence_function_is_the_derivative_of_psi(seed, kind, by_state):
    """Mixing a point mass in, by central differences: 1e-12 of third derivatives, which
    are 1e3 where a probability is 1e-3, and rounding of 1e-15 over the step of 1e-6."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(6 * 3 * 6)).reshape(6, 3, 6) + 1e-3
    moves /= moves.sum()
    g, w = rng.normal(size=6), rng.normal(size=(6, 3))
    mass = moves.sum(axis=2)
    nu = normalisations(rng, mass)[kind]
    log_prob, value, reward, law = solve_world(moves, nu, g)
    share = mass.sum(axis=1)
    push = w * (share[:, None] if by_state else mass)
    system = np.diag(share) - GAMMA * share[:, None] * np.einsum("sa,sat->st", nu, law)
    target = push.sum(axis=1) - GAMMA * np.einsum("sa,sat->t", push, law)
    h = np.linalg.solve(system.T, target)
    whole = psi(moves, nu, g, w, by_state)
    for _ in range(5):
        s, a, after = rng.integers(6), rng.integers(3), rng.integers(6)
        found = uncentred_influence(
            log_prob[[s]],
            np.array([a]),
            reward[[s]],
            value[[s]] - GAMMA * value[[after]],
            w[[s]][:, :, None],
            h[[s]][:, None],
            nu[[s]],
            temperature=ALPHA,
            by_state=by_state,
        )
        point = np.zeros_like(moves)
        point[s, a, after] = 1.0
        ends = [psi(moves + t * (point - moves), nu, g, w, by_state) for t in (1e-6, -1e-6)]
        slope = (ends[0] - ends[1]) / 2e-6
        assert found[0, 0] - whole == pytest.approx(slope, rel=1e-7, abs=1e-7)


def pqr(**settings):
    return deeppqr.PQR(**{"discount": 0.9, "anchor": 0, **settings})


COUNTED = {"policy": "frequency", "anchor_value": "exact", "reward": "table"}


def truth_of(world, taken):
    """E[r(S, a)], or E[r | a], under the stationary law of the world's own policy."""
    states = np.arange(7.0)[:, None]
    prob, moves = np.exp(world.log_policy(states)), world.mdp.transition
    chain = np.einsum("sa,sat->st", prob, moves)
    share = np.linalg.matrix_power(chain, 500)[0]
    weight = share[:, None] * (prob if taken else 1.0)
    return ((weight * world.reward(states)).sum(axis=0) / weight.sum(axis=0))[1:]


@pytest.mark.slow
@pytest.mark.parametrize("taken", [False, True])
def test_estimates_hold_the_truth_with_boosted_trees(taken):
    """Four standard errors: exceeded by chance once in 16,000."""
    world = random_tabular(seed=4)
    panel = world.simulate(steps=6_000, units=60, seed=5)
    stages = {"policy": "boosted", "anchor_value": "exact", "reward": "table"}
    own = lambda states: world.mdp.reward[states[:, 0].astype(int), 0]
    fit = pqr(**stages, anchor_reward=own).fit(panel)
    found = one_step(fit, panel, taken=taken, folds=2)
    z = (found.values - truth_of(world, taken)) / np.sqrt(np.diag(found.covariance))
    assert np.abs(z).max() < 4


def test_folds_change_little_and_the_predictor_of_indicators_is_the_average():
    panel = random_tabular(seed=4).simulate(steps=6_000, units=60, seed=5)
    fit = pqr(**COUNTED).fit(panel)
    two = one_step(fit, panel, taken=True, folds=2)
    five = one_step(fit, panel, taken=True, folds=5)
    error = np.sqrt(np.diag(five.covariance))
    assert (np.abs(two.values - five.values) < error).all()
    ones = one_step(fit, panel, features=["1"], folds=5)
    np.testing.assert_allclose(ones.values, five.values, atol=1e-10)
    np.testing.assert_allclose(ones.covariance, five.covariance, atol=1e-10)
    assert "plug-in" in str(five)
    assert five.estimates().frame()["plug_in"].to_list() == five.plug_in.tolist()


def test_pairs_that_other_folds_never_saw_stay_with_the_whole_fit():
    """Action 1 is taken once in state 5: the fold with it has no other decision to go by."""
    world = random_tabular(seed=4)
    panel = world.simulate(steps=4_000, units=40, seed=50_000)
    assert ((panel.state[:, 0] == 5) & (panel.action == 1)).sum() == 1
    own = lambda states: world.mdp.reward[states[:, 0].astype(int), 0]
    found = one_step(pqr(**COUNTED, anchor_reward=own).fit(panel), panel)
    assert "never saw there: its reward is the whole fit's, uncorrected" in found.note
    error = np.sqrt(np.diag(found.covariance))
    assert np.isfinite([found.values, found.plug_in, error]).all()
    assert found.df == 39  # of 40 units
    low, high = found.estimates().interval()
    np.testing.assert_allclose((high - low) / error, 2 * 2.0227, rtol=1e-4)


def test_without_corrections_the_plug_in_is_left():
    """With no pair corrected, each row's score is its sum of weighted rewards."""
    rng = np.random.default_rng(1)
    prob, reward = rng.dirichlet(np.ones(3), 5), rng.normal(size=(5, 3))
    weight, action = rng.normal(size=(5, 3, 2)), rng.integers(3, size=5)
    about = (np.log(prob), action, reward, rng.normal(size=5), weight)
    sensitivity, nu = rng.normal(size=(5, 2)), np.full((5, 3), 1 / 3)
    found = uncentred_influence(
        *about,
        sensitivity,
        nu,
        temperature=ALPHA,
        by_state=True,
        uncorrected=np.ones((5, 3), dtype=bool),
    )
    np.testing.assert_allclose(found, np.einsum("rak,ra->rk", weight, reward), atol=1e-14)


def test_a_reward_that_nothing_tells_is_refused():
    panel = random_tabular(seed=4).simulate(steps=4_000, units=40, seed=50_000)
    kept = panel.select(
        panel.unit != panel.unit[(panel.state[:, 0] == 5) & (panel.action == 1)]
    )
    fit = pqr(**COUNTED).fit(kept)
    with pytest.raises(DataError, match=r"is not finite in .* never taken in their states"):
        one_step(fit, kept)


def test_mistakes_are_named():
    panel = random_tabular(seed=4).simulate(steps=3_000, units=60, seed=5)
    fit = pqr(**COUNTED).fit(panel)
    with pytest.raises(DataError, match="`folds` must be a whole number, 2 or more"):
        one_step(fit, panel, folds=1)
    other = random_tabular(seed=4).simulate(steps=3_000, units=60, seed=6)
    with pytest.raises(DataError, match="must be the one that the fit was made from"):
        one_step(fit, other)

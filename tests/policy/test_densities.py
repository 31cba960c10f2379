"""Policies over amounts: densities of mass one, near the truth, judged on held-out units."""

from typing import Any

import jax.random as jr
import numpy as np
import pytest
from scipy.stats import truncnorm

from deeppqr import Box, DataError, Mixed, Panel
from deeppqr.policy._contrastive import Noise
from deeppqr.policy._density import ActionBasis, amounts_of
from deeppqr.policy._density_network import EnergyNetwork, Mixture, MixtureDensity
from deeppqr.policy._given_density import GivenDensity, squashed_density
from deeppqr.policy._network import Training
from deeppqr.policy._tensor import StateFeatures, Tensor, _Newton
from deeppqr.worlds import AmountWorld, LinearQuadratic

SMALL = Training(width=16, depth=1, members=2, max_steps=400, check_every=50)
ESTIMATORS = {
    "tensor": Tensor(),
    "network": EnergyNetwork(SMALL),
    "mixture": Mixture(2, SMALL),
}


@pytest.fixture(scope="module")
def amounts():
    world = AmountWorld(dim=2, seed=1)
    return world, world.simulate(steps=4_000, units=80, seed=1)


@pytest.fixture(
    scope="module",
    params=["tensor", "network", pytest.param("mixture", marks=pytest.mark.slow)],
)
def fitted(request, amounts):
    world, panel = amounts
    return world, panel, ESTIMATORS[request.param].fit(panel, key=jr.key(0))


def mass(density, states, space):
    nodes = space.nodes(60)
    at = np.repeat(states, len(nodes), axis=0)
    log_density = density.log_density(at, np.tile(nodes.action, (len(states), 1)))
    return np.exp(log_density).reshape(len(states), -1) @ nodes.weight


def test_masses_are_one(fitted):
    world, panel, fit = fitted
    # Mixtures are computed in float32.
    np.testing.assert_allclose(
        mass(fit.density, panel.state[:9], world.actions), 1, atol=1e-5
    )


def test_estimates_are_near_the_truth(fitted):
    """The mean log density of fresh actions is the truth's less the divergence, which is
    about half the effective coefficients over the rows: here 30 to 100 over 4,000. Small
    networks that stop after 400 steps are off by as much again."""
    world, _, fit = fitted
    fresh = world.simulate(steps=4_000, units=80, seed=2)
    truth = world.log_policy(fresh.state, fresh.amount)
    found = fit.density.log_density(fresh.state, fresh.amount)
    loss = truth.mean() - found.mean()
    error = (truth - found).std() / np.sqrt(len(fresh))
    assert -4 * error < loss < 0.04


def test_held_out_scores_are_as_on_fresh_decisions(fitted):
    world, _, fit = fitted
    judged = np.isfinite(fit.held_out)
    assert judged.mean() > 0.35  # two members of five folds judge two fifths
    fresh = world.simulate(steps=4_000, units=80, seed=2)
    again = fit.density.log_density(fresh.state, fresh.amount)
    error = np.hypot(
        fit.held_out[judged].std() / np.sqrt(judged.sum()),
        again.std() / np.sqrt(len(again)),
    )
    assert abs(fit.held_out[judged].mean() - again.mean()) < 4 * error


@pytest.mark.slow
def test_two_amounts_and_units_of_them():
    """Measured in other units, a box and its actions give the same densities."""
    world = AmountWorld(dim=2, action_dim=2, atom=False, seed=2)
    panel = world.simulate(steps=2_000, units=40, seed=1)
    fit = Tensor().fit(panel, key=jr.key(0))
    truth = world.log_policy(panel.state, panel.amount)
    found = fit.density.log_density(panel.state, amounts_of(panel)[1])
    assert np.corrcoef(truth, found)[0, 1] > 0.9
    scaled = Panel.from_arrays(
        panel.state,
        1000 * amounts_of(panel)[1] + 5,
        panel.next_state,
        unit=panel.unit,
        actions=Box([-1995, -1995], [2005, 2005]),
    )
    again = Tensor().fit(scaled, key=jr.key(0))
    other = again.density.log_density(scaled.state, amounts_of(scaled)[1])
    np.testing.assert_allclose(other, found, atol=1e-6)


@pytest.mark.slow
def test_a_normal_density_is_found_among_normal_densities():
    """On linear-quadratic control the truth is normal with a mean linear in the state."""
    world = LinearQuadratic.random(2, 1, seed=1)
    panel = world.simulate(steps=4_000, units=80, seed=1)
    fit = Mixture(1, SMALL).fit(panel, key=jr.key(1))
    truth = world.log_policy(panel.state, panel.amount)
    assert np.nanmean(fit.held_out) > truth.mean() - 0.03


@pytest.mark.slow
def test_a_mixture_is_its_formula(amounts):
    """The network's density against SciPy's truncated normal, one part, one amount."""
    _, panel = amounts
    density = Mixture(1, SMALL).fit(panel, key=jr.key(0)).density
    assert isinstance(density, MixtureDensity)
    state, rows = panel.state[:5], np.arange(5)
    outputs = density.ensemble(state).astype(np.float64)[0]
    log_kind = outputs[:, :2] - np.logaddexp(outputs[:, 0], outputs[:, 1])[:, None]
    mean, scale = outputs[:, 2], 0.01 + np.logaddexp(0, outputs[:, 3])
    low, high = (-1 - mean) / scale, (1 - mean) / scale
    amount = np.full((5, 1), 7.0)
    inside = truncnorm.logpdf(0.4, low, high, loc=mean, scale=scale) + np.log(2)
    found = density.members(state, amount)[0]
    np.testing.assert_allclose(found, log_kind[:, 0] + inside, atol=1e-5)
    nothing = density.members(state, np.zeros((5, 1)))[0]
    np.testing.assert_allclose(nothing, log_kind[rows, 1], atol=1e-5)


def test_the_gradient_and_information_are_derivatives(amounts, rng):
    _, panel = amounts
    space, amount = amounts_of(panel)
    basis = ActionBasis.of(space)
    features = StateFeatures.of(panel.state, len(basis))
    columns, taken = features(panel.state), basis(amount)
    problem = _Newton(basis, features, columns, taken, panel.weight)
    problem.theta = 0.1 * rng.normal(size=problem.theta.shape)
    start, way = problem.theta, rng.normal(size=problem.theta.shape)
    gradient, none = problem._sums(), np.zeros(problem.theta.size)
    step = 1e-4
    below, here, above = (problem._fit(start + k * step * way, none) for k in (-1, 0, 1))
    # The third derivative's part is of the order of step squared.
    assert (above - below) / (2 * step) == pytest.approx(gradient @ way.ravel(), rel=1e-5)
    curve = way.ravel() @ problem.information @ way.ravel()
    assert (above - 2 * here + below) / step**2 == pytest.approx(-curve, rel=1e-4)


def test_the_basis_is_orthonormal_over_the_box():
    for space in (Box(-3, 5), Mixed(atoms=[[0.0, 0.0]], box=Box([0, 0], [1, 2]))):
        basis = ActionBasis.of(space)
        gram = basis.at_nodes.T * basis.nodes.weight @ basis.at_nodes
        np.testing.assert_allclose(gram, np.eye(len(basis)), atol=1e-12)


def test_weights_count_as_copies():
    """Twice the weight is twice the row: the density is that of the panel with copies."""
    world = AmountWorld(dim=2, seed=1)
    panel = world.simulate(steps=400, units=20, seed=3)
    amount, double = amounts_of(panel)[1], np.arange(400) % 2 == 0
    rows = np.concatenate([np.arange(400), np.flatnonzero(double)])
    given = {"actions": panel.space, "unit": panel.unit[rows]}
    copied = Panel.from_arrays(
        panel.state[rows], amount[rows], panel.next_state[rows], **given
    )
    weighted = Panel.from_arrays(
        panel.state,
        amount,
        panel.next_state,
        unit=panel.unit,
        actions=panel.space,
        weight=1.0 + double,
    )
    densities = []
    for each in (copied, weighted):
        space, chosen = amounts_of(each)
        basis = ActionBasis.of(space)
        features = StateFeatures.of(panel.state, len(basis))
        weight = each.weight * 600 / each.weight.sum()
        columns, taken = features(each.state), basis(chosen)
        problem = _Newton(basis, features, columns, taken, weight)
        problem.maximise()
        densities.append(problem.theta)
    np.testing.assert_allclose(densities[0], densities[1], atol=1e-6)


def test_given_densities(amounts):
    world, panel = amounts
    fit = GivenDensity(world.log_policy).fit(panel, key=jr.key(0))
    truth = world.log_policy(panel.state, panel.amount)
    np.testing.assert_array_equal(fit.held_out, truth)
    per_unit = lambda at, action: (
        world.log_policy(at, action) - np.where(action[:, 0] == 0, 0.0, np.log(10))
    )
    fit = GivenDensity(per_unit, per_unit=True).fit(panel, key=jr.key(0))
    np.testing.assert_allclose(fit.held_out, truth, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s, a: np.zeros(len(s)), "must integrate to one .* they integrate to 2\\."),
        (lambda s, a: np.zeros(3), r"a finite log density for each of the \d+ rows"),
        (lambda s: 0, "`policy` failed with TypeError.* function\\(states, actions\\)"),
    ],
)
def test_what_is_no_density(function, message, amounts):
    with pytest.raises(DataError, match=message):
        GivenDensity(function).fit(amounts[1], key=jr.key(0))


def test_densities_per_unit_of_the_amount_are_recognised():
    world = LinearQuadratic()
    panel = world.simulate(steps=500, units=10, seed=1)
    per_unit = lambda at, action: world.log_policy(at, action) - world.box.log_volume
    with pytest.raises(DataError, match=r"GivenDensity\(function, per_unit=True\)"):
        GivenDensity(per_unit).fit(panel, key=jr.key(0))


def test_panels_of_labels_and_models_without_densities_are_refused(tabular):
    with pytest.raises(
        DataError, match="actions that are amounts, but the panel's are the 3 labels"
    ):
        Tensor().fit(tabular[1], key=jr.key(0))
    with pytest.raises(DataError, match="A object has no squashed normal policy"):
        squashed_density(object())
    with pytest.raises(DataError, match="`components` must be 1 or more, but it is 0"):
        Mixture(0).fit(tabular[1], key=jr.key(0))


def three_amounts(rows) -> tuple[Any, Any]:
    """Linear-quadratic control with three amounts: a normal density in each state."""
    world = LinearQuadratic.random(2, 3, seed=0)
    return world, world.simulate(steps=rows, units=rows // 50, seed=1)


def test_noise_has_mass_one_and_stays_in_the_box():
    """E_q[1 / q] is the integral of one over the box, which is one."""
    _, panel = three_amounts(1_000)
    space, amount = amounts_of(panel)
    noise = Noise.of(space, panel.state, amount, panel.weight)
    mean = noise.mean(panel.state[:20])
    unit, even = noise.quasi_random
    points = noise.inside(np.tile(unit, (20, 1, 1)), mean, np.tile(even, (20, 1)))
    assert space.contains(points.reshape(-1, 3)).all()
    inverse = np.exp(-noise.log_density(points, mean))
    # 1 / q is 8 at most, where the even part alone reaches; 512 points, and twenty states.
    assert abs(inverse.mean() - 1) < 4 * inverse.std() / np.sqrt(512 * 20)
    # A draw's density is what is said of an action of the state.
    drawn, density = noise.draw(panel.state[:20], 3, np.random.default_rng(0))
    again = noise.log_density_of(panel.state[:20], drawn[:, 0])
    np.testing.assert_allclose(again, density[:, 0])


def test_noise_takes_atoms_as_often_as_they_are_taken(amounts):
    space, amount = amounts_of(amounts[1])
    panel = amounts[1]
    noise = Noise.of(space, panel.state, amount, panel.weight)
    drawn, density = noise.draw(panel.state, 5, np.random.default_rng(0))
    share = (space.atom_of(drawn.reshape(-1, 1)) == 0).mean()
    taken = (space.atom_of(amount) == 0).mean()
    assert abs(share - taken) < 4 * np.sqrt(0.25 / drawn.size) + 1 / len(panel)
    at = space.atom_of(drawn.reshape(-1, 1)).reshape(density.shape) == 0
    np.testing.assert_allclose(density[at], np.log(noise.atom_share[0]))


def test_telling_from_noise_is_best_at_the_true_density():
    """The contrastive loss has no slope at the truth, within its own error."""
    world, panel = three_amounts(2_000)
    space, amount = amounts_of(panel)
    noise = Noise.of(space, panel.state, amount, panel.weight)
    rng = np.random.default_rng(0)
    drawn, log_drawn = noise.draw(panel.state, 8, rng)
    log_taken = noise.log_density_of(panel.state, amount)
    every = np.concatenate([amount[:, None], drawn], axis=1)
    log_noise = np.column_stack([log_taken, log_drawn])
    states = np.repeat(panel.state, every.shape[1], axis=0)
    log_true = world.log_policy(states, every.reshape(-1, 3)).reshape(log_noise.shape)
    ratio = log_true - log_noise
    chance = np.exp(ratio - ratio.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    basis = ActionBasis(space, 2)
    at = basis(every.reshape(-1, 3)).reshape(*log_noise.shape, -1)
    slope = at[:, 0] - np.einsum("rk,rkf->rf", chance, at)
    error = slope.std(axis=0) / np.sqrt(len(slope))
    assert (np.abs(slope.mean(axis=0)) < 4 * error).all()


@pytest.mark.slow
def test_three_amounts_are_told_from_noise():
    """Against the exact density: the divergence, and a mass of one by other points."""
    world, panel = three_amounts(4_000)
    training = Training(width=32, depth=1, members=2, max_steps=1_000, check_every=50)
    fit = EnergyNetwork(training).fit(panel, key=jr.key(0))
    assert "told from" in fit.note
    fresh = world.simulate(steps=2_000, units=40, seed=2)
    gap = world.log_policy(fresh.state, fresh.amount) - fit.density.log_density(
        fresh.state, fresh.amount
    )
    # Half the effective coefficients over the rows, some 20 to 100, and as much again for
    # what contrasts with 32 draws leave of the likelihood's information.
    assert -4 * gap.std() / np.sqrt(len(gap)) < gap.mean() < 0.04
    judged = np.isfinite(fit.held_out)
    assert (
        abs(
            fit.held_out[judged].mean()
            - world.log_policy(panel.state[judged], panel.amount[judged]).mean()
        )
        < 0.1
    )
    # Importance sampling from the truth, whose ratios to the estimate are near one.
    rng, states = np.random.default_rng(0), np.repeat(fresh.state[:10], 2_000, axis=0)
    drawn = world.draw(states, rng)
    ratio = np.exp(fit.density.log_density(states, drawn) - world.log_policy(states, drawn))
    assert abs(ratio.mean() - 1) < 0.02
    other = fit.density.log_densities(fresh.state[:3], fresh.amount[:2])
    single = fit.density.log_density(fresh.state[:3], np.tile(fresh.amount[0], (3, 1)))
    np.testing.assert_allclose(other[:, 0], single)

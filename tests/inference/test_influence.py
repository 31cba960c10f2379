"""Influence functions are the estimator's own derivatives, and cover as they should."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, NoInfluenceFunction, Panel
from deeppqr.inference import reward_influence
from deeppqr.mdp import TabularMDP
from deeppqr.panel._clusters import Clusters
from deeppqr.policy import Frequency, Logit
from deeppqr.policy._logit import LogitPolicy
from deeppqr.policy._policy import AbstractPolicyEstimator, PolicyFit
from deeppqr.worlds import KnownCostBus, TabularWorld, random_tabular

STEP = 1e-4
STATES = np.arange(7.0)[:, None]


@dataclass(frozen=True)
class TightLogit(AbstractPolicyEstimator):
    """A logit at its optimum to rounding, which differences of refits need."""

    degree: int = 2

    def fit(self, panel, *, key):
        from sklearn.linear_model import LogisticRegression

        bare = Logit(degree=self.degree).maximise(panel)
        model = LogisticRegression(C=1.0, solver="newton-cg", tol=1e-13, max_iter=1_000)
        model.fit(bare.features(panel.state), panel.action, sample_weight=panel.weight)
        slope, level = model.coef_, model.intercept_
        if len(slope) == 1:
            slope, level = np.vstack([0 * slope, slope]), np.append(0.0, level)
        policy = LogitPolicy(slope, level, bare.scaling, self.degree, 1.0)
        taken = np.arange(len(panel)), panel.action
        return PolicyFit(policy, policy.log_prob(panel.state)[taken], "tight logit")


def table_pqr(**settings):
    stages = {"policy": "frequency", "anchor_value": "exact", "reward": "table"}
    return deeppqr.PQR(**{"discount": 0.9, "anchor": 0, **stages, **settings})


def with_anchor_law(law):
    base = random_tabular(seed=30)
    moves = base.mdp.transition.copy()
    moves[:, 0] = law
    return TabularWorld(TabularMDP(base.mdp.reward, moves, 0.9))


def rough(panel, rng):
    """The panel with uneven weights, ends, and rows whose sequel was not seen."""
    terminal = rng.random(len(panel)) < 0.05
    unseen = terminal | (rng.random(len(panel)) < 0.05)
    after = np.where(unseen[:, None], np.nan, panel.next_state)
    weight = rng.uniform(0.5, 1.5, len(panel))
    return replace(panel, next_state=after, terminal=terminal, weight=weight)


def refitted_slope(model, panel, row, states):
    """The derivative of every reward in one row's weight, by refitting."""
    ends = []
    for sign in (1, -1):
        weight = panel.weight.copy()
        weight[row] *= 1 + sign * STEP
        ends.append(model.fit(replace(panel, weight=weight)).reward(states))
    return (ends[0] - ends[1]) / (2 * STEP)


def g(states):
    return np.sin(states[:, 0])


RENEWAL = deeppqr.anchor.Renewal(check=False)
RANDOM_LAW = np.tile(np.random.default_rng(3).dirichlet(np.ones(7)), (7, 1))
CASES = {
    "exact": (random_tabular(seed=4), {"anchor_reward": g, "temperature": 1.3}),
    "more smoothing": (random_tabular(seed=4), {"policy": Frequency(smoothing=5.0)}),
    "renewal": (with_anchor_law(RANDOM_LAW), {"anchor_value": RENEWAL, "anchor_reward": g}),
    "self-loop": (
        with_anchor_law(np.eye(7)),
        {"anchor_value": "self-loop", "anchor_reward": 0.5},
    ),
    "logit, exact": (random_tabular(seed=4), {"policy": TightLogit(), "temperature": 0.7}),
    "logit, renewal": (
        with_anchor_law(RANDOM_LAW),
        {"policy": TightLogit(), "anchor_value": RENEWAL, "anchor_reward": g},
    ),
    "no future": (random_tabular(seed=4), {"discount": 0.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_influence_is_the_derivative_of_the_whole_estimator(case, rng):
    """Central differences miss by the step squared, 1e-8, times third derivatives."""
    world, settings = CASES[case]
    panel = world.simulate(steps=1_500, units=15, seed=5)
    panel = panel if case == "self-loop" else rough(panel, rng)
    model = table_pqr(**settings)
    fit = model.fit(panel)
    found = reward_influence(fit, panel, by_row=True)
    np.testing.assert_array_equal(found.states, STATES)
    for row in (0, 400, 1_111):
        slope = refitted_slope(model, panel, row, found.states)
        size = np.abs(slope).max()
        np.testing.assert_allclose(found.influence[row], slope, rtol=0, atol=1e-6 * size)


def test_two_actions_and_a_logit():
    """With two actions scikit-learn keeps one row of coefficients."""
    world = KnownCostBus()
    panel = world.simulate(steps=2_000, units=20, seed=3)
    renewal = {"anchor": "replace", "anchor_reward": -5.0, "anchor_value": "renewal"}
    model = table_pqr(policy=TightLogit(), **renewal)
    found = reward_influence(model.fit(panel), panel, by_row=True)
    slope = refitted_slope(model, panel, 7, found.states)
    seen = ~found.unseen
    np.testing.assert_allclose(
        found.influence[7][seen], slope[seen], rtol=0, atol=1e-6 * np.nanmax(np.abs(slope))
    )


def test_it_is_the_efficient_influence_function(rng):
    """The plug-in's derivative is the EIF of E[w r]: h from the transposed equation."""
    world = random_tabular(seed=4)
    panel = world.simulate(steps=3_000, units=30, seed=5)
    fit = table_pqr(policy=Frequency(smoothing=0.0), temperature=1.3).fit(panel)
    found = reward_influence(fit, panel, by_row=True)
    number, gamma, alpha = len(panel), 0.9, 1.3
    s, a = panel.state[:, 0].astype(int), panel.action
    after = panel.next_state[:, 0].astype(int)
    moves = np.zeros((7, 3, 7))
    np.add.at(moves, (s, a, after), 1 / number)
    mass = moves.sum(axis=2)
    here, prob = mass.sum(axis=1), mass / mass.sum(axis=1, keepdims=True)
    law = moves / mass[:, :, None]
    w = rng.normal(size=(7, 3))
    psi = np.sum(mass * w * found.reward)

    system = np.diag(here) - gamma * here[:, None] * law[:, 0]
    target = (mass * w).sum(axis=1) - gamma * np.einsum("sa,sat->t", w, moves)
    h = np.linalg.solve(system.T, target)
    c = w.copy()
    c[:, 0] -= h / prob[:, 0]
    value = fit.value(STATES)
    log_prob, reward = np.log(prob), found.reward
    eif = w[s, a] * reward[s, a] - psi + alpha * (c[s, a] - (prob * c).sum(axis=1)[s])
    residual = alpha * log_prob[s, a] + value[s] - gamma * value[after] - reward[s, a]
    eif += c[s, a] * residual

    own = (w[s, a] * reward[s, a] - psi) / number + found.influence.reshape(number, -1) @ (
        mass * w
    ).ravel()
    np.testing.assert_allclose(own, eif / number, atol=1e-11)


@pytest.fixture(scope="module")
def counted():
    world = random_tabular(seed=4)
    panel = world.simulate(steps=4_000, units=40, seed=5)
    return world, panel, table_pqr().fit(panel)


def test_rows_add_up_to_units(counted):
    _, panel, fit = counted
    rows = reward_influence(fit, panel, by_row=True).influence
    units = reward_influence(fit, panel)
    total = np.zeros_like(units.influence)
    np.add.at(total, panel.unit, rows)
    np.testing.assert_allclose(units.influence, total, atol=1e-12)
    assert "40 units" in units.note


def test_order_and_names_change_nothing(counted, rng):
    _, panel, fit = counted
    shuffled = rng.permutation(len(panel))
    labels = rng.permutation(40)
    other = Panel.from_arrays(
        100 - panel.state[shuffled],
        panel.action[shuffled],
        100 - panel.next_state[shuffled],
        unit=labels[panel.unit[shuffled]],
    )
    again = reward_influence(table_pqr().fit(other), other)
    found = reward_influence(fit, panel)
    np.testing.assert_allclose(again.reward[::-1], found.reward, atol=1e-10)
    np.testing.assert_allclose(
        again.standard_errors[::-1], found.standard_errors, atol=1e-10
    )


def test_functionals_and_the_covariance_agree(counted, rng):
    _, panel, fit = counted
    found = reward_influence(fit, panel)
    weight = rng.normal(size=(7, 3))
    value, error = found.functional(weight)
    assert value == pytest.approx(np.sum(weight * found.reward))
    assert error == pytest.approx(
        np.sqrt(weight.ravel() @ found.covariance @ weight.ravel())
    )
    assert (found.standard_errors[:, 0] == 0).all()
    low, high = found.interval(0.9)
    np.testing.assert_allclose((high - low) / 2, 1.6448536 * found.standard_errors)


def test_bands_are_wider_than_points_and_narrower_than_bonferroni(counted):
    _, panel, fit = counted
    found = reward_influence(fit, panel)
    band = found.bands(1, 0.95)
    # Bonferroni's 2.69, and four simulation errors of a quantile of 10,000 draws.
    assert 1.96 < band.critical < 2.69 + 4 * 0.018
    np.testing.assert_allclose(
        band.high - band.low, 2 * band.critical * band.standard_errors
    )
    with pytest.raises(DataError, match="`action` must be one of the actions"):
        found.bands("keep")


def test_pairs_never_seen_are_nan_and_said(counted):
    _, panel, _ = counted
    rows = ~((panel.state[:, 0] == 3) & (panel.action == 2))
    less = panel.select(rows)
    with np.errstate(invalid="ignore"):
        fit = table_pqr().fit(less)
    found = reward_influence(fit, less)
    assert found.unseen.sum() == 1
    assert found.unseen[3, 2]
    assert np.isnan(found.standard_errors[3, 2])
    assert "1 of 21 (state, action) pairs never seen" in found.note
    assert np.isfinite(found.standard_errors[~found.unseen]).all()
    with pytest.raises(DataError, match=r"reward of 2 at \[3.\], a pair never seen"):
        found.functional(np.ones((7, 3)))


def test_what_has_no_closed_form_is_refused(counted):
    world, panel, fit = counted
    other = world.simulate(steps=4_000, units=40, seed=6)
    with pytest.raises(NoInfluenceFunction, match="not the one that this panel gives"):
        reward_influence(fit, other)
    with pytest.raises(DataError, match=r"actions \[0, 1, 2\], but it has \['mileage'\]"):
        reward_influence(fit, KnownCostBus().simulate(steps=20, units=2))
    linear = table_pqr(reward="linear").fit(panel)
    with pytest.raises(NoInfluenceFunction, match="A LinearReward has no influence"):
        reward_influence(linear, panel)
    averager = table_pqr(anchor_value="averager").fit(panel)
    with pytest.raises(NoInfluenceFunction, match="value that is a AveragerFunction"):
        reward_influence(averager, panel)
    known = deeppqr.PQR(
        discount=0.9, anchor=0, policy="frequency", transition=world.mdp.transition
    ).fit(panel)
    with pytest.raises(NoInfluenceFunction, match="given and not counted, bootstrap"):
        reward_influence(known, panel)
    clipped = table_pqr(clip=0.2).fit(panel)
    with pytest.raises(NoInfluenceFunction, match="clipped probability has no derivative"):
        reward_influence(clipped, panel)


def test_few_units_are_cut_into_blocks(counted):
    _, panel, _ = counted
    few = Clusters.of(panel.select(panel.unit < 3))
    assert few.count == 10
    assert "10 blocks of consecutive rows, since there are 3 units only" in few.note
    assert Clusters.of(panel).count == 40


def cell_coverage(replications, units):
    """Whether 95 % intervals hold the truth, one list per replication."""
    world = KnownCostBus()
    model = table_pqr(
        discount=0.95, anchor="replace", anchor_reward=-5.0, anchor_value="renewal"
    )
    covered = []
    for seed in replications:
        panel = world.simulate(steps=100 * units, units=units, seed=400_000 + seed)
        found = reward_influence(model.fit(panel), panel)
        low, high = found.interval(0.95)
        truth = world.reward(found.states)
        # In the first five mileages both actions are taken in 20 rows or more.
        covered.append(((low <= truth) & (truth <= high))[:5, 0])
    return np.array(covered)


def test_cells_are_covered():
    """Cells of a data set are dependent: 30 data sets count as 30 draws, at least."""
    covered = cell_coverage(range(30), units=30)
    error = np.sqrt(0.95 * 0.05 / 30)
    assert abs(covered.mean() - 0.95) < 4 * error


@pytest.mark.slow
def test_cells_are_covered_in_many_data_sets():
    covered = cell_coverage(range(200), units=250)
    error = np.sqrt(0.95 * 0.05 / 200)
    assert np.abs(covered.mean(axis=0) - 0.95).max() < 4 * error

"""P: every estimator learns the policy it is shown, and says how well."""

import jax.random as jr
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from deeppqr import DataError, Panel
from deeppqr.policy import Boosted, Frequency, Logit, Network, Training
from deeppqr.policy._auto import Auto
from deeppqr.policy._boosted import BoostedPolicy
from deeppqr.policy._classifier import Classifier
from deeppqr.policy._network import NetworkPolicy
from deeppqr.policy._policy import Clipped, draw_folds, log_shares
from deeppqr.policy._resolve import resolve
from oracles import frequency_table

SMALL = Training(width=16, depth=1, members=2, max_steps=300, batch_size=256)
FEW_TREES = Boosted(members=2, max_iter=20)


def divergence(world, policy, states):
    """Mean Kullback-Leibler divergence from the true policy."""
    truth = world.log_policy(states)
    return float(np.mean(np.sum(np.exp(truth) * (truth - policy.log_prob(states)), axis=1)))


def test_frequencies_are_counts(tabular, key):
    world, panel = tabular
    policy = Frequency(smoothing=0.0).fit(panel, key=key).policy
    counted = frequency_table(panel, 7)
    np.testing.assert_allclose(np.exp(policy.log_prob(world.states)), counted, atol=1e-12)


def test_smoothing_adds_rows_of_average_behaviour(tabular, key):
    world, panel = tabular
    smooth = Frequency(smoothing=1e9).fit(panel, key=key).policy
    shares = np.tile(log_shares(panel), (7, 1))
    np.testing.assert_allclose(smooth.log_prob(world.states), shares, atol=1e-4)


def test_unseen_states_get_overall_shares(tabular, key):
    _, panel = tabular
    policy = Frequency().fit(panel, key=key).policy
    np.testing.assert_allclose(policy.log_prob(np.array([[99.0]]))[0], log_shares(panel))


def test_weights_count_like_repeated_rows(key):
    state = np.array([[0.0], [0.0], [1.0], [1.0]])
    after = np.zeros((4, 1))
    weighted = Panel.from_arrays(state, [0, 1, 0, 1], after, weight=[3.0, 1, 1, 1])
    repeated = Panel.from_arrays(
        state[[0, 0, 0, 1, 2, 3]], [0, 0, 0, 1, 0, 1], np.zeros((6, 1))
    )
    for estimator in (Frequency(smoothing=0.0), Logit(ridge=1e-6)):
        one, other = (estimator.fit(p, key=key).policy for p in (weighted, repeated))
        tol = 0.05 if isinstance(estimator, Logit) else 1e-12  # its states are rescaled
        np.testing.assert_allclose(one.log_prob(state), other.log_prob(state), atol=tol)


@pytest.mark.parametrize("num_actions", [2, 4])
def test_logit_recovers_its_own_coefficients(num_actions, rng, key):
    """Each log-odds slope within four of its information-matrix standard errors."""
    slope = np.linspace(-1, 1, num_actions)
    state = rng.normal(size=(20_000, 1))
    logits = state * slope
    gumbel = rng.gumbel(size=logits.shape)
    panel = Panel.from_arrays(state, (logits + gumbel).argmax(axis=1), state)
    policy = Logit(ridge=1e-6).fit(panel, key=key).policy
    grid = np.array([[0.0], [1.0]])
    found = policy.log_prob(grid)
    odds = found - found[:, :1]
    # The variance of one row's score for a slope against the first action is at least
    # pi_0 pi_a E[s^2] > 0.02 here, so a standard error is below 1 / sqrt(400).
    np.testing.assert_allclose(odds[1] - odds[0], slope - slope[0], atol=4 / np.sqrt(400))


def test_network_beats_the_logit_where_it_should(key):
    """A policy that bends in the state: actions follow |s|."""
    rng = np.random.default_rng(3)
    state = rng.uniform(-2, 2, size=(6_000, 1))
    action = (rng.random(6_000) < 1 / (1 + np.exp(-4 * (np.abs(state[:, 0]) - 1)))).astype(
        int
    )
    panel = Panel.from_arrays(state, action, state, unit=np.arange(6_000) // 60)
    network = Network(SMALL).fit(panel, key=key)
    logit = Logit().fit(panel, key=key)
    judged = ~np.isnan(network.held_out)
    assert network.held_out[judged].mean() > logit.held_out[judged].mean() + 0.1


def steps(num_rows=6_000):
    """Decisions by thresholds in three variables: the odds flip at each of them."""
    rng = np.random.default_rng(5)
    state = rng.uniform(-1, 1, size=(num_rows, 3))
    above = (state > np.array([0.3, -0.2, 0.5])).sum(axis=1)
    odds = np.where(above % 2, 2.0, -2.0)
    action = (rng.random(num_rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return Panel.from_arrays(state, action, state, unit=np.arange(num_rows) // 60)


def smooth(num_rows=3_000):
    """A logit in three variables."""
    rng = np.random.default_rng(6)
    state = rng.normal(size=(num_rows, 3))
    odds = state @ np.array([1.0, -1.0, 0.5])
    action = (rng.random(num_rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return Panel.from_arrays(state, action, state, unit=np.arange(num_rows) // 60)


def test_boosted_trees_find_steps(key):
    """On units held out, and better than the logit by four clustered standard errors."""
    panel = steps()
    boosted, logit = (model.fit(panel, key=key) for model in (Boosted(), Logit()))
    gain = np.bincount(panel.unit, boosted.held_out - logit.held_out) / 60
    assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))
    # At best 0.327 on average: the logit is left with log 2, less a little.
    assert boosted.held_out.mean() > logit.held_out.mean() + 0.2


def test_boosted_trees_are_calibrated_and_averaged(key):
    panel = steps(2_000)
    policy = FEW_TREES.fit(panel, key=key).policy
    assert isinstance(policy, BoostedPolicy)
    each = np.stack([member.log_prob(panel.state) for member in policy.members])
    pooled = np.exp(policy.factor * each.mean(axis=0))
    pooled /= pooled.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(policy.log_prob(panel.state)), pooled, atol=1e-12)


def test_one_member_judges_one_fold(key):
    panel = steps(2_000)
    first, both = (
        Boosted(members=members, max_iter=20).fit(panel, key=key) for members in (1, 5)
    )
    judged = ~np.isnan(first.held_out)
    assert 0.15 < judged.mean() < 0.25
    assert not np.isnan(both.held_out).any()


def test_boosted_trees_without_a_rare_action(key):
    """An action that one unit alone takes: the member that does not see it smooths."""
    panel = steps(2_000)
    action = panel.action.copy()
    action[0] = 2
    rare = Panel.from_arrays(panel.state, action, panel.state, unit=panel.unit)
    fit = FEW_TREES.fit(rare, key=key)
    assert np.isfinite(fit.policy.log_prob(rare.state)).all()


@pytest.mark.slow
def test_calibration_tempers_an_overfitted_network(paper):
    _, panel = paper
    few = panel.select(panel.unit < 5)
    wild = Training(width=64, members=2, max_steps=600, patience=99, check_every=600)
    raw = Network(wild, calibrate=False).fit(few, key=jr.key(1))
    tempered = Network(wild, calibrate=True).fit(few, key=jr.key(1))
    assert isinstance(tempered.policy, NetworkPolicy)
    assert tempered.policy.factor < 1
    judged = ~np.isnan(raw.held_out)
    assert tempered.held_out[judged].mean() > raw.held_out[judged].mean()


@pytest.mark.filterwarnings("ignore::deeppqr.DataWarning")  # the state is the unit
def test_held_out_scores_come_from_other_units(key):
    """Units that act by their own number cannot be predicted when held out."""
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(40), 50)
    action = rng.integers(0, 2, 40)[unit]
    state = unit[:, None].astype(float)
    panel = Panel.from_arrays(state, action, state, unit=unit)
    fit = Frequency().fit(panel, key=key)
    assert np.exp(fit.policy.log_prob(state)[np.arange(2_000), action]).mean() > 0.95
    # Held out, a unit gets the others' share x of its action, x^2 + (1 - x)^2 on average:
    # 0.55 where x is two standard errors, 0.16, from a half.
    assert np.exp(fit.held_out).mean() < 0.7


def test_auto_counts_where_states_repeat(tabular, key):
    _, panel = tabular
    assert "frequencies in 7 distinct states" in Auto().fit(panel, key=key).note


def test_auto_is_a_smooth_logit_that_needs_no_seed():
    """Two keys, the same policy; and far better than the action shares it starts from."""
    panel = smooth()
    one, two = (Auto().fit(panel, key=jr.key(seed)) for seed in (0, 1))
    np.testing.assert_array_equal(
        one.policy.log_prob(panel.state), two.policy.log_prob(panel.state)
    )
    shares = np.bincount(panel.action) / len(panel)
    assert one.held_out.mean() > np.log(shares[panel.action]).mean()


def test_auto_scores_an_action_only_the_first_fold_has(key):
    panel = smooth(400)
    first = int(np.flatnonzero(draw_folds(panel, key=key) == 0)[0])
    action = panel.action.copy()
    action[first] = 2
    rare = Panel.from_arrays(panel.state, action, panel.state, unit=panel.unit)
    fit = Auto().fit(rare, key=key)
    assert np.isfinite([score for _, score in fit.evidence]).all()


@pytest.mark.parametrize(
    "estimator", [Frequency(), Logit(), Logit(degree=2), Network(SMALL), FEW_TREES, Classifier(LogisticRegression())]
)  # fmt: skip
def test_contract(estimator, tabular, key):
    """Rows sum to one; the same key gives the same answer; held-out rows are judged."""
    _, panel = tabular
    part = panel.select(panel.unit < 20)
    fit, again = (estimator.fit(part, key=key) for _ in range(2))
    log_prob = fit.policy.log_prob(part.state)
    assert log_prob.shape == (len(part), 3)
    np.testing.assert_allclose(np.exp(log_prob).sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(log_prob, again.policy.log_prob(part.state))
    assert (~np.isnan(fit.held_out)).mean() > 0.1
    assert fit.held_out.shape == (len(part),)


def test_classifiers_are_cloned_and_seeded(tabular, key):
    _, panel = tabular
    forest = RandomForestClassifier(5)
    one, two = (Classifier(forest).fit(panel, key=key).policy for _ in range(2))
    np.testing.assert_array_equal(
        one.log_prob(panel.state[:50]), two.log_prob(panel.state[:50])
    )
    assert not hasattr(forest, "estimators_")


def test_clipping_raises_and_reports(tabular, key):
    _, panel = tabular
    policy = Frequency().fit(panel, key=key).policy
    clipped = Clipped(policy, 0.2)
    prob = np.exp(clipped.log_prob(panel.state))
    np.testing.assert_allclose(prob.sum(axis=1), 1)
    below = np.exp(policy.log_prob(panel.state)) < 0.2
    assert clipped.clipped_share(panel.state) == pytest.approx(below.mean())


def test_messages(tabular, key):
    with pytest.raises(
        DataError, match=r"`policy` must be one of \['airl', 'auto', 'boosted', 'frequency'"
    ):
        resolve("forest")
    with pytest.raises(DataError, match="LinearRegression has no `predict_proba`"):
        resolve(LinearRegression())
    _, panel = tabular
    weight = np.arange(len(panel)) + 1.0
    weighted = Panel.from_arrays(
        panel.state, panel.action, panel.next_state, unit=panel.unit, weight=weight
    )
    with pytest.raises(DataError, match="takes no `sample_weight`"):
        Classifier(KNeighborsClassifier()).fit(weighted, key=key)


@pytest.mark.parametrize("rows", [8, 40, 400])
def test_a_logit_is_bounded_where_the_data_separate_the_actions(rows, key):
    """Its maximum is infinite without the ridge; with it log pi is finite and moderate."""
    state = np.linspace(-1.0, 1.0, rows)[:, None] * 1e4
    action = (state[:, 0] > 0).astype(int)
    nothing = np.full_like(state, np.nan)
    over = np.ones(rows, bool)
    panel = Panel.from_arrays(state, action, nothing, terminal=over)
    log_prob = Logit().maximise(panel).log_prob(panel.state)
    assert (log_prob.argmax(axis=1) == action).all()
    assert -60 < log_prob.min() < -3

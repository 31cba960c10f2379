"""The paper's three stages over amounts: P by a density, Q by the anchor, R by RE."""

import numpy as np
import pytest

import deeppqr
from deeppqr import PQR, DataError, policy
from deeppqr.worlds import AmountWorld, LinearQuadratic


def staged(world, panel, **options):
    settings = {
        "discount": world.discount,
        "temperature": world.temperature,
        "anchor": world.anchor,
        "anchor_reward": world.anchor_reward,
        "reward": "regression",
        **options,
    }
    return PQR(**settings).fit(panel)


@pytest.fixture(scope="module")
def control():
    """Linear-quadratic control, 6,000 decisions, and the stages with the true density."""
    world = LinearQuadratic.random(2, 1, seed=1)
    panel = world.simulate(steps=6_000, units=120, seed=1)
    return world, panel, staged(world, panel, policy=world.log_policy)


def nmse(fit, world, panel):
    states, amount = panel.state, panel.amount
    truth, known = world.reward(states, amount), world.anchor_reward(states)
    gap = fit.reward(states, amount) - truth
    return (gap**2).mean() / ((truth - known) ** 2).mean()


def test_the_true_density_gives_nearly_the_true_reward(control):
    """What is left is the error of two regressions of V(s') on 6,000 noisy next states.

    The noise of V(s') has a standard deviation of about 0.5, and some ten coefficients of
    each regression matter: errors near 0.5 sqrt(20 / 6,000) = 0.03, and the reward's own
    deviation is 0.6."""
    world, panel, fit = control
    assert nmse(fit, world, panel) < 4 * (0.03 / 0.6) ** 2


def test_densities_and_values_belong_together(control):
    """Q = V + alpha log pi, as given; r = Q - discount E[V'] is g at the anchor, nearly."""
    world, panel, fit = control
    states, amount = panel.state[:50], panel.amount[:50]
    log_policy = fit.log_policy(states, amount)
    np.testing.assert_allclose(log_policy, world.log_policy(states, amount), atol=1e-12)
    gap = fit.q(states, amount) - fit.value(states)
    np.testing.assert_allclose(gap, log_policy, atol=1e-10)
    at_anchor = fit.reward(states)[:, fit.actions.index(fit.anchor)]
    np.testing.assert_allclose(at_anchor, world.anchor_reward(states), atol=1e-12)
    regressed = fit.reward(states, 0.0)
    # Two regressions of the same expectation, on features of their own.
    assert np.abs(regressed - world.anchor_reward(states)).mean() < 0.1


def test_no_future_makes_the_reward_known_up_to_the_density():
    """At discount zero r = g + alpha (log pi - log pi_A), whatever was regressed."""
    world = LinearQuadratic.random(2, 1, seed=2, discount=0.0)
    panel = world.simulate(steps=600, units=30, seed=1)
    fit = staged(world, panel, policy=world.log_policy)
    truth = world.reward(panel.state, panel.amount)
    np.testing.assert_allclose(fit.reward(panel.state, panel.amount), truth, atol=1e-10)


def test_the_temperature_scales_what_it_should(control):
    """r is affine in it: alpha times one part, and what g adds."""
    _, panel, fit = control
    states, amount = panel.state[:20], panel.amount[:20]
    one, two, three = (
        fit.at_temperature(t).reward(states, amount) for t in (1.0, 2.0, 3.0)
    )
    np.testing.assert_allclose(two - one, three - two, atol=1e-10)
    assert np.abs(two - one).max() > 0.1


@pytest.fixture(scope="module")
def doses():
    """A world with an atom, 4,000 decisions, and the stages with the quick density."""
    world = AmountWorld(dim=2, seed=1)
    panel = world.simulate(steps=4_000, units=80, seed=2)
    return world, panel, staged(world, panel)


def test_an_atom_as_the_anchor_with_an_estimated_density(doses):
    """Quick default: the error is that of the density beside the regressions'."""
    world, panel, fit = doses
    assert "log density on" in fit.stages["policy"]
    assert nmse(fit, world, panel) < 0.08
    assert "RE by regression" in fit.summary()


def test_saved_fits_are_the_same(doses, tmp_path):
    world, panel, fit = doses
    fit.save(tmp_path / "fit")
    again = deeppqr.load(tmp_path / "fit", anchor_reward=world.anchor_reward)
    states, amount = panel.state[:9], panel.amount[:9]
    np.testing.assert_array_equal(again.reward(states, amount), fit.reward(states, amount))
    np.testing.assert_array_equal(again.log_policy(states), fit.log_policy(states))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "mixture", "network"])
def test_other_densities_by_name(name, doses):
    world, panel, _ = doses
    assert nmse(staged(world, panel, policy=name), world, panel) < 0.15


def test_what_cannot_be_is_said(control):
    world, panel, fit = control
    with pytest.raises(DataError, match='Leave out `policy`, or pass reward="regression"'):
        staged(world, panel, reward="auto", policy="tensor")
    with pytest.raises(DataError, match="`policy` must be one of .*'tensor'"):
        staged(world, panel, policy=policy.Logit())
    with pytest.raises(DataError, match="`policy` must be one of"):
        PQR(discount=0.9, anchor=0, policy="tensr")
    with pytest.raises(
        DataError, match="Standard errors over amounts come with the default"
    ):
        fit.standard_errors(panel.state[:2], 0.0)


def test_densities_are_not_for_labels(tabular):
    with pytest.raises(
        DataError,
        match="Tensor is for actions that are amounts, but the panel's are labels",
    ):
        PQR(discount=0.9, anchor=0, policy=policy.Tensor()).fit(tabular[1])

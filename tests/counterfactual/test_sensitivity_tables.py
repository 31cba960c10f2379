"""Sensitivity: linear in the anchor's reward, tested anchors, refits in one table."""

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.counterfactual import sensitivity
from deeppqr.worlds import random_tabular

WORLD = random_tabular(7, 3, discount=0.9, seed=11)
MDP = WORLD.mdp


def known(error: float | np.ndarray = 0.0, action=0):
    given = MDP.reward[:, action] + error
    return lambda states: given[states[:, 0].astype(int)]


@pytest.fixture(scope="module")
def panel():
    return WORLD.simulate(steps=6_000, units=40, seed=2)


def exact(panel, error: float | np.ndarray = 0.0):
    model = deeppqr.PQR(
        discount=0.9,
        anchor=0,
        anchor_reward=known(error),
        policy=deeppqr.policy.Given(WORLD.log_policy),
        transition=MDP.transition,
    )
    return model.fit(panel)


@pytest.fixture(scope="module")
def joint(panel):
    model = deeppqr.PQR(discount=0.9, anchor=0, anchor_reward=known(), reward="joint")
    return model.fit(panel)


NO_REFITS: dict = {"discounts": [], "temperatures": [], "seeds": 0, "folds": 0}


def averages(found, kind, value):
    rows = [row for row in found.rows if (row.kind, row.value) == (kind, value)]
    return np.array([row.estimate for row in rows])


def test_averages_are_linear_in_the_anchors_reward(panel, rng):
    """psi(g) = psi(0) + E[h g] exactly, and bounds are attained at the right g."""
    found = sensitivity(
        exact(panel), panel, anchor_bounds=(known(-0.2), known(0.5)), **NO_REFITS
    )
    base = averages(found, "as fitted", "")
    share = found.weight[:, None] * found.curve
    error = rng.normal(size=7)
    moved = averages(sensitivity(exact(panel, error), panel, **NO_REFITS), "as fitted", "")
    np.testing.assert_allclose(moved - base, share.T @ error, atol=1e-10)
    np.testing.assert_allclose(share[:, 0].sum(), 1.0, atol=1e-10)
    highest = averages(found, "anchor's reward", "highest")
    for action in range(3):
        at = np.where(share[:, action] > 0, 0.5, -0.2)
        other = sensitivity(exact(panel, at), panel, **NO_REFITS)
        reached = averages(other, "as fitted", "")[action]
        np.testing.assert_allclose(highest[action], reached, atol=1e-9)


def test_a_second_anchor_is_tested_and_pooled(panel, joint):
    right = sensitivity(joint, panel, anchors={1: known(action=1)}, **NO_REFITS)
    assert "agrees" in right.notes[0]
    alone, pooled = right.of("anchors pooled", 2)
    assert pooled.standard_error < alone.standard_error
    known_now = right.of("anchors pooled", 1)[1]
    truth = MDP.reward[panel.state[:, 0].astype(int), 1].mean()
    np.testing.assert_allclose(known_now.estimate, truth, atol=1e-6)
    wrong = sensitivity(joint, panel, anchors={1: known(1.0, action=1)}, **NO_REFITS)
    assert "contradicts" in wrong.notes[0]


def test_refits_stand_beside_the_estimate(panel, joint):
    found = sensitivity(joint, panel, discounts=[0.8], seeds=1, folds=2)
    kinds = list(dict.fromkeys(row.kind for row in found.rows))
    wanted = ["as fitted", "anchor's reward", "temperature", "discount", "seed", "units"]
    assert kinds == wanted
    # Joint estimation draws nothing; half the units move the averages by their errors.
    base = averages(found, "as fitted", "")
    np.testing.assert_allclose(averages(found, "seed", "1"), base, atol=1e-6)
    for row in found.of("units", 2)[1:]:
        assert abs(row.estimate - base[2]) < 4 * 2**0.5 * row.standard_error
    again = deeppqr.PQR(discount=0.8, anchor=0, anchor_reward=known(), reward="joint")
    refit = again.fit(panel).reward(panel.state).mean(axis=0)
    np.testing.assert_allclose(averages(found, "discount", "0.8"), refit, atol=1e-8)
    cell = f"{base[2]:.3f}"
    for text in (found.text(), found.markdown(), found.latex(), found.html()):
        assert cell in text
    assert found.frame().height == len(found.rows)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(anchors={0: 1.0}), "other than the fit's own anchor"),
        (dict(anchor_bounds=(1.0, 0.0)), "low end first"),
        (dict(folds=1), "`folds` must be 0, or 2"),
        (dict(seeds=-1), "`seeds` must be a whole number"),
        (dict(discounts=[1.0]), "`discount` must lie in"),
    ],
)
def test_messages(panel, joint, options, words):
    with pytest.raises(DataError, match=words):
        sensitivity(joint, panel, **options)

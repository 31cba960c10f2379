"""What a fit says of arguments and functions that it cannot use: never a riddle."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.worlds import random_tabular

WORLD = random_tabular(num_states=4, num_actions=2, seed=0)
LAW, POLICY = WORLD.mdp.transition, WORLD.solution.log_policy
KNOWN: dict[str, Any] = {"discount": 0.9, "anchor": 0, "policy": "frequency"}


@pytest.fixture(scope="module")
def panel():
    return WORLD.simulate(steps=600, units=20, seed=0)


@pytest.fixture(scope="module")
def smooth():
    rng = np.random.default_rng(0)
    state, after = rng.normal(size=(2, 300, 2))
    return Panel.from_arrays(
        state, rng.integers(0, 3, 300), after, unit=np.arange(300) // 10
    )


# ---- classifiers


class Odd(ClassifierMixin, BaseEstimator):
    """A classifier that gives what it is told to give."""

    def __init__(self, give: Any = None):
        self.give = give

    def fit(self, inputs, target):
        self.classes_ = np.unique(target)
        return self

    def predict_proba(self, inputs):
        return self.give(np.full((len(inputs), 3), 1 / 3))


def by_classifier(classifier):
    stages: dict[str, Any] = {"anchor_value": "averager", "reward": "linear"}
    return deeppqr.PQR(discount=0.9, anchor=0, policy=classifier, **stages)


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda p: 5 * p, r"sum to one in each row, none negative, but for the state \["),
        (lambda p: 0.9 * p, r"it gave \[0.3 0.3 0.3\] \(60 of 60 rows\)"),
        (lambda p: np.where(np.arange(3) == 1, np.nan, p), r"it gave \[0.33333333 +nan"),
        (
            lambda p: p + np.array([0.5, -0.5, 0.0]),
            r"none negative, but .* it gave \[ 0.8333",
        ),
        (lambda p: p * np.inf, r"it gave \[inf inf inf\]"),
        (np.log, "Scores become probabilities by a softmax"),
        (lambda p: 1.5 * p[:, :2], r"each of 60 rows and 3 actions, but .* \(60, 2\)"),
        (lambda p: p[:, 0], r"each of 60 rows and 3 actions, but its shape is \(60,\)"),
        (lambda p: p[:-1], r"each of 60 rows and 3 actions, but .* \(59, 3\)"),
        (lambda p: None, "A classifier must know every action it was fitted on"),
        (lambda p: [["a"]] * len(p), r"3 actions, but its shape is \(0,\)"),
    ],
)
def test_what_is_no_probability_is_refused(smooth, give, message):
    with pytest.raises(DataError, match=f"`Odd.predict_proba` must give .*{message}"):
        by_classifier(Odd(give)).fit(smooth)


class Reversed(Odd):
    """Its classes in the other order, and its columns with them."""

    def fit(self, inputs, target):
        super().fit(inputs, target)
        self.classes_ = self.classes_[::-1]
        return self


class Nameless(Odd):
    def fit(self, inputs, target):
        return self


def test_columns_follow_the_classes(smooth):
    give = lambda p: p * [0.6, 0.9, 1.5]
    fit = by_classifier(Reversed(give)).fit(smooth)
    found = np.exp(fit.log_policy(smooth.state[:2]))
    np.testing.assert_allclose(found, [[0.5, 0.3, 0.2]] * 2)
    with pytest.raises(DataError, match="`Nameless.classes_` must hold .* it is None"):
        by_classifier(Nameless(give)).fit(smooth)


def test_probabilities_of_single_precision_are_taken(smooth):
    fit = by_classifier(Odd(lambda p: p.astype(np.float32) * (1 + 5e-6))).fit(smooth)
    total = np.exp(fit.log_policy(smooth.state)).sum(axis=1)
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


# ---- given policies and laws


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda s: 1 / 0, "passed as `policy` failed with ZeroDivisionError"),
        (lambda s: s["x1"], "passed as `policy` failed with IndexError"),
        (lambda s: None, r"shape \(300, 3\), but the function returned shape \(\)"),
        (lambda s: "high", r"shape \(300, 3\), but the function returned shape \(\)"),
        (lambda s: [["a"] * 3] * len(s), "`policy` must be an array of numbers, but a"),
        (lambda s: np.zeros((len(s), 3)), "must sum to one in each state, but those of"),
        (lambda s: np.full((len(s), 3), np.nan), r"sum to nan \(300 states in all\)"),
    ],
)
def test_a_given_policy_that_is_none(smooth, policy, message):
    with pytest.raises(DataError, match=message):
        by_classifier(policy).fit(smooth)


def test_functions_cannot_rewrite_the_panel(panel, smooth):
    def policy(states):
        states[:] = 0.0
        return np.full((len(states), 3), -np.log(3))

    def law(states, action):
        outcome = states.copy()
        states[:] = 0.0
        return outcome

    before = smooth.state.copy(), panel.state.copy()
    by_classifier(policy).fit(smooth)
    deeppqr.PQR(**KNOWN, transition=law).fit(panel)
    np.testing.assert_array_equal(smooth.state, before[0])
    np.testing.assert_array_equal(panel.state, before[1])


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        ("counts", "`transition` must be an array of numbers, but a str arrived"),
        ([[1.0], [1.0, 2.0]], "`transition` must be an array of numbers, but a list"),
        (0.5, r"must have the shape \(state, action, next_state\) .* shape is \(1,\)"),
        ([], r"must have the shape \(state, action, next_state\) .* shape is \(0,\)"),
        (LAW[:, 0], r"with 2 actions, but its shape is \(4, 4\)"),
        (LAW * np.nan, "sum to nan"),
        (LAW * 100, "Counts become probabilities by"),
        ((1, 2, 3), r"a pair \(states, array\) or a function, but a tuple of 3"),
        ((LAW, np.arange(4)), r"must have the shape .* its shape is \(4,\)"),
        (np.full((3, 2, 3), 1 / 3), r"has 3 states, .* in the state \[3\.\], is in none"),
        (lambda s, a: None, "must return next states of shape"),
        (lambda s, a: (s, s, s), "but it returned a tuple of 3"),
        (lambda s, a: "there", "`transition` must be an array of numbers, but a str"),
        (lambda s, a: 1 / 0, r"failed with ZeroDivisionError: .* called as function\(st"),
        (lambda s: s, "failed with TypeError: .* and one action's label, here 0"),
    ],
)
def test_a_law_that_is_none(panel, transition, message):
    with pytest.raises(DataError, match=message):
        deeppqr.PQR(**KNOWN, transition=transition).fit(panel)


@pytest.mark.parametrize(
    "stage", [{"anchor_value": "averager"}, {"reward": "network"}, {"reward": "joint"}]
)
def test_a_stage_that_would_be_ignored_is_refused(stage):
    name = next(iter(stage))
    message = f"nothing is left for `{name}` to estimate, .* Leave out `{name}`, or `tran"
    with pytest.raises(DataError, match=message):
        replace(deeppqr.PQR(**KNOWN, transition=LAW), **stage)
    replace(deeppqr.PQR(**KNOWN, transition=LAW), **{name: "auto"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log_policy": "x"}, "`log_policy` must be an array of numbers, but a str"),
        ({"log_policy": [[0.0], [0.0, 1.0]]}, "`log_policy` must be an array of numbers"),
        ({"log_policy": np.exp(POLICY)}, "sum to one in each state, but those of state 0"),
        ({"log_policy": np.zeros((0, 2))}, r"with one of each at least, .* \(0, 2\)"),
        ({"transition": "x"}, "`transition` must be an array of numbers, but a str"),
        ({"transition": LAW[0, 0]}, r"= \(4, 2, 4\) to match `log_policy`"),
        ({"anchor": True}, "`anchor` must be an action's index .* but it is True"),
        ({"anchor": 2}, "`anchor` must be an action's index .* but it is 2"),
        ({"anchor_reward": "g"}, "`anchor_reward` must be an array of numbers, but a str"),
        ({"anchor_reward": lambda s: 0.0}, "`anchor_reward` must be .* but a function"),
        ({"anchor_reward": np.zeros(3)}, "4 of them, one per state, but shape"),
        ({"anchor_reward": np.nan}, "1 of it not finite"),
    ],
)
def test_what_exact_cannot_use(options, message):
    given = {"log_policy": POLICY, "transition": LAW, "anchor": 0, **options}
    with pytest.raises(DataError, match=message):
        deeppqr.exact(
            given.pop("log_policy"), given.pop("transition"), discount=0.9, **given
        )

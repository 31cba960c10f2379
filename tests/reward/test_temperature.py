"""The temperature: affine, selected in closed form, never refitted."""

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from oracles import empirical_transition

STAGES = [
    {"reward": "table"},
    {"policy": "logit", "anchor_value": "linear", "reward": "linear"},
    {"anchor_value": "averager", "reward": "regression"},
]


@pytest.mark.parametrize("stages", STAGES, ids=["table", "linear", "averager"])
def test_rescaling_is_refitting(stages, tabular, anchor_reward):
    """Also where g varies with the state, to 1e-8."""
    world, panel = tabular
    known = {"discount": 0.9, "anchor": 0, "anchor_reward": anchor_reward, **stages}
    one = deeppqr.PQR(temperature=1.0, **known).fit(panel)
    two = deeppqr.PQR(temperature=2.0, **known).fit(panel)
    moved = one.at_temperature(2.0)
    for function in ("reward", "q", "value"):
        np.testing.assert_allclose(
            getattr(moved, function)(world.states),
            getattr(two, function)(world.states),
            atol=1e-8,
        )
    assert moved.temperature == 2.0
    assert one.temperature == 1.0


def action_shapes(states):
    """Two features of each action: r(s, a) = a (theta1 + theta2 x1)."""
    shapes = np.stack([np.ones(len(states)), states[:, 0]], axis=1)
    return np.arange(5)[:, None] * shapes[:, None]


OWN = deeppqr.reward.Joint(features=action_shapes)


@pytest.mark.parametrize(
    "reward",
    [
        pytest.param("joint", id="joint"),
        pytest.param(OWN, id="joint with features"),
        pytest.param(deeppqr.reward.Likelihood(features=action_shapes), id="likelihood"),
    ],
)
def test_where_the_anchor_earns_nothing_all_scale_alike(reward, paper):
    """r, Q and V are proportional to the temperature, the policy does not depend on it."""
    _, panel = paper
    few = panel.select(panel.unit < 12)
    stages = {"policy": "logit", "anchor_value": "linear", "reward": reward}
    one = deeppqr.PQR(discount=0.9, anchor=0, **stages).fit(few)
    two = deeppqr.PQR(discount=0.9, anchor=0, temperature=2.0, **stages).fit(few)
    moved, states = one.at_temperature(2.0), few.state[:50]
    for function, power in (
        ("reward", 2.0),
        ("q", 2.0),
        ("value", 2.0),
        ("log_policy", 1.0),
    ):
        expected = getattr(two, function)(states)
        size = 1e-12 * np.abs(expected).max()
        found = getattr(moved, function)(states)
        np.testing.assert_allclose(found, expected, atol=size)
        proportional = power * getattr(one, function)(states)
        np.testing.assert_allclose(proportional, expected, atol=size)
    earned = two.reward(few.state)[np.arange(len(few)), few.action].mean()
    assert one.select_temperature(few, average=earned) == pytest.approx(2.0, rel=1e-12)


def test_one_part_with_a_known_reward_is_refused(paper):
    _, panel = paper
    few = panel.select(panel.unit < 12)
    quick = deeppqr.reward.Likelihood(features=action_shapes)
    stages = {"policy": "logit", "anchor_value": "linear", "reward": quick}
    fit = deeppqr.PQR(discount=0.9, anchor=0, anchor_reward=0.1, **stages).fit(few)
    message = r"given `features` cannot be rescaled.*temperature=2\.0"
    with pytest.raises(DataError, match=message):
        fit.at_temperature(2.0)
    with pytest.raises(DataError, match=message):
        fit.select_temperature(few, average=0.3)


def test_the_printed_theorem_fails_where_the_corrected_one_holds(tabular, anchor_reward):
    """With g / (1 - discount) for G the ratio of centred rewards is not 2."""
    world, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=anchor_reward, reward="regression"
    ).fit(panel)
    once, twice = fit.reward(world.states), fit.at_temperature(2.0).reward(world.states)
    g = world.mdp.reward[:, 0]
    printed = g[:, None] / 0.1 - 0.9 * world.mdp.transition @ (g / 0.1)
    ratio = (twice - printed)[:, 1:] / (once - printed)[:, 1:]
    assert np.abs(ratio - 2).max() > 0.3
    moves = empirical_transition(panel, 7)
    level = np.linalg.solve(np.eye(7) - 0.9 * moves[:, 0], g)
    centre = level[:, None] - 0.9 * moves @ level
    ratio = (twice - centre)[:, 1:] / (once - centre)[:, 1:]
    np.testing.assert_allclose(ratio, 2.0, atol=1e-9)


@pytest.mark.parametrize("truth", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("known", ["average", "maximum", "minimum"])
def test_selection_recovers_the_temperature(truth, known, tabular, anchor_reward):
    """Told what decisions earned at a temperature, it finds that temperature again."""
    _, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=anchor_reward, reward="regression"
    ).fit(panel)
    earned = fit.at_temperature(truth).reward(panel.state)[
        np.arange(len(panel)), panel.action
    ]
    summary = {"average": earned.mean(), "maximum": earned.max(), "minimum": earned.min()}
    try:
        found = fit.select_temperature(panel, **{known: float(summary[known])})
    except DataError:
        # Where the anchor itself earns the extreme, that extreme says nothing.
        extreme = np.argmax(earned) if known == "maximum" else np.argmin(earned)
        assert known != "average"
        assert panel.action[extreme] == 0
    else:
        assert found == pytest.approx(truth, rel=1e-9)


def test_paper_algorithm_for_zero_g(paper):
    """alpha = R (T + 1) / sum of rewards at alpha 1."""
    _, panel = paper
    fit = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="regression").fit(
        panel
    )
    earned = fit.reward(panel.state)[np.arange(len(panel)), panel.action]
    found = fit.select_temperature(panel, average=0.3)
    assert found == pytest.approx(0.3 * len(panel) / earned.sum())
    assert fit.at_temperature(found).select_temperature(
        panel, average=0.3
    ) == pytest.approx(found)


def test_messages(tabular):
    _, panel = tabular
    fit = deeppqr.PQR(discount=0.9, anchor=0, anchor_reward=1.0).fit(panel)
    with pytest.raises(
        DataError, match=r"Exactly one of .* but 2 were: \['average', 'maximum'\]"
    ):
        fit.select_temperature(panel, average=1.0, maximum=1.0)
    # At temperature zero all earn what the anchor earns, and more at any other.
    earned = fit.reward(panel.state)[np.arange(len(panel)), panel.action]
    beyond = 1.0 - 10 * np.sign(earned.mean() - 1.0)
    with pytest.raises(DataError, match=f"temperature gives .* average reward {beyond:g}"):
        fit.select_temperature(panel, average=beyond)
    with pytest.raises(DataError, match="temperature gives .* minimum reward 2"):
        fit.select_temperature(panel, minimum=2.0)
    with pytest.raises(DataError, match="`temperature` must be positive"):
        fit.at_temperature(0.0)

"""Rankings of rewards: chances in closed form, states without errors, ranks of draws."""

import numpy as np
import pytest
from scipy.special import ndtr

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.inference import rank

DRAWS = 4_000
# Of a share of draws, four Monte-Carlo errors at most.
TOLERANCE = 4 * 0.5 / DRAWS**0.5


def features(states):
    """Action 1 earns a + b x, action 2 nothing."""
    out = np.zeros((len(states), 2, 2))
    out[:, 1, 0], out[:, 1, 1] = 1.0, states[:, 0]
    return out


def panel_of() -> Panel:
    rng = np.random.default_rng(0)
    rows = 600
    state, after = rng.normal(size=(2, rows, 1))
    action = (rng.random(rows) < 1 / (1 + np.exp(-0.1 * state[:, 0]))).astype(int)
    return Panel.from_arrays(state, action, next_state=after, unit=np.arange(rows) // 10)


@pytest.fixture(scope="module")
def fit():
    reward = deeppqr.reward.Joint(features=features)
    return deeppqr.PQR(discount=0.0, anchor=0, policy="logit", reward=reward).fit(
        panel_of()
    )


def test_of_two_states_the_chance_to_be_first_is_normal(fit):
    """r = a + b x: the difference of two rewards is b times that of the states."""
    states = np.array([[0.0], [1.0]])
    found = rank(fit, states, 1, top=1, draws=DRAWS)
    slope = found.reward[1] - found.reward[0]
    error = np.sqrt(fit.reward_function.covariance[1, 1])
    chance = ndtr(slope / error)
    assert 0.05 < chance < 0.95
    np.testing.assert_allclose(found.top_share, [1 - chance, chance], atol=TOLERANCE)
    np.testing.assert_allclose(found.standard_errors, fit.standard_errors(states)[:, 1])
    assert found.sets[0] <= 2


def test_on_a_line_ranks_are_all_right_or_all_wrong(fit):
    """Every draw of a line orders the states one way or the other; one slope decides all
    differences, and its t is below 1.96: any state may have any rank."""
    states = np.linspace(-1, 1, 7)[:, None]
    found = rank(fit, states, 1, top=2, draws=200)
    ends = {tuple(sorted(pair)) for pair in found.highest.tolist()}
    assert ends == {(0, 1), (5, 6)}
    assert found.top_share.sum() == pytest.approx(2)
    assert sorted(found.best) in ([0, 1], [5, 6])
    assert list(found.low) == [1, 1]
    assert list(found.high) == [7, 7]


def test_a_rank_counts_those_significantly_above_and_below(fit):
    """Of r = a + b x all differences have one t; at a low level it is significant."""
    states = np.linspace(-1, 1, 7)[:, None]
    gap = np.diff(fit.reward(states[:2])[:, 1])[0]
    t = abs(gap) / (fit.reward_function.covariance[1, 1] ** 0.5 * 2 / 6)
    found = rank(fit, states, 1, top=3, level=(2 * ndtr(t) - 1) / 2, draws=DRAWS)
    assert list(found.low) == list(found.high) == [1, 2, 3]


def test_the_anchor_is_known_and_has_one_order():
    """And equal rewards share their ranks."""
    model = deeppqr.PQR(discount=0.0, anchor=0, anchor_reward=lambda s: s[:, 0])
    found = rank(model.fit(panel_of()), np.array([[0.0], [2.0], [2.0]]), 0, top=3)
    assert list(found.best) == [1, 2, 0]
    assert list(found.low) == [1, 1, 3]
    assert list(found.high) == [2, 2, 3]
    assert found.sets == (1, 1.0)


def test_seeds_and_labels(fit):
    states = np.linspace(-1, 1, 5)[:, None]
    again = [rank(fit, states, 1, top=2, seed=s, draws=50).highest for s in (1, 1, 2)]
    assert (again[0] == again[1]).all()
    found = rank(fit, states, 1, top=2, labels=list("abcde"))
    text = str(found)
    assert "in the top 2" in text
    assert "different sets" in text
    assert f"\n{'abcde'[found.best[0]]} " in text
    assert r"\toprule" in found.latex()
    assert "<table>" in found.html()
    assert "| ranks |" in found.markdown()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"top": 3}, "`top` must be from 1 to the 2 states"),
        ({"draws": 1}, "`draws` must be from 2 to 12,500,000 for 2 states"),
        ({"labels": ["one"]}, "`labels` must name each of the 2 states, but there are 1"),
        ({"action": 5}, "`action` must be one of the actions"),
        ({"level": 95}, "level"),
        ({"seed": -1}, "`seed` must be a whole number"),
    ],
)
def test_what_is_refused(fit, told, message):
    with pytest.raises(DataError, match=message):
        rank(fit, np.zeros((2, 1)), **{"action": 1, "top": 1, **told})

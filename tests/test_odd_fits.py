"""Fits of odd panels and odd questions to them: an answer or a sentence, never a riddle."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import deeppqr
from deeppqr import PQR, AnchorNeverTaken, DataError, DeepPQRError, Panel

NAMES: dict[str, Any] = {"state": "x", "action": "a", "unit": "u", "time": "t"}


def visits(units=50, rows=20, seed=0, **columns):
    """A logit in one state: log-odds -1 + x of buying, whatever follows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=units * rows)
    buys = rng.random(units * rows) < 1 / (1 + np.exp(1 - x))
    return pd.DataFrame(
        {
            "u": np.repeat(np.arange(units), rows),
            "t": np.tile(np.arange(rows), units),
            "x": x,
            "a": np.where(buys, "buy", "none"),
            **columns,
        }
    )


def fitted(frame, discount=0.9, anchor: Any = "none", roles=None, **options):
    panel = Panel.from_frame(frame, **{**NAMES, **(roles or {})})
    return PQR(discount=discount, anchor=anchor, **options).fit(panel)


@pytest.fixture(scope="module")
def fit():
    return fitted(visits())


def test_a_discount_of_zero_is_the_log_odds():
    """Whole numbers too: at discount 0 the reward is the log-odds, whatever follows."""
    found = fitted(visits(), discount=0)
    again = fitted(visits(), discount=0.0)
    states = np.array([[-1.0], [0.0], [1.0]])
    odds = found.log_policy(states)[:, 0] - found.log_policy(states)[:, 1]
    np.testing.assert_allclose(found.reward(states)[:, 0], odds, atol=1e-9)
    np.testing.assert_array_equal(found.reward(states), again.reward(states))


@pytest.mark.parametrize(
    "options",
    [{}, {"reward": "linear"}, {"reward": "table"}, {"reward": "likelihood"}],
    ids=str,
)
def test_no_states_have_no_rewards(options):
    rng = np.random.default_rng(0)
    frame = visits(20, 10)
    frame["x"] = rng.integers(0, 3, len(frame))
    found = fitted(frame, **options)
    for none in (frame.iloc[:0], np.zeros((0, 1)), []):
        for ask in (found.reward, found.q, found.log_policy):
            assert ask(none).shape == (0, 2)
        assert found.value(none).shape == (0,)
        assert len(found.predict(none)) == 0


def test_amounts_at_a_whole_discount_and_at_no_states():
    rng = np.random.default_rng(0)
    frame = visits(40, 10)
    frame["a"] = np.where(rng.random(400) < 0.4, 0.0, rng.uniform(0, 10, 400))
    space = deeppqr.Mixed(atoms=[0.0], box=deeppqr.Box(0.0, 10.0))
    found = fitted(frame, discount=0, anchor=0.0, roles={"actions": space})
    assert np.isfinite(found.reward([[0.0], [1.0]], [0.0, 3.0])).all()
    later = fitted(frame, anchor=0.0, roles={"actions": space})
    assert later.reward(frame.iloc[:0], []).shape == (0,)
    assert later.value(frame.iloc[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (0.0, r"`states` must have 1 column \(x\), .* but 0.0 \(float\) arrived"),
        ({"x": [1.0]}, r"but {'x': \[1.0\]} \(dict\) arrived"),
        (np.zeros((1, 5)), "but an array with 5 columns arrived"),
        ([[np.nan]], "'x' must not be missing, but row 0"),
        ([["high"]], "was numeric when the encoding was learned, but holds 'high' now"),
        (pd.DataFrame({"y": [1.0]}), "`state` names the column 'x', but the data have no"),
        (pd.DataFrame({"X": [1.0]}), "no such column .* Did you mean 'X'"),
    ],
)
def test_what_is_no_state(fit, states, message):
    with pytest.raises(DataError, match=message):
        fit.reward(states)


def test_a_panel_is_no_set_of_states(fit):
    panel = Panel.from_frame(visits(5, 5), **NAMES)
    with pytest.raises(DataError, match=r"but Panel\(25 decisions .* \(Panel\) arrived"):
        fit.reward(panel)


def test_an_exit_that_is_not_marked_says_how_to_mark_it():
    frame = visits(40, 10)
    frame.loc[frame["t"] == 9, "a"] = "exit"
    message = (
        r"The anchor 'exit' is taken in 40 rows, .* mark these rows as terminal, .*ter"
    )
    with pytest.raises(AnchorNeverTaken, match=message):
        fitted(frame, anchor="exit")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discount": 90}, r"`discount` must lie in \[0, 1\), but it is 90"),
        ({"discount": 1}, "at 1 values are infinite"),
        ({"discount": -0.1}, r"`discount` must lie in \[0, 1\), but it is -0.1"),
        ({"discount": np.nan}, "but it is nan"),
        ({"temperature": 0}, "`temperature` must be positive and finite, but it is 0"),
        ({"temperature": np.inf}, "`temperature` must be positive and finite"),
        ({"anchor": "nothing"}, r"`anchor` must be one of the actions \['buy', 'none'\]"),
        ({"anchor_reward": "cost"}, "names the column 'cost', which is not a state column"),
        ({"anchor_reward": np.nan}, "`anchor_reward` must be a finite number"),
        ({"anchor_reward": lambda s: 2.0}, r"one number per state, shape \(100,\)"),
        ({"anchor_reward": lambda s: s[:, 0] / 0}, "`anchor_reward` must be finite"),
        ({"reward": "lstm"}, "`reward` must be one of"),
        ({"policy": "xgboost"}, "`policy` must be one of"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_settings_that_cannot_be(options, message):
    with pytest.raises(DataError, match=message):
        fitted(visits(10, 10), **options)


def random_panel(rng):
    """A panel of a few rows with columns, roles, actions and settings at random."""
    units, rows = rng.integers(1, 8), rng.integers(1, 9)
    number, actions = units * rows, rng.integers(2, 5)
    columns = {"u": np.repeat(np.arange(units), rows), "t": np.tile(np.arange(rows), units)}
    columns["a"] = rng.integers(0, actions, number)
    kinds = [
        lambda: rng.normal(size=number),
        lambda: rng.integers(0, 3, number),
        lambda: rng.random(number) < 0.5,
        lambda: rng.choice(["p", "q", "r"], number),
        lambda: np.ones(number),
        lambda: 1e7 + 1e6 * rng.normal(size=number),
    ]
    states = [f"x{place}" for place in range(rng.integers(1, 4))]
    columns |= {name: kinds[rng.integers(len(kinds))]() for name in states}
    roles = {"state": states, "action": "a", "unit": "u", "time": "t"}
    if rng.random() < 0.3:
        columns["e"], roles["terminal"] = rng.random(number) < 0.3, "e"
    if rng.random() < 0.3:
        columns["w"], roles["weight"] = rng.choice([0.0, 1.0, 5.0], number), "w"
    settings = {"discount": [0, 0.5, 0.99][rng.integers(3)], "anchor": 0}
    choices = {
        "reward": ["joint", "linear", "likelihood", "regression", "table"],
        "policy": ["logit", "frequency", "boosted"],
        "anchor_value": ["averager", "exact", "linear"],
    }
    for name, some in choices.items():
        if rng.random() < 0.3:
            settings[name] = some[rng.integers(len(some))]
    return pd.DataFrame(columns), roles, settings


@pytest.mark.slow
def test_a_handful_of_rows_is_fitted_or_refused():
    """No panel is too small for a sentence; nothing else than it or an answer comes."""
    answered = 0
    refused = []
    for seed in range(150):
        frame, roles, settings = random_panel(np.random.default_rng(seed))
        with warnings.catch_warnings():
            ignored = deeppqr.DataWarning, deeppqr.WeakOverlapWarning
            for kind in (*ignored, deeppqr.NotConvergedWarning):
                warnings.simplefilter("ignore", kind)
            try:
                found = PQR(**settings).fit(Panel.from_frame(frame, **roles))
            except DeepPQRError as problem:
                refused.append(str(problem))
                continue
        answered += 1
        reward = found.reward(frame)
        # Only tables leave cells empty: those that no row is in.
        assert np.isfinite(reward).all() or "never seen" in found.stages["reward"]
        assert found.reward(frame.iloc[:0]).shape == (0, len(found.actions))
        assert len(found.summary()) > 100
    assert answered > 75
    assert min(map(len, refused)) > 40

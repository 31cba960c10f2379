"""Features by formula are those spelt out, and their mistakes are named."""

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.inference._features import resolve_features


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    frame = {
        "x": rng.normal(size=600),
        "town": rng.choice(["east", "south", "west"], 600),
        "a": rng.integers(3, size=600),
        "unit": np.arange(600) // 15,
    }
    return Panel.from_frame(
        pl.DataFrame(frame), state=["x", "town"], action="a", unit="unit"
    )


@pytest.fixture(scope="module")
def fit(panel):
    return deeppqr.PQR(discount=0.5, anchor=0, policy="logit", reward="joint").fit(panel)


def features_of(panel, given):
    return resolve_features(given, None, panel.encoding, panel.actions, 0, panel.state)


def test_a_formula_is_its_terms(panel, fit):
    """To rounding: both find the same columns, in the same order."""
    formula = features_of(panel, "x + C(town)")
    listed = features_of(panel, ["1", "x", "town"])
    np.testing.assert_array_equal(formula.columns(panel.state), listed.columns(panel.state))
    assert formula.names[:2] == ("1: 1", "1: x")
    found = fit.project("x + C(town)", panel)
    same = fit.project(["1", "x", "town"], panel)
    np.testing.assert_allclose(found.theta, same.theta, atol=1e-9)
    np.testing.assert_allclose(found.covariance, same.covariance, atol=1e-9)


def test_actions_may_have_formulas_of_their_own(panel):
    own = features_of(panel, {1: "x", 2: "x + C(town) - 1"})
    assert own.names[:3] == ("1: 1", "1: x", "2: x")
    found = own.columns(panel.state)
    assert not found[:, 0].any()
    np.testing.assert_array_equal(found[:, 2, 2], panel.state[:, 0])


def test_what_a_term_learned_stays_at_other_states(panel):
    """A centred column subtracts the mean of the data, at a single state too."""
    centred = features_of(panel, "center(x) - 1")
    one = centred.columns(panel.state[:1])[0, 1, 0]
    assert one == pytest.approx(panel.state[0, 0] - panel.state[:, 0].mean())


MISTAKES = {
    "a ~ x": "has a right-hand side only",
    "x + z": r"cannot be read with the state columns \['x', 'town'\]: Factor",
    "x + (": "cannot be read",
    "np.log(x)": r"The term 'np.log\(x\)' of the formula .* must be finite",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named(panel, text):
    with pytest.raises(DataError, match=MISTAKES[text]):
        features_of(panel, text).columns(panel.state)

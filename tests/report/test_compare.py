"""Two fits compared: what moved, by how many standard errors, at the same states."""

from dataclasses import replace

import numpy as np
import pytest

import deeppqr
from deeppqr.report import compare
from deeppqr.report._compare import _mean_errors
from deeppqr.worlds import PaperWorld


@pytest.fixture(scope="module")
def weeks():
    """Fits of two weeks of the same world, and of one whose first action pays more."""
    world = PaperWorld(p=2, reward_scale=2.0, seed=1)
    model = deeppqr.PQR(discount=0.9, anchor=0, seed=0)
    panels = [world.simulate(steps=800, units=40, seed=s) for s in (1, 2)]
    return [model.fit(panel) for panel in panels]


def test_a_fit_against_itself_has_not_moved(weeks):
    found = compare(weeks[0], weeks[0])
    np.testing.assert_array_equal(found.change, 0.0)
    assert found.moved == ()
    assert "No average moved beyond its error" in str(found)


def test_averages_and_errors_are_those_of_the_fits(weeks):
    """The mean over the newer fit's states; its error by the delta method, in pieces."""
    later, earlier = weeks
    found = compare(later, earlier)
    states = later.encoding.decode(later.seen.state)
    np.testing.assert_allclose(found.later, later.reward(states).mean(axis=0))
    np.testing.assert_allclose(found.earlier, earlier.reward(states).mean(axis=0))
    # An average of perfectly correlated rewards has their mean error, of others less.
    bound = np.hypot(*(fit.standard_errors(states).mean(axis=0) for fit in weeks))
    assert (found.standard_errors <= bound + 1e-12).all()
    assert found.standard_errors[0] == 0.0  # the anchor's is known
    assert np.isnan(found.z[0])
    assert (found.standard_errors[1:] > 0).all()


def test_the_error_of_one_state_is_the_fits_own(weeks):
    fit = weeks[0]
    state = fit.seen.state[:1]
    expected = fit.standard_errors(fit.encoding.decode(state))[0]
    found = _mean_errors(fit, state)
    np.testing.assert_allclose(found, expected)


def test_a_reward_that_moved_is_found(weeks):
    """Coefficients twice as large, and known thirty times as well as these few rows say."""
    precise = replace(
        weeks[0].reward_function, covariance=weeks[0].reward_function.covariance / 900
    )
    fit = replace(weeks[0], reward_function=precise)
    doubled = replace(precise, theta=2.0 * precise.theta)
    shifted = replace(fit, reward_function=doubled)
    found = compare(shifted, fit)
    expected = np.abs(found.z) > found.critical
    assert found.moved == tuple(np.array(fit.actions)[expected])
    assert found.moved
    assert f"{found.moved[0]}" in str(found).splitlines()[-1]


def test_more_actions_need_more_evidence(weeks):
    one = compare(*weeks)
    tested = int((one.standard_errors > 0).sum())
    fewer = replace(one, standard_errors=np.where(np.arange(len(one.actions)) == 1, 1, 0.0))
    assert one.critical > fewer.critical
    np.testing.assert_allclose(fewer.critical, 1.959963984540054)
    assert tested == len(one.actions) - 1


def test_fits_that_differ_say_how(weeks):
    fit = weeks[0]
    other = fit.at_temperature(2.0)
    assert "The temperature was 2.0 and is 1.0" in str(compare(fit, other))
    renamed = replace(fit, actions=("none", *fit.actions[1:]))
    text = str(compare(renamed, fit))
    assert "Only now: none." in text
    assert "Only before: 0." in text
    with pytest.raises(deeppqr.DataError, match="actions in common"):
        compare(replace(fit, actions=tuple("abcde"[: len(fit.actions)])), fit)


def test_categories_that_the_earlier_fit_lacks_are_left_out():
    import polars as pl

    rng = np.random.default_rng(0)

    def week(levels):
        frame = pl.DataFrame(
            {
                "city": rng.choice(levels, 600),
                "a": rng.integers(0, 2, 600),
                "u": np.arange(600) // 20,
                "t": np.arange(600) % 20,
            }
        )
        panel = deeppqr.Panel.from_frame(
            frame, state=["city"], action="a", unit="u", time="t"
        )
        return deeppqr.PQR(discount=0.5, anchor=0, policy="frequency", reward="table").fit(
            panel
        )

    before, now = week(["a", "b"]), week(["a", "b", "c"])
    text = str(compare(now, before))
    assert "with a category that the earlier fit lacks" in text
    with pytest.raises(deeppqr.DataError, match="the earlier fit knows none"):
        compare(week(["c", "d"]), before)


def test_other_columns_are_refused(weeks, tabular):
    _, panel = tabular
    other = deeppqr.PQR(discount=0.9, anchor=0, policy="frequency", reward="table").fit(
        panel
    )
    with pytest.raises(deeppqr.DataError, match="the same state columns"):
        compare(other, weeks[0])

"""Panels simulated from a fit, and the check that refits them."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.inference import SimulationCheck
from deeppqr.inference._simulated import LONGEST, Paths
from deeppqr.report._estimates import Estimates
from deeppqr.worlds import KnownCostBus

MODEL = deeppqr.PQR(discount=0.9, anchor="replace", anchor_reward=-5.0)


@pytest.fixture(scope="module")
def bus():
    panel = KnownCostBus().simulate(steps=1_200, units=30, seed=1)
    return MODEL.fit(panel), panel


def test_a_simulated_panel_has_the_shape_of_its_own(bus):
    fit, panel = bus
    found = fit.simulate(panel, seed=3)
    assert (len(found), found.actions, found.encoding) == (
        len(panel),
        panel.actions,
        panel.encoding,
    )
    np.testing.assert_array_equal(np.bincount(found.unit), np.bincount(panel.unit))
    first = np.flatnonzero(np.diff(panel.unit, prepend=-1))
    np.testing.assert_array_equal(found.state[first], panel.state[first])
    np.testing.assert_array_equal(found.has_next, panel.has_next)
    again = fit.simulate(panel, seed=3)
    np.testing.assert_array_equal(found.action, again.action)
    assert (found.action != fit.simulate(panel, seed=4).action).any()


def test_simulated_agents_decide_by_the_fits_policy(bus):
    """Shares of replacements by mileage, within five binomial errors."""
    fit, panel = bus
    found = fit.simulate(panel, seed=0)
    share = np.exp(fit.log_policy(np.arange(1.0, 8.0)[:, None]))[:, 1]
    for mileage, truth in enumerate(share, start=1):
        rows = found.state[:, 0] == mileage
        error = np.sqrt(truth * (1 - truth) / rows.sum())
        assert found.action[rows].mean() == pytest.approx(truth, abs=5 * error)


def test_a_path_goes_on_where_the_panel_does():
    """Two episodes of one unit are two paths, and a jump between rows is a break."""
    state = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [0.0]])
    after = np.array([[1.0], [2.0], [3.0], [8.0], [9.0], [np.nan]])
    panel = Panel.from_arrays(state, [0, 1, 0, 1, 0, 1], after, unit=[0, 0, 0, 0, 0, 1])
    paths = Paths.of(panel)
    np.testing.assert_array_equal(paths.length, [3, 2, 1])
    np.testing.assert_array_equal(paths.state[:, 0], [0.0, 7.0, 0.0])
    np.testing.assert_array_equal(paths.last_seen, [True, True, False])


def test_units_that_left_are_followed_as_long_as_others_were():
    ended = np.array([True, True, False, False])
    length = np.array([3, 9, 5, 7])
    blank = np.zeros(4)
    paths = Paths(blank[:, None], blank.astype(int), blank + 1, length, ended, ~ended)
    for seed in range(10):
        found, seen = paths.horizons(np.random.default_rng(seed))
        assert found[0] in (5, 7)  # those observed when it left
        assert found[1] == 9  # nobody was observed as long
        np.testing.assert_array_equal(found[2:], [5, 7])
        np.testing.assert_array_equal(seen, [True, False, True, True])
    everyone = replace(paths, ended=np.ones(4, bool), last_seen=np.zeros(4, bool))
    found, _ = everyone.horizons(np.random.default_rng(0))
    assert (found == LONGEST * 9).all()


def test_ends_are_simulated():
    rng = np.random.default_rng(0)
    state, action = rng.uniform(size=(900, 1)), rng.integers(2, size=900)
    unit, terminal = np.arange(900) // 3, (np.arange(900) % 3 == 2) & (action == 1)
    after = np.append(state[1:], [[np.nan]], axis=0)
    after[np.arange(900) % 3 == 2] = np.nan
    panel = Panel.from_arrays(state, action, after, unit=unit, terminal=terminal)
    fit = deeppqr.PQR(discount=0.9, anchor=0).fit(panel)
    found = fit.simulate(panel, seed=1)
    assert found.terminal.any()
    # What ended has no rows after it.
    last = np.flatnonzero(np.diff(found.unit, append=-1))
    assert set(np.flatnonzero(found.terminal)) <= set(last)
    assert np.isnan(found.next_state[found.terminal]).all()


@pytest.mark.parametrize("known", ["table", "function"])
def test_known_laws_are_simulated_too(known):
    world = deeppqr.worlds.random_tabular(4, 2, seed=1)
    panel = world.simulate(steps=2_000, units=40, seed=2)
    table = world.mdp.transition

    def law(states, action):
        places = np.tile(world.states[None], (len(states), 1, 1))
        return places, table[states[:, 0].astype(int), action]

    given = table if known == "table" else law
    anchor_reward = lambda states: world.mdp.reward[states[:, 0].astype(int), 0]
    model = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=anchor_reward, transition=given
    )
    fit = model.fit(panel)
    found = fit.simulate(panel, seed=0)
    count = np.zeros((4, 2, 4))
    at = found.state[:, 0].astype(int), found.action, found.next_state[:, 0].astype(int)
    np.add.at(count, at, 1)
    rows = count.sum(axis=2, keepdims=True)
    error = np.sqrt(table * (1 - table) / rows)
    np.testing.assert_array_less(np.abs(count / rows - table), 5 * error + 1e-12)
    check = fit.simulation_check(panel, replicates=2)
    assert len(check.draws) == 2


def test_the_check_compares_refits_with_the_fit(bus):
    fit, panel = bus
    check = fit.simulation_check(panel, replicates=3)
    assert check.names == ("keep: reward", "keep: slope in mileage")
    expected = [fit.average(panel).values[0], fit.slopes("mileage", panel).values[0]]
    np.testing.assert_allclose(check.truth, expected, rtol=1e-12)
    # The first replicate by hand.
    again = MODEL.fit(_first(fit, panel))
    np.testing.assert_allclose(
        check.draws[0], [again.average(panel).values[0], _slope(again, panel)], rtol=1e-9
    )
    rows = check.table()
    assert rows[0].bias == pytest.approx(check.draws[:, 0].mean() - check.truth[0])
    assert rows[0].deviation == pytest.approx(check.draws[:, 0].std(ddof=1))
    low = check.draws - 1.959964 * check.errors
    high = check.draws + 1.959964 * check.errors
    inside = (low <= check.truth) & (check.truth <= high)
    np.testing.assert_array_equal(check.covered, inside)
    assert check.frame().height == 2
    for text in (check.text(), check.markdown(), check.latex(), check.html()):
        assert "keep: slope in mileage" in text
        assert "none failed" in text


def _first(fit, panel):
    from deeppqr.inference._simulated import Simulation

    return Simulation.of(fit, panel).draw(np.random.default_rng([0, 0]))


def _slope(fit, panel):
    return fit.slopes("mileage", panel).values[0]


def test_coverage_has_an_error_where_all_are_covered():
    """Agresti and Coull: two of each outcome added."""
    one = np.ones((20, 1))
    check = SimulationCheck(
        ("a",), np.zeros(1), one, one, one, np.arange(20), (), 0, 0.95, "some decisions"
    )
    (row,) = check.table()
    near = 22 / 24
    assert row.coverage == 1
    assert row.coverage_error == pytest.approx(np.sqrt(near * (1 - near) / 24))


def test_a_stopped_check_goes_on(bus, tmp_path):
    fit, panel = bus
    whole = fit.simulation_check(panel, replicates=2)
    out = tmp_path / "check.csv"
    fit.simulation_check(panel, replicates=[1], out=out)
    written = out.read_text()
    assert len(written.splitlines()) == 3
    joined = fit.simulation_check(panel, replicates=2, out=out)
    np.testing.assert_array_equal(joined.draws, whole.draws)
    np.testing.assert_array_equal(joined.covered, whole.covered)
    assert out.read_text().splitlines()[0] == written.splitlines()[0]
    parts = [fit.simulation_check(panel, replicates=[i], out=out) for i in (1, 0)]
    np.testing.assert_array_equal(parts[0].join(parts[1]).draws, whole.draws)
    with pytest.raises(DataError, match="different replicates"):
        parts[0].join(parts[0])


@pytest.mark.parametrize("change", ["seed", "text", "column"])
def test_a_file_of_another_check_is_refused(bus, tmp_path, change):
    fit, panel = bus
    out = tmp_path / "check.csv"
    fit.simulation_check(panel, replicates=1, out=out, seed=1)
    if change == "text":
        out.write_text("nothing,like,it\n1,2\n")
    elif change == "column":
        out.write_text(out.read_text().replace("figure", "name"))
    with pytest.raises(DataError, match="replicates of this very check"):
        fit.simulation_check(panel, replicates=1, out=out)


@dataclass(frozen=True)
class Fails:
    """A statistic that has no value on simulated panels."""

    digest: str

    def __call__(self, fit):
        found = fit.average(np.array([[1.0], [2.0]]))
        if fit.provenance["panel"]["digest"] != self.digest:
            raise DataError("No such figure.")
        return found


def test_failures_are_counted(bus, tmp_path):
    fit, panel = bus
    told = {"replicates": 2, "out": tmp_path / "check.csv"}
    check = fit.simulation_check(panel, Fails(panel.digest), **told)
    assert [one.replicate for one in check.failures] == [0, 1]
    assert "2 of 2 replicates failed" in str(check)
    assert "No such figure" in check.note
    again = fit.simulation_check(panel, Fails(panel.digest), **told)
    assert again.failures == check.failures


def test_where_there_are_no_standard_errors_there_is_no_coverage():
    world = deeppqr.worlds.random_tabular(3, 2, seed=1)
    panel = world.simulate(steps=600, units=20, seed=2)
    model = deeppqr.PQR(discount=0.5, anchor=0, policy="logit", reward="linear")
    check = model.fit(panel).simulation_check(panel, replicates=2)
    (row,) = check.table()
    assert row.name == "1: reward"
    assert np.isnan(row.coverage)
    assert np.isfinite(row.deviation)
    assert str(check).count(" - ") >= 1


def test_messages(bus, tmp_path):
    fit, panel = bus
    with pytest.raises(DataError, match="the one that the fit was made from"):
        fit.simulation_check(KnownCostBus().simulate(steps=100, units=5, seed=9))
    with pytest.raises(DataError, match="must return a table of estimates"):
        fit.simulation_check(panel, lambda fit: 3.0 and [1.0], replicates=1)
    with pytest.raises(DataError, match="`replicates` must be"):
        fit.simulation_check(panel, replicates=0)
    fit.save(tmp_path / "fit")
    with pytest.raises(DataError, match="does not know its model"):
        deeppqr.load(tmp_path / "fit").simulation_check(panel)


def test_known_figures_are_left_out(bus):
    fit, panel = bus
    known = Estimates("Known", ("a", "b"), np.ones(2), np.diag([0.0, 1.0]))
    check = fit.simulation_check(panel, lambda fit: known, replicates=1)
    assert check.names == ("b: Known",)


@pytest.mark.slow
def test_processes_draw_the_same_panels(bus):
    fit, panel = bus
    here = fit.simulation_check(panel, replicates=2)
    there = fit.simulation_check(panel, replicates=2, workers=2)
    # Threads differ between processes: sums are added up in another order.
    np.testing.assert_allclose(here.draws, there.draws, rtol=1e-6)


@pytest.mark.slow
def test_intervals_cover_where_the_fit_is_the_truth():
    """100 panels of 4,000 decisions: a share of 0.95 has a Monte-Carlo error of 0.022."""
    panel = KnownCostBus().simulate(steps=4_000, units=40, seed=1)
    fit = deeppqr.PQR(discount=0.95, anchor="replace", anchor_reward=-5.0).fit(panel)
    for row in fit.simulation_check(panel, replicates=100).table():
        assert abs(row.coverage - 0.95) < 4 * 0.022, row
        # Bias within half a standard deviation: its own error is a tenth of one.
        assert abs(row.bias) < 0.5 * row.deviation, row

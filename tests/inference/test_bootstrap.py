"""The bootstrap: replicates are what their numbers say, and failures are counted."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

import deeppqr
from deeppqr import DataError, DeepPQRError
from deeppqr.cluster import Cores
from deeppqr.inference import RewardAt, quantile_band, reward_influence
from deeppqr.inference._bootstrap import copied_panel, takes_weights, weighted_panel
from deeppqr.inference._resample import draw_units
from deeppqr.worlds import random_tabular

STATES = np.arange(7.0)[:, None]
LOGIT = {"policy": "logit", "anchor_value": "exact", "reward": "table"}
TABLE = {**LOGIT, "policy": "frequency"}


def pqr(**stages):
    return deeppqr.PQR(discount=0.9, anchor=0, **stages)


@pytest.fixture(scope="module")
def panel():
    return random_tabular(seed=4).simulate(steps=2_000, units=20, seed=5)


@pytest.fixture(scope="module")
def some(panel):
    return deeppqr.bootstrap(pqr(**LOGIT), panel, RewardAt(STATES), replicates=6)


def test_a_replicate_is_the_same_alone_and_among_others(panel, some):
    alone = deeppqr.bootstrap(pqr(**LOGIT), panel, RewardAt(STATES), replicates=[4])
    np.testing.assert_array_equal(alone.draws[0], some.draws[4])
    assert alone.replicates.tolist() == [4]
    other = deeppqr.bootstrap(pqr(**LOGIT), panel, RewardAt(STATES), replicates=[4], seed=1)
    assert not np.array_equal(other.draws, alone.draws)


@pytest.mark.slow
def test_processes_give_the_same(panel, some):
    spread = deeppqr.bootstrap(
        pqr(**LOGIT), panel, RewardAt(STATES), replicates=[1, 2], workers=2
    )
    np.testing.assert_array_equal(spread.draws, some.draws[1:3])


@pytest.mark.slow
def test_executors_give_the_same(panel, some):
    model, statistic = pqr(**LOGIT), RewardAt(STATES)
    for executor in ("here", Cores(2)):
        spread = deeppqr.bootstrap(
            model, panel, statistic, replicates=[3, 0], executor=executor
        )
        assert spread.replicates.tolist() == [0, 3]
        np.testing.assert_array_equal(spread.draws, some.draws[[0, 3]])


def test_results_join(panel, some):
    model, statistic = pqr(**LOGIT), RewardAt(STATES)
    odd = deeppqr.bootstrap(model, panel, statistic, replicates=[1, 3])
    even = deeppqr.bootstrap(model, panel, statistic, replicates=[0, 2])
    whole = odd.join(even)
    assert whole.replicates.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(whole.draws, some.draws[:4])
    with pytest.raises(DataError, match="1 replicates are in both"):
        whole.join(deeppqr.bootstrap(model, panel, statistic, replicates=[3]))


@pytest.fixture(scope="module")
def many(panel):
    return deeppqr.bootstrap(pqr(**TABLE), panel, RewardAt(STATES), replicates=100)


def test_errors_agree_with_influence_functions(panel, many):
    """100 replicates know a standard error to 7 %; asymptotics, at 20 units, to less."""
    found = many
    exact = reward_influence(pqr(**TABLE).fit(panel), panel).standard_errors
    ratio = found.standard_errors[:, 1:] / exact[:, 1:]
    assert 0.85 < np.median(ratio) < 1.25
    low, high = found.interval(0.9)
    assert ((low < found.estimate) & (found.estimate < high))[:, 1:].mean() > 0.9
    low, high = found.interval(0.9, kind="normal")
    np.testing.assert_allclose((low + high) / 2, found.estimate)
    assert found.covariance.shape == (21, 21)


def test_bands_hold_whole_draws(many):
    curve = {"draws": many.draws[:, :, 1], "estimate": many.estimate[:, 1]}
    found = replace(many, **curve)
    band = found.bands(STATES, 0.9)
    assert band.critical > 1.645
    away = np.abs(found.draws - found.draws.mean(axis=0)) / found.standard_errors
    assert np.mean(away.max(axis=1) <= band.critical) == pytest.approx(0.9, abs=0.01)
    with pytest.raises(DataError, match="one number for each of the 3 states"):
        found.bands(STATES[:3])


def test_quantile_bands_hold_whole_draws_and_follow_transformations(rng):
    draws = np.cumsum(rng.normal(size=(300, 12)), axis=1)
    low, high = quantile_band(draws, level=0.9)
    held = ((low <= draws) & (draws <= high)).all(axis=1)
    assert held.mean() >= 0.9
    # The next tighter pair of order statistics holds too few.
    ordered = np.sort(draws, axis=0)
    k = int(np.flatnonzero((ordered == low).all(axis=1))[0])
    assert (ordered[299 - k] == high).all()
    tighter = (ordered[k + 1] <= draws) & (draws <= ordered[298 - k])
    assert tighter.all(axis=1).mean() < 0.9
    np.testing.assert_allclose(quantile_band(np.exp(draws), level=0.9), np.exp([low, high]))


def _misspelt(fit):
    return fit.rewards([[0.0]])


@pytest.mark.parametrize(
    "executor", ["here", pytest.param("cores:1", marks=pytest.mark.slow)]
)
def test_a_mistake_in_the_statistic_ends_the_bootstrap(panel, executor):
    """It would be in every replicate, and two hundred failures would hide its place."""
    message = "Replicate 0 of the bootstrap stopped with AttributeError: .*'rewards'"
    with pytest.raises(DeepPQRError, match=message) as error:
        deeppqr.bootstrap(
            pqr(**TABLE), panel, _misspelt, replicates=2, executor=executor, estimate=0.0
        )
    assert "in _misspelt" in str(error.value)


def test_failures_are_counted_and_the_first_is_told(panel):
    estimate = pqr(**TABLE).fit(panel).reward(STATES)[:, 1]

    def fragile(fit):
        if fit.reward(STATES)[0, 1] > estimate[0]:
            raise ArithmeticError("too high")
        return fit.reward(STATES)[:, 1]

    found = deeppqr.bootstrap(
        pqr(**TABLE), panel, fragile, replicates=20, estimate=estimate
    )
    assert 0 < len(found.failures) < 20
    assert len(found.draws) + len(found.failures) == 20
    assert found.failures[0].message == "ArithmeticError: too high"
    first = found.failures[0].replicate
    assert f"of 20 replicates failed, the first of them number {first}:" in found.note
    nan = deeppqr.bootstrap(
        pqr(**TABLE), panel, lambda fit: np.nan, replicates=2, estimate=0.0
    )
    assert "1 of 1 entries of the statistic are not finite" in nan.note
    short = deeppqr.bootstrap(
        pqr(**TABLE), panel, lambda fit: np.zeros(3), replicates=1, estimate=estimate
    )
    assert r"its shape is (3,) where the panel's is (7,)" in short.note
    with pytest.raises(DataError, match="Errors need two draws at least: 2 of 2 repl"):
        _ = nan.standard_errors


def test_printing_is_a_table(panel, some):
    enough = deeppqr.bootstrap(pqr(**TABLE), panel, RewardAt(STATES), replicates=39)
    first = next(line for line in str(enough).splitlines() if line.startswith("1 at s=0"))
    low, high = enough.interval()
    figures = enough.estimate[0, 1], enough.standard_errors[0, 1], low[0, 1], high[0, 1]
    assert first.split()[3:] == [f"{figure:.4f}" for figure in figures]
    lines = str(some).splitlines()
    assert len(lines) < 30
    first = next(line for line in lines if line.startswith("1 at s=0"))
    assert first.split()[-2:] == ["-", "-"]
    assert "No intervals: at 95 % their quantiles take 39 draws at least." in lines
    assert "Units drawn with replacement: 6 replicates, none failed." in lines
    assert repr(some) == "Bootstrap(shape=(7, 3), 6 replicates, none failed)"


def test_entries_are_named_where_they_can_be(panel):
    chosen = RewardAt(STATES[:2], np.array([1, 2]))
    found = deeppqr.bootstrap(pqr(**TABLE), panel, chosen, replicates=3)
    assert found.names == ("1 at s=0", "2 at s=1")
    alone = deeppqr.bootstrap(pqr(**TABLE), panel, chosen, replicates=[7])
    assert found.join(alone).names == found.names
    row = next(line for line in str(alone).splitlines() if line.startswith("2 at s=1"))
    assert row.split()[-3:] == ["-", "-", "-"]  # one draw has no spread
    mean = RewardAt(STATES[:2], np.array([1, 2]), np.full((1, 2), 0.5))
    pulled = deeppqr.bootstrap(pqr(**TABLE), panel, mean, replicates=3)
    assert "\n[0] " in str(pulled)
    single = deeppqr.bootstrap(
        pqr(**TABLE), panel, lambda fit: fit.discount, replicates=[0]
    )
    assert "\nstatistic " in str(single)


def test_long_tables_end_early(panel):
    states = np.tile(STATES, (3, 1))
    found = deeppqr.bootstrap(pqr(**TABLE), panel, RewardAt(states), replicates=3)
    assert str(found).splitlines()[-1].startswith("23 more entries")


def test_units_are_drawn_whole(panel):
    count, _ = draw_units(20, 0, 3)
    assert count.sum() == 20
    weighted, copied = weighted_panel(panel, count), copied_panel(panel, count)
    assert weighted.num_units == (count > 0).sum()
    assert weighted.weight.sum() == pytest.approx(len(copied))
    assert copied.num_units == 20
    model = pqr(**TABLE)
    np.testing.assert_allclose(
        model.fit(weighted).reward(STATES), model.fit(copied).reward(STATES), atol=1e-10
    )


def test_stages_without_weights_get_copies(panel):
    neighbours = KNeighborsRegressor(200)
    model = pqr(policy="frequency", anchor_value="exact", reward=neighbours)
    assert not takes_weights(model)
    assert takes_weights(pqr(**TABLE))
    found = deeppqr.bootstrap(model, panel, RewardAt(STATES), replicates=2)
    assert found.failures == ()


def test_a_fit_bootstraps_itself(panel):
    fit = pqr(**TABLE).fit(panel)
    found = fit.bootstrap(panel, RewardAt(STATES), replicates=3)
    np.testing.assert_array_equal(found.estimate, fit.reward(STATES))
    assert found.note == "3 replicates, none failed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicates": 0}, "`replicates` must be a number of replicates"),
        ({"replicates": [1, 1]}, "different whole numbers"),
        ({"replicates": [-1]}, "different whole numbers from 0 on"),
        ({"replicates": 2.5}, "different whole numbers from 0 on, but 2.5 arrived"),
        ({"replicates": None}, "different whole numbers from 0 on, but None arrived"),
        ({"replicates": "ten"}, "different whole numbers from 0 on, but 'ten' arrived"),
        ({"replicates": True}, "different whole numbers from 0 on, but True arrived"),
        ({"workers": 0}, "`workers` must be a number of processes, 1 or more, but it is 0"),
        ({"workers": "4"}, "`workers` must be a number of processes, .* but it is '4'"),
        ({"seed": -1}, "`seed` must be a whole number"),
        ({"workers": 2}, "must be picklable, but one is not .*workers=1"),
        ({"executor": "cores:2"}, "must be picklable, but one is not .*workers=1"),
        ({"executor": "core"}, "`executor` must be here, cores, "),
        ({"executor": "here", "workers": 2}, 'executor="cores:2" says the same'),
    ],
)
def test_what_is_wrong_is_said(panel, options, message):
    with pytest.raises(DataError, match=message):
        deeppqr.bootstrap(
            pqr(**TABLE),
            panel,
            lambda fit: 0.0,
            estimate=0.0,
            **{"replicates": 2, **options},
        )


def test_one_unit_cannot_be_resampled(panel):
    with pytest.raises(DataError, match="this panel has a single one"):
        deeppqr.bootstrap(pqr(**TABLE), panel.select(panel.unit == 0), RewardAt(STATES))


def test_intervals_are_asked_for_by_name(some):
    with pytest.raises(DataError, match='must be "percentile" or "normal"'):
        some.interval(kind="basic")
    with pytest.raises(DataError, match="`level` must lie between 0 and 1"):
        some.interval(95)


def test_few_draws_have_no_quantiles(some):
    """The ends of a 95 % interval are not among six draws; Student's t allows for few."""
    with pytest.raises(DataError, match="quantiles of 6 draws .* takes 39 at least"):
        some.interval()
    some.interval(0.7)  # 2 / 0.3 - 1 = 5.7
    low, high = some.interval(kind="normal")
    reach = 2.5705818 * some.standard_errors  # t with five degrees of freedom
    np.testing.assert_allclose(high - low, 2 * reach, rtol=1e-6)


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        (lambda fit: None, "`statistic` must return a number .* but it returned None"),
        (lambda fit: "high", "`statistic` must return a number .* returned 'high'"),
        (lambda fit: [], "`statistic` must return a number .* returned \\[\\]"),
        (lambda fit: fit, r"`statistic` must return a number .* returned Fit\(anchor=0"),
        (lambda fit: {}["x"], "stopped with KeyError: 'x', on the panel itself"),
        (lambda: 0.0, "stopped with TypeError: .* It is called with a Fit"),
        (3.0, "`statistic` must be a function of a fit, .* but 3.0 arrived"),
        (lambda fit: fit.reward([[99.0]]), "is none of them"),
    ],
)
def test_a_wrong_statistic_is_told_before_any_refit(panel, statistic, message):
    fit = pqr(**TABLE).fit(panel)
    with pytest.raises(DataError, match=message):
        fit.bootstrap(panel, statistic)
    with pytest.raises(DataError, match=message):
        deeppqr.bootstrap(pqr(**TABLE), panel, statistic)


def test_a_fit_refuses_the_draws_of_another_panel(panel):
    """The same number of rows, units and columns: only the decisions differ."""
    fit = pqr(**TABLE).fit(panel)
    other = random_tabular(seed=4).simulate(steps=2_000, units=20, seed=6)
    message = "of 2,000 decisions by 20 units, but another one of 2,000 by 20 units"
    with pytest.raises(DataError, match=message):
        fit.bootstrap(other, RewardAt(STATES), replicates=2)
    # In another order they are the same decisions.
    backwards = panel.unit.max() - panel.unit
    order = np.argsort(backwards, kind="stable")
    again = deeppqr.Panel.from_arrays(
        panel.state[order],
        panel.action[order],
        panel.next_state[order],
        unit=backwards[order],
        state_names=["s"],
    )
    assert again.digest == panel.digest
    fit.bootstrap(again, RewardAt(STATES), replicates=1)


def test_other_stages_say_where_their_errors_are(panel, tmp_path):
    table = pqr(**TABLE).fit(panel)
    assert (table.standard_errors(STATES)[:, 1:] > 0).all()
    linear = pqr(**{**TABLE, "reward": "linear"}).fit(panel)
    with pytest.raises(DataError, match=r"do\. Resample units: fit\.boot"):
        linear.standard_errors(STATES)
    stored = deeppqr.load(linear.save(tmp_path / "fit"))
    with pytest.raises(DataError, match="Fit again, then resample units"):
        stored.standard_errors(STATES)
    for level in (0.0, 1.0, 95.0, -0.5, np.nan):
        with pytest.raises(DataError, match="`level` must lie between 0 and 1"):
            linear.interval(STATES, level)

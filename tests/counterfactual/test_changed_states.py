"""Changed states: averages that a loop repeats, and how far from the data they are."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.counterfactual import MeansAt, _support, changed_states

STATE = ["x", "y", "kind"]
MODEL = deeppqr.PQR(
    discount=0.8,
    anchor="stay",
    anchor_reward="y",
    policy="logit",
    anchor_value="linear",
    reward="linear",
)
LIGHTER = deeppqr.PQR(
    discount=0.8,
    anchor="stay",
    anchor_reward="y",
    policy=deeppqr.policy.Logit(ridge=50.0),
    anchor_value="linear",
    reward="linear",
)


def decisions(units: int = 30, length: int = 20) -> pl.DataFrame:
    """Two wandering numbers and a category; going is likelier where x is high."""
    rng = np.random.default_rng(3)
    rows = []
    for unit in range(units):
        x, y = rng.normal(size=2)
        for time in range(length):
            kind = "abc"[rng.choice(3, p=[0.5, 0.3, 0.2])]
            go = rng.random() < 1 / (1 + np.exp(0.3 - x - 0.5 * (kind == "b")))
            weight = 1.0 + unit % 3
            action = "go" if go else "stay"
            rows.append((unit, time, x, y, kind, action, weight))
            x, y = 0.7 * x + 0.6 * rng.normal() - 0.3 * go, 0.8 * y + 0.5 * rng.normal()
    columns = ["unit", "time", *STATE, "action", "weight"]
    return pl.DataFrame(rows, schema=columns, orient="row")


@pytest.fixture(scope="module")
def panel():
    columns = {"state": STATE, "action": "action", "unit": "unit", "time": "time"}
    return Panel.from_frame(decisions(), **columns, weight="weight")


@pytest.fixture(scope="module")
def fit(panel):
    return MODEL.fit(panel)


@pytest.fixture(scope="module")
def banded(fit, panel):
    return fit.counterfactual(panel, {"x": [-0.5, 0.5]}, replicates=5, seed=1)


def test_values_that_are_there_already_change_nothing(fit, panel):
    """Also where the change is named, and whatever is averaged."""
    alone = decisions().filter(kind="b")
    found = fit.counterfactual(panel, {"kind": ["b"]}, states=alone)
    np.testing.assert_array_equal(found.estimate[1], found.estimate[0])
    found = fit.counterfactual(panel, lambda states: states)
    np.testing.assert_array_equal(found.estimate[1], found.estimate[0])
    assert found.support[0] == found.support[1]


def test_the_anchor_earns_what_is_known_of_it(fit, panel):
    """g is y here: its mean is the value that y is given."""
    found = fit.counterfactual(panel, {"y": [-0.4, 0.9]})
    seen = np.average(panel.state[:, 1], weights=panel.weight)
    # A mean of 600 equal numbers, or of different ones in another order.
    np.testing.assert_allclose(found.mean("reward", "stay"), [seen, -0.4, 0.9], rtol=1e-12)
    assert found.mean("reward", "go").std() > 0


def test_averages_are_those_of_a_loop(fit, panel):
    """Row by row, with weights; two columns at once, one of them a category."""
    panel = panel.select(panel.unit < 6)
    found = fit.counterfactual(panel, {"x": [-1.0, 0.0, 2.0], "kind": "c"})
    assert found.labels[1:] == tuple(f"x = {x}, kind = c" for x in (-1.0, 0.0, 2.0))
    decoded = panel.encoding.decode(panel.state)
    for number, x in enumerate((None, -1.0, 0.0, 2.0)):
        reward, chance, total = np.zeros(2), np.zeros(2), 0.0
        for row, weight in zip(decoded.tolist(), panel.weight, strict=True):
            state = row if x is None else [x, row[1], "c"]
            at = np.array([state], dtype=object)
            reward += weight * fit.reward(at)[0]
            chance += weight * np.exp(fit.log_policy(at)[0])
            total += weight
        # Sums of 120 terms in another order.
        for column, action in enumerate(fit.actions):
            for quantity, naive in (("reward", reward), ("probability", chance)):
                mean = found.mean(quantity, action)[number]
                np.testing.assert_allclose(mean, naive[column] / total, rtol=1e-12)


def test_weights_count(fit, panel):
    """Without the panel's weights the averages are others: the loop above saw them."""
    seen = fit.counterfactual(panel, {"x": 0.0})
    plain = fit.counterfactual(panel, {"x": 0.0}, states=decisions())
    expected = np.exp(fit.log_policy(decisions())).mean(axis=0)
    np.testing.assert_allclose(plain.estimate[0, 1], expected, rtol=1e-12)
    assert np.abs(plain.estimate - seen.estimate).max() > 1e-3


def test_a_function_is_the_same_as_values(fit, panel):
    def change(states):
        states[:, 0], states[:, 2] = 1.5, "b"
        return states

    before = panel.state.copy()
    by_function = fit.counterfactual(panel, change)
    by_value = fit.counterfactual(panel, {"x": 1.5, "kind": "b"})
    assert by_function.labels == ("as seen", "changed")
    np.testing.assert_array_equal(by_function.estimate, by_value.estimate)
    assert by_function.support == by_value.support
    np.testing.assert_array_equal(panel.state, before)


def test_one_value_serves_all_scenarios(fit, panel):
    several = fit.counterfactual(panel, {"x": [0.0, 1.0], "kind": ["b"]})
    spelled = fit.counterfactual(panel, {"x": np.array([0.0, 1.0]), "kind": ("b", "b")})
    assert several.labels == spelled.labels
    np.testing.assert_array_equal(several.estimate, spelled.estimate)


def test_states_from_elsewhere(fit, panel):
    """A frame, its columns in any order, or an array of raw columns."""
    frame = decisions().head(7)
    columns = np.array(frame.select(STATE).rows(), dtype=object)
    by_frame = fit.counterfactual(panel, {"x": 1.0}, states=frame.select(STATE[::-1]))
    by_array = fit.counterfactual(panel, {"x": 1.0}, states=columns)
    np.testing.assert_array_equal(by_frame.estimate, by_array.estimate)
    one = fit.counterfactual(panel, {"x": 1.0}, states=columns[:1])
    columns[0, 0] = 1.0
    np.testing.assert_allclose(one.estimate[1, 0], fit.reward(columns[:1])[0], rtol=1e-15)


def test_bands_are_around_the_estimate(banded, fit, panel):
    """Against the draws of `bootstrap`, one by one."""
    statistic = MeansAt(
        tuple(
            np.array(decisions().with_columns(x=x).select(STATE).rows(), dtype=object)
            for x in (pl.col("x"), pl.lit(-0.5), pl.lit(0.5))
        ),
        panel.weight,
    )
    draws = deeppqr.bootstrap(MODEL, panel, statistic, replicates=5, seed=1).draws
    for number, action in enumerate(fit.actions):
        for place, quantity in enumerate(("reward", "probability")):
            band = banded.band(quantity, action)
            mean = banded.mean(quantity, action)
            own = draws[:, :, place, number]
            error = own.std(axis=0, ddof=1)
            if (quantity, action) == ("reward", "stay"):  # known, not estimated
                np.testing.assert_array_equal(band.low, band.high)
                continue
            farthest = [max(abs(d - own.mean(axis=0)) / error) for d in own]
            reach = np.quantile(farthest, 0.95) * error
            np.testing.assert_allclose(band.low, mean - reach, rtol=1e-9)
            np.testing.assert_allclose(band.high, mean + reach, rtol=1e-9)
            assert ((band.low < mean) & (mean < band.high)).all()


def test_bands_of_a_lighter_model(banded, fit, panel):
    """Its spread, around the fit's own averages."""
    options = {"replicates": 5, "seed": 1}
    mixed = fit.counterfactual(panel, {"x": [-0.5, 0.5]}, model=LIGHTER, **options)
    np.testing.assert_array_equal(mixed.estimate, banded.estimate)
    pure = LIGHTER.fit(panel).counterfactual(panel, {"x": [-0.5, 0.5]}, **options)
    assert np.abs(pure.estimate - mixed.estimate).max() > 1e-3
    for quantity in ("reward", "probability"):
        found, wanted = (each.band(quantity, "go") for each in (mixed, pure))
        np.testing.assert_array_equal(found.standard_errors, wanted.standard_errors)
        np.testing.assert_array_equal(found.estimate, banded.mean(quantity, "go"))
        assert (found.standard_errors != banded.band(quantity, "go").standard_errors).any()


def test_rows_are_tidy(banded, fit, panel):
    rows = banded.rows()
    frame = pl.DataFrame(rows)
    assert frame.select("scenario", "action").n_unique() == len(rows) == 3 * 2
    assert frame.null_count().sum_horizontal().item() == 0
    chances = frame.group_by("scenario").agg(pl.col("probability").sum())["probability"]
    np.testing.assert_allclose(chances, 1.0, rtol=1e-12)
    for row in rows:
        for quantity in ("reward", "probability"):
            assert row[f"{quantity}_low"] <= row[quantity] <= row[f"{quantity}_high"]
    plain = fit.counterfactual(panel, {"x": [-0.5, 0.5]}).rows()
    assert plain == [{name: row[name] for name in plain[0]} for row in rows]
    assert set(rows[0]) - set(plain[0]) == {
        f"{quantity}_{end}"
        for quantity in ("reward", "probability")
        for end in ("low", "high")
    }


def outside_by_hand(panel: Panel, states: np.ndarray, unit: np.ndarray, step: int) -> float:
    """Every distance there is."""
    scale = panel.state.std(axis=0)
    seen, unit = panel.state[::step] / scale, unit[::step]
    apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)
    apart[unit[:, None] == unit[None]] = np.inf
    usual = np.quantile(apart.min(axis=1), 0.99)
    away = np.linalg.norm(states[:, None] / scale - seen[None], axis=2).min(axis=1)
    return float(np.mean(away > usual * (1 + 1e-9)))


@pytest.mark.parametrize("step", [1, 4])
def test_how_many_states_are_outside(fit, panel, monkeypatch, step):
    """Also where only some rows are looked at."""
    monkeypatch.setattr("deeppqr.diagnostics._support.MAX_ROWS", len(panel) // step)
    found = fit.counterfactual(panel, {"x": [1.0, 2.0, 2.5, 3.0]})
    shares = [support.outside for support in found.support]
    assert sum(0 < share < 1 for share in shares[1:]) > 1
    for share, x in zip(shares, (None, 1.0, 2.0, 2.5, 3.0), strict=True):
        states = panel.state.copy()
        if x is not None:
            states[:, 0] = x
        assert share == outside_by_hand(panel, states, panel.unit, step)


def test_states_that_were_seen_are_inside(fit, panel):
    order = np.random.default_rng(0).permutation(len(panel))
    found = fit.counterfactual(panel, lambda states: states[order])
    for support in found.support:
        assert (support.outside, support.mark) == (0.0, "ok")
    assert found.support[0].near == len(panel)
    assert 1 <= found.support[1].near < len(panel)


def test_far_away_is_outside(fit, panel):
    found = fit.counterfactual(panel, {"x": [0.0, 100.0]})
    assert [support.mark for support in found.support] == ["ok", "ok", "outside"]
    far = found.support[2]
    assert (far.outside, far.near) == (1.0, 0)
    # Farther away, no nearer.
    xs = np.linspace(0.0, 6.0, 13)
    shares = [s.outside for s in fit.counterfactual(panel, {"x": xs}).support[1:]]
    assert (np.diff(shares) >= 0).all()


@pytest.mark.parametrize(
    ("outside", "near", "mark"),
    [
        (0.1, 1, "ok"),
        (0.11, 9, "watch"),
        (0.5, 9, "watch"),
        (0.51, 9, "outside"),
        (0, 0, "outside"),
    ],
)
def test_marks(outside, near, mark):
    assert _support.Support(float(outside), near).mark == mark


def test_near_counts_rows(fit, panel):
    """With values within a quarter of a standard deviation, in all changed columns."""
    frame = decisions()
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    near_x = np.abs(x - 0.5) <= 0.25 * x.std()
    near_y = np.abs(y + 1) <= 0.25 * y.std()
    kind = (frame["kind"] == "b").to_numpy()
    for change, rows in (
        ({"x": 0.5}, near_x),
        ({"kind": "b"}, kind),
        ({"x": 0.5, "y": -1.0}, near_x & near_y),
        ({"x": 0.5, "kind": "b"}, near_x & kind),
    ):
        assert 0 < rows.sum() < len(rows)
        assert fit.counterfactual(panel, change).support[1].near == rows.sum()


def test_near_is_a_mean_over_new_values(fit, panel):
    """Where a function moves rows to different values."""

    def halves(states):
        states[:, 0] = np.where(np.arange(len(states)) % 2, 0.5, -0.5)
        return states

    each = fit.counterfactual(panel, {"x": [-0.5, 0.5]}).support[1:]
    found = fit.counterfactual(panel, halves).support[1]
    assert found.near == round(np.mean([support.near for support in each]))


def test_a_single_unit():
    """Its rows are then held against each other; there is nothing to draw."""
    columns = {"state": ["x", "y"], "action": "action"}
    alone = Panel.from_frame(decisions(1, 300), **columns)
    found = MODEL.fit(alone).counterfactual(alone, {"x": [0.0, 1.0, 50.0]})
    assert [support.mark for support in found.support[:2]] == ["ok", "ok"]
    for support, x in zip(found.support, (None, 0.0, 1.0, 50.0), strict=True):
        states = alone.state.copy()
        if x is not None:
            states[:, 0] = x
        rows = np.arange(len(alone))
        assert support.outside == outside_by_hand(alone, states, rows, 1)
    assert found.support[3].mark == "outside"
    with pytest.raises(DataError, match="draws whole units, and this panel has a single"):
        MODEL.fit(alone).counterfactual(alone, {"x": 0.0}, replicates=2)


def test_a_fit_from_a_folder(fit, panel, banded, tmp_path):
    """It has no model to refit: bands need one to be given."""
    again = deeppqr.load(fit.save(tmp_path / "fit"))
    found = again.counterfactual(panel, {"x": [-0.5, 0.5]})
    np.testing.assert_allclose(found.estimate, banded.estimate, rtol=1e-12)
    assert found.support == banded.support
    with pytest.raises(DataError, match="read from a folder does not know its model"):
        again.counterfactual(panel, {"x": 0.0}, replicates=2)
    told = again.counterfactual(
        panel, {"x": [-0.5, 0.5]}, replicates=5, seed=1, model=MODEL
    )
    np.testing.assert_allclose(
        told.band("reward", "go").low, banded.band("reward", "go").low, rtol=1e-9
    )


def test_printing(banded, fit, panel):
    lines = str(banded).splitlines()
    table = [line.split() for line in lines if line.startswith(("as seen", "x = "))]
    for line, row in zip(table, banded.rows(), strict=True):
        ends = [f"{row[f'probability{end}']:.4f}" for end in ("", "_low", "_high")]
        ends = [f"{row[f'reward{end}']:.3f}" for end in ("", "_low", "_high")] + ends
        mark = [] if row["scenario"] == "as seen" else [row["mark"]]
        assert line[-len(ends + mark) :] == ends + mark
    assert "bands: 95%, over all scenarios at once; 5 replicates, none failed" in lines
    assert lines[2].split().count("low") == 2
    far = str(fit.counterfactual(panel, {"x": [0.0, 50.0, 100.0]}))
    assert "bands" not in far
    assert far.count("\nok: ") == far.count("\noutside: ") == 1
    assert "outside: 100% of the states lie farther from any that was seen" in far
    assert max(map(len, far.splitlines())) <= 78


def test_rewards_that_a_table_lacks_are_explained(panel):
    table = replace(MODEL, reward="table").fit(panel)
    found = table.counterfactual(panel, lambda states: states)
    assert "\nnan: some of these states and actions never occurred together" in str(found)
    # Replicates in which rewards are missing fail, and bands need two that do not.
    none = table.counterfactual(panel, lambda states: states, replicates=2)
    assert "bands: 2 of 2 replicates failed" in " ".join(str(none).split())
    assert "reward_low" not in none.rows()[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"z": 1.0}, r"names the column 'z', which is not among .*\['x', 'y', 'kind'\]"),
        ({"x": [1, 2, 3], "y": [1, 2]}, r"numbers of values are \{'x': 3, 'y': 2\}"),
        ({"x": []}, r"numbers of values are \{'x': 0\}"),
        ({}, r"must hold new values by column, .* but \{\} arrived"),
        ({"kind": "d"}, r"'kind' has the category 'd' in row 0, which was not in"),
        ({"x": "much"}, r"'x' was numeric when .* but holds 'much' now"),
        ({"x": np.nan}, r"'x' must not be missing"),
        (lambda states: states[:, :2], r"shape \(600, 3\), .* returned shape \(600, 2\)"),
        (
            lambda states: states.assign(x=1),
            r"`change` failed with AttributeError: .* array of shape \(600, 3\), no Data",
        ),
        (lambda states: states[0], r"shape \(600, 3\), .* returned shape \(3,\)"),
    ],
)
def test_changes_that_make_no_sense(fit, panel, change, message):
    with pytest.raises(DataError, match=message):
        changed_states(fit, panel, change)


def test_numbers_alone():
    """No category, no objects: text is refused, and the panel is not written to."""
    columns = {"state": ["x", "y"], "action": "action", "unit": "unit"}
    numeric = Panel.from_frame(decisions(10), **columns)
    fit = MODEL.fit(numeric)
    with pytest.raises(
        DataError, match=r"the column 'x' the value 'much', but it was numer"
    ):
        fit.counterfactual(numeric, {"x": "much"})

    def change(states):
        states[:, 0] = 1.5
        return states

    before = numeric.state.copy()
    by_function = fit.counterfactual(numeric, change)
    np.testing.assert_array_equal(numeric.state, before)
    by_value = fit.counterfactual(numeric, {"x": 1.5})
    np.testing.assert_array_equal(by_function.estimate, by_value.estimate)


def test_questions_that_have_no_answer(fit, panel, banded):
    plain = fit.counterfactual(panel, {"x": 0.0})
    with pytest.raises(DataError, match="Bands need `replicates`"):
        plain.band("reward", "go")
    with pytest.raises(DataError, match=r"`quantity` must be one of .*, not 'value'"):
        plain.mean("value", "go")
    with pytest.raises(
        DataError, match=r"`action` must be one of \['go', 'stay'\], not 'fly'"
    ):
        banded.band("reward", "fly")

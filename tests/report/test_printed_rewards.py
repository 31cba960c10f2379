"""The rewards in a summary: their means and ranges, kept by a fit that is stored."""

import numpy as np
import pytest

import deeppqr
from deeppqr import Panel
from deeppqr.worlds import random_tabular

STAGES = {"policy": "logit", "anchor_value": "linear", "reward": "linear"}


def pqr(**settings):
    return deeppqr.PQR(discount=0.9, anchor=0, **{**STAGES, **settings})


@pytest.fixture(scope="module")
def panel():
    return random_tabular(seed=4).simulate(steps=2_000, units=20, seed=5)


def shown(fit) -> list[list[str]]:
    """The words of the block's lines, its heading first."""
    lines = fit.summary().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("reward"))
    return [line.split() for line in lines[first : first + len(fit.actions) + 1]]


@pytest.mark.parametrize("stages", [{}, {"anchor_reward": 0.5}, {"reward": "joint"}])
def test_figures_are_those_of_the_reward(panel, stages):
    fit = pqr(**stages).fit(panel)
    reward = fit.reward(panel.state)
    found = fit.provenance["reward"]
    np.testing.assert_allclose(found["mean"], reward.mean(axis=0), rtol=1e-9, atol=1e-12)
    for name, tail in (("low", 0.05), ("high", 0.95)):
        ends = np.quantile(reward, tail, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(found[name], ends, rtol=1e-9, atol=1e-12)
    heading, anchor, second, _ = shown(fit)
    names = ("mean", "low", "high")
    if stages.get("reward") == "joint":
        names = ("mean", "error", "low", "high")
        assert heading[3:5] == ["mean", "s.e."]
        expected = fit.average(panel).standard_errors
        np.testing.assert_allclose(found["error"], expected, rtol=1e-9)
    else:
        assert heading[-3:] == ["s.e.", "by", "fit.bootstrap"]
    assert anchor[:2] == ["0", "(known)"]
    figures = [found[name][1] for name in names]
    # Four digits of the largest reward, which is between 0.1 and 10 here.
    np.testing.assert_allclose([float(word) for word in second[1:]], figures, atol=6e-4)


def test_weights_count_like_repeated_rows(panel):
    weight = 1.0 + (np.arange(len(panel)) % 3 == 0)
    weighted = Panel.from_arrays(
        panel.state, panel.action, panel.next_state, unit=panel.unit, weight=weight
    )
    fit = pqr(policy="frequency", anchor_value="exact", reward="table").fit(weighted)
    reward, found = fit.reward(panel.state), fit.provenance["reward"]
    mean = np.average(reward, axis=0, weights=weight)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-9, atol=1e-12)
    repeated = np.repeat(reward, weight.astype(int), axis=0)
    for name, tail in (("low", 0.05), ("high", 0.95)):
        ends = np.quantile(repeated, tail, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(found[name], ends, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("figures", "written"),
    [
        ([1.5, -1e-5, np.nan], ["1.500", "0.000", "nan"]),
        ([12345.6, -2.0, 0.0], ["12346", "-2", "0"]),
        ([0.0, 0.0, 0.0], ["0", "0", "0"]),
        ([3e9, 1.0, 0.0], ["3e+09", "1", "0"]),
    ],
)
def test_decimals_follow_the_largest(figures, written, panel):
    fit = pqr().fit(panel)
    own = dict(zip(("mean", "low", "high"), ([f, 0.0, 0.0] for f in figures), strict=True))
    fit.provenance["reward"] = own
    assert shown(fit)[1][-3:] == written


def test_a_stored_fit_prints_them_and_an_older_one_does_without(panel, tmp_path):
    fit = pqr().fit(panel)
    fit.save(tmp_path / "fit")
    again = deeppqr.load(tmp_path / "fit")
    assert again.summary() == fit.summary()
    del again.provenance["reward"]
    assert "reward over states" not in again.summary()


def test_another_temperature_scales_them_where_it_scales_the_reward(panel):
    fit = pqr().fit(panel).at_temperature(2.0)
    mean = fit.reward(panel.state).mean(axis=0)
    np.testing.assert_allclose(fit.provenance["reward"]["mean"], mean, atol=1e-12)
    earning = pqr(anchor_reward=0.5).fit(panel).at_temperature(2.0)
    assert "reward over states" not in earning.summary()


def test_many_actions_are_cut_short(rng):
    state = rng.normal(size=(400, 1))
    action = np.arange(400) % 10
    fit = pqr().fit(Panel.from_arrays(state, action, state, unit=np.arange(400) // 10))
    text = fit.summary()
    assert "reward, 8 of 10" in text
    assert max(map(len, text.splitlines())) <= 78
    assert len(shown(fit)) == 11  # the block ends before: a rule and a figure follow
    assert shown(fit)[9][0].startswith("---")

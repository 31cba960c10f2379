"""The temperature from the average reward, end to end."""

import polars as pl
import pytest

from deeppqr import DataError
from deeppqr.policy import Given
from deeppqr_studies import complete_settings, find_study, run_study
from deeppqr_studies._methods import METHODS, estimate_pqr
from deeppqr_studies._problem import make_problem
from deeppqr_studies.paper._alpha_selection import selection_row


def test_the_study_end_to_end(small, quick, tmp_path):
    settings = {**small, "temperatures": [1.0, 2.0], "methods": ["default"]}
    outcome = run_study(find_study("alpha-selection"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert "default finds every temperature within 10%" in outcome.text
    assert (tmp_path / "run" / "alpha-selection.pdf").exists()
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    assert table["temperature"].to_list() == [1.0, 2.0]
    assert table["nmse"].is_not_null().all()


@pytest.mark.filterwarnings("ignore::deeppqr.WeakOverlapWarning")
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_from_the_true_policy_the_true_temperature_is_selected(monkeypatch, temperature):
    """Without a future, PQR of the true policy is exact: rounding is all that is left."""

    def exact(world, panel, seed):
        truth = Given(world.world.log_policy)
        stages = {"policy": truth, "anchor_value": "linear", "reward": "linear"}
        return estimate_pqr(world, panel, seed, **stages)

    monkeypatch.setitem(METHODS, "default", exact)
    cell = {"world": "paper", "p": 2, "scale": 5.0, "steps": 600, "units": 10}
    cell |= {"discount": 0.0, "temperature": temperature, "assumed": {"temperature": 1.0}}
    row = selection_row(cell, "default", 1)
    assert row["selected"] == pytest.approx(temperature, rel=1e-12)
    assert row["error"] == pytest.approx(0.0, abs=1e-12)
    assert row["nmse"] == pytest.approx(0.0, abs=1e-20)
    # At temperature 1 the reward is r / temperature.
    assert row["nmse_as_told"] == pytest.approx((1 - 1 / temperature) ** 2)


def test_the_average_told_is_that_of_the_demonstrations(quick):
    cell = {"world": "paper", "p": 2, "scale": 5.0, "steps": 600, "units": 10}
    cell |= {"temperature": 2.0, "assumed": {"temperature": 1.0}}
    row = selection_row(cell, "default", 1)
    problem = make_problem(cell, 1)
    rewards = problem.world.reward(problem.panel.state)
    earned = [r[a] for r, a in zip(rewards, problem.panel.action, strict=True)]
    assert row["average_reward"] == pytest.approx(sum(earned) / len(earned))
    with pytest.raises(DataError, match="'zero' has no temperature"):
        selection_row(cell, "zero", 1)


def test_only_pqr_is_offered():
    study = find_study("alpha-selection")
    assert len(study.tasks(complete_settings(study, {}))) == 2 * 4 * 5 * 4
    with pytest.raises(DataError, match="`methods` must be among"):
        study.tasks(complete_settings(study, {"methods": ["maxent"]}))

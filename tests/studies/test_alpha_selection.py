"""The temperature from the average reward, end to end."""

import polars as pl
import pytest

from deeppqr import DataError
from deeppqr.studies import find_study, run_study
from deeppqr.studies._paper_rows import selection_row
from deeppqr.studies._problem import pose
from deeppqr.studies._study import complete


def test_the_study_end_to_end(small, quick, tmp_path):
    settings = {**small, "temperatures": [1.0, 2.0], "methods": ["default"]}
    outcome = run_study(find_study("alpha-selection"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert "default finds the temperature within 10%" in outcome.text
    assert (tmp_path / "run" / "alpha-selection.pdf").exists()
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    assert table["temperature"].to_list() == [1.0, 2.0]
    for row in table.iter_rows(named=True):
        assert row["ratio"] == pytest.approx(row["selected"] / row["temperature"])
        assert row["error"] == pytest.approx(abs(row["ratio"] - 1))


def test_the_average_told_is_that_of_the_demonstrations(quick):
    cell = {"world": "paper", "p": 2, "scale": 5.0, "steps": 600, "units": 10}
    cell |= {"temperature": 2.0, "assumed": {"temperature": 1.0}}
    row = selection_row(cell, "default", 1)
    problem = pose(cell, 1)
    rewards = problem.world.reward(problem.panel.state)
    earned = [r[a] for r, a in zip(rewards, problem.panel.action, strict=True)]
    assert row["average_reward"] == pytest.approx(sum(earned) / len(earned))
    with pytest.raises(DataError, match="'zero' has no temperature"):
        selection_row(cell, "zero", 1)


def test_only_pqr_is_offered():
    study = find_study("alpha-selection")
    assert len(study.tasks(complete(study, {}))) == 2 * 4 * 5 * 4
    with pytest.raises(DataError, match="`methods` must be among"):
        study.tasks(complete(study, {"methods": ["maxent"]}))

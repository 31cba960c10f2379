"""Estimators told another discount or temperature than the agent's."""

import polars as pl
import pytest

from deeppqr import DataError
from deeppqr_studies import complete_settings, find_study, run_study
from deeppqr_studies._methods import METHODS
from deeppqr_studies._problem import known_anchor, make_problem, preferences

CELL = {"world": "paper", "p": 2, "scale": 5.0, "steps": 600, "units": 10}
WRONG = {"discount": 0.0, "assumed": {"discount": 0.9, "temperature": 2.0}}


@pytest.mark.filterwarnings("ignore::deeppqr.WeakOverlapWarning")
def test_the_study_end_to_end(small, quick, tmp_path):
    settings = {**small, "temperatures": [0.5, 1.0], "methods": ["default", "zero"]}
    outcome = run_study(find_study("sensitivity"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert outcome.num_tasks == 4 * 2
    for words in ("by true discount", "by true temperature", "PQR being default"):
        assert words in outcome.text
    assert (tmp_path / "run" / "sensitivity.png").read_bytes()[:4] == b"\x89PNG"
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    assert "assumed" not in table.columns
    zero = table.filter(method="zero")
    assert zero["nmse"].to_list() == pytest.approx([1.0] * 4)
    agents = list(zip(zero["discount"], zero["temperature"], strict=True))
    assert agents == [(0.0, 1.0), (0.5, 1.0), (0.9, 1.0), (0.9, 0.5)]


def test_estimators_are_told_the_assumed_and_scored_on_the_true(quick):
    problem = make_problem({**CELL, **WRONG}, 1)
    assert preferences(problem.world) == {"discount": 0.0, "temperature": 1.0}
    told = preferences(problem.assumed_world)
    assert told == {"discount": 0.9, "temperature": 2.0}
    assert known_anchor(problem.assumed_world) == {"anchor": 0, "anchor_reward": 0.0}
    fit = METHODS["default"](problem.assumed_world, problem.panel, 1).fit
    assert fit is not None
    assert (fit.discount, fit.temperature) == (0.9, 2.0)
    # Without a future, what is scored is Q itself.
    assert (problem.q == problem.reward).all()


def test_the_oracle_refuses_to_be_misled():
    problem = make_problem({**CELL, **WRONG}, 1)
    with pytest.raises(DataError, match="no oracle for a MisstatedWorld"):
        METHODS["oracle"](problem.assumed_world, problem.panel, 1)


def test_an_agent_as_assumed_is_run_once():
    study = find_study("sensitivity")
    names = [
        task.name for task in study.tasks(complete_settings(study, {"methods": ["zero"]}))
    ]
    assert len(names) == len(set(names)) == 2 * 5 * 5
    alone = {"methods": ["zero"], "discounts": [], "seeds": [1], "scale": [1.0]}
    assert len(study.tasks(complete_settings(study, alone))) == 3

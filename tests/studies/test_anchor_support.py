"""A rare anchor: scores that can be compared, verdicts, refusals."""

import numpy as np
import polars as pl
import pytest

from deeppqr import DataError
from deeppqr.mdp import SoftQLearning
from deeppqr.policy import Training
from deeppqr.worlds import PaperWorld
from deeppqr_studies import complete_settings, find_study, run_study
from deeppqr_studies._oracle import fit_paper
from deeppqr_studies._problem import make_problem

CELL = {"world": "paper", "p": 2, "scale": 5.0, "steps": 600, "units": 10}


@pytest.mark.filterwarnings("ignore::deeppqr.WeakOverlapWarning")
def test_the_study_end_to_end(small, quick, tmp_path):
    settings = {**small, "premium": [0.0, 9.0], "methods": ["default", "oracle"]}
    outcome = run_study(find_study("anchor-support"), tmp_path / "run", settings)
    assert outcome.failures == {}
    for words in ("1 of 4 fits were refused", "warns or refuses before default fails"):
        assert words in outcome.text
    assert (tmp_path / "run" / "anchor-support.png").read_bytes()[:4] == b"\x89PNG"
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    common, rare = table.filter(method="default").iter_rows(named=True)
    assert rare["overlap"] == "refused"
    assert rare["nmse"] is None
    assert "The anchor 0 is taken in none" in rare["note"]
    assert common["overlap"] in ("ok", "watch", "trouble")
    assert rare["anchor_share"] < common["anchor_share"]
    # Told the premium, the oracle does as well without an anchor as with one.
    assert (table.filter(method="oracle")["nmse"] < 0.2).all()


def test_there_is_no_oracle_for_a_reward_of_the_state():
    world = PaperWorld(p=2, state_only=True)
    with pytest.raises(DataError, match="no oracle for a reward of the state alone"):
        fit_paper(world, world.simulate(steps=20, units=2))


@pytest.mark.slow
def test_soft_q_demonstrations_change_the_data_and_not_the_truth(monkeypatch):
    def little(*preferences):
        training = Training(members=1, width=8, check_every=5, early_stopping=False)
        return SoftQLearning(
            *preferences, states=50, horizon=5, rounds=2, training=training
        )

    monkeypatch.setattr("deeppqr.mdp.SoftQLearning", little)
    exact, learned = (
        make_problem(CELL, 1),
        make_problem({**CELL, "demonstrations": "soft-q"}, 1),
    )
    np.testing.assert_array_equal(exact.states, learned.states)
    np.testing.assert_array_equal(exact.q, learned.q)
    assert exact.demonstrator_kl is None
    assert learned.demonstrator_kl is not None
    assert learned.demonstrator_kl > 0
    assert (exact.panel.action != learned.panel.action).any()


def test_other_demonstrations_are_named_in_the_tasks(small):
    study = find_study("reward-recovery")
    changes = {**small, "worlds": ["paper"], "methods": ["zero"]}
    (task,) = study.tasks(complete_settings(study, changes))
    assert task.name == "paper_p=2_scale=5_steps=600_units=10_zero_seed=1"
    (task,) = study.tasks(complete_settings(study, {**changes, "demonstrations": "soft-q"}))
    assert task.name.endswith("units=10_demonstrations=soft-q_zero_seed=1")

"""The methods that studies offer: one name each, and only what a study can run."""

import inspect

import polars as pl
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr_studies import complete_settings, find_study
from deeppqr_studies._methods import DESCRIPTIONS, METHODS, PQR_KINDS, pqr_kinds


def test_every_method_is_described():
    assert list(DESCRIPTIONS) == list(METHODS)
    assert set(PQR_KINDS) < set(METHODS)


def test_the_kinds_of_pqr_in_a_table():
    frame = pl.DataFrame({"method": ["zero", "joint", "default", "joint", "maxent"]})
    assert pqr_kinds(frame) == ["default", "joint"]


def test_the_law_of_moves_can_be_left_out(monkeypatch):
    """The method asks for the default without that law, and for nothing else."""
    asked = {}

    def model(**settings):
        asked.update(settings)
        raise DataError("that is all")

    reward = deeppqr.reward
    if "moves" not in inspect.signature(reward.Joint).parameters:
        monkeypatch.setattr(reward, "Joint", lambda **settings: ("joint", settings))
        monkeypatch.setattr(reward, "Auto", lambda **settings: ("auto", settings))
    monkeypatch.setattr(deeppqr, "PQR", model)
    world = deeppqr.worlds.PaperWorld(p=2)
    with pytest.raises(DataError, match="that is all"):
        METHODS["default-no-moves"](world, world.simulate(steps=20, units=2), 1)
    known = {"discount": 0.9, "temperature": 1.0, "anchor": 0, "anchor_reward": 0.0}
    wanted = reward.Auto(joint=reward.Joint(moves=False))
    assert asked == {**known, "seed": 1, "reward": wanted}


@pytest.mark.parametrize(
    ("study", "method"),
    [
        ("sensitivity", "oracle"),
        ("sensitivity", "one-parameter"),
        ("anchor-support", "one-parameter"),
    ],
)
def test_what_a_study_cannot_run_is_refused(study, method):
    with pytest.raises(DataError, match=f"`methods` must be among .*, not '{method}'"):
        find_study(study).tasks(complete_settings(find_study(study), {"methods": [method]}))


@pytest.mark.parametrize(
    "study",
    [
        "reward-recovery",
        "q-recovery",
        "training-error",
        "robustness",
        "sensitivity",
        "alpha-selection",
        "anchor-support",
    ],
)
def test_help_names_what_can_be_chosen(study):
    option = find_study(study).options["methods"]
    named = option.help.removeprefix("among ").split(", ")
    assert set(option.default) <= set(named)
    find_study(study).tasks(complete_settings(find_study(study), {"methods": named}))

"""The methods that studies offer: one name each, and only what a study can run."""

from dataclasses import replace
from typing import Any

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


def test_the_law_of_moves_can_be_left_out():
    """On a world that moves by steps and walls the default takes that law, unless told."""
    world = deeppqr.worlds.PaperWorld(p=2, reward_scale=5.0)
    panel = world.simulate(steps=600, units=20)
    quick: dict[str, Any] = {"policy": "logit", "anchor_value": "linear"}
    joint = deeppqr.reward.Joint()
    notes = [
        deeppqr.PQR(discount=0.9, anchor=0, reward=reward, **quick)
        .fit(panel)
        .stages["reward"]
        for reward in (joint, replace(joint, moves=False))
    ]
    assert "moves" in notes[0]
    assert "moves" not in notes[1]
    assert "next states by regression" in notes[1]


@pytest.mark.slow
def test_the_default_without_moves_is_a_method():
    world = deeppqr.worlds.PaperWorld(p=2, reward_scale=5.0)
    found = METHODS["default-no-moves"](world, world.simulate(steps=600, units=20), 1)
    assert "moves" not in found.note


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

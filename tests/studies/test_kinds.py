"""The methods in words: one name each, and only what a study can run."""

import polars as pl
import pytest
from deeppqr.studies import _kinds, _robustness, find_study
from deeppqr.studies._methods import METHODS
from deeppqr.studies._state_only import STATE_ONLY
from deeppqr.studies._study import complete

from deeppqr import DataError


def test_words_and_estimators_have_the_same_names():
    assert set(_kinds.METHODS) == set(METHODS)
    assert set(_robustness.METHODS) == set(STATE_ONLY)


def test_the_kinds_of_a_table():
    frame = pl.DataFrame({"method": ["zero", "joint", "default", "joint", "maxent"]})
    assert _kinds.kinds(frame) == ["default", "joint"]


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
        find_study(study).tasks(complete(find_study(study), {"methods": [method]}))


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
    find_study(study).tasks(complete(find_study(study), {"methods": named}))

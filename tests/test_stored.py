"""Which classes a saved fit is made of: those that say so where they are defined."""

from dataclasses import dataclass

import numpy as np
import pytest

import deeppqr
from deeppqr._stored import is_stored, stored
from deeppqr.policy._given import GivenPolicy


@dataclass(frozen=True, eq=False)
class LogitPolicy:
    """A user's class that happens to have the name of one of ours."""

    slope: float

    def __call__(self, states):
        scores = self.slope * states[:, :1] * np.arange(5)
        return scores - np.logaddexp.reduce(scores, axis=1)[:, None]


def test_a_users_class_of_the_same_name_is_never_rebuilt_as_ours(paper, tmp_path):
    """It is a function that was given: it has to be given again."""
    _, panel = paper
    own = LogitPolicy(0.1)
    fit = deeppqr.PQR(discount=0.9, anchor=0, policy=own, reward="linear").fit(panel)
    folder = fit.save(tmp_path / "fit")
    with pytest.raises(deeppqr.StorageError, match=r"function for `policy`.*policy=\.\.\."):
        deeppqr.load(folder)
    loaded = deeppqr.load(folder, policy=own)
    at = panel.state[:5]
    np.testing.assert_array_equal(loaded.reward(at), fit.reward(at))
    assert not is_stored(LogitPolicy)


def test_two_classes_of_one_name_are_refused():
    twin = type("GivenPolicy", (), {"__module__": "elsewhere"})
    with pytest.raises(TypeError, match=r"Two stored classes are called GivenPolicy"):
        stored(twin)
    assert is_stored(GivenPolicy)

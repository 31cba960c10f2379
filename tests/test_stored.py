"""Which classes a saved fit is made of: those that say so where they are defined."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import deeppqr
from deeppqr._stored import is_stored, stored
from deeppqr.policy._given import GivenPolicy
from deeppqr.reward import Auto


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


class _Refuted(Auto):
    """`Auto` judged against scores of our own, whatever the policy's are."""

    def with_policy_scores(self, held_out):
        return self


def test_a_corrected_reward_under_a_self_loop_is_stored_whole(tmp_path):
    """Its bonus is made of our own functions, and no argument of `load` gives it back."""
    rng = np.random.default_rng(0)
    units, periods = 30, 20
    state = rng.normal(size=(units * periods, 2))
    score = np.stack([0 * state[:, 0], state[:, 0], 0.5 * state[:, 1]], axis=1)
    action = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    fresh = 0.5 * state + rng.normal(size=state.shape)
    panel = deeppqr.Panel.from_arrays(
        state,
        action,
        np.where((action == 0)[:, None], state, fresh),  # the anchor changes nothing
        unit=np.repeat(np.arange(units), periods),
    )
    scores = np.full(len(panel), -0.01)
    joint = deeppqr.reward.Joint()
    model = deeppqr.PQR(discount=0.9, anchor=0, policy="logit")
    fit = replace(model, reward=_Refuted(joint=joint, policy_scores=scores)).fit(panel)
    assert "self-loop" in fit.stages["anchor_value"]
    assert "corrected by" in fit.stages["reward"]
    loaded = deeppqr.load(fit.save(tmp_path / "fit"))
    np.testing.assert_allclose(loaded.reward(state[:9]), fit.reward(state[:9]), rtol=1e-9)
    np.testing.assert_allclose(loaded.q(state[:9]), fit.q(state[:9]), rtol=1e-9)

"""AIRL as the paper states it, and policies that come from elsewhere."""

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, NotConvergedWarning
from deeppqr.policy import AIRL, Given, Training
from deeppqr.policy._airl import AIRLPolicy, _warn_of_trouble

TABULAR = Training(
    width=32, depth=1, members=2, max_steps=1_500, check_every=25, batch_size=2_048
)


@pytest.fixture(scope="module")
def one_hot_world():
    """A tabular world whose states a network can tell apart, and decisions in it."""
    world = deeppqr.worlds.random_tabular(4, 3, seed=2)
    return world, world.simulate(steps=40_000, units=200, seed=3)


def categorical(panel):
    """The same panel with states as categories, which networks see as indicators."""
    names = np.array(["a", "b", "c", "d"], dtype=object)
    code = lambda states: names[states.astype(int)]
    return deeppqr.Panel.from_arrays(
        code(panel.state),
        panel.action,
        code(panel.next_state),
        unit=panel.unit,
        state_names=["s"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("generator", ["signal", "entropy"])
def test_the_discriminator_learns_log_pi(generator, one_hot_world, key):
    """f = log pi at every state and action, within sampling error and training noise."""
    world, panel = one_hot_world
    policy = AIRL(TABULAR, generator).fit(categorical(panel), key=key).policy
    assert isinstance(policy, AIRLPolicy)
    states = categorical(panel).encoding.encode_any(
        np.array(["a", "b", "c", "d"], dtype=object)
    )
    truth = world.log_policy(world.states)
    visits = np.bincount(panel.state[:, 0].astype(int))
    error = np.sqrt((1 - np.exp(truth)) / (visits[:, None] * np.exp(truth)))
    # Four sampling standard errors, and 0.05 for minibatches that have not settled.
    assert (np.abs(policy.score(states) - truth) < 4 * error + 0.05).all()


@pytest.mark.slow
def test_pqr_on_airl_recovers_the_reward(one_hot_world, key):
    world, panel = one_hot_world
    g = dict(zip("abcd", world.mdp.reward[:, 0], strict=True))
    known = lambda states: np.array([g[s] for s in states[:, 0]])
    model = {"discount": 0.9, "anchor": 0, "anchor_reward": known}
    found, counted = (
        deeppqr.PQR(**model, policy=policy).fit(categorical(panel))
        for policy in (AIRL(TABULAR), "frequency")
    )
    names = np.array([["a"], ["b"], ["c"], ["d"]], dtype=object)
    error = np.abs(found.reward(names) - world.mdp.reward).max()
    baseline = np.abs(counted.reward(names) - world.mdp.reward).max()
    # What AIRL adds to the error of counting: 0.05 in log pi, through 1 / (1 - discount)
    # at worst and through the anchor's mixing in practice.
    assert error < baseline + 0.3


@pytest.mark.parametrize(
    ("loss", "entropy", "message"),
    [(0.05, 0.5, "The discriminator's held-out loss is 0.050, far below 1.386"),
     (1.30, 0.001, "The policy is nearly deterministic: its entropy is 0.001")],
)  # fmt: skip
def test_adversarial_trouble_is_called_out(loss, entropy, message, tabular):
    class Trained:
        loss_trace, entropy_trace = np.array([loss]), np.array([entropy])

    _, panel = tabular
    with pytest.warns(NotConvergedWarning, match=message):
        _warn_of_trouble(panel, Trained(), -5.0)


def test_sound_training_keeps_its_traces_and_warns_of_nothing(one_hot_world, key):
    """Warnings are errors here: a normal fit raises none."""
    _, panel = one_hot_world
    short = Training(width=16, depth=1, members=1, max_steps=200, check_every=25)
    policy = AIRL(short).fit(categorical(panel), key=key).policy
    assert isinstance(policy, AIRLPolicy)
    assert len(policy.loss_trace) == len(policy.entropy_trace) == 8
    # A discriminator that cannot win loses 2 log 2; the warning comes below half of it.
    assert policy.loss_trace[-1] > np.log(2)


def test_given_policies_are_used_as_they_are(tabular):
    """With the true policy and the true transitions: Theorem 1, to rounding."""
    world, panel = tabular
    g = lambda states: world.reward(states)[:, 0]
    fit = deeppqr.PQR(
        discount=0.9,
        anchor=0,
        anchor_reward=g,
        policy=world.log_policy,
        transition=world.mdp.transition,
    ).fit(panel)
    np.testing.assert_allclose(fit.reward(world.states), world.mdp.reward, atol=1e-10)
    assert "given: TabularWorld.log_policy" in fit.stages["policy"]


def test_given_policies_are_checked(tabular, key):
    _, panel = tabular
    with pytest.raises(
        DataError, match="must sum to one in each state, but those of .* sum to 3"
    ):
        Given(lambda s: np.zeros((len(s), 3))).fit(panel, key=key)
    with pytest.raises(
        DataError, match=r"shape \(20000, 3\), but the function returned shape \(20000, 2\)"
    ):
        Given(lambda s: np.zeros((len(s), 2))).fit(panel, key=key)
    with pytest.raises(DataError, match='`generator` must be "signal" or "entropy"'):
        AIRL(generator="gan").fit(panel, key=key)


def test_given_policies_are_asked_for_again(tabular, tmp_path):
    world, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, policy=world.log_policy, reward="regression"
    ).fit(panel)
    fit.save(tmp_path / "fit")
    with pytest.raises(deeppqr.StorageError, match=r"deeppqr.load\(folder, policy="):
        deeppqr.load(tmp_path / "fit")
    again = deeppqr.load(tmp_path / "fit", policy=world.log_policy)
    np.testing.assert_array_equal(again.q(world.states), fit.q(world.states))


@pytest.mark.filterwarnings("ignore::deeppqr.NotConvergedWarning")
@pytest.mark.slow
@pytest.mark.parametrize("study", ["synthetic", "airline"])
def test_the_paper_as_written(study, paper):
    """Its optimiser, rates and steps; and the policy it leaves close to uniform."""
    _, panel = paper
    model = deeppqr.PQR.paper(discount=0.9, anchor=0, study=study)
    rows = {
        "synthetic": ((5e-4, 600), (1e-3, 1000), (1e-3, 1000)),
        "airline": ((1.5e-4, 1000), (5e-5, 500), (1e-3, 1000)),
    }[study]
    stages = (model.policy.training, model.anchor_value.training, model.reward.training)
    for training, (rate, steps) in zip(stages, rows, strict=True):
        assert training.optimiser == "adagrad"
        assert (training.learning_rate, training.max_steps) == (rate, steps)
    assert model.anchor_value.max_rounds * 10 == rows[1][1]
    fit = model.fit(panel)
    log_prob = fit.log_policy(panel.state)
    assert np.abs(log_prob + np.log(5)).max() < 0.5
    assert np.isfinite(fit.reward(panel.state)).all()


def test_paper_messages():
    with pytest.raises(
        DataError, match=r"`study` must be one of \['airline', 'synthetic'\]"
    ):
        deeppqr.PQR.paper(discount=0.9, anchor=0, study="bus")
    with pytest.raises(DataError, match='`reading` must be "steps" or "epochs"'):
        deeppqr.PQR.paper(discount=0.9, anchor=0, reading="hours")

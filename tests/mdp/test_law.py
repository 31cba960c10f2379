"""Transitions known as functions: exact where outcomes are finite, averaged elsewhere."""

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.mdp import Law
from deeppqr.worlds import PaperWorld


def as_function(world):
    """A tabular world's law as a function with every state among the outcomes."""

    def function(states, action):
        probability = world.mdp.transition[states[:, 0].astype(int), action]
        everywhere = np.broadcast_to(world.states, (len(states), *world.states.shape))
        return everywhere, probability

    return function


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.9999])
def test_a_function_and_a_table_agree(discount, tabular, anchor_reward):
    world, panel = tabular
    few = panel.select(panel.unit < 10)
    settings = {
        "discount": discount,
        "anchor": 0,
        "anchor_reward": anchor_reward,
        "policy": "frequency",
    }
    table = deeppqr.PQR(**settings, transition=world.mdp.transition).fit(few)
    rolled = deeppqr.PQR(**settings, transition=as_function(world)).fit(few)
    for name in ("reward", "q", "value"):
        np.testing.assert_allclose(
            getattr(rolled, name)(world.states),
            getattr(table, name)(world.states),
            rtol=1e-9,
            atol=1e-9 / (1 - discount),
        )


@pytest.mark.filterwarnings("ignore::deeppqr.WeakOverlapWarning")  # nothing is estimated
@pytest.mark.usefixtures("few_jumps")
@pytest.mark.parametrize("p", [2, 20])
def test_the_papers_world_is_recovered_exactly(p):
    """Theorem 1 on continuous states: the exact policy and the known law give r."""
    world = PaperWorld(p=p, reward_scale=2.0, seed=1)
    panel = world.simulate(steps=30, units=6, seed=2)
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, policy=world.log_policy, transition=world.transition
    ).fit(panel)
    states = world.simulate(steps=30, units=6, seed=3).state
    np.testing.assert_allclose(fit.reward(states), world.reward(states), atol=1e-10)
    np.testing.assert_allclose(fit.q(states), world.q(states), atol=1e-10)


def test_sampled_laws_come_close():
    """A linear-Gaussian walk: sampling and features against a fine finite law."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    weights = weights / weights.sum()
    step = lambda states, action: 0.5 * states + 0.3 * action

    def finite(states, action):
        centre = step(states, action)[:, None]
        outcomes = centre + 0.4 * nodes[None, :, None]
        return outcomes, np.broadcast_to(weights, outcomes.shape[:2])

    def sample(states, action, rng):
        return step(states, action) + 0.4 * rng.normal(size=states.shape)

    def log_policy(states):
        slope = states * np.array([0.0, 0.8])
        return slope - np.logaddexp(slope[:, :1], slope[:, 1:])

    rng = np.random.default_rng(0)
    state = rng.normal(size=(400, 1))
    panel = Panel.from_arrays(
        state,
        rng.integers(0, 2, 400),
        np.roll(state, -40, axis=0),
        unit=np.arange(400) % 40,
    )
    known = {"discount": 0.5, "anchor": 0, "policy": log_policy}
    exact = deeppqr.PQR(**known, transition=Law(finite)).fit
    sampled = deeppqr.PQR(**known, transition=Law(sample, draws=200, seed=1)).fit(panel)
    grid = np.linspace(-1.5, 1.5, 7)[:, None]
    # Nine outcomes a step: only a shallow tree can be followed, so compare one level.
    with pytest.raises(
        DataError, match="more than 2,000,000 states. Give the law as samples"
    ):
        exact(panel)
    value = sampled.value(grid)
    average = lambda at, action: np.mean(
        [
            sampled.value(sample(at, action, np.random.default_rng([2, i])))
            for i in range(400)
        ],
        axis=0,
    )
    bellman = -log_policy(grid)[:, 0] + 0.5 * average(grid, 0)
    # 400 independent draws of a value with standard deviation below 0.3.
    assert np.abs(value - bellman).max() < 4 * 0.3 / np.sqrt(400) + 0.02
    again = deeppqr.PQR(**known, transition=Law(sample, draws=200, seed=1)).fit(panel)
    np.testing.assert_array_equal(again.reward(grid), sampled.reward(grid))


def test_laws_are_asked_for_again(tmp_path, tabular):
    world, panel = tabular
    few = panel.select(panel.unit < 5)
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, policy="frequency", transition=as_function(world)
    ).fit(few)
    fit.save(tmp_path / "fit")
    with pytest.raises(deeppqr.StorageError, match=r"deeppqr.load\(folder, transition="):
        deeppqr.load(tmp_path / "fit")
    again = deeppqr.load(tmp_path / "fit", transition=as_function(world))
    np.testing.assert_allclose(
        again.reward(world.states), fit.reward(world.states), atol=1e-12
    )


def test_messages(tabular):
    _, panel = tabular
    few = panel.select(panel.unit < 3)

    def fit(function):
        deeppqr.PQR(discount=0.9, anchor=0, policy="frequency", transition=function).fit(
            few
        )

    with pytest.raises(
        DataError,
        match=r"sum to at most one, but those of row 0 under action 0 sum to 1\.5",
    ):
        fit(lambda s, a: (s[:, None], np.full((len(s), 1), 1.5)))
    with pytest.raises(DataError, match="sum to 1 with smallest entry -1"):
        fit(lambda s, a: (np.stack([s, s], 1), np.tile([2.0, -1.0], (len(s), 1))))
    with pytest.raises(
        DataError, match=r"\(row, outcome, state\) and \(row, outcome\), but they are"
    ):
        fit(lambda s, a: (s, np.ones(len(s))))
    with pytest.raises(DataError, match="with their probabilities, but their shape is"):
        fit(lambda s, a: s[:, 0])
    with pytest.raises(
        DataError, match="one row per state and 1 columns, but their shape is"
    ):
        fit(lambda s, a: np.zeros((len(s), 2)))
    names = np.array([["a"], ["b"]], dtype=object)
    text = Panel.from_arrays(names, [0, 1], names[::-1])
    with pytest.raises(DataError, match="needs numeric states, but .* are categorical"):
        deeppqr.PQR(discount=0.9, anchor=0, policy="logit", transition=lambda s, a: s).fit(
            text
        )

"""Trajectories and Minari datasets as panels."""

from types import SimpleNamespace

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, Panel


def recorded(obs, acts, terminal):
    """An object of imitation's shape."""
    return SimpleNamespace(obs=np.array(obs), acts=np.array(acts), terminal=terminal)


def test_a_truncated_end_keeps_its_next_state_and_a_terminal_one_has_none():
    panel = Panel.from_trajectories(
        [recorded([[0.0], [1], [2]], [0, 1], False), recorded([[5.0], [6]], [1], True)]
    )
    np.testing.assert_array_equal(panel.state[:, 0], [0, 1, 5])
    np.testing.assert_array_equal(panel.next_state[:, 0], [1, 2, np.nan])
    np.testing.assert_array_equal(panel.terminal, [False, False, True])
    np.testing.assert_array_equal(panel.unit, [0, 0, 1])
    assert panel.actions == (0, 1)
    assert panel.is_transition.all()


def test_an_end_that_was_not_seen():
    panel = Panel.from_trajectories([([1.0, 2], [0, 1]), ([3.0, 4], [0, 1], True)])
    np.testing.assert_array_equal(panel.next_state[:, 0], [2, np.nan, 4, np.nan])
    np.testing.assert_array_equal(panel.terminal, [False, False, False, True])
    np.testing.assert_array_equal(panel.is_transition, [True, False, True, True])


def test_every_form_says_the_same(tabular):
    world, panel = tabular
    ends = np.flatnonzero(np.append(np.diff(panel.unit) != 0, True)) + 1
    starts = np.append(0, ends[:-1])
    paths = [
        (
            np.append(panel.state[a:b], panel.next_state[b - 1 : b], axis=0),
            panel.action[a:b],
        )
        for a, b in zip(starts, ends, strict=True)
    ]
    forms = (
        paths,
        [{"states": s, "actions": a} for s, a in paths],
        [recorded(s, a, np.False_) for s, a in paths],
        ((s[:, 0], a[:, None], False) for s, a in paths),  # one column; a generator
    )
    for form in forms:
        found = Panel.from_trajectories(form, actions=world.actions, state_names=["s"])
        for name in ("state", "action", "next_state", "unit", "terminal", "weight"):
            np.testing.assert_array_equal(getattr(found, name), getattr(panel, name))
        assert (found.actions, found.encoding) == (panel.actions, panel.encoding)


def test_categories_and_images():
    named = Panel.from_trajectories(
        [(np.array([["a"], ["b"]]), ["go", "stay"]), ([["b"], ["a"], ["b"]], ["go", "go"])]
    )
    assert named.encoding.columns[0].categories == ("a", "b")
    np.testing.assert_array_equal(named.has_next, [True, False, True, True])
    image = np.arange(12.0).reshape(3, 2, 2)
    seen = Panel.from_trajectories([(image, [0, 1])])
    np.testing.assert_array_equal(seen.next_state, [[4, 5, 6, 7], [8, 9, 10, 11]])


GOOD = ([0.0, 1, 2], [0, 1])


@pytest.mark.parametrize(
    ("trajectories", "message"),
    [([], "must hold at least one trajectory; it is empty"),
     (GOOD, "but trajectory 0 is a list"),
     (recorded([0, 1], [0], False), r"list of trajectories, but a SimpleNamespace arrived.*from_trajectories\(\[trajectory\]\)"),
     ([GOOD, (1, 2, 3, 4)], "but trajectory 1 is a tuple of 4"),
     ([GOOD, {"obs": [0], "actions": [0]}], r"trajectory 1 is a dict with the keys \['obs', 'actions'\]"),
     ([GOOD, ([0.0, 1, 2, 3], [0, 1])], "of 2 actions must have 3 states, or 2 where .* trajectory 1 has 4"),
     ([GOOD, ([0.0], [])], "trajectory 1 has none. Drop it"),
     ([GOOD, ([[0.0, 1], [0, 1]], [0])], "1 in the first, but trajectory 1 has 2"),
     ([GOOD, ([0.0, 1], [[0.5, 0.1]])], "those of trajectory 1 have 2 columns"),
     ([GOOD, ([0.0, 1], [0], [False])], r"trajectory 1 has \[False\]"),
     ([GOOD, ({"position": [0.0]}, [0])], "those of trajectory 1 are a dict of several"),
     ([GOOD, (3.0, [0])], "those of trajectory 1 are '3.0'"),
     ([GOOD, ([[0.0], [1, 2]], [0])], r"those of trajectory 1 are '\[\[0.0\], \[1, 2\]\]'")],
)  # fmt: skip
def test_trajectory_messages(trajectories, message):
    with pytest.raises(DataError, match=message):
        Panel.from_trajectories(trajectories)


def episode(observations, actions, ended):
    last = np.arange(len(actions)) == len(actions) - 1
    return SimpleNamespace(
        observations=np.array(observations),
        actions=np.array(actions),
        terminations=last & ended,
        truncations=last & (not ended),
    )


def dataset(*episodes, **spaces):
    return SimpleNamespace(iterate_episodes=lambda: iter(episodes), **spaces)


def test_episodes_are_units():
    panel = Panel.from_minari(
        dataset(episode([3, 1, 2], [0, 2], False), episode([4, 0], [2], True))
    )
    np.testing.assert_array_equal(panel.next_state[:, 0], [1, 2, np.nan])
    np.testing.assert_array_equal(panel.terminal, [False, False, True])
    assert panel.actions == (0, 2)


def test_minari_messages():
    spaces = pytest.importorskip("gymnasium").spaces
    box, early = spaces.Box(-1, 1, (2,)), episode([0, 1, 2], [0, 1], True)
    early.terminations[:] = True
    for given, message in (
        (3, r"or have its `iterate_episodes\(\)`, but a int arrived"),
        (dataset(action_space=spaces.MultiBinary(2)), "`action_space` must be Discrete or Box or Dict, but it is Multi"),
        (dataset(observation_space=spaces.Dict(a=box)), "must be Box or Discrete, but it is Dict"),
        (dataset(episode([0, 1], [0.5], True)), "those of episode 0 have the type float64"),
        (dataset(early), "episode 0 terminates at step 0 of 2. Split it there"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            Panel.from_minari(given)


@pytest.mark.filterwarnings("ignore")  # Minari's own
@pytest.mark.parametrize("kind", ["Box", "Discrete"])
def test_a_dataset_that_minari_recorded(kind, tmp_path, monkeypatch):
    """Its collector and ours see the same decisions, and how each episode ended."""
    gymnasium, minari = pytest.importorskip("gymnasium"), pytest.importorskip("minari")
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    name = "CartPole-v1" if kind == "Box" else "CliffWalking-v1"
    if name not in gymnasium.registry:
        name = "CliffWalking-v0"
    env = minari.DataCollector(
        gymnasium.make(name, max_episode_steps=30), data_format="arrow"
    )
    direct = deeppqr.mdp.rollout(env, None, steps=150, seed=3)
    recorded = env.create_dataset(
        f"deeppqr/{kind.lower()}-v0", algorithm_name="random", author="", author_email="",
        code_permalink="", description="",
    )  # fmt: skip
    panel = Panel.from_minari(recorded)
    env._tmp_dir.cleanup()  # Minari leaves it to the garbage collector, which warns
    np.testing.assert_array_equal(panel.terminal, direct.terminal[: len(panel)])
    np.testing.assert_allclose(panel.state, direct.state[: len(panel)])
    np.testing.assert_array_equal(panel.action, direct.action[: len(panel)])
    np.testing.assert_allclose(panel.next_state, direct.next_state[: len(panel)])
    if kind == "Box":
        assert panel.encoding.names == ["x1", "x2", "x3", "x4"]
    else:  # the numbers of cells are labels
        assert [column.kind for column in panel.encoding.columns] == ["categorical"]
        assert all(type(level) is int for level in panel.encoding.columns[0].categories)
    assert panel.terminal.any() == (kind == "Box")


def test_numbers_of_a_discrete_space_are_categories():
    """As a simulator records them; an end that no decision is taken in is a level, too."""
    spaces = pytest.importorskip("gymnasium").spaces
    paths = [recorded([3, 1, 2, 7], [0, 1, 0], False), recorded([1, 2, 3], [1, 0], True)]
    panel = Panel.from_trajectories(paths)
    assert panel.encoding.columns[0].categories == (1, 2, 3, 7)
    np.testing.assert_array_equal(panel.next_state[2], [0, 0, 1])
    space = {"observation_space": spaces.Discrete(9)}
    episodes = dataset(
        episode([3, 1, 2], [0, 2], False), episode([4, 3], [2], True), **space
    )
    assert Panel.from_minari(episodes).encoding.columns[0].categories == (1, 2, 3, 4)
    arrays = [([3, 1, 2], [0, 1]), ([2, 3], [1])]
    assert Panel.from_trajectories(arrays).encoding.columns[0].kind == "numeric"
    coded = Panel.from_trajectories(arrays, categorical=["x1"])
    assert coded.encoding.columns[0].categories == (1, 2, 3)
    one = Panel.from_trajectories([recorded([0, 0, 0], [0, 1], False)])
    assert one.encoding.columns[0].kind == "numeric"  # a constant is no category


def test_a_fit_on_a_discrete_space():
    """Rewards of a table are the same as those of the numbers; only the states are coded."""
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    panel = deeppqr.mdp.rollout(env, None, steps=1_000, seed=1)
    assert [column.kind for column in panel.encoding.columns] == ["categorical"]
    stages: dict = {"policy": "logit", "anchor_value": "linear", "reward": "linear"}
    fit = deeppqr.PQR(discount=0.9, anchor=0, **stages).fit(panel)
    assert np.isfinite(fit.reward(np.array([[0], [4]]))).all()
    with pytest.raises(DataError, match=r"the category 99(\.0)? in row 0, which was not"):
        fit.reward([[99]])
    env.close()

"""What every competing method offers: one interface, one grounding, one confession."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deeppqr
from deeppqr import DataError
from deeppqr.baselines import DAIRL, SPLGD, BehaviouralCloning, MaxEntIRL
from deeppqr.policy import Logit, Training
from deeppqr.worlds import PaperWorld, random_tabular

WORLD = PaperWorld(p=3, reward_scale=5.0, seed=1)
TINY = Training(width=8, depth=1, members=2, max_steps=50, check_every=25, batch_size=64)
METHODS = {
    "cloning": (BehaviouralCloning(anchor=0, policy="logit"), "nothing", True),
    "maxent": (MaxEntIRL(policy=Logit()), "nothing", True),
    "maxent at the origin": (
        MaxEntIRL(policy=Logit(), q_at_origin=(np.zeros(3), 0, 17.0)),
        "the true Q at one state and action",
        True,
    ),
    "dairl": (DAIRL(discount=0.9, policy=Logit(), training=TINY), "nothing", True),
    "dairl with actions": (
        DAIRL(discount=0.9, policy=Logit(), training=TINY, state_only=False),
        "nothing",
        True,
    ),
    "splgd": (SPLGD(discount=0.9, max_rows=500), "nothing", True),
    "splgd with the truth": (
        SPLGD(discount=0.9, q=WORLD.q, value=WORLD.value),
        "the true Q and V",
        False,
    ),
}


@pytest.fixture(scope="module")
def panel():
    return WORLD.simulate(steps=1_000, units=20, seed=2)


@pytest.mark.parametrize("name", METHODS)
def test_contract(name, panel, rng):
    """Shapes, the truth it was given, the same answer for the same seed, the anchor."""
    method, told, has_policy = METHODS[name]
    fit, again = method.fit(panel), method.fit(panel)
    states = rng.uniform(-3, 3, size=(50, 3))
    reward = fit.reward(states)
    assert reward.shape == (50, 5)
    assert np.isfinite(reward).all()
    assert fit.actions == panel.actions
    np.testing.assert_array_equal(reward, again.reward(states))

    assert fit.given == told
    assert f"given     {told}" in fit.summary()
    assert fit.method in fit.summary()
    if has_policy:
        total = np.exp(fit.log_policy(states)).sum(axis=1)
        np.testing.assert_allclose(total, 1.0, atol=1e-6)
    else:
        with pytest.raises(DataError, match="estimates a reward and no policy"):
            fit.log_policy(states)

    grounded = fit.grounded(2, lambda s: s[:, 0])
    found = grounded.reward(states)
    np.testing.assert_array_equal(found[:, 2], states[:, 0])
    np.testing.assert_allclose(
        np.diff(found, axis=1), np.diff(reward, axis=1), atol=1e-5 * np.abs(reward).max()
    )
    assert "the anchor 2" in grounded.summary()
    assert grounded.given == told


def test_the_grounding_takes_a_number_a_column_or_a_function(panel):
    fit = MaxEntIRL(policy="logit").fit(panel)
    columns = [
        fit.grounded(0, known).reward(panel.state)[:, 0]
        for known in (2.0, "x2", lambda s: s[:, 1])
    ]
    assert (columns[0] == 2.0).all()
    np.testing.assert_array_equal(columns[1], columns[2])


def test_cloning_is_maxent_grounded(panel):
    """Log-odds against the anchor are energies less the anchor's."""
    cloned = BehaviouralCloning(anchor=0, policy="logit").fit(panel)
    energy = MaxEntIRL(policy="logit").fit(panel).grounded(0)
    np.testing.assert_array_equal(cloned.reward(panel.state), energy.reward(panel.state))
    assert (cloned.reward(panel.state)[:, 0] == 0).all()


def test_categories_and_labels():
    """Raw states go in, whatever their type; actions need not be numbers."""
    rng = np.random.default_rng(0)
    towns = rng.choice(np.array(["a", "b", "c"], dtype=object), size=601)
    acts = rng.choice(np.array(["go", "stay"], dtype=object), size=600)
    panel = deeppqr.Panel.from_arrays(towns[:-1], acts, towns[1:], state_names=["town"])
    states = np.array(["a", "b", "c"], dtype=object)
    for method in (
        MaxEntIRL(policy="frequency", q_at_origin=("b", "stay", 3.0)),
        BehaviouralCloning(anchor="stay"),
        DAIRL(discount=0.5),
        SPLGD(discount=0.5, intercepts=True),
    ):
        assert method.fit(panel).grounded("stay").reward(states).shape == (3, 2)
    with pytest.raises(
        DataError, match=r"the label 'go' is str. .* SPLGD\(..., intercepts=True\)"
    ):
        SPLGD(discount=0.5).fit(panel)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_cold_agent_maximises(seed):
    """As the temperature falls, the soft optimum is the hard one."""
    world = random_tabular(temperature=0.01, seed=seed)
    q, policy = world.solution.q, np.exp(world.solution.log_policy)
    ranked = np.sort(q, axis=1)
    gap = ranked[:, -1] - ranked[:, -2]
    best = np.take_along_axis(policy, q.argmax(axis=1)[:, None], axis=1)[:, 0]
    # Each of the two other actions has at most exp(-gap / temperature) of the best one's.
    assert (best >= 1 - 2 * np.exp(-gap / 0.01) - 1e-12).all()
    assert (best[gap > 0.1] > 0.9999).all()

    hard = np.zeros(7)
    for _ in range(300):  # 0.9 ** 300 is 2e-14
        hard = (world.mdp.reward + 0.9 * world.mdp.transition @ hard).max(axis=1)
    excess = world.solution.value - hard
    # The entropy bonus is at most temperature * log(3) a period.
    assert (excess > -1e-10).all()
    assert (excess < 0.01 * np.log(3) / 0.1 + 1e-10).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MaxEntIRL(temperature=0.0), "`temperature` must be positive"),
        (lambda: MaxEntIRL(seed=-1), "`seed` must be a whole number"),
        (lambda: MaxEntIRL(q_at_origin=17.0), "`q_at_origin` must be a state, an action's label"),
        (lambda: MaxEntIRL(policy="deep"), "`policy` must be one of"),
        (lambda: DAIRL(discount=1.0), r"`discount` must lie in \[0, 1\)"),
        (lambda: DAIRL(discount=0.9, generator="gan"), r"`generator` must be one of \['policy', 'uniform'\], but it is 'gan'"),
        (lambda: SPLGD(discount=0.9, q=WORLD.q), "`q` and `value` must be given together, or neither, but only `q`"),
        (lambda: SPLGD(discount=0.9, q=np.zeros(3), value=WORLD.value), "`q` must be a function of the states, .* but a ndarray"),
    ],
)  # fmt: skip
def test_settings_are_checked(build, message):
    with pytest.raises(DataError, match=message):
        build()


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda panel: MaxEntIRL().fit(panel.state), "`fit` needs a Panel, but a ndarray"),
        (lambda panel: MaxEntIRL(policy="logit").fit(panel).grounded(9), r"`anchor` must be one of the actions \[0, 1, 2, 3, 4\], but it is 9"),
        (lambda panel: BehaviouralCloning(anchor="none").fit(panel), "`anchor` must be one of the actions"),
        (lambda panel: SPLGD(discount=0.9, q=WORLD.value, value=WORLD.value).fit(panel), r"`q` must return finite numbers of shape \(1000, 5\), but \(1000,\)"),
    ],
)  # fmt: skip
def test_fits_are_checked(fit, message, panel):
    with pytest.raises(DataError, match=message):
        fit(panel)

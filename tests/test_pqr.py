"""The whole estimator: contracts, theorems on data, statistics, refusals."""

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import deeppqr
from deeppqr import DataError, Panel
from deeppqr._fit import with_known
from deeppqr.mdp._tabular import check_preferences
from deeppqr.panel._panel import require_panel
from deeppqr.worlds import PaperWorld, random_tabular

QUICK = {"discount": 0.9, "anchor": 0, "reward": "regression"}
LAW_KNOWN = {"discount": 0.9, "anchor": 0}


def test_known_transitions_and_true_frequencies_recover_the_reward(tabular, anchor_reward):
    """Theorem 1 through PQR: only the policy's sampling error is left."""
    world, panel = tabular
    fit = deeppqr.PQR(
        **LAW_KNOWN, anchor_reward=anchor_reward, transition=world.mdp.transition
    ).fit(panel)
    expected = deeppqr.exact(
        fit.log_policy(world.states),
        world.mdp.transition,
        discount=0.9,
        anchor=0,
        anchor_reward=world.mdp.reward[:, 0],
    )
    np.testing.assert_allclose(fit.reward(world.states), expected.reward, atol=1e-11)
    assert fit.diagnostics["anchor_residual"].value < 1e-10


def test_known_transitions_over_named_states(tabular):
    """The table may come in any order and with states of any name."""
    world, panel = tabular
    order = np.random.default_rng(0).permutation(7)
    shuffled = world.mdp.transition[order][:, :, order]
    plain = deeppqr.PQR(**LAW_KNOWN, transition=world.mdp.transition).fit(panel)
    named = deeppqr.PQR(**LAW_KNOWN, transition=(world.states[order], shuffled)).fit(panel)
    np.testing.assert_allclose(
        named.reward(world.states), plain.reward(world.states), atol=1e-12
    )


def test_the_anchor_column_is_its_known_reward(paper, tabular, anchor_reward):
    _, panel = paper
    fit = deeppqr.PQR(**QUICK, policy="logit", anchor_reward="x2").fit(panel)
    np.testing.assert_array_equal(fit.reward(panel.state)[:, 0], panel.state[:, 1])
    world, small = tabular
    fit = deeppqr.PQR(**QUICK, anchor_reward=anchor_reward).fit(small)
    np.testing.assert_array_equal(fit.reward(world.states)[:, 0], world.mdp.reward[:, 0])


def test_no_future_makes_the_reward_the_action_value(paper):
    _, panel = paper
    fit = deeppqr.PQR(discount=0.0, anchor=0, policy="logit", reward="regression").fit(
        panel
    )
    np.testing.assert_allclose(fit.reward(panel.state), fit.q(panel.state), atol=1e-12)
    log_prob = fit.log_policy(panel.state)
    np.testing.assert_allclose(fit.q(panel.state), log_prob - log_prob[:, :1], atol=1e-12)


@pytest.mark.parametrize("solvers", [{}, {"anchor_value": "linear", "reward": "linear"}])
def test_reward_scales_with_the_temperature(solvers, paper, tabular):
    """With g = 0 every stage is linear in alpha."""
    for _, panel in (paper, tabular):
        one, two = (
            deeppqr.PQR(**{**QUICK, **solvers}, policy="logit", temperature=t).fit(panel)
            for t in (1.0, 2.5)
        )
        states = panel.state[:50]
        np.testing.assert_allclose(
            2.5 * one.reward(states), two.reward(states), rtol=1e-7, atol=1e-9
        )


def test_q_and_value_fit_together(paper):
    """V is the soft maximum of Q, and pi its softmax."""
    from scipy.special import logsumexp

    _, panel = paper
    fit = deeppqr.PQR(**QUICK, policy="logit", temperature=0.5).fit(panel)
    q, value = fit.q(panel.state), fit.value(panel.state)
    np.testing.assert_allclose(0.5 * logsumexp(q / 0.5, axis=1), value, atol=1e-10)
    log_prob = (q - value[:, None]) / 0.5
    np.testing.assert_allclose(log_prob, fit.log_policy(panel.state), atol=1e-10)


def test_order_and_names_of_units_do_not_matter_where_exact(tabular):
    world, panel = tabular
    order = np.random.default_rng(1).permutation(len(panel))
    shuffled = Panel.from_arrays(
        panel.state[order],
        panel.action[order],
        panel.next_state[order],
        unit=np.array([f"u{u}" for u in panel.unit[order]]),
        state_names=["s"],
    )
    one, two = (deeppqr.PQR(**QUICK).fit(p) for p in (panel, shuffled))
    np.testing.assert_allclose(
        one.reward(world.states), two.reward(world.states), atol=1e-11
    )


def test_the_same_seed_gives_the_same_fit(paper):
    _, panel = paper
    one, again = (deeppqr.PQR(**QUICK, policy="logit", seed=3).fit(panel) for _ in range(2))
    other = deeppqr.PQR(**QUICK, policy="logit", seed=4).fit(panel)
    states = panel.state[:20]
    np.testing.assert_array_equal(one.reward(states), again.reward(states))
    assert (one.reward(states) != other.reward(states)).any()


def test_reward_error_is_monte_carlo_error_and_halves_with_four_times_the_data():
    """Errors at n and 16 n, on the same seeds: their ratio is 4 = sqrt(16).

    Over 12 seeds and 21 cells the log of the root mean square error has a standard error
    near 1 / sqrt(2 * 12 * 7) = 0.08 for each size; four of both together are 0.45.
    """
    world = random_tabular(seed=20)
    g = world.mdp.reward[:, 0]
    model = deeppqr.PQR(**QUICK, anchor_reward=lambda s: g[s[:, 0].astype(int)])

    def error(steps):
        squares = [
            np.mean(
                (model.fit(world.simulate(steps=steps, units=100, seed=seed)).reward(world.states)
                 - world.mdp.reward)[:, 1:] ** 2
            )
            for seed in range(12)
        ]  # fmt: skip
        return np.sqrt(np.mean(squares))

    ratio = error(2_000) / error(32_000)
    assert abs(np.log(ratio / 4)) < 0.45


def test_many_decisions_are_within_monte_carlo_error():
    """Four standard errors of log pi and of the continuation, from their counts."""
    world = random_tabular(seed=21)
    g = world.mdp.reward[:, 0]
    panel = world.simulate(steps=200_000, units=1_000, seed=22)
    fit = deeppqr.PQR(**QUICK, anchor_reward=lambda s: g[s[:, 0].astype(int)]).fit(panel)
    policy = np.exp(world.solution.log_policy)
    visits = np.bincount(panel.state[:, 0].astype(int))[:, None] * policy
    spread = world.solution.value.std()
    # One standard error of alpha log pi is sqrt((1 - pi) / n(s, a)), of a mean of V it is
    # at most sd(V) / sqrt(n(s, a)); the anchor's errors pass through 1 / (1 - discount).
    own = np.sqrt((1 - policy) / visits) + 0.9 * spread / np.sqrt(visits)
    bound = 4 * (own + own[:, :1].max() / (1 - 0.9))
    assert (np.abs(fit.reward(world.states) - world.mdp.reward) < bound).all()


def test_states_as_frames_categories_and_arrays():
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "id": np.repeat(np.arange(60), 20),
            "t": np.tile(np.arange(20), 60),
            "miles": rng.uniform(0, 10, 1_200),
            "kind": rng.choice(["bus", "tram"], 1_200),
            "act": rng.choice(["wait", "fix"], 1_200),
        }
    )
    panel = Panel.from_frame(
        frame, state=["miles", "kind"], action="act", unit="id", time="t"
    )
    fit = deeppqr.PQR(discount=0.9, anchor="wait", policy="logit", reward="regression").fit(
        panel
    )
    assert fit.actions == ("fix", "wait")
    assert fit.anchor == "wait"
    from_frame = fit.reward(frame)
    from_array = fit.reward(frame[["miles", "kind"]].to_numpy())
    np.testing.assert_array_equal(from_frame, from_array)
    with pytest.raises(DataError, match="category 'boat'"):
        fit.reward(frame.with_columns(kind=pl.lit("boat")))
    with pytest.raises(DataError, match="`state` names the column 'kind'"):
        fit.reward(frame.drop("kind"))
    with pytest.raises(DataError, match=r"must have 2 columns \(miles, kind\)"):
        fit.reward(np.zeros((3, 3)))


def test_functions_of_the_state_get_the_columns_as_they_were(rng):
    seen = []

    def anchor_reward(states):
        seen.append(states)
        return np.where(states[:, 1] == "a", 1.0, 0.0)

    frame = {
        "x": rng.normal(size=40),
        "k": rng.choice(["a", "b"], 40),
        "y": rng.integers(0, 2, 40),
    }
    panel = Panel.from_frame(pl.DataFrame(frame), state=["x", "k"], action="y")
    fit = deeppqr.PQR(
        discount=0.5,
        anchor=0,
        anchor_reward=anchor_reward,
        policy="logit",
        reward="regression",
    ).fit(panel)
    assert all(states.shape[1] == 2 for states in seen)
    expected = np.where(frame["k"] == "a", 1.0, 0.0)
    np.testing.assert_array_equal(fit.reward(pl.DataFrame(frame))[:, 0], expected)


def test_zero_probabilities_are_clipped_and_reported(tabular):
    from sklearn.tree import DecisionTreeClassifier

    _world, panel = tabular
    few = panel.select(panel.unit < 2)
    with np.errstate(all="raise"):
        fit = deeppqr.PQR(**QUICK, policy=DecisionTreeClassifier()).fit(panel)
    assert fit.diagnostics["clipped_share"].value == 0
    deep = DecisionTreeClassifier(min_samples_leaf=1)
    narrow = Panel.from_arrays(
        few.state + np.linspace(0, 0.1, len(few))[:, None],
        few.action,
        few.next_state,
        unit=few.unit,
    )
    fit = deeppqr.PQR(**QUICK, policy=deep).fit(narrow)
    assert fit.diagnostics["clipped_share"].value > 0.5
    assert fit.diagnostics["clipped_share"].verdict == "trouble"
    assert np.isfinite(fit.reward(narrow.state)).all()


def test_asking_for_clipping(tabular):
    _, panel = tabular
    fit = deeppqr.PQR(**QUICK, clip=0.2).fit(panel)
    assert fit.diagnostics["clipped_share"].value > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 1.0}, r"`discount` must lie in \[0, 1\), but it is 1.0"),
        ({"discount": -0.1}, r"`discount` must lie in \[0, 1\), but it is -0.1"),
        ({"discount": float("nan")}, r"`discount` must lie in \[0, 1\)"),
        ({"temperature": 0.0}, "`temperature` must be positive and finite"),
        ({"temperature": -1.0}, "`temperature` must be positive and finite"),
        ({"clip": 0.7}, "`clip` must be a small probability"),
        ({"policy": "deep"}, "`policy` must be one of"),
        (
            {"policy": LogisticRegression},
            r"must be an instance, but the class LogisticRegression",
        ),
        (
            {"reward": LogisticRegression()},
            "`reward` needs a regressor, but LogisticRegression",
        ),
        ({"seed": -1}, "`seed` must be a whole number, 0 or more, but it is -1"),
    ],
)
def test_settings_are_refused_at_once(change, message):
    with pytest.raises(DataError, match=message):
        deeppqr.PQR(**{**QUICK, **change})


def test_panels_are_refused_in_words(tabular):
    _, panel = tabular
    with pytest.raises(
        DataError,
        match=r"`anchor` must be one of the actions \[0, 1, 2\], but it is 'none'",
    ):
        deeppqr.PQR(discount=0.9, anchor="none").fit(panel)
    with pytest.raises(
        DataError, match="names the column 'g', which is not a state column"
    ):
        deeppqr.PQR(**QUICK, anchor_reward="g").fit(panel)
    with pytest.raises(
        DataError, match="must be a finite number, the name of a state column"
    ):
        deeppqr.PQR(**QUICK, anchor_reward=None).fit(panel)
    with pytest.raises(
        DataError, match=r"one number per state, shape \(.*the function returned shape \(\)"
    ):
        deeppqr.PQR(**QUICK, anchor_reward=lambda s: 1.0).fit(panel)
    with pytest.raises(DataError, match="the function returned nan"):
        deeppqr.PQR(**QUICK, anchor_reward=lambda s: np.full(len(s), np.nan)).fit(panel)
    with pytest.raises(DataError, match="with 3 actions, but its shape is"):
        deeppqr.PQR(**LAW_KNOWN, transition=np.ones((7, 2, 7)) / 7).fit(panel)


def test_numbers_as_text_are_refused():
    with pytest.raises(DataError, match="`discount` must be a number, but '0.9' arrived"):
        check_preferences("0.9", 1.0)


def test_a_frame_is_not_a_panel():
    with pytest.raises(
        DataError, match=r"needs a Panel, but a DataFrame arrived. Build one"
    ):
        require_panel(pl.DataFrame({"x": [1]}))


def test_actions_that_lead_nowhere_seen(tabular):
    """Taken, but only where the next state is unknown or the weight is zero."""
    _, panel = tabular
    last = np.append(np.diff(panel.unit) != 0, True)
    after = panel.next_state.copy()
    action = np.where((panel.action == 2) & ~last, 1, panel.action)
    action[np.flatnonzero(last)[0]] = 2
    after[last] = np.nan
    once = Panel.from_arrays(panel.state, action, after, unit=panel.unit)
    with pytest.raises(
        deeppqr.ActionNeverTaken, match="The action 2 is taken in .* is not identified"
    ):
        deeppqr.PQR(**QUICK).fit(once)
    weight = np.where((panel.action == 0) & ~last, 0.0, 1.0)
    light = Panel.from_arrays(
        panel.state, panel.action, after, unit=panel.unit, weight=weight
    )
    with pytest.raises(
        deeppqr.AnchorNeverTaken, match="in none of them is the next state known"
    ):
        deeppqr.PQR(**QUICK).fit(light)


def test_actions_that_never_occur():
    state = np.zeros((4, 1))
    panel = Panel.from_arrays(state, [1, 2, 1, 2], state, actions=[0, 1, 2])
    with pytest.raises(
        deeppqr.AnchorNeverTaken,
        match="The anchor 0 is taken in none of the 4 rows that have weight",
    ):
        deeppqr.PQR(discount=0.9, anchor=0).fit(panel)
    with pytest.raises(
        deeppqr.ActionNeverTaken, match="The action 0 is never taken in this panel"
    ):
        deeppqr.PQR(discount=0.9, anchor=1).fit(panel)
    unseen = np.where(np.array([[1], [2], [1], [2]]) == 1, np.nan, 0.0)
    panel = Panel.from_arrays(state, [1, 2, 1, 2], unseen)
    with pytest.raises(
        deeppqr.AnchorNeverTaken, match="in none of them is the next state known"
    ):
        deeppqr.PQR(discount=0.9, anchor=1).fit(panel)


def test_a_rare_anchor_warns():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(1_000, 1))
    action = np.where(np.arange(1_000) < 5, 0, rng.integers(1, 3, 1_000))
    panel = Panel.from_arrays(state, action, state, unit=np.arange(1_000) % 50)
    with pytest.warns(deeppqr.WeakOverlapWarning, match="was taken in 5 of 1,000 rows"):
        deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="regression").fit(panel)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 10.0])
@pytest.mark.parametrize("seed", [0])
def test_default_beats_q_read_as_reward_on_the_papers_world(scale, seed):
    world = PaperWorld(p=5, reward_scale=scale, seed=seed)
    fit = deeppqr.PQR(discount=0.9, anchor=0).fit(
        world.simulate(steps=50_000, seed=100 + seed)
    )
    states = world.simulate(steps=50_000, seed=200 + seed).state[::10]
    truth, q = world.reward(states), fit.q(states)
    error = np.mean((fit.reward(states) - truth)[:, 1:] ** 2)
    assert error < np.mean((q - q[:, :1] - truth)[:, 1:] ** 2)
    assert error < np.mean((q - truth)[:, 1:] ** 2)
    assert error < np.mean(truth[:, 1:] ** 2)


def test_rewards_that_are_handed_out_are_copies(tabular):
    """Writing into what `reward` returned changes no later answer, nor the fit's own."""
    world, panel = tabular
    fit = deeppqr.PQR(**QUICK, anchor_reward=0.5).fit(panel)
    first = fit.reward(world.states)
    kept = first.copy()
    first[:] = np.nan
    np.testing.assert_array_equal(fit.reward(world.states), kept)
    raw = fit.reward_function(world.states, fit.estimate)
    before = raw.copy()
    filled = with_known(fit.estimate, world.states, raw)
    np.testing.assert_array_equal(raw, before)
    np.testing.assert_array_equal(filled[:, 0], 0.5)

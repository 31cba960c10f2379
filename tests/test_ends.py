"""Ends under known laws: the chance that a row lacks to one, and states that are terminal."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deeppqr
from deeppqr import AbsorbingStateWarning, DataError, Panel
from deeppqr.baselines import NFXP, NPL, CountedLaw, KnownLaw, LinearReward
from deeppqr.counterfactual import demand
from deeppqr.mdp import Law, TabularMDP, solve_soft
from deeppqr.worlds import TabularWorld
from oracles import value_iteration


def with_ends(num_states, num_ends, num_actions, *, discount, temperature, seed):
    """A law in which the last states are ends that are never left, and the truth before."""
    rng = np.random.default_rng(seed)
    total = num_states + num_ends
    moves = rng.dirichlet(np.ones(total), size=(total, num_actions))
    moves[num_states:] = np.eye(total)[num_states:, None]
    reward = rng.normal(size=(num_states, num_actions))
    going = moves[:num_states, :, :num_states]
    return moves, going, TabularMDP(reward, going, discount, temperature)


@settings(max_examples=40, deadline=None)
@given(
    num_states=st.integers(1, 8),
    num_ends=st.integers(1, 3),
    num_actions=st.integers(2, 4),
    discount=st.floats(0.0, 0.999),
    temperature=st.floats(0.1, 10.0),
    seed=st.integers(0, 10_000),
)
def test_a_process_that_ends_is_recovered(
    num_states, num_ends, num_actions, discount, temperature, seed
):
    """Theorem 1 with ends: marked as terminal, or as rows that sum to less than one."""
    agent = {"discount": discount, "temperature": temperature}
    sizes = (num_states, num_ends, num_actions)
    moves, going, truth = with_ends(*sizes, **agent, seed=seed)
    solution = solve_soft(truth)
    known = {**agent, "anchor": 0, "anchor_reward": truth.reward[:, 0]}
    short = deeppqr.exact(solution.log_policy, going, **known)
    # What is done in a terminal state is not read: its policy may be missing.
    policy = np.full((num_states + num_ends, num_actions), np.nan)
    policy[:num_states] = solution.log_policy
    known["anchor_reward"] = np.append(truth.reward[:, 0], np.zeros(num_ends))
    over = np.arange(len(policy)) >= num_states
    marked = deeppqr.exact(policy, moves, terminal=over, **known)
    scale = max(1.0, np.abs(solution.q).max())
    tol = 1e-12 * scale / (1 - discount)
    for found in (short, marked):
        rows = slice(num_states)
        np.testing.assert_allclose(found.reward[rows], truth.reward, atol=tol, rtol=0)
        np.testing.assert_allclose(found.q[rows], solution.q, atol=tol, rtol=0)
        np.testing.assert_allclose(found.value[rows], solution.value, atol=tol, rtol=0)
    np.testing.assert_array_equal(marked.value[over], 0.0)
    assert np.isnan(marked.q[over]).all()
    assert np.isnan(marked.reward[over]).all()


def test_an_exit_by_hand():
    """One state; to stop earns 2 and ends. V = log(e^2 + e^(r + discount V)), r(go) = -1."""
    value = 2.0
    for _ in range(200):
        value = np.logaddexp(2.0, -1.0 + 0.5 * value)
    policy = np.array([[2.0, -1.0 + 0.5 * value]]) - value
    moves = np.array([[[0.0], [1.0]]])
    found = deeppqr.exact(policy, moves, discount=0.5, anchor=0, anchor_reward=2.0)
    np.testing.assert_allclose(found.reward, [[2.0, -1.0]], atol=1e-12)
    np.testing.assert_allclose(found.value, [value], atol=1e-12)


def test_the_forward_problem_ends():
    """Against a naive loop, and against an end as a state of its own that is worth zero."""
    moves, going, truth = with_ends(5, 1, 3, discount=0.5, temperature=0.7, seed=3)
    found = solve_soft(truth)
    slow = value_iteration(truth.reward, going, 0.5, 0.7, sweeps=60)
    np.testing.assert_allclose(found.value, slow, atol=1e-12)
    # An action of the end pays what three equal ones are worth as a choice, with a minus.
    paid = np.vstack([truth.reward, np.full((1, 3), -0.7 * np.log(3))])
    whole = solve_soft(TabularMDP(paid, moves, 0.5, 0.7))
    np.testing.assert_allclose(whole.value, np.append(found.value, 0.0), atol=1e-12)


# ---- states that are never left, and nobody said that they are ends


def test_what_the_warning_says_to_paste_is_right():
    moves, _, truth = with_ends(4, 2, 3, discount=0.9, temperature=1.0, seed=1)
    solution = solve_soft(truth)
    uniform = np.full((2, 3), -np.log(3))
    policy = np.vstack([solution.log_policy, uniform])
    known = {"discount": 0.9, "anchor": 0}
    known["anchor_reward"] = np.append(truth.reward[:, 0], [0.0, 0.0])
    message = r"State 4 of `transition` is never left, .* \(2 such states\), and is valued"
    with pytest.warns(AbsorbingStateWarning, match=message) as caught:
        wrong = deeppqr.exact(policy, moves, **known)
    spread = np.ptp(solution.value)
    assert np.abs(wrong.value[:4] - solution.value).max() > 3 * spread
    marks, terminal, silence = re.findall("`([^`]+)`", str(caught[0].message))[1:]
    names = {"np": np, "transition": moves.copy(), "deeppqr": deeppqr}
    exec(marks, names)
    right = deeppqr.exact(policy, names["transition"], **known)
    also = deeppqr.exact(policy, moves, **known, terminal=eval(terminal[9:], names))
    for found in (right, also):
        np.testing.assert_allclose(found.reward[:4], truth.reward, atol=1e-11)
    with warnings.catch_warnings():
        exec(silence, {"warnings": warnings, "deeppqr": deeppqr})
        deeppqr.exact(policy, moves, **known)


def test_no_warning_without_need():
    """None where `terminal` was given, nor for a state that nothing leads to."""
    moves, _, _ = with_ends(4, 1, 2, discount=0.9, temperature=1.0, seed=2)
    policy = np.full((5, 2), -np.log(2))
    known = {"discount": 0.9, "anchor": 0}
    deeppqr.exact(policy, moves, **known, terminal=np.zeros(5, bool))
    deeppqr.exact(policy[:1], np.ones((1, 2, 1)), **known)
    stay = np.eye(5)[:, None].repeat(2, axis=1)
    deeppqr.exact(policy, stay, **known)
    # One action that leads out is enough: Rust's last bin.
    moves[4, 1] = np.eye(5)[0]
    deeppqr.exact(policy, moves, **known)


# ---- panels with terminal rows


@pytest.fixture(scope="module")
def ended():
    """Six states and an end, simulated; decisions up to the end, which is a terminal row."""
    moves, going, truth = with_ends(6, 1, 3, discount=0.9, temperature=1.0, seed=4)
    # V = 0 at the end of this world: every action there pays -log 3.
    paid = np.vstack([truth.reward, np.full((1, 3), -np.log(3))])
    world = TabularWorld(TabularMDP(paid, moves, 0.9))
    panel = cut(world.simulate(steps=60_000, units=1_000, seed=5), end=6.0)
    return truth, moves, going, panel


def cut(panel, *, end):
    """The decisions before the end, those that led to it terminal."""
    rows = panel.state[:, 0] != end
    over = panel.next_state[rows, 0] == end
    return Panel.from_arrays(
        panel.state[rows],
        panel.action[rows],
        panel.next_state[rows],
        unit=panel.unit[rows],
        terminal=over,
        actions=panel.actions,
        state_names=["s"],
    )


def as_function(table, *, nan=False):
    """The table as a function: with missing probability, or with NaN, at the end."""
    size = len(table)
    outcomes = np.append(np.arange(size), np.nan) if nan else np.arange(size)

    def function(states, action):
        law = table[states[:, 0].astype(int), action]
        if nan:
            law = np.column_stack([law, 1 - law.sum(axis=1)])
        return np.broadcast_to(outcomes[:, None], (len(states), len(outcomes), 1)), law

    return function


STATES = np.arange(6.0)[:, None]


def laws(moves, going):
    """Every way to say the same law."""
    zeroed = moves.copy()
    zeroed[:, :, 6] = 0.0
    shuffled = np.array([6, 3, 0, 5, 1, 4, 2])
    named = (shuffled[:, None].astype(float), moves[shuffled][:, :, shuffled])
    return {
        "less than one": going,
        "an end that is never left": moves,
        "an end that nothing leads to": zeroed,
        "named states": named,
        "function": as_function(going),
        "function with NaN": Law(as_function(going, nan=True)),
    }


@pytest.mark.filterwarnings("ignore::deeppqr.WeakOverlapWarning")
@pytest.mark.parametrize("name", list(laws(np.zeros((7, 3, 7)), np.zeros((6, 3, 6)))))
def test_every_known_law_knows_the_end(ended, name):
    """With the true policy r is exact; with frequencies all laws give the same."""
    truth, moves, going, panel = ended
    law = laws(moves, going)[name]
    solution = solve_soft(truth)
    g = truth.reward[:, 0]
    known = {"discount": 0.9, "anchor": 0}
    known["anchor_reward"] = lambda states: g[states[:, 0].astype(int)]
    # Fails at the end: nothing may ask for a policy there.
    policy = lambda states: solution.log_policy[states[:, 0].astype(int)]
    fit = deeppqr.PQR(**known, policy=policy, transition=law).fit(panel)
    tol = 1e-10 / (1 - 0.9)
    np.testing.assert_allclose(fit.reward(STATES), truth.reward, atol=tol)
    np.testing.assert_allclose(fit.value(STATES), solution.value, atol=tol)
    counted = deeppqr.PQR(**known, policy="frequency", transition=law).fit(panel)
    found = deeppqr.exact(
        counted.log_policy(STATES), going, anchor_reward=g, discount=0.9, anchor=0
    )
    np.testing.assert_allclose(counted.reward(STATES), found.reward, atol=tol)


def test_estimates_are_within_their_errors(ended):
    truth, _, going, panel = ended
    g = lambda states: truth.reward[states[:, 0].astype(int), 0]
    agent = {"discount": 0.9, "anchor": 0, "anchor_reward": g}
    fit = deeppqr.PQR(**agent, policy="frequency", transition=going).fit(panel)
    drawn = fit.bootstrap(panel, deeppqr.inference.RewardAt(STATES), replicates=60)
    error = np.abs(drawn.estimate - truth.reward)
    assert (error[:, 1:] < 4 * drawn.standard_errors[:, 1:]).all()


def test_the_end_is_no_state_of_the_fit(ended):
    _, moves, _, panel = ended
    model = deeppqr.PQR(discount=0.9, anchor=0, policy="frequency", transition=moves)
    fit = model.fit(panel)
    assert "transitions of 6 states, ends after 18 of 18 pairs" in str(fit.summary())
    with pytest.raises(DataError, match="knows 6 states, and row 0, .6.., is none of them"):
        fit.reward([[6.0]])


def test_a_table_that_is_never_left_warns_where_the_panel_has_no_end(ended):
    """Decisions in the state say that it is no end; the replicates do not repeat it."""
    _, moves, _, panel = ended
    goes = panel.select(~panel.terminal)
    model = deeppqr.PQR(discount=0.9, anchor=0, policy="frequency", transition=moves)
    with pytest.warns(AbsorbingStateWarning, match=r"`transition\[:, :, \[6\]\] = 0.0`"):
        fit = model.fit(goes)
    draws = fit.bootstrap(goes, deeppqr.inference.RewardAt(STATES), replicates=2)
    assert len(draws.draws) == 2


def test_a_panel_that_ends_where_the_law_goes_on_is_refused(ended):
    _, _, going, panel = ended
    surely = going / going.sum(axis=2, keepdims=True)
    known = {"discount": 0.9, "anchor": 0, "policy": "frequency"}
    message = r"goes on after 0 in the state \[\d\.\], but the panel has \d+ terminal rows"
    for law in (surely, as_function(surely)):
        with pytest.raises(DataError, match=message):
            deeppqr.PQR(**known, transition=law).fit(panel)
    with pytest.raises(DataError, match=r"`transition\[state, action\] \*= 1 - end`"):
        NFXP(
            0.9,
            LinearReward(("a",), lambda s: np.zeros((len(s), 3, 1))),
            KnownLaw(STATES, surely),
        ).fit(panel)


def test_draws_may_end():
    """E[V(s')] over samples of which a quarter, by the sign of the state, are ends."""

    def sample(states, action, rng):
        return np.where(rng.random(states.shape) < 0.25 * (states > 0), np.nan, states + 1)

    law = Law(sample, draws=4_000)
    states = np.array([[-1.0], [2.0]])
    found = law.expect(lambda after: after[:, 0], states, 0, common_value=0.0)
    error = 3 * np.sqrt(0.25 * 0.75 / 4_000)
    np.testing.assert_allclose(found, [0.0, 0.75 * 3], atol=4 * error)


def test_an_end_is_no_jump():
    """With a common draw the missing probability is its own; NaN is an end still."""

    def function(states, action):
        after = np.stack([states, np.full_like(states, np.nan)], axis=1)
        return after, np.full((len(states), 2), 0.25)

    law = Law(function, common=np.array([[8.0], [4.0]]))
    states = np.array([[2.0]])
    mean = law.common_mean(lambda after: after[:, 0])
    found = law.expect(lambda after: after[:, 0], states, 0, common_value=mean)
    np.testing.assert_allclose(found, 0.25 * 2 + 0.5 * 6)


# ---- structural baselines


def test_structural_estimators_know_the_end(ended):
    """A reward of six parameters, r(s, 1) as it is: the law known and counted, NFXP and NPL."""
    truth, moves, going, panel = ended

    def features(states):
        cell = states[:, 0].astype(int)
        phi = np.zeros((len(states), 3, 8))
        phi[np.arange(len(states)), 1, cell] = 1.0
        phi[:, 0, 6] = truth.reward[cell, 0]
        phi[:, 2, 7] = truth.reward[cell, 2]
        return phi

    names = (*(f"r{i}" for i in range(6)), "first", "last")
    form = LinearReward(names, features, fixed={"first": 1.0, "last": 1.0})
    fits = [
        NFXP(0.9, form, KnownLaw(STATES, going)).fit(panel),
        NFXP(0.9, form, KnownLaw(np.arange(7.0)[:, None], moves)).fit(panel),
        NFXP(0.9, form, CountedLaw()).fit(panel),
        NPL(0.9, form, CountedLaw()).fit(panel),
    ]
    for fit in fits:
        error = np.sqrt(np.diag(fit.covariance))[:6]
        assert (np.abs(fit.theta[:6] - truth.reward[:, 1]) < 4 * error).all()
    np.testing.assert_allclose(fits[0].theta, fits[1].theta, atol=1e-8)
    np.testing.assert_allclose(fits[2].theta, fits[3].theta, atol=1e-4)


def test_counted_ends(ended):
    """Shares by a loop, the likelihood of moves, and the pull of an end on the law."""
    panel = ended[3]
    _, law = CountedLaw().fit(panel)
    count = np.zeros((6, 3, 7))
    for state, action, after in zip(
        panel.state[:, 0], panel.action, panel.next_state[:, 0], strict=True
    ):
        count[int(state), action, 6 if np.isnan(after) else int(after)] += 1
    share = count / count.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(law.transition, share[:, :, :6], atol=1e-15)
    expected = np.sum(count * np.log(share, where=count > 0, out=np.zeros_like(share)))
    np.testing.assert_allclose(law.log_likelihood, expected)
    # Innovations of V(s') have mean zero in each pair, ends among them.
    step = law.first_step(np.arange(6.0), np.ones((6, 3, 1)))
    np.testing.assert_allclose(step.pull.sum(), 0.0, atol=1e-10)


# ---- messages


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m * 1.5, r"none negative, that sum to at most one, .* sum to 1\.5"),
        (lambda m: m - np.eye(7)[0], r"state 0, action 0 sum to \S+ with smallest entry -"),
        (lambda m: np.where(m == m[2, 1, 3], np.nan, m), r"state 2, action 1 sum to nan"),
    ],
)
def test_what_is_no_law_is_refused(change, message):
    moves, _, _ = with_ends(6, 1, 3, discount=0.9, temperature=1.0, seed=6)
    policy = np.full((7, 3), -np.log(3))
    with pytest.raises(DataError, match=message):
        deeppqr.exact(policy, change(moves), discount=0.9, anchor=0)
    with pytest.raises(DataError, match=message):
        TabularMDP(np.zeros((7, 3)), change(moves), 0.9)


@pytest.mark.parametrize(
    ("terminal", "message"),
    [
        (np.zeros(6, bool), r"booleans of shape \(7,\), .* bool of shape \(6,\) arrived"),
        (
            np.array([5, 6]),
            r"int64 of shape \(2,\) arrived. From the states' numbers: `ter",
        ),
    ],
)
def test_terminal_is_a_mask(terminal, message):
    policy = np.full((7, 3), -np.log(3))
    moves = np.full((7, 3, 7), 1 / 7)
    with pytest.raises(DataError, match=message):
        deeppqr.exact(policy, moves, discount=0.9, anchor=0, terminal=terminal)


def test_what_goes_on_forever_refuses_ends():
    _, going, truth = with_ends(6, 1, 3, discount=0.9, temperature=1.0, seed=6)
    with pytest.raises(DataError, match="that sum to one, but those of state 0, action 0"):
        demand(truth.reward, going, discount=0.9, action=1, transfers=0.0)
    with pytest.raises(DataError, match="that sum to one, but those of state 0, action 0"):
        TabularWorld(truth)

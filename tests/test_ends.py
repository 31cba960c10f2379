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


# Two small random chances of an end may look like rounding.
@pytest.mark.filterwarnings("ignore::deeppqr.RoundedTransitionWarning")
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


@pytest.mark.filterwarnings("ignore::deeppqr.RoundedTransitionWarning")
@settings(max_examples=40, deadline=None)
@given(
    num_states=st.integers(2, 7),
    num_ends=st.integers(1, 3),
    discount=st.floats(0.0, 0.99),
    sure=st.floats(0.0, 0.6),
    seed=st.integers(0, 10_000),
)
def test_both_marks_at_once(num_states, num_ends, discount, sure, seed):
    """Theorem 1 where rows are short and lead to terminal states too, some of them surely:
    with every end as a terminal state it is the same problem."""
    rng = np.random.default_rng(seed)
    sizes = {"discount": discount, "temperature": 1.0, "seed": seed}
    moves, _, _ = with_ends(num_states, num_ends, 3, **sizes)
    moves = moves[:num_states] * rng.uniform(0.2, 1.0, (num_states, 3, 1))
    moves[rng.random((num_states, 3)) < sure] = 0.0
    reward = rng.normal(size=(num_states, 3))
    truth = TabularMDP(reward, moves[:, :, :num_states], discount)
    solution = solve_soft(truth)
    whole = num_states + num_ends
    policy = np.full((whole, 3), np.nan)
    policy[:num_states] = solution.log_policy
    over = np.arange(whole) >= num_states
    # What is written in the rows of a terminal state is not read either.
    law = np.zeros((whole, 3, whole))
    law[:num_states] = moves
    law[num_states:] = rng.dirichlet(np.ones(whole), size=(num_ends, 3))
    g = np.append(reward[:, 1], np.zeros(num_ends))
    known = {"discount": discount, "anchor": 1, "anchor_reward": g}
    found = deeppqr.exact(policy, law, terminal=over, **known)
    tol = 1e-12 * max(1.0, np.abs(solution.q).max()) / (1 - discount)
    np.testing.assert_allclose(found.reward[:num_states], reward, atol=tol, rtol=0)
    np.testing.assert_allclose(found.value[:num_states], solution.value, atol=tol, rtol=0)


# ---- rows that miss one by rounding


def rounded(transition, decimals=3):
    """Rounded down, as a table written with few decimals."""
    return np.floor(transition * 10**decimals) / 10**decimals


@pytest.mark.parametrize("cut", ["rounded", "tail", "float32"])
def test_a_row_that_is_short_by_rounding_warns(cut):
    world = deeppqr.worlds.random_tabular(num_states=6, num_actions=3, seed=0)
    moves, solution = world.mdp.transition, world.solution
    g = world.mdp.reward[:, 0]
    short = {
        "rounded": rounded(moves),
        "tail": np.where(moves > 0.002, moves, 0.0),
        "float32": moves * (1 - 3e-7),
    }[cut]
    known = {"discount": world.mdp.discount, "anchor": 0, "anchor_reward": g}
    message = (
        r"miss one by up to .* of 18 rows \(the first is state \d, action \d, which sums"
    )
    with pytest.warns(deeppqr.RoundedTransitionWarning, match=message) as caught:
        wrong = deeppqr.exact(solution.log_policy, short, **known)
    names = {"np": np, "transition": short, "deeppqr": deeppqr, "warnings": warnings}
    total, paste, silence = re.findall("`([^`]+)`", str(caught[0].message))[1:]
    exec(total, names)
    exec(paste, names)
    right = deeppqr.exact(solution.log_policy, names["transition"], **known)
    away = [np.abs(one.reward - world.mdp.reward).max() for one in (wrong, right)]
    assert away[1] < 0.5 * away[0]
    with warnings.catch_warnings():
        exec(silence, names)
        deeppqr.exact(solution.log_policy, short, **known)


def test_ends_that_are_no_rounding_do_not_warn():
    """A chance of more than a hundredth somewhere, a sure end, rounding in the ninth
    decimal, and an end of its own state that has the chance."""
    policy = np.full((4, 2), -np.log(2))
    moves = np.random.default_rng(0).dirichlet(np.ones(4), size=(4, 2))
    hazard, sure, tiny = moves * 0.999, moves.copy(), moves * (1 - 1e-9)
    hazard[0, 0] = moves[0, 0] * 0.95
    sure[2, 1] = 0.0
    for law in (hazard, sure, tiny):
        deeppqr.exact(policy, law, discount=0.9, anchor=0)
    marked = np.zeros((5, 2, 5))
    marked[:4, :, :4], marked[:4, :, 4] = moves * 0.999, 0.001
    over = np.arange(5) == 4
    policy = np.full((5, 2), -np.log(2))
    deeppqr.exact(policy, marked, discount=0.9, anchor=0, terminal=over)
    # A sure end beside rounded rows does not hide them.
    sure = rounded(sure)
    with pytest.warns(deeppqr.RoundedTransitionWarning, match="in 7 of 8 rows"):
        deeppqr.exact(policy[:4], sure, discount=0.9, anchor=0)


def test_a_rounded_law_of_a_panel_warns_unless_the_panel_ends_there():
    world = deeppqr.worlds.random_tabular(num_states=6, num_actions=3, seed=0)
    panel = world.simulate(steps=2_000, units=20, seed=1)
    short = rounded(world.mdp.transition)
    model = {"discount": 0.9, "anchor": 0, "policy": "frequency"}
    with pytest.warns(deeppqr.RoundedTransitionWarning, match=r"of 18 rows"):
        fit = deeppqr.PQR(**model, transition=short).fit(panel)
    fit.bootstrap(panel, deeppqr.inference.RewardAt(STATES), replicates=1)
    function = as_function(short)
    with pytest.warns(deeppqr.RoundedTransitionWarning, match="under 0, which sum to 0.99"):
        deeppqr.PQR(**model, transition=function).fit(panel)
    # A common draw, or an end by name, takes the rest.
    common = Law(function, common=STATES)
    deeppqr.PQR(**model, transition=common).fit(panel)
    deeppqr.PQR(**model, transition=Law(as_function(short, nan=True))).fit(panel)
    ends = Panel.from_arrays(
        panel.state,
        panel.action,
        panel.next_state,
        unit=panel.unit,
        terminal=np.arange(len(panel)) % 400 == 399,
        state_names=["s"],
    )
    for law in (short, function):
        deeppqr.PQR(**model, transition=law).fit(ends)


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
    note = fit.stages["anchor_value"]
    assert "transitions of 6 states, ends after 18 of 18 pairs" in note
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
    with pytest.raises(DataError, match="needs decisions in the long run, but the proc"):
        demand(truth.reward, going, discount=0.9, action=1, transfers=0.0)
    with pytest.raises(DataError, match="that sum to one, but those of state 0, action 0"):
        TabularWorld(truth)

"""Special anchors: exits, self-loops and renewals, recognised and used."""

import dataclasses
from typing import Any

import jax.random as jr
import numpy as np
import pytest

import deeppqr
from deeppqr import DataError, Panel
from deeppqr.anchor import Linear, Renewal, _structure
from deeppqr.anchor._exact import Exact
from deeppqr.anchor._problem import AnchorProblem, LogProbBonus
from deeppqr.anchor._structure import ConstantFunction, Exit, SelfLoop, recognise
from deeppqr.anchor._value import anchor_problem
from deeppqr.mdp import TabularMDP
from deeppqr.policy._policy import AbstractPolicy
from deeppqr.worlds import KnownCostBus, SamqBus, TabularWorld, random_tabular

MOVES = {
    "renewal": lambda moves: np.broadcast_to(moves[:1], moves.shape),
    "self-loop": lambda moves: np.eye(len(moves)),
    "one state": lambda moves: np.broadcast_to(np.eye(len(moves))[2], moves.shape),
}


class TruePolicy(AbstractPolicy):
    """A world's own policy, to study one stage at a time."""

    def __init__(self, world):
        self.world = world

    def log_prob(self, state):
        return self.world.log_policy(state)


def special(structure, *, discount=0.9, seed=4):
    """A random world whose anchor, action 0, has a special structure."""
    base = random_tabular(discount=discount, seed=seed).mdp
    moves = base.transition.copy()
    moves[:, 0] = MOVES[structure](moves[:, 0])
    return TabularWorld(TabularMDP(base.reward, moves, discount))


def problem_of(world, panel, discount=None):
    policy = TruePolicy(world)
    discount = world.discount if discount is None else discount
    return anchor_problem(panel, policy, LogProbBonus(policy, 0), 0, discount=discount)


def problem_from(state, after, ends=None, bonus=None):
    """Anchor rows without a world; the policy is uniform over two actions."""
    ends = np.zeros(len(state), bool) if ends is None else ends
    seen = np.concatenate([state, after[~ends]])
    return AnchorProblem(
        state,
        after,
        ends,
        np.ones(len(state)),
        log_prob=lambda states: np.full((len(states), 2), -np.log(2)),
        bonus=bonus or (lambda states: states[:, 0]),
        query_states=seen,
        discount=0.9,
        anchor_label=0,
    )


def continuation(solution, problem, states):
    return solution.continuation(states, problem.log_prob(states))


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.9999])
@pytest.mark.parametrize("structure", MOVES)
def test_the_formula_is_the_exact_solution(structure, discount, key):
    """With the true policy and every state's moves: h = P_A(bonus + discount h)."""
    world = special(structure, discount=discount)
    num_states = len(world.states)
    state, after = np.divmod(np.arange(num_states**2), num_states)
    panel = Panel.from_arrays(
        state[:, None] * 1.0,
        np.zeros(num_states**2, int),
        after[:, None] * 1.0,
        weight=world.mdp.transition[:, 0].ravel(),
        actions=[0, 1, 2],
    )
    solver = SelfLoop() if structure == "self-loop" else Renewal(check=False)
    g = lambda states: world.reward(states)[:, 0]
    ahead = 0.0
    for bonus in (LogProbBonus(TruePolicy(world), 0), g):
        problem = anchor_problem(panel, TruePolicy(world), bonus, 0, discount=discount)
        solution = solver.solve(problem, key=key)
        assert solution.residual < 1e-11 / (1 - discount)
        ahead = ahead + continuation(solution, problem, world.states)
    exact = deeppqr.exact(
        world.solution.log_policy,
        world.mdp.transition,
        discount=discount,
        anchor=0,
        anchor_reward=world.mdp.reward[:, 0],
    )
    np.testing.assert_allclose(
        world.mdp.reward[:, 0] + discount * ahead,
        exact.q[:, 0],
        atol=1e-11 / (1 - discount),
    )


def test_renewals_may_end(key, rng):
    """h = b / (1 - discount q), as the table has it where rows end at random."""
    state = np.repeat([[0.0], [1.0], [2.0]], 300, axis=0)
    ends = np.tile(np.arange(300) % 5 == 0, 3)
    after = np.tile(rng.integers(0, 3, size=(300, 1)), (3, 1)).astype(float)
    problem = problem_from(state, np.where(ends[:, None], np.nan, after), ends)
    exact = continuation(Exact().solve(problem, key=key), problem, state)
    found = Renewal().solve(problem, key=key)
    np.testing.assert_allclose(continuation(found, problem, state), exact, atol=1e-12)


@pytest.mark.parametrize(
    ("structure", "words"),
    [
        ("renewal", "renewal: recognised: where the anchor leads does not depend on"),
        ("self-loop", "self-loop: recognised: the anchor leaves the state as it is in all"),
        ("one state", "renewal: recognised: the anchor leads to one and the same state"),
    ],
)
def test_pqr_recognises_them_in_data(structure, words):
    world = special(structure)
    panel = world.simulate(steps=10_000, units=100, seed=1)
    model = deeppqr.PQR(
        discount=0.9,
        anchor=0,
        anchor_reward=lambda s: world.reward(s)[:, 0],
        reward="regression",
    )
    fit = model.fit(panel)
    assert words in fit.stages["anchor_value"]
    table = dataclasses.replace(model, anchor_value="exact").fit(panel)
    error = lambda fit: np.abs(fit.reward(world.states) - world.mdp.reward).max()
    # Where the law is certain the table counts it without error, and both are one.
    if structure != "renewal":
        assert error(fit) == pytest.approx(error(table), rel=1e-6)
    # A renewal's formula pools the anchor's rows: 0.76 to 1.08 on panels of seeds 1 to 6.
    assert error(fit) < 1.2 * error(table)


def test_pqr_recognises_exits(rng):
    state, action = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    after = np.where(action[:, None] == 0, np.nan, rng.normal(size=(400, 1)))
    panel = Panel.from_arrays(state, action, after, terminal=action == 0)
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=2.0, policy="logit", reward="regression"
    ).fit(panel)
    assert "exit: recognised: the process ends in all" in fit.stages["anchor_value"]
    np.testing.assert_allclose(fit.q(state)[:, 0], 2.0, atol=1e-14)
    value = 2.0 - fit.log_policy(state)[:, 0]
    np.testing.assert_allclose(fit.value(state), value, atol=1e-14)


def test_both_buses_are_renewals():
    bus = KnownCostBus()
    panel = bus.simulate(steps=4_000, units=100)
    settings = {"anchor": bus.anchor, "anchor_reward": bus.anchor_reward}
    quick: dict[str, Any] = {"policy": "logit", "reward": "regression"}
    fit = deeppqr.PQR(discount=bus.discount, **settings, **quick).fit(panel)
    assert "one and the same state" in fit.stages["anchor_value"]
    bus = SamqBus()
    fit = deeppqr.PQR(discount=bus.discount, anchor=bus.anchor, **quick).fit(
        bus.simulate(steps=5_000)
    )
    assert "does not depend on the state" in fit.stages["anchor_value"]


def test_ordinary_worlds_are_not_special(paper):
    for seed in range(10):
        world = random_tabular(seed=seed)
        panel = world.simulate(steps=5_000, seed=seed)
        assert recognise(problem_of(world, panel)) is None
    assert recognise(problem_of(*paper)) is None


def draws(seed, share, rows=1_000, columns=2):
    """Anchor rows that stay with probability `share` and are drawn anew otherwise."""
    rng = np.random.default_rng(seed)
    state, fresh = rng.normal(size=(2, rows, columns))
    return problem_from(state, np.where(rng.random((rows, 1)) < share, state, fresh))


def test_the_rule_errs_as_it_says():
    """A renewal is overlooked once in ten times at most, and as rarely a dependence of
    6 / sqrt(rows)."""
    found = lambda share: sum(
        recognise(draws(seed, share)) is not None for seed in range(40)
    )
    # 40 draws at 0.9 have a standard error of 1.9.
    assert found(0.0) >= 36 - 4 * 1.9
    assert found(6 / np.sqrt(1_000)) <= 4
    assert found(0.5) == 0


def test_small_samples_show_no_random_renewal():
    """300 rows would not show a correlation of 6 / sqrt(300) = 0.35 of the spread; next
    states that hardly differ need fewer."""
    assert recognise(draws(1, 0.0, rows=300)) is None
    wide = draws(1, 0.0, rows=300)
    narrow = dataclasses.replace(wide, next_state=wide.next_state / 10)
    structure = recognise(narrow)
    assert structure is not None
    assert structure.name == "renewal"
    assert recognise(problem_from(wide.state[:19], wide.state[:19])) is None


def test_curved_and_deadly_dependence_shows(rng):
    state, fresh = rng.normal(size=(2, 2_000, 3))
    curved = fresh.copy()
    curved[:, 0] += np.sin(3 * state[:, 0])
    assert _structure.dependence(problem_from(state, curved)).score > 5
    ends = rng.random(2_000) < 0.1 * (state[:, 0] > 0)
    found = _structure.dependence(problem_from(state, fresh, ends))
    assert found.target == "the end"
    assert found.score > 5


def test_in_one_state_staying_and_returning_look_the_same():
    here = np.ones((100, 1))
    assert recognise(problem_from(here, here)) is None


def test_rows_without_weight_do_not_count(rng):
    problem = draws(2, 1.0)
    problem.next_state[:10] += 1
    assert recognise(problem) is None
    weight = np.where(np.arange(1_000) < 10, 0.0, 1.0)
    structure = recognise(dataclasses.replace(problem, weight=weight))
    assert structure is not None
    assert structure.name == "self-loop"


@pytest.mark.parametrize("discount", [0.9, 0.9999])
def test_a_renewal_keeps_errors_small_at_any_discount(discount):
    """r's error is of the order of the policy's, not 1 / (1 - discount) times it."""
    world = special("renewal", discount=discount)
    g = lambda states: world.reward(states)[:, 0]
    panel = world.simulate(steps=20_000, units=100, seed=2)
    fit = deeppqr.PQR(
        discount=discount, anchor=0, anchor_reward=g, reward="regression"
    ).fit(panel)
    assert "renewal: recognised" in fit.stages["anchor_value"]
    size = lambda gap: np.sqrt(np.mean(gap**2))
    policy_error = size(fit.log_policy(world.states) - world.solution.log_policy)
    error = size((fit.reward(world.states) - world.mdp.reward)[:, 1:])
    assert error < 3 * policy_error < 0.3


@pytest.mark.parametrize("name", ["renewal", "self-loop", "exit"])
def test_they_are_stored(name, tmp_path, rng):
    """Also with g a function, which a self-loop needs at every state."""
    state = rng.normal(size=(300, 1))
    action = np.arange(300) % 2
    after = state if name == "self-loop" else np.zeros((300, 1))
    ends = (action == 0) & (name == "exit")
    after = np.where(ends[:, None], np.nan, after)
    panel = Panel.from_arrays(state, action, after, terminal=ends)
    g = lambda states: states[:, 0] ** 2
    fit = deeppqr.PQR(
        discount=0.9,
        anchor=0,
        anchor_reward=g,
        policy="logit",
        anchor_value=name,
        reward="regression",
    ).fit(panel)
    fit.save(tmp_path / "fit")
    again = deeppqr.load(tmp_path / "fit", anchor_reward=g)
    np.testing.assert_array_equal(again.q(state), fit.q(state))


def test_data_that_contradict_the_name_are_refused(tabular, key):
    world, panel = tabular
    problem = problem_of(world, panel)
    with pytest.raises(
        DataError, match=r"continues in 8,052 of 8,052 anchor rows. Mark rows"
    ):
        Exit().solve(problem, key=key)
    with pytest.raises(
        DataError,
        match=r"in [67],\d{3} of 8,052 anchor rows it does not; .* leads from \[\d\.\] to",
    ):
        SelfLoop().solve(problem, key=key)
    with pytest.raises(
        DataError, match=r"its column \d is predictable from it in 1,000 anchor rows"
    ):
        Renewal().solve(draws(1, 0.5), key=key)
    solution = Renewal(check=False).solve(problem, key=key)
    assert isinstance(solution.continuation, ConstantFunction)


def test_a_claimed_renewal_needs_no_proof():
    """Few rows, or a fluke below five standard errors, do not refute it."""
    few = draws(3, 0.0, rows=30)
    assert recognise(few) is None
    solution = Renewal().solve(few, key=jr.key(0))
    mean = few.next_state[:, 0].mean()
    np.testing.assert_allclose(
        continuation(solution, few, few.state), mean / (1 - 0.9), rtol=1e-12
    )


def test_the_structure_saves_variance(key):
    """Against the linear solve, given the true policy: h is one number, not 150."""
    world = SamqBus()
    problem = problem_of(world, world.simulate(steps=3_000, seed=3))
    states = problem.query_states[::10]
    truth = world.value(states) + world.log_policy(states)[:, 0]  # Q^A, as g = 0
    error = lambda solver: np.sqrt(
        np.mean(
            (0.9 * continuation(solver.solve(problem, key=key), problem, states) - truth)
            ** 2
        )
    )
    assert error(Renewal()) < error(Linear())

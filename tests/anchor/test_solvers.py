"""Q: every solver solves the same equation, and says how well."""

import dataclasses
import time

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import deeppqr
from deeppqr import AnchorNeverTaken, DataError, NotConvergedWarning, Panel
from deeppqr.anchor import Averager, Fitted, Linear, _auto
from deeppqr.anchor._anchor_reward import resolve_anchor_reward
from deeppqr.anchor._exact import Exact
from deeppqr.anchor._linear import LinearFunction
from deeppqr.anchor._value import anchor_problem
from deeppqr.learners._basis import Indicators, RandomFeatures
from deeppqr.policy import Training
from deeppqr.policy._policy import AbstractPolicy
from deeppqr.worlds import PaperWorld, random_tabular


class TruePolicy(AbstractPolicy):
    """A world's own policy, to study one stage at a time."""

    def __init__(self, world):
        self.world = world

    def log_prob(self, state):
        return self.world.log_policy(state)


def problem_of(world, panel, discount=None, anchor_reward=0.0):
    """The whole equation at once, by linearity: bonus g - log pi(anchor)."""
    known = resolve_anchor_reward(anchor_reward, panel.encoding)
    return anchor_problem(
        panel,
        TruePolicy(world),
        lambda states: known(states) - world.log_policy(states)[:, 0],
        0,
        discount=world.discount if discount is None else discount,
    )


def continuation(solution, problem, states):
    return solution.continuation(states, problem.log_prob(states))


ONE_HOT = make_pipeline(OneHotEncoder(), LinearRegression(fit_intercept=False))
TABULAR_SOLVERS = [
    Linear(),
    Linear(basis=Indicators()),
    Averager(),
    Fitted(ONE_HOT, tol=1e-12),
]


@pytest.mark.parametrize("solver", TABULAR_SOLVERS, ids=lambda s: type(s).__name__)
def test_every_solver_agrees_with_the_exact_one_on_a_table(
    solver, tabular, key, anchor_reward
):
    world, panel = tabular
    problem = problem_of(world, panel, anchor_reward=anchor_reward)
    exact = continuation(Exact().solve(problem, key=key), problem, world.states)
    found = continuation(solver.solve(problem, key=key), problem, world.states)
    np.testing.assert_allclose(found, exact, atol=1e-7)


def test_exact_solves_the_counted_equation(tabular, key):
    """The solution under the panel's own transition shares, by dense algebra."""
    from oracles import empirical_transition

    world, panel = tabular
    problem = problem_of(world, panel)
    moves = empirical_transition(panel, 7)[:, 0]
    bonus = -world.log_policy(world.states)[:, 0]
    expected = np.linalg.solve(np.eye(7) - 0.9 * moves, moves @ bonus)
    solution = Exact().solve(problem, key=key)
    np.testing.assert_allclose(
        continuation(solution, problem, world.states), expected, atol=1e-11
    )
    assert solution.residual < 1e-12


@pytest.mark.parametrize("solver", [Exact(), Linear(), Averager()], ids=str)
def test_direct_ways_are_quick_at_high_discounts(solver, tabular, key):
    world, panel = tabular
    problem = problem_of(world, panel, discount=0.9999)
    solver.solve(problem, key=key)  # the first call loads and compiles
    start = time.perf_counter()
    solution = solver.solve(problem, key=key)
    assert time.perf_counter() - start < 1.0
    exact = continuation(Exact().solve(problem, key=key), problem, world.states)
    # I - 0.9999 P loses four digits; GMRES stops at a relative 1e-10.
    found = continuation(solution, problem, world.states)
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_fqi_reports_what_is_missing(tabular, key):
    """After N rounds the error is below the reported bound, and the bound is honest."""
    world, panel = tabular
    problem = problem_of(world, panel)
    exact = continuation(Exact().solve(problem, key=key), problem, world.states)
    with pytest.warns(NotConvergedWarning, match="stopped after 20 rounds"):
        solution = Fitted(ONE_HOT, max_rounds=20).solve(problem, key=key)
    error = np.abs(continuation(solution, problem, world.states) - exact).max()
    assert solution.num_steps == 20
    assert 0.5 * solution.missing < error < 2 * solution.missing
    assert error == pytest.approx(0.9**20 * np.abs(exact).max(), rel=0.5)


@pytest.fixture(scope="module")
def plane():
    world = PaperWorld(p=2, reward_scale=2.0, seed=3)
    return world, world.simulate(steps=5_000, units=50, seed=4)


@pytest.mark.parametrize(
    "solver",
    [
        Linear(),
        Averager(),
        Fitted(Ridge()),
        Fitted(
            training=Training(width=32, depth=1, members=2, max_steps=50, check_every=50)
        ),
    ],
    ids=["linear", "averager", "fqi-ridge", "fqi-network"],
)
@pytest.mark.filterwarnings("ignore::deeppqr.NotConvergedWarning")
def test_solvers_find_the_value_of_a_continuous_world(solver, plane, key):
    """With the true policy: V's level and most of its variation."""
    world, panel = plane
    problem = problem_of(world, panel)
    states = panel.state[::20]
    solution = solver.solve(problem, key=key)
    value = 0.9 * continuation(solution, problem, states) + problem.bonus(states)
    truth = world.value(states)
    # On panels of seeds 4 to 6 the correlation is 0.84 (ridge) to 0.98, and the level is
    # off by 0.03 at most; three times that.
    assert np.corrcoef(value, truth)[0, 1] > 0.8
    assert abs(np.mean(value - truth)) < 0.1 * np.mean(truth)


def test_terminal_rows_are_worth_nothing_after(key):
    """An anchor that always ends the process has no continuation."""
    rng = np.random.default_rng(1)
    state = rng.normal(size=(400, 1))
    action = rng.integers(0, 2, 400)
    after = np.where(action[:, None] == 0, np.nan, rng.normal(size=(400, 1)))
    panel = Panel.from_arrays(state, action, after, terminal=action == 0)
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=2.0, policy="logit", reward="regression"
    ).fit(panel)
    log_prob = fit.log_policy(state)
    np.testing.assert_allclose(fit.q(state)[:, 0], 2.0, atol=1e-9)
    np.testing.assert_allclose(fit.value(state), 2.0 - log_prob[:, 0], atol=1e-9)


def test_truncated_rows_are_not_valued_at_zero(tabular):
    """Dropping the last next states changes the answer by sampling error alone."""
    world, panel = tabular
    cut = panel.next_state.copy()
    last = np.append(np.diff(panel.unit) != 0, True)
    cut[last] = np.nan
    truncated = Panel.from_arrays(
        panel.state, panel.action, cut, unit=panel.unit, state_names=["s"]
    )
    model = deeppqr.PQR(discount=0.9, anchor=0, reward="regression")
    whole, part = model.fit(panel), model.fit(truncated)
    # 0.005 to 0.023 on panels of seeds 5 to 7; three times that.
    assert np.abs(whole.q(world.states) - part.q(world.states)).max() < 0.07
    # Valued at zero, 1 in 200 rows would pull every value down by some ten percent.
    assert part.value(world.states).mean() > 0.97 * whole.value(world.states).mean()


def test_rare_anchor_states_are_named(key):
    world = random_tabular(seed=5)
    panel = world.simulate(steps=300, units=10, seed=6)
    keep = ~((panel.state[:, 0] == 3) & (panel.action == 0))
    with pytest.raises(
        AnchorNeverTaken, match=r"in 1 of 7 states it never was; the first is \[3"
    ):
        Exact().solve(problem_of(world, panel.select(keep)), key=key)


def test_random_features_contain_the_log_odds(paper, key):
    world, state = paper[0], paper[1].state[:500]
    features = RandomFeatures(count=10).fit(state, world.log_policy, key=key)
    columns = features(state, world.log_policy(state))
    assert columns.shape[1] == 1 + 3 + 10 + 5
    np.testing.assert_allclose(columns[:, 1:].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(columns[:, 1:].std(axis=0), 1, atol=1e-9)
    solution = np.linalg.lstsq(columns, world.log_policy(state)[:, 0])[0]
    np.testing.assert_allclose(columns @ solution, world.log_policy(state)[:, 0])


def test_a_self_loop_anchor_is_solved_exactly(rng, key):
    """s' = s under the anchor: h = (g - alpha log pi_A) / (1 - discount), whatever pi."""
    world = PaperWorld(p=2, seed=1)
    state = rng.uniform(-2, 2, size=(1_000, 2))
    panel = Panel.from_arrays(state, np.arange(1_000) % 5, state, unit=np.arange(1_000))
    problem = problem_of(world, panel)
    solution = Linear(ridge=1e-6).solve(problem, key=key)
    expected = problem.bonus(state) / (1 - 0.9)
    np.testing.assert_allclose(continuation(solution, problem, state), expected, atol=1e-4)


def test_auto_says_why(tabular, paper):
    _, small = tabular
    assert (
        "few states"
        in deeppqr.PQR(discount=0.9, anchor=0, reward="regression")
        .fit(small)
        .stages["anchor_value"]
    )
    _, wide = paper
    fit = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="regression").fit(wide)
    assert "linear: chosen: condition" in fit.stages["anchor_value"]


@pytest.mark.slow
def test_auto_falls_back_to_the_averager(paper, key, monkeypatch):
    """Where the linear solve is ill-conditioned or breaks the bound on any solution."""
    world, panel = paper
    problem = problem_of(world, panel)
    with monkeypatch.context() as patch:
        patch.setattr(_auto, "MAX_CONDITION", 1.0)
        solution = _auto.Auto().solve(problem, key=key)
    assert solution.evidence[1][1].startswith("ill-conditioned")
    assert solution.evidence[2][0] == "averager"
    assert "neighbours average" in solution.note
    sound = Linear().solve(problem, key=key)
    assert _auto._fault(problem, sound) is None
    assert isinstance(sound.continuation, LinearFunction)
    wild = dataclasses.replace(sound.continuation, theta=sound.continuation.theta * 1e3)
    fault = _auto._fault(problem, dataclasses.replace(sound, continuation=wild))
    assert "break the bound" in str(fault)


@pytest.mark.parametrize("solver", ["exact", "linear"])
def test_tabular_solutions_refuse_other_states(solver, tabular):
    _, panel = tabular
    fit = deeppqr.PQR(discount=0.9, anchor=0, anchor_value=solver, reward="regression").fit(
        panel
    )
    with pytest.raises(
        DataError, match=r"knows 7 states, and row 1, \[2\.5\], is none of them"
    ):
        fit.value([[1.0], [2.5]])


def test_messages():
    with pytest.raises(DataError, match="`anchor_value` must be one of"):
        deeppqr.PQR(discount=0.9, anchor=0, anchor_value="neural")


def test_neighbours_are_found_on_one_thread_from_a_tree_grown_once(tabular, monkeypatch):
    """A worker process is promised one core; a prediction needs no new tree."""
    from deeppqr.anchor import _averager

    grown, queries = [], []

    class Tree(_averager.cKDTree):
        def __init__(self, points):
            grown.append(len(points))
            super().__init__(points)

        def query(self, *arguments, **options):
            queries.append(options.get("workers", 1))
            return super().query(*arguments, **options)

    monkeypatch.setattr(_averager, "cKDTree", Tree)
    _, panel = tabular
    model = deeppqr.PQR(
        discount=0.9, anchor=0, policy="frequency", anchor_value="averager", reward="table"
    )
    fit = model.fit(panel)
    before = len(grown)
    for _ in range(3):
        fit.value(panel.state[:10])
    assert len(grown) == before
    assert set(queries) == {1}

"""Customers of an app: the rules in words, the exact solution, the log."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp

import deeppqr
from deeppqr import DataError
from deeppqr.worlds import AppWorld

WORLD = AppWorld()
EVERY = pl.DataFrame(
    [
        (w, k, plan)
        for w in range(13)
        for k in range(9)
        for plan in ("basic", "free", "pro")
    ],
    schema={"weeks": pl.Float64, "points": pl.Float64, "plan": pl.String},
    orient="row",
)


def following(weeks, points, plan, action):
    """Where an action leads, by the rules: (chance, state) pairs."""
    later = min(weeks + 1, 12)
    if action == "nothing":
        return [(0.1, (later, max(points - 1, 0), plan)), (0.9, (later, points, plan))]
    if action == "open":
        return [(0.7, (later, min(points + 1, 8), plan)), (0.3, (later, points, plan))]
    return [(1.0, (0.0, 0.0, plan))] if action == "buy" else []


@pytest.mark.parametrize(("discount", "temperature"), [(0.0, 1.0), (0.95, 1.0), (0.9, 0.5)])
def test_q_satisfies_the_soft_bellman_equation_of_the_rules(discount, temperature):
    world = AppWorld(discount=discount, temperature=temperature)
    value = dict(zip(EVERY.rows(), world.value(EVERY), strict=True))
    q, reward = world.q(EVERY), world.reward(EVERY)
    np.testing.assert_allclose(
        world.value(EVERY), temperature * logsumexp(q / temperature, axis=1), atol=1e-9
    )
    for row, (weeks, points, plan) in enumerate(EVERY.rows()):
        for column, action in enumerate(world.actions):
            after = following(weeks, points, plan, action)
            ahead = sum(chance * value[state] for chance, state in after)
            found = reward[row, column] + discount * ahead
            assert q[row, column] == pytest.approx(found, abs=1e-8)


def test_pqr_is_exact_with_the_true_policy_and_law():
    solution = deeppqr.exact(
        WORLD.log_policy(EVERY), WORLD.mdp.transition, discount=0.95, anchor=0
    )
    np.testing.assert_allclose(solution.reward, WORLD.reward(EVERY), atol=1e-8)


def test_the_log_ends_with_cancellations_and_keeps_plans():
    frame = WORLD.frame(units=200, periods=40, seed=3)
    assert frame["ends"].to_list() == (frame["action"] == "cancel").to_list()
    last = frame.group_by("customer", maintain_order=True).last()
    assert frame["ends"].sum() == last["ends"].sum() > 0
    assert frame.group_by("customer").n_unique()["plan"].to_list() == [1] * 200
    # Next rows are among those that the rules allow.
    rows = frame.rows()
    for one, other in pairwise(rows):
        if one[0] == other[0]:
            _, _, weeks, points, plan, action, _ = one
            reached = [state for _, state in following(weeks, points, plan, action)]
            assert other[2:5] in reached
    panel = WORLD.simulate(units=200, periods=40, seed=3)
    np.testing.assert_array_equal(WORLD.reward(panel.state), WORLD.reward(frame))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: WORLD.frame(units=2), "one for each plan"),
        (lambda: WORLD.frame(periods=0), "`periods` at least 1"),
        (
            lambda: WORLD.reward(EVERY.with_columns(points=pl.lit(9.0))),
            "Column points of `states` must hold whole numbers from 0 to 8, but row 0 has",
        ),
    ],
)
def test_errors_say_what_is_expected(build, words):
    with pytest.raises(DataError) as raised:
        build()
    assert words in str(raised.value)

"""Demand against what can be solved by hand, simulated, or must not matter."""

import numpy as np
import pytest

import deeppqr
from deeppqr import DataError
from deeppqr.counterfactual import demand
from deeppqr.counterfactual._demand import stationary_distribution
from deeppqr.mdp import TabularMDP, solve_soft

KEEP, REPLACE = 0, 1
TRANSFERS = np.linspace(-3.0, 3.0, 7)


def machine() -> np.ndarray:
    """New or old: keeping makes it old, replacing new."""
    law = np.zeros((2, 2, 2))
    law[:, KEEP, 1] = law[:, REPLACE, 0] = 1.0
    return law


def mileage(size: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """A small bus: one bin further or none, the last for good; costs rise."""
    law = np.zeros((size, 2, size))
    for x in range(size):
        law[x, KEEP, x] += 0.4
        law[x, KEEP, min(x + 1, size - 1)] += 0.6
    law[:, REPLACE] = law[0, KEEP]
    cost = 0.5 * np.arange(size)
    return np.stack([-cost, np.full(size, -2.0)], axis=1), law


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.9999])
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_a_machine_solved_by_hand(discount, temperature):
    """Choose the odds of keeping, 2 if new and 1/3 if old; the rewards follow from them.

    V(old) - V(new) is alpha log{(1 + 1/3) / (1 + 2)} since replacing is worth the same in
    both, so that r(s, keep) - r(s, replace) = alpha log odds(s) - gamma {V(old) - V(new)}.
    It is replaced with probability 1/3 if new and 3/4 if old, so that it is new in a share
    mu = mu / 3 + (1 - mu) 3 / 4 = 9 / 17 of the months, those after a replacement.
    """
    odds = np.array([2.0, 1 / 3])
    gap = temperature * np.log((1 + odds[1]) / (1 + odds[0]))
    transfer = 0.7
    keep = temperature * np.log(odds) - discount * gap + transfer
    reward = np.stack([keep, np.zeros(2)], axis=1)
    found = demand(
        reward,
        machine(),
        discount=discount,
        temperature=temperature,
        action=REPLACE,
        transfers=[transfer],
        per_year=12,
    )
    # 1e-14 (the solver's) times the values' size, 1 / (1 - discount).
    np.testing.assert_allclose(found, [12 * 9 / 17], rtol=1e-13 / (1 - discount))


def test_demand_is_what_a_long_simulation_counts():
    reward, law = mileage()
    changed = reward + np.array([0.0, 0.5])
    policy = np.exp(solve_soft(TabularMDP(changed, law, 0.95)).log_policy)
    rng = np.random.default_rng(5)
    steps, units = 400, 2_000
    state = np.zeros(units, dtype=np.int64)
    taken = np.zeros(units)
    for step in range(steps + 50):
        replace = rng.random(units) < policy[state, REPLACE]
        rise = rng.random(units) < 0.6
        state = np.minimum(np.where(replace, 0, state) + rise, len(law) - 1)
        taken += replace * (step >= 50)  # forgetting where it started
    found = demand(reward, law, discount=0.95, action=REPLACE, transfers=[0.5])[0]
    share = taken / steps
    assert abs(share.mean() - found) < 4 * share.std() / units**0.5


def test_a_constant_in_every_reward_changes_nothing():
    reward, law = mileage()
    options = {"discount": 0.9999, "action": REPLACE, "transfers": TRANSFERS}
    base = demand(reward, law, **options)
    # Values of 1e5: what is lost is their rounding error.
    np.testing.assert_allclose(demand(reward + 10.0, law, **options), base, rtol=1e-8)


def test_a_wrong_anchor_reward_does_not_matter():
    """PQR with a misstated anchor: another reward, the same demand."""
    reward, law = mileage()
    solution = solve_soft(TabularMDP(reward, law, 0.9))
    wrong = reward[:, REPLACE] + np.linspace(-1.0, 2.0, len(reward)) ** 2
    shaped = deeppqr.exact(
        solution.log_policy, law, discount=0.9, anchor=REPLACE, anchor_reward=wrong
    ).reward
    assert np.abs(shaped - reward).max() > 0.5
    options = {"discount": 0.9, "action": REPLACE, "transfers": TRANSFERS}
    truth = demand(reward, law, **options)
    np.testing.assert_allclose(demand(shaped, law, **options), truth, rtol=1e-10)


def test_demand_rises_with_the_transfer_in_any_order():
    reward, law = mileage()
    options = {"discount": 0.99, "action": REPLACE}
    found = demand(reward, law, transfers=TRANSFERS, **options)
    assert (np.diff(found) > 0).all()
    assert ((found > 0) & (found < 1)).all()
    backwards = demand(reward, law, transfers=TRANSFERS[::-1], **options)
    np.testing.assert_allclose(backwards[::-1], found, rtol=1e-10)


def test_draws_are_each_as_if_alone():
    reward, law = mileage()
    draws = reward * np.array([0.5, 1.0, 2.0])[:, None, None]
    options = {"discount": 0.9, "action": REPLACE}
    together = demand(draws, law, transfers=TRANSFERS, **options)
    assert together.shape == (3, 7)
    alone = [demand(draw, law, transfers=TRANSFERS, **options) for draw in draws]
    np.testing.assert_array_equal(together, alone)
    own = TRANSFERS * np.array([1.0, 2.0, 3.0])[:, None]
    by_draw = demand(draws, law, transfers=own, **options)
    np.testing.assert_array_equal(by_draw[0], together[0])
    np.testing.assert_array_equal(
        by_draw[2], demand(draws[2], law, transfers=own[2], **options)
    )


def test_the_long_run_of_a_chain():
    moves = np.array([[0.5, 0.5, 0.0], [0.0, 0.9, 0.1], [0.0, 0.3, 0.7]])
    # State 0 is left for good; between the others flows 0.1 mu1 = 0.3 mu2.
    np.testing.assert_allclose(stationary_distribution(moves), [0, 0.75, 0.25], atol=1e-15)


def test_bad_input_is_named():
    reward, law = mileage()
    options = {"discount": 0.9, "action": REPLACE, "transfers": [0.0]}
    with pytest.raises(DataError, match=r"`action` must be a column of `reward`, 0\.\.1"):
        demand(reward, law, **{**options, "action": 2})
    with pytest.raises(DataError, match=r"`transition` must have the shape"):
        demand(reward[:-1], law, **options)
    with pytest.raises(DataError, match=r"`reward` must be finite"):
        demand(np.full_like(reward, np.nan), law, **options)
    with pytest.raises(DataError, match=r"`transfers` must be finite numbers"):
        demand(reward, law, **{**options, "transfers": [np.inf]})
    with pytest.raises(DataError, match=r"`discount` must lie in"):
        demand(reward, law, **{**options, "discount": 1.0})
    apart = np.stack([np.eye(2), np.eye(2)], axis=1)
    with pytest.raises(DataError, match=r"2 sets of states that are never left"):
        demand(np.zeros((2, 2)), apart, **options)


def leaving() -> tuple[np.ndarray, np.ndarray]:
    """The small bus with a third action: to sell it, after which nothing follows."""
    reward, law = mileage(5)
    reward = np.column_stack([reward, np.full(5, -4.0)])
    law = np.concatenate([law, np.zeros((5, 1, 5))], axis=1)
    return reward, law


def test_demand_of_those_who_leave_is_counted_over_periods():
    """Against a simulation of the first ten months; and the long run as its limit."""
    reward, law = leaving()
    changed = reward + np.array([0.0, 0.5, 0.0])
    policy = np.exp(solve_soft(TabularMDP(changed, law, 0.9)).log_policy)
    start = np.array([3.0, 1.0, 0.0, 0.0, 0.0])
    rng = np.random.default_rng(6)
    units, taken, decided = 40_000, 0, 0
    state = rng.choice(5, size=units, p=start / 4)
    for _ in range(10):
        action = (rng.random((len(state), 1)) > policy[state].cumsum(axis=1)).sum(axis=1)
        taken, decided = taken + (action == 1).sum(), decided + len(state)
        state = state[action < 2]
        origin = np.where(action[action < 2] == REPLACE, 0, state)
        state = np.minimum(origin + (rng.random(len(state)) < 0.6), 4)
    options = {"discount": 0.9, "action": REPLACE, "transfers": [0.5]}
    found = demand(reward, law, periods=10, start=start, **options)[0]
    # Decisions of one unit hang together: ten times the binomial variance is safe.
    assert abs(taken / decided - found) < 4 * np.sqrt(10 * found / decided)
    stays = {"discount": 0.9, "action": REPLACE, "transfers": TRANSFERS}
    reward, law = mileage()
    long = demand(reward, law, **stays)
    late = demand(reward, law, periods=20_000, start=np.eye(6)[2], **stays)
    np.testing.assert_allclose(late, long, atol=1e-3)  # one period in 20,000, and its wake


def test_a_long_run_after_everybody_left_is_refused():
    """The shares in the state of those who left look like an answer: 0.25 to 0.29."""
    reward, law = leaving()
    options = {"discount": 0.9, "action": REPLACE, "transfers": TRANSFERS}
    with pytest.raises(DataError, match="ends where `transition` sums to less than one"):
        demand(reward, law, **options)
    gone = np.zeros((6, 3, 6))
    gone[:5, :, :5] = law
    gone[:5, 2, 5] = gone[5, :, 5] = 1.0
    with_gone = np.vstack([reward, np.zeros(3)])
    message = (
        r"state 5 is never left, whatever is done there \(1 such state\): .* mark the "
        r"end by `transition\[:, :, \[5\]\] = 0.0` and give `periods=120, start=weights`"
    )
    with pytest.raises(DataError, match=message):
        demand(with_gone, gone, **options)
    gone[:, :, [5]] = 0.0
    start = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    found = demand(with_gone, gone, periods=120, start=np.append(start, 0.0), **options)
    short = demand(reward, law, periods=120, start=start, **options)
    np.testing.assert_allclose(found, short, rtol=1e-12)


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"periods": 5}, r"`start` must hold 6 weights, .* but none arrived"),
        ({"start": np.ones(6)}, "`periods` must be a whole number, .* but it is None"),
        ({"periods": 0, "start": np.ones(6)}, "`periods` must be .* but it is 0"),
        ({"periods": 5, "start": np.ones(3)}, r"`start` .* their shape is \(3,\)"),
        ({"periods": 5, "start": np.zeros(6)}, "`start` .* not all zero"),
        ({"periods": 5, "start": -np.ones(6)}, "`start` .* none negative"),
        ({"periods": 5, "start": np.full(6, np.nan)}, "`start` .* none negative"),
    ],
)
def test_spans_that_make_no_sense(span, message):
    reward, law = mileage()
    with pytest.raises(DataError, match=message):
        demand(reward, law, discount=0.9, action=REPLACE, transfers=[0.0], **span)

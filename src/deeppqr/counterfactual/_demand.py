"""Demand: the share of decisions that take an action, by its price."""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from .._errors import DataError
from .._messages import counted
from .._shapes import TableActions, TableValues
from ..mdp._tabular import (
    ROUNDING,
    TabularMDP,
    absorbing_states,
    as_floats,
    check_preferences,
    check_transition,
    solve_soft,
)


def demand(
    reward: Any,
    transition: Any,
    *,
    discount: float,
    action: Any,
    transfers: Any,
    temperature: float = 1.0,
    per_year: Any = 1.0,
    periods: int | None = None,
    start: Any = None,
) -> Float[np.ndarray, "*draw transfer"]:
    r"""The share of decisions that take an action, by what is added to its reward.

    For each transfer $\tau$ the agents' problem is solved anew with
    $r(s,a) + \tau\,1\{a = a^*\}$, which gives a policy $\pi_\tau$ and a chain of states
    with the stationary distribution $\mu_\tau$:
    $$D(\tau) = \sum_s \mu_\tau(s)\, \pi_\tau(a^* \mid s).$$
    Where the process ends nobody is left in the long run. With `periods` $\mu_\tau$ is the
    distribution of the decisions that are taken in the first T periods from `start`.

    A transfer that is the same in every state is a counterfactual to which the anchor's
    normalisation does not matter: the choices are right even if the anchor's true reward is
    not the one assumed. That is so for few others; a changed law of the states is none.

    Parameters
    ----------
    reward
        Shape (state, action), or (draw, state, action) for many rewards at once, such as
        the draws of a bootstrap.
    transition
        Shape (state, action, next_state). For the long run one set of states must be
        reached from everywhere and never left; with `periods` rows may sum to less than
        one, and the process ends with the rest.
    action
        Whose demand it is: the column of `reward`.
    transfers
        What is added to its reward; minus a price.
    per_year
        Decisions in the unit of time that demand is counted in: 12 for months and years.
    periods, start
        T, and weights over the states in which the first period begins; the long run
        without them.

    References
    ----------
    [rust1987], section 6; [kalouptsidi2021].
    """
    rewards, law = as_floats("reward", reward), as_floats("transition", transition)
    added = np.atleast_1d(as_floats("transfers", transfers))
    _check(rewards, law, action, added)
    begin = None
    if periods is None and start is None:
        _check_long_run(law)
    else:
        begin = _check_start(start, periods, len(law))
    check_preferences(discount, temperature)
    tables = rewards.reshape(-1, *rewards.shape[-2:])
    each = np.broadcast_to(added, (*rewards.shape[:-2], added.shape[-1]))
    shares = [
        _demand(table, law, action, row, (periods, begin), discount, temperature)
        for table, row in zip(tables, each.reshape(len(tables), -1), strict=True)
    ]
    return as_floats("per_year", per_year) * np.array(shares).reshape(each.shape)


def stationary_distribution(moves: Float[np.ndarray, "state next_state"]) -> TableValues:
    r"""Where a chain is in the long run, $\mu = \mu P$.

    There must be one set of states that is reached from everywhere and never left, and
    $\mu$ is then the same wherever the chain starts.
    """
    _check_one_class(moves > 0)
    # mu (I - P) = 0 and mu 1 = 1 as one square system, which is regular if and only if
    # mu is unique. Power iteration would need many steps where moves are rare.
    size = len(moves)
    mu = np.linalg.solve(np.eye(size) - moves.T + 1.0, np.ones(size))
    mu = np.maximum(mu, 0.0)  # rounding may leave a transient state at -1e-17
    return mu / mu.sum()


def _demand(
    reward: TableActions,
    law: np.ndarray,
    action: int,
    transfers: np.ndarray,
    span: tuple[int | None, TableValues | None],
    *preferences,
) -> Float[np.ndarray, " transfer"]:
    """The shares under one reward. Each transfer starts from the last one's solution."""
    found = np.empty(len(transfers))
    value = None
    # In order, so that neighbouring problems start from each other's solution.
    for number in np.argsort(transfers):
        changed = reward.copy()
        changed[:, action] += transfers[number]
        solution = solve_soft(TabularMDP(changed, law, *preferences), start=value)
        value, policy = solution.value, np.exp(solution.log_policy)
        moves = np.einsum("sa,sat->st", policy, law)
        periods, begin = span
        if periods is None or begin is None:
            decided = stationary_distribution(moves)
        else:
            decided = _decisions(moves, periods, begin)
        found[number] = decided @ policy[:, action]
    return found


def _decisions(moves: np.ndarray, periods: int, begin: TableValues) -> TableValues:
    """How the decisions of some periods are distributed over the states."""
    total, now = np.zeros(len(begin)), begin
    for _ in range(periods):
        total = total + now
        now = now @ moves
    return total / total.sum()


def _check(
    reward: np.ndarray, transition: np.ndarray, action: Any, transfers: np.ndarray
) -> None:
    if reward.ndim < 2 or not np.isfinite(reward).all():
        raise DataError(
            "`reward` must be finite numbers of shape (state, action), or (draw, state, "
            f"action), but its shape is {reward.shape} and "
            f"{int((~np.isfinite(reward)).sum())} entries are not finite."
        )
    check_transition(transition, reward=reward)
    num_actions = reward.shape[-1]
    if reward.size == 0:
        raise DataError(f"`reward` must not be empty, but its shape is {reward.shape}.")
    whole = isinstance(action, (int, np.integer)) and not isinstance(action, bool)
    if not (whole and 0 <= action < num_actions):
        raise DataError(
            f"`action` must be a column of `reward`, 0..{num_actions - 1}, but it is "
            f"{action!r}. `fit.actions.index(label)` gives it."
        )
    draws = reward.shape[:-2]
    if not np.isfinite(transfers).all() or transfers.shape[:-1] not in ((), draws):
        raise DataError(
            "`transfers` must be finite numbers, one list for all rewards or a list for "
            f"each, shape {(*draws, 'transfer')}, but its shape is {transfers.shape}."
        )


def _check_long_run(transition: np.ndarray) -> None:
    """Refuse a law under which everybody leaves, or whose long run depends on the start."""
    over = np.flatnonzero(absorbing_states(transition))
    short = (1 - transition.sum(axis=-1) > ROUNDING).any()
    if len(over) or short:
        where = "the process ends where `transition` sums to less than one"
        if len(over):
            where = (
                f"state {over[0]} is never left, whatever is done there "
                f"({counted(len(over), 'such state')})"
            )
        mark = f"mark the end by `transition[:, :, {over.tolist()}] = 0.0` and "
        raise DataError(
            f"Demand in the long run needs decisions in the long run, but {where}: shares "
            "of those who are left there say nothing about the others. Ask for some "
            f"periods: {mark if len(over) else ''}give "
            "`periods=120, start=weights`, with a weight for each state in which the first "
            "period begins."
        )
    # Under a logit policy every action has positive probability, so which states
    # communicate does not depend on the reward and is checked once.
    _check_one_class(transition.sum(axis=1) > 0)


def _check_start(start: Any, periods: Any, num_states: int) -> TableValues:
    """The distribution of the first period, from weights over the states."""
    whole = isinstance(periods, (int, np.integer)) and not isinstance(periods, bool)
    if not whole or periods < 1:
        raise DataError(
            f"`periods` must be a whole number, 1 or more, but it is {periods!r}."
        )
    weight = as_floats("start", np.nan if start is None else start)
    if weight.shape != (num_states,) or not (weight >= 0).all() or not weight.sum() > 0:
        raise DataError(
            f"`start` must hold {num_states} weights, one for each state in which the "
            "first period may begin, none negative and not all zero, but "
            f"{'none arrived' if start is None else f'their shape is {weight.shape}'}. "
            "From a panel whose states are 0, 1, ...: `np.bincount(first_states, "
            f"minlength={num_states})`."
        )
    return weight / weight.sum()


def _check_one_class(linked: Shaped[np.ndarray, "state next_state"]) -> None:
    """Refuse a chain whose long run depends on where it starts."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(csr_array(linked), connection="strong")
    here, there = np.nonzero(linked)
    left = np.unique(label[here[label[here] != label[there]]])
    closed = np.setdiff1d(np.arange(count), left)
    if len(closed) > 1:
        states = [int(np.flatnonzero(label == one)[0]) for one in closed[:2]]
        raise DataError(
            f"The long run depends on where it starts: there are {len(closed)} sets of "
            f"states that are never left, with states {states[0]} and {states[1]} in two "
            "of them. Ask for each set of states by itself."
        )

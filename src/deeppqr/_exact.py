"""The exact reward of a tabular policy with known transitions (Theorem 1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._errors import DataError
from ._shapes import TableActions, TableValues
from .anchor._exact import solve_anchor_q
from .mdp._tabular import (
    as_floats,
    check_preferences,
    check_transition,
    warn_of_absorbing,
    warn_of_rounded_table,
)


@dataclass(frozen=True, eq=False)
class ExactSolution:
    """The identified reward, action values and values of a tabular problem."""

    reward: TableActions
    q: TableActions
    value: TableValues


def exact(
    log_policy: Any,
    transition: Any,
    *,
    discount: float,
    anchor: int,
    anchor_reward: Any = 0.0,
    temperature: float = 1.0,
    terminal: Any = None,
) -> ExactSolution:
    r"""The reward behind a tabular policy, given the transitions and an anchor.

    $$r(s,a) = Q(s,a) - \gamma\,E[-\alpha\log\pi(a^A|s') + Q^A(s') | s, a].$$

    Parameters
    ----------
    log_policy
        $\log\pi(a|s)$, shape (state, action).
    transition
        Probabilities of the next state, shape (state, action, next_state). Where they sum
        to less than one the process ends with the rest, and nothing is earned any more;
        where all rows that do miss one by 0.01 at most, as rounded numbers would, there is
        a `RoundedTransitionWarning`.
    discount, temperature
        $\gamma$ and $\alpha$ of the agent.
    anchor
        Index of the action whose reward is known.
    anchor_reward
        That reward, $g(s)$: a number, or an array over states.
    terminal
        True for states that end the process, a boolean array over states. Nothing is
        decided there: the value is zero, q and reward are NaN, `log_policy` is not read.
        Without it a state that is never left brings an `AbsorbingStateWarning`.

    References
    ----------
    [geng2020pqr], R-Estimator and Theorem 1.
    """
    log_policy = as_floats("log_policy", log_policy)
    transition = as_floats("transition", transition)
    goes = ~_terminal(terminal, log_policy.shape[:1])
    _check(log_policy, transition, anchor, goes)
    check_preferences(discount, temperature)
    known = _anchor_reward(anchor_reward, len(log_policy))
    if terminal is None:
        warn_of_absorbing(transition, stacklevel=2)
    warn_of_rounded_table(transition[goes], stacklevel=2)
    # Terminal states have no equation; without them moves into them are missing mass.
    anchor_log_prob = log_policy[goes, anchor]
    anchor_q = solve_anchor_q(
        anchor_log_prob,
        known[goes],
        transition[:, anchor][np.ix_(goes, goes)],
        discount=discount,
        temperature=temperature,
    )
    # V(s) = Q(s, a) - alpha log pi(a|s) holds for every action; the anchor's Q is known.
    value = np.zeros(len(log_policy))
    value[goes] = anchor_q - temperature * anchor_log_prob
    q = np.where(goes[:, None], temperature * log_policy + value[:, None], np.nan)
    return ExactSolution(q - discount * transition @ value, q, value)


def _terminal(terminal: Any, shape: tuple[int, ...]) -> np.ndarray:
    marked = np.zeros(shape, bool) if terminal is None else np.asarray(terminal)
    if marked.shape != shape or marked.dtype != bool:
        raise DataError(
            f"`terminal` must be booleans of shape {shape}, one per state, but "
            f"{marked.dtype} of shape {marked.shape} arrived. From the states' numbers: "
            "`terminal=np.isin(np.arange(len(log_policy)), numbers)`."
        )
    return marked


def _anchor_reward(anchor_reward: Any, num_states: int) -> np.ndarray:
    known = as_floats("anchor_reward", anchor_reward)
    if known.shape not in ((), (num_states,)) or not np.isfinite(known).all():
        raise DataError(
            f"`anchor_reward` must be a finite number or {num_states} of them, one per "
            f"state, but shape {known.shape} arrived, "
            f"{int((~np.isfinite(known)).sum())} of it not finite."
        )
    return np.broadcast_to(known, (num_states,))  # a number is the same in all states


def _check(log_policy: np.ndarray, transition: np.ndarray, anchor: int, goes) -> None:
    if log_policy.ndim != 2 or log_policy.size == 0:
        raise DataError(
            "`log_policy` must have the shape (state, action), with one of each at least, "
            "but its shape is "
            f"{log_policy.shape}."
        )
    check_transition(transition, log_policy=log_policy)
    num_actions = log_policy.shape[1]
    whole = isinstance(anchor, (int, np.integer)) and not isinstance(anchor, bool)
    if not (whole and 0 <= anchor < num_actions):
        raise DataError(
            f"`anchor` must be an action's index from 0 to {num_actions - 1}, but it is "
            f"{anchor!r}."
        )
    total = np.exp(log_policy).sum(axis=1)
    # 1e-6: an error of this size in log pi is multiplied by up to 1 / (1 - discount).
    wrong = ~(np.abs(total - 1) < 1e-6) | ~np.isfinite(log_policy).all(axis=1)
    wrong = wrong & goes  # nothing is done in a terminal state
    if wrong.any():
        state = int(np.flatnonzero(wrong)[0])
        raise DataError(
            "`log_policy` must hold finite log-probabilities that sum to one in each "
            f"state, but those of state {state} sum to {total[state]:.6g} "
            f"({int(wrong.sum())} states in all)."
        )

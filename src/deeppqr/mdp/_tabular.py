"""The forward problem with finitely many states: soft value iteration by Newton steps."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.special import log_softmax, logsumexp

from .._errors import AbsorbingStateWarning, DataError, RoundedTransitionWarning
from .._messages import counted
from .._shapes import TableActions, TableValues

# Probabilities written with eight decimals count as summing to one.
ROUNDING = 1e-8
# Rows that miss one by this much at most look as if they had been rounded to two decimals
# or cut off in a tail. At a discount of 0.9 a miss of 0.001 moves V by 0.8 % of its size.
SMALL_END = 1e-2


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A decision problem with finitely many states and actions."""

    reward: TableActions
    transition: np.ndarray
    """Probabilities of the next state, shape (state, action, next_state). Where they sum to
    less than one the process ends with the rest, and nothing is earned from then on."""
    discount: float
    temperature: float = 1.0

    def __post_init__(self):
        for name in ("reward", "transition"):
            object.__setattr__(self, name, as_floats(name, getattr(self, name)))
        check_transition(self.transition, reward=self.reward)
        check_preferences(self.discount, self.temperature)


@dataclass(frozen=True, eq=False)
class SoftSolution:
    """The optimum of an entropy-regularised problem and how exactly it was solved."""

    q: TableActions
    value: TableValues
    log_policy: TableActions
    residual: float
    """Largest violation of the soft Bellman equation."""
    num_steps: int


def solve_soft(
    mdp: TabularMDP,
    *,
    tol: float = 1e-14,
    max_steps: int = 200,
    start: TableValues | None = None,
) -> SoftSolution:
    r"""Solve the soft Bellman equation by Newton's method.

    $$V(s) = \alpha \log \sum_a \exp\{(r(s,a) + \gamma E[V(s') | s, a]) / \alpha\}.$$

    A Newton step is one exact evaluation of the current softmax policy, so the number of
    steps hardly depends on the discount (about ten at 0.9999, where value iteration
    needs a hundred thousand). `tol` is relative to the size of the values; `start` is
    where V starts, zero by default.
    """
    value = np.zeros(mdp.reward.shape[0]) if start is None else start
    best = (np.inf, value)
    for step in range(1, max_steps + 1):
        q = mdp.reward + mdp.discount * mdp.transition @ value
        updated = mdp.temperature * logsumexp(q / mdp.temperature, axis=1)
        residual = float(np.abs(updated - value).max())
        if residual < best[0]:
            best = (residual, value)
        # At the rounding error of q the residual stops falling. It may also rise in the
        # first steps, far from the solution, so a rise ends the loop only after twelve.
        if residual <= tol * (1 + np.abs(q).max()) or (step > 12 and residual > best[0]):
            break
        log_policy = log_softmax(q / mdp.temperature, axis=1)
        value = evaluate_policy(mdp, log_policy)
    residual, value = best
    q = mdp.reward + mdp.discount * mdp.transition @ value
    log_policy = log_softmax(q / mdp.temperature, axis=1)
    return SoftSolution(q, value, log_policy, residual, step)


def evaluate_policy(mdp: TabularMDP, log_policy: TableActions) -> TableValues:
    r"""The value of following a policy forever, its entropy counted.

    $$V = (I - \gamma P_\pi)^{-1}
    \sum_a \pi(\cdot,a)\{r(\cdot,a) - \alpha\log\pi(\cdot,a)\}.$$
    """
    policy = np.exp(log_policy)
    # 0 log 0 = 0, where NumPy would give NaN.
    entropy = -np.where(policy > 0, policy * np.where(policy > 0, log_policy, 0.0), 0.0)
    flow = (policy * mdp.reward + mdp.temperature * entropy).sum(axis=1)
    moves = np.einsum("sa,sat->st", policy, mdp.transition)
    return solve_bellman(moves, flow, discount=mdp.discount)


def solve_bellman(moves: Any, target: np.ndarray, *, discount: float) -> np.ndarray:
    r"""Solve $(I - \gamma P)\,x = b$: all that accumulates along a chain of states.

    Parameters
    ----------
    moves
        $P$, (state, next_state): an array or sparse; or (problem, state, next_state), an
        array, for many problems at once. A row may sum to less than one: the process ends
        with the probability that is missing, and nothing accumulates from there on.
    target
        $b$, (state) or (state, column), behind the axis of problems where there is one.
    """
    # Direct solvers: 1 / (1 - discount) up to 1e4 makes iterative ones slow.
    system = bellman_system(moves, discount=discount)
    if sparse.issparse(moves):
        # A counted law has a few next states per state: sparse LU is exact, stays sparse.
        return splu(system).solve(target)
    # As columns: NumPy would read a stack of vectors as one matrix.
    columns = target if target.ndim == moves.ndim else target[..., None]
    return np.linalg.solve(system, columns).reshape(target.shape)


def bellman_system(moves: Any, *, discount: float) -> Any:
    """I - discount P, sparse (by columns) where P is."""
    if not sparse.issparse(moves):
        return np.eye(moves.shape[-1]) - discount * moves
    return sparse.identity(moves.shape[0], format="csc") - discount * moves.tocsc()


def as_floats(name: str, values: Any) -> np.ndarray:
    """An argument as an array of numbers, refused by its name where it is none."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise DataError(
            f"`{name}` must be an array of numbers, but a {type(values).__name__} arrived "
            f"that is none: {problem}."
        ) from problem


def check_transition(transition: np.ndarray, *, ends=True, **table: np.ndarray) -> None:
    """Refuse a transition law whose rows are not probabilities.

    What a row lacks to one is the chance that the process ends, unless `ends` forbids it.
    A table of states and actions, by the name of its argument, says what the shape must be.
    """
    for name, values in table.items():
        shape = (*values.shape[-2:], values.shape[-2])
        if transition.shape != shape:
            raise DataError(
                f"`transition` must have the shape (state, action, next_state) = {shape} "
                f"to match `{name}`, but it has {transition.shape}."
            )
    total = transition.sum(axis=-1)
    # Asked this way round so that NaN, of which nothing is true, is refused too.
    right = (transition >= 0).all(axis=-1) & (total <= 1 + ROUNDING)
    wrong = ~right if ends else ~right | (total < 1 - ROUNDING)
    if wrong.any():
        state, action = np.argwhere(wrong)[0]
        most = "at most one, the rest being the chance of an end" if ends else "one"
        raise DataError(
            "`transition` must hold probabilities of the next state, none negative, that "
            f"sum to {most}, but those of state {state}, action {action} sum to "
            f"{total[state, action]:.6g} with smallest entry "
            f"{transition[state, action].min():.3g} ({int(wrong.sum())} rows in all). "
            "Counts become probabilities by `count / count.sum(axis=-1, keepdims=True)`."
        )


def absorbing_states(transition: np.ndarray) -> Bool[np.ndarray, " state"]:
    """States that others lead to and that are never left, whatever is done there."""
    stays = (np.einsum("sas->sa", transition) >= 1 - ROUNDING).all(axis=1)
    # A state that nothing leads to, such as a bandit's only one, is nobody's end.
    leads = transition.max(axis=1)
    np.fill_diagonal(leads, 0.0)
    return stays & leads.any(axis=0)


def warn_of_absorbing(transition: np.ndarray, *, stacklevel: int) -> None:
    """Warn of absorbing states, which are as a rule ends that nobody marked."""
    found = np.flatnonzero(absorbing_states(transition)).tolist()
    if found:
        warnings.warn(
            f"State {found[0]} of `transition` is never left, whatever is done there "
            f"({counted(len(found), 'such state')}), and is valued as if decisions went on "
            "in it forever. If the process ends there, say so with `transition[:, :, "
            f"{found}] = 0.0`: to enter it is then worth zero. (deeppqr.exact also takes "
            f"`terminal=np.isin(np.arange({len(transition)}), {found})`.) If decisions do "
            'go on, `warnings.simplefilter("ignore", deeppqr.AbsorbingStateWarning)`.',
            AbsorbingStateWarning,
            stacklevel=stacklevel + 1,
        )


def looks_rounded(missing: np.ndarray) -> bool:
    """Whether what rows lack to one is small in all of them, and not nothing.

    Rows that lack everything are sure ends and say nothing about the others.
    """
    partial = missing[missing < 1 - ROUNDING]
    return bool(ROUNDING < partial.max(initial=0.0) <= SMALL_END)


def warn_of_rounding(
    missing: np.ndarray, place: str, *, stacklevel: int, remedy: str
) -> None:
    """Warn where the process would end so rarely that it looks like rounded numbers."""
    if looks_rounded(missing):
        short = missing[(missing > ROUNDING) & (missing < 1 - ROUNDING)]
        warnings.warn(
            f"Probabilities of the next state in `transition` miss one by up to "
            f"{short.max():.2g} in {len(short):,} of {missing.size:,} rows ({place}). That "
            "is taken for the chance that the process ends, and looks like rounding or a "
            f"tail that was cut off. If it is, {remedy}. If the process does end so "
            "rarely, "
            '`warnings.simplefilter("ignore", deeppqr.RoundedTransitionWarning)`.',
            RoundedTransitionWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_rounded_table(transition: np.ndarray, *, stacklevel: int) -> None:
    """The same for a table, with the first such row named and what to paste."""
    missing = 1 - transition.sum(axis=-1)
    partial = (missing > ROUNDING) & (missing < 1 - ROUNDING)
    if partial.any():
        state, action = np.argwhere(partial)[0]
        warn_of_rounding(
            missing,
            f"the first is state {state}, action {action}, which sums to "
            f"{1 - missing[state, action]:.6g}",
            stacklevel=stacklevel + 1,
            remedy=(
                "renormalise: `total = transition.sum(axis=-1, keepdims=True)`, then "
                f"`transition = transition / np.where(total > {1 - SMALL_END}, total, 1.0)`"
            ),
        )


def check_preferences(discount: Any, temperature: Any) -> None:
    """Refuse a discount outside [0, 1) or a temperature that is not positive."""
    for name, value in (("discount", discount), ("temperature", temperature)):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise DataError(f"`{name}` must be a number, but {value!r} arrived.")
    if not 0 <= discount < 1:
        raise DataError(
            f"`discount` must lie in [0, 1), but it is {discount}. It is the weight of "
            "the next period's value: 0.9 per period, say; at 1 values are infinite."
        )
    if not (temperature > 0 and np.isfinite(temperature)):
        raise DataError(
            f"`temperature` must be positive and finite, but it is {temperature}. It is "
            "the scale of the agent's randomness; 1 is the usual normalisation."
        )

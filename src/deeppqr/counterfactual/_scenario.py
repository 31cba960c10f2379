"""What is changed: the arguments of a counterfactual, read and checked once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerAction, PerRow, States
from ..mdp._law import Law
from ..mdp._tabular import as_floats
from ..panel._encoding import Encoding
from ..panel._panel import action_index
from ..panel._user_function import call_with_states
from ._laws import Edited

PerAvailable = Float[np.ndarray, "row available"]


@dataclass(frozen=True, eq=False)
class NewAction:
    """An action that agents did not have.

    Parameters
    ----------
    like
        An action that they had: the new one has its reward and leads where it leads,
        unless `reward` or `transition` say otherwise.
    plus
        What it pays beyond that: a number, a column's name or a function of the states.
    reward
        Its own reward, in place of `like`'s.
    transition
        Its own law: a function of states and the new action's label, or a
        `deeppqr.mdp.Law`.
    """

    like: Any = None
    plus: Any = 0.0
    reward: Any = None
    transition: Any = None

    def __post_init__(self):
        if self.like is None and (self.reward is None or self.transition is None):
            raise DataError(
                "A NewAction needs `like`, an action it resembles, or both a `reward` and "
                "a `transition` of its own."
            )
        law = self.transition
        if law is not None and not isinstance(law, Law):
            if not callable(law):
                raise DataError(
                    "The `transition` of a NewAction must be a function of states and its "
                    f"label, or a deeppqr.mdp.Law, but {law!r} arrived."
                )
            object.__setattr__(self, "transition", Law(law))


@dataclass(frozen=True, eq=False)
class Available:
    """One action of the changed problem."""

    label: Any
    source: int | None
    """The action of the fit whose reward it has; None where it has its own."""
    follows: int | None
    """The action of the fit that leads where it leads; None where it has its own law."""
    plus: Any = 0.0
    reward: Any = None
    law: Law | None = None


@dataclass(frozen=True, eq=False)
class Scenario:
    """A changed problem, in words of the fit's actions."""

    available: tuple[Available, ...]
    transfer: Mapping[Any, Any] | Callable | None
    scale: Float[np.ndarray, " available"]
    transition: Any
    discount: float
    old_discount: float
    encoding: Encoding
    words: tuple[str, ...] = field(default=())
    """What was changed, for the heading."""

    @property
    def labels(self) -> tuple[Any, ...]:
        return tuple(each.label for each in self.available)

    @property
    def changes_law(self) -> bool:
        return self.transition is not None

    def transfers(self, state: States) -> PerAvailable:
        """What is paid to each available action on top of its reward."""
        shape = (len(state), len(self.available))
        if self.transfer is None:
            return np.zeros(shape)
        if isinstance(self.transfer, Mapping):
            found = np.zeros(shape)
            for label, amount in self.transfer.items():
                column = self.labels.index(label)
                found[:, column] = amount_at(amount, state, self.encoding, "transfer")
            return found
        return call_with_states(
            self.transfer,
            self.encoding.decode(state),
            role="transfer",
            names=self.encoding.names,
            shape=shape,
            returns=f"what each of the actions {list(self.labels)} is paid",
        ).astype(np.float64)

    def rewards(self, state: States, old: PerAction) -> PerAvailable:
        """The changed rewards, from those of the fit; with transfers."""
        columns = []
        for each, scale in zip(self.available, self.scale, strict=True):
            if each.source is None:
                own = amount_at(each.reward, state, self.encoding, "reward")
            else:
                own = old[:, each.source]
            plus = amount_at(each.plus, state, self.encoding, "plus")
            columns.append(scale * (own + plus))
        return np.stack(columns, axis=1) + self.transfers(state)

    def to_old(self, by_reward: PerAvailable, num_actions: int) -> PerAction:
        """A gradient by the changed rewards as one by those of the fit."""
        found = np.zeros((len(by_reward), num_actions))
        for column, (each, scale) in enumerate(
            zip(self.available, self.scale, strict=True)
        ):
            if each.source is not None:
                found[:, each.source] += scale * by_reward[:, column]
        return found


def read_scenario(
    actions: tuple[Any, ...],
    encoding: Encoding,
    old_discount: float,
    *,
    transfer: Any = None,
    remove: Any = None,
    add: Any = None,
    scale: Any = None,
    transition: Any = None,
    discount: float | None = None,
) -> Scenario:
    """The scenario behind the arguments; what is wrong in them is refused by name."""
    words = []
    gone = _removed(remove, actions)
    if gone:
        words.append(f"without {', '.join(repr(actions[code]) for code in gone)}")
    available = [
        Available(label, code, code)
        for code, label in enumerate(actions)
        if code not in gone
    ]
    for label, new in (add or {}).items():
        available.append(_added(label, new, actions))
        how = "" if new.like is None else f" like {new.like!r}"
        words.append(f"with {label!r}{how}")
    labels = tuple(each.label for each in available)
    if len(labels) == 0:
        raise DataError(
            f"`remove` takes away all actions, {list(actions)}: leave one at least."
        )
    if isinstance(transfer, Mapping):
        for label in transfer:
            action_index(labels, label, role="transfer")
        words += [f"transfer to {label!r}{_said(how)}" for label, how in transfer.items()]
    elif callable(transfer):
        words.append("transfers")
    elif transfer is not None:
        raise DataError(
            "`transfer` must say who is paid, as in transfer={'wait': 0.5} with a number, "
            "a column's name or a function of the states (a tax is negative), or be a "
            f"function of the states with a column for each action, but {transfer!r} "
            "arrived."
        )
    factors = np.ones(len(labels))
    if isinstance(scale, Mapping):
        for label, factor in scale.items():
            factors[action_index(labels, label, role="scale")] = _number("scale", factor)
            words.append(f"reward of {label!r} times {factor:g}")
    elif scale is not None:
        factors[:] = _number("scale", scale)
        words.append(f"rewards times {scale:g}")
    if transition is not None:
        edited = isinstance(transition, Edited)
        words.append("edited transitions" if edited else "other transitions")
        if callable(transition) and not isinstance(transition, Law):
            transition = Law(transition)
    if discount is not None:
        words.append(f"discount {discount:g}")
    new = old_discount if discount is None else discount
    told = (tuple(available), transfer, factors, transition, new, old_discount)
    return Scenario(*told, encoding, tuple(words))


def amount_at(amount: Any, state: States, encoding: Encoding, role: str) -> PerRow:
    """A number, a column's name or a function of the states, at some states."""
    if isinstance(amount, str):
        return state[:, encoding.feature(amount)].copy()
    if callable(amount):
        about: dict[str, Any] = {"role": role, "names": encoding.names}
        about |= {"shape": (len(state),), "returns": "one number per state"}
        found = call_with_states(amount, encoding.decode(state), **about)
        found = as_floats(role, found)
    else:
        found = np.full(len(state), _number(role, amount))
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise DataError(
            f"`{role}` must be finite, but it is {found[row]} in the state "
            f"{encoding.decode(state[row : row + 1])[0]} "
            f"({int((~np.isfinite(found)).sum())} in all)."
        )
    return found


def _number(role: str, amount: Any) -> float:
    number = as_floats(role, amount)
    if number.shape != () or not np.isfinite(number):
        raise DataError(
            f"`{role}` must be a finite number, a column's name or a function of the "
            f"states, but {amount!r} arrived."
        )
    return float(number)


def _removed(remove: Any, actions: tuple[Any, ...]) -> list[int]:
    if remove is None:
        return []
    many = isinstance(remove, (list, set, frozenset)) or (
        isinstance(remove, tuple) and remove not in actions
    )
    labels = list(remove) if many else [remove]
    return [action_index(actions, label, role="remove") for label in labels]


def _added(label: Any, new: Any, actions: tuple[Any, ...]) -> Available:
    if not isinstance(new, NewAction):
        raise DataError(
            "`add` must name new actions, as in add={'lease': deeppqr.counterfactual."
            f"NewAction(like='buy', plus=0.5)}}, but {label!r} has {new!r}."
        )
    if label in actions:
        raise DataError(
            f"`add` names {label!r}, which is an action already. Pay it by `transfer`, or "
            "choose another name."
        )
    like = None if new.like is None else action_index(actions, new.like, role="like")
    source = like if new.reward is None else None
    follows = like if new.transition is None else None
    return Available(label, source, follows, new.plus, new.reward, new.transition)


def _said(amount: Any) -> str:
    if isinstance(amount, str):
        return f" of {amount!r}"
    return f" of {amount:g}" if isinstance(amount, (int, float)) else ""

"""Counterfactuals where actions are amounts: their scenarios, nodes and figures."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._messages import counted, plain
from .._shapes import PerAction, States
from ..actions._nodes import Nodes
from ..continuous._anchor import as_points
from ..continuous._law import learn_law
from ..continuous._reward import AbstractAmountReward, AmountReward
from ..law._transition import AbstractTransition
from ..panel._amounts import as_label
from ..panel._panel import Panel
from ..panel._user_function import call_with_states
from ._amount_environment import AmountEnvironment
from ._measures import AMOUNT, SHARE, Tally
from ._problem import NODES, Setting, starts
from ._scenario import Available, Scenario, amount_at

if TYPE_CHECKING:
    from .._fit import Fit

# Rows times nodes of a quadrature, up to which rows are taken: 8 MB a table.
MOST_NUMBERS = 1_000_000


def reward_of(fit: "Fit") -> AbstractAmountReward:
    reward = fit.reward_function
    assert isinstance(reward, AbstractAmountReward)
    return reward


def set_up_amounts(fit: "Fit", panel: Panel | None, states: States | None) -> Setting:
    """The law behind a fit over amounts, its rows and the states that are asked about."""
    if panel is not None and (panel.space != fit.space or panel.encoding != fit.encoding):
        raise DataError(
            "The panel must have the states and actions of the fit, "
            f"{fit.encoding.names} and {fit.space}, but it has {panel.encoding.names} and "
            f"{panel.space or 'finitely many actions'}. Pass the panel that was fitted."
        )
    reward = reward_of(fit)
    law = _law(fit, panel)
    nodes = reward.shapes.space.nodes()
    most = min(NODES, MOST_NUMBERS // len(nodes))
    state, weight, start, asked, row = starts(fit, panel, states, most)
    known = state[weight > 0]
    direction = None
    if isinstance(reward, AmountReward) and state.shape[1] > 1:
        few = known[:: max(1, len(known) // 3_000)]
        direction = reward.basis.steepest(few, reward.theta)
    environment = AmountEnvironment.of(
        state, weight, law, reward.shapes, fit.discount, direction
    )
    rewards = reward.rewards_of(state, nodes.action, fit.temperature)
    told = (state, weight, start, asked, rewards, environment, panel, row)
    return Setting(fit, law, None, *told)


def _law(fit: "Fit", panel: Panel | None) -> AbstractTransition:
    reward = reward_of(fit)
    if isinstance(reward, AmountReward) and reward.law is not None:
        return reward.law
    if panel is None:
        raise DataError(
            "This fit does not hold where its actions lead: give the panel it was made "
            "from, as in fit.counterfactual(panel, ...)."
        )
    return learn_law(panel, reward.shapes).law


def given_masses(fit: "Fit", state: States) -> PerAction:
    """The masses of the nodes under the fit's own density."""
    reward = reward_of(fit)
    nodes = reward.shapes.space.nodes()
    return np.exp(reward.log_densities_of(state, nodes.action)) * nodes.weight


def tally_of_amounts(fit: "Fit", sources: Sequence[int]) -> Tally:
    """The share of each atom, and how much is done on average in each dimension."""
    space = reward_of(fit).shapes.space
    nodes = space.nodes()
    at, atom = nodes.action[list(sources)], nodes.atom[list(sources)]
    names: list[tuple[str, Any]] = []
    columns = []
    for index, point in enumerate(space.points):
        names.append((SHARE, as_label(point)))
        columns.append((atom == index).astype(np.float64))
    for place, column in enumerate(at.T):
        names.append((AMOUNT, None if space.dimensions == 1 else place))
        columns.append(column)
    return Tally(tuple(names), np.stack(columns, axis=1))


def read_amount_scenario(
    fit: "Fit",
    *,
    transfer: Any = None,
    remove: Any = None,
    scale: Any = None,
    discount: float | None = None,
    **unknown: Any,
) -> Scenario:
    """The scenario behind the arguments; what is wrong in them is refused by name."""
    for name, value in unknown.items():
        if value is not None:
            raise DataError(
                f"`{name}` is for finitely many actions, and this fit's are amounts, "
                f"{fit.space}. Over amounts there are `transfer`, `remove` (of atoms), "
                "`scale` and `discount`; or fit panel.binned(11)."
            )
    space = reward_of(fit).shapes.space
    nodes, words = space.nodes(), []
    gone = _removed(remove, fit, nodes)
    words += [f"without {as_label(nodes.action[at])!r}" for at in gone]
    kept = [at for at in range(len(nodes)) if at not in gone]
    paid = None
    if transfer is not None:
        paid, said = _transfer(transfer, fit, nodes.action[kept])
        words.append(said)
    factor = 1.0
    if scale is not None:
        factor = _finite("scale", scale)
        words.append(f"rewards times {factor:g}")
    if discount is not None:
        words.append(f"discount {discount:g}")
    labels = [as_label(nodes.action[at]) for at in kept]
    return Scenario(
        tuple(Available(label, at, at) for label, at in zip(labels, kept, strict=True)),
        paid,
        np.full(len(kept), factor),
        None,
        fit.discount if discount is None else discount,
        fit.discount,
        fit.encoding,
        tuple(words),
    )


def _removed(remove: Any, fit: "Fit", nodes: Nodes) -> list[int]:
    """Places of the atoms that are taken away."""
    if remove is None:
        return []
    space = reward_of(fit).shapes.space
    atom = space.atom_of(as_points(remove, space, role="remove"))
    if (atom < 0).any():
        raise DataError(
            f"`remove` must name atoms of {space!r}, but {plain(remove)} arrived. One "
            "amount among a continuum is never missed: tax a range of them by `transfer`."
        )
    return [int(np.flatnonzero(nodes.atom == one)[0]) for one in np.unique(atom)]


def _transfer(
    transfer: Any, fit: "Fit", actions: np.ndarray
) -> tuple[Callable[[np.ndarray], np.ndarray], str]:
    """What is paid to each of these actions, as a function of the states, and in words."""
    if isinstance(transfer, Mapping):
        return _to_atoms(transfer, fit, actions)
    if callable(transfer):
        return lambda states: _called(transfer, fit, states, actions), "transfers"
    dimensions = actions.shape[1]
    rate = np.atleast_1d(np.asarray(_numbers(transfer)))
    if rate.shape != (dimensions,):
        raise DataError(
            "Over amounts `transfer` must be what a unit of the amount is paid"
            f"{'' if dimensions == 1 else f', {dimensions} numbers'}, such as -0.1 for a "
            "tax; a function of the states and the actions; or what atoms are paid, as in "
            f"transfer={{0.0: 0.5}}; but {plain(transfer)} arrived."
        )
    paid = actions @ rate
    said = ", ".join(f"{each:g}" for each in rate)
    return lambda states: np.tile(paid, (len(states), 1)), f"transfer of {said} per unit"


def _called(transfer: Callable, fit: "Fit", states: np.ndarray, actions: np.ndarray):
    """A user's function of states and actions, an action at a time."""
    found = np.empty((len(states), len(actions)))
    for place, action in enumerate(actions):
        here = np.tile(action, (len(states), 1))
        found[:, place] = call_with_states(
            lambda at, here=here: transfer(at, here),
            states,
            role="transfer",
            names=fit.encoding.names,
            shape=(len(states),),
            returns="what is paid for the action in each row of the second argument",
        )
    wrong = ~np.isfinite(found)
    if wrong.any():
        place = int(np.flatnonzero(wrong.any(axis=0))[0])
        raise DataError(
            f"`transfer` must be finite, but it is {found[wrong][0]} for the action "
            f"{plain(as_label(actions[place]))} ({counted(int(wrong.sum()), 'value')} in "
            "all)."
        )
    return found


def _to_atoms(transfer: Mapping, fit: "Fit", actions: np.ndarray):
    space, columns, words = reward_of(fit).shapes.space, {}, []
    atom = space.atom_of(actions)
    for label, amount in transfer.items():
        own = space.atom_of(as_points(label, space, role="transfer"))[0]
        if own < 0 or not (atom == own).any():
            raise DataError(
                f"`transfer` as a dict must name atoms of {space!r} that are there, but "
                f"it names {plain(label)}. For amounts give a rate per unit, such as -0.1, "
                "or a function of the states and the actions."
            )
        columns[int(np.flatnonzero(atom == own)[0])] = amount
        said = f" of {amount:g}" if isinstance(amount, (int, float)) else ""
        words.append(f"transfer to {label!r}{said}")

    def paid(states: np.ndarray) -> np.ndarray:
        found = np.zeros((len(states), len(actions)))
        encoded = fit.encoding.encode_any(states)
        for column, amount in columns.items():
            found[:, column] = amount_at(amount, encoded, fit.encoding, "transfer")
        return found

    return paid, ", ".join(words)


def _numbers(value: Any) -> Any:
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return np.zeros((0, 0))  # the shape of nothing that is asked for
    return found if np.isfinite(found).all() else np.zeros((0, 0))


def _finite(role: str, value: Any) -> float:
    found = _numbers(value)
    if np.shape(found) != () or isinstance(value, bool):
        raise DataError(
            f"Over amounts `{role}` must be a finite number, the same for all actions, but "
            f"{plain(value)} arrived."
        )
    return float(found)

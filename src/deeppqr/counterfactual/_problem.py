"""The agents' problem before and after a change, posed on the same states."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerAction, PerRow, States
from ..anchor._known import KnownTransition
from ..inference._fitted_law import AnyLaw, find_law
from ..law._table import Table
from ..law._transition import AbstractTransition
from ..learners._smooth_basis import SmoothBasis
from ..mdp._law import Law
from ..panel._cells import Cells
from ..panel._panel import Panel
from ..reward._joint_reward import JointReward
from ._amount_environment import AmountEnvironment
from ._environment import AbstractEnvironment, Flow, Solved, TabularEnvironment
from ._laws import (
    ChosenLaws,
    Edited,
    EditedLaw,
    FunctionLaw,
    counted_moves,
    edited_moves,
    function_moves,
    listed_moves,
    table_moves,
)
from ._scenario import Scenario
from ._value_environment import ValueEnvironment

if TYPE_CHECKING:
    from .._fit import Fit

# Rows on which a problem with continuous states is solved; time and memory grow with them.
NODES = 6_000
MOST_ASKED = 20_000

Nodes = Float[np.ndarray, "node state_feature"]
Asked = Float[np.ndarray, "asked state_feature"]


@dataclass(frozen=True, eq=False)
class Posed:
    """One problem, solved: where actions lead, what they pay, what agents do."""

    environment: AbstractEnvironment
    reward: PerAction
    """In units of the reward, with transfers."""
    paid: PerAction
    """The transfers alone."""
    solved: Solved
    start: PerRow

    @cached_property
    def prob(self) -> PerAction:
        # One array: environments keep the factors of the policy asked for last.
        return np.exp(self.solved.log_prob)

    @property
    def flow(self) -> Flow:
        return Flow(self.environment, self.prob, self.start)


@dataclass(frozen=True, eq=False)
class Setting:
    """What both problems share: the fit, its law, the nodes and where agents start."""

    fit: "Fit"
    law: AnyLaw
    cells: Cells | None
    """The nodes, where states are few."""
    state: States
    weight: PerRow
    """Of the nodes that the value is solved on; zero for states only asked about."""
    start: PerRow
    asked: np.ndarray
    """The node of each state that was asked about."""
    reward: PerAction
    """Of the fit, at the nodes."""
    environment: AbstractEnvironment
    panel: Panel | None = None
    panel_row: np.ndarray | None = None
    """The panel's row that each of the first nodes is, where states are continuous."""

    def before(self) -> Posed:
        return self.posed(self.environment, self.reward, np.zeros_like(self.reward))

    def posed(
        self,
        environment: AbstractEnvironment,
        reward: PerAction,
        paid: PerAction,
        guess: PerAction | None = None,
    ) -> Posed:
        solved = environment.solve(reward / self.fit.temperature, guess)
        return Posed(environment, reward, paid, solved, self.start)

    def after(self, scenario: Scenario, reward: PerAction | None = None) -> Posed:
        """The changed problem; `reward` replaces the fit's at the nodes."""
        old = self.reward if reward is None else reward
        environment = self.changed_environment(scenario)
        paid = scenario.transfers(self.state)
        return self.posed(environment, scenario.rewards(self.state, old), paid)

    def changed_environment(self, scenario: Scenario) -> AbstractEnvironment:
        if isinstance(self.environment, TabularEnvironment):
            return self._changed_table(scenario)
        if isinstance(self.environment, AmountEnvironment):
            follows = [each.follows for each in scenario.available]
            known = [code for code in follows if code is not None]
            return self.environment.with_nodes(known, scenario.discount)
        assert isinstance(self.environment, ValueEnvironment)
        own = any(each.law is not None for each in scenario.available)
        if not (own or scenario.changes_law):
            follows = [each.follows for each in scenario.available]
            known = [code for code in follows if code is not None]
            return self.environment.with_actions(known, scenario.discount)
        law = _as_expectations(self.law, self.fit)
        if isinstance(scenario.transition, Edited):
            told = scenario.transition, self.fit.actions, self.fit.encoding
            law = EditedLaw(law, *told)
        elif isinstance(scenario.transition, Law):
            law = FunctionLaw(scenario.transition, self.fit.actions)
        elif scenario.changes_law:
            raise DataError(
                "A table of transitions needs few states that repeat, but these are "
                "continuous. Give a function of states and action, a deeppqr.mdp.Law, or "
                "deeppqr.counterfactual.Edited."
            )
        parts: list[tuple[AbstractTransition, int]] = []
        for each in scenario.available:
            if each.law is not None:
                parts.append((FunctionLaw(each.law, (each.label,)), 0))
            else:
                assert each.follows is not None
                parts.append((law, each.follows))
        return ValueEnvironment.of(
            self.state,
            self.weight,
            ChosenLaws(tuple(parts)),
            len(parts),
            scenario.discount,
            _direction(self.fit, self.state),
        )

    def _changed_table(self, scenario: Scenario) -> TabularEnvironment:
        environment, cells, fit = self.environment, self.cells, self.fit
        assert isinstance(environment, TabularEnvironment)
        assert cells is not None
        moves, transition = environment.moves, scenario.transition
        if isinstance(transition, Edited):
            pairs = zip(moves, fit.actions, strict=True)
            told = cells, fit.encoding
            moves = tuple(
                edited_moves(old, transition, told[0], action, told[1])
                for old, action in pairs
            )
        elif isinstance(transition, Law):
            _refuse_categories(fit)
            moves = tuple(function_moves(transition, cells, a) for a in fit.actions)
        elif transition is not None:
            moves = table_moves(transition, cells, fit.actions, fit.encoding)
        found = []
        for each in scenario.available:
            if each.law is not None:
                _refuse_categories(fit)
                found.append(function_moves(each.law, cells, each.label))
            else:
                assert each.follows is not None
                found.append(moves[each.follows])
        return TabularEnvironment(cells.states, tuple(found), scenario.discount)


def set_up(fit: "Fit", panel: Panel | None, states: States | None) -> Setting:
    """The law behind a fit, its nodes and the states that are asked about.

    Without `states` these are the panel's decisions; without a panel, the states that the
    fit kept of it.
    """
    law = find_law(fit, panel)
    cells = panel_row = None
    if isinstance(law, KnownTransition):
        cells, moves = law.cells, listed_moves(law.probability)
    elif isinstance(law, Table):
        cells, moves = law.cells, counted_moves(law, fit.actions)
    if cells is not None:
        asked, mass = _asked(fit, panel, states)
        at = cells.require(asked)
        start = np.bincount(at, mass, len(cells))
        start = start / start.sum()
        environment = TabularEnvironment(cells.states, moves, fit.discount)
        state, weight = cells.states, np.ones(len(cells))
    else:
        state, weight, start, at, panel_row = starts(fit, panel, states, NODES)
        environment = ValueEnvironment.of(
            state,
            weight,
            _as_expectations(law, fit),
            len(fit.actions),
            fit.discount,
            _direction(fit, state[weight > 0]),
        )
    reward = fit._reward_of(state)
    unknown = np.argwhere(~np.isfinite(reward))
    if len(unknown):
        row, code = unknown[0]
        raise DataError(
            f"The reward of {fit.actions[code]!r} is unknown in the state "
            f"{fit.encoding.decode(state[row : row + 1])[0]} ({len(unknown)} such pairs), "
            "so the problem cannot be solved again. The default reward has one everywhere."
        )
    told = (state, weight, start, at, reward, environment, panel, panel_row)
    return Setting(fit, law, cells, *told)


def _asked(fit: "Fit", panel: Panel | None, states: States | None) -> tuple[States, PerRow]:
    """The states that are asked about, and their weights."""
    asked, mass = states, None
    if asked is None:
        asked = fit.seen.state if panel is None else panel.state
        mass = None if panel is None else panel.weight
    if len(asked) == 0:
        raise DataError("`states` must hold one state at least, but it is empty.")
    return asked, np.ones(len(asked)) if mass is None else mass


def starts(
    fit: "Fit", panel: Panel | None, states: States | None, most: int
) -> tuple[
    Nodes, Float[np.ndarray, " node"], Float[np.ndarray, " node"], np.ndarray, np.ndarray
]:
    """Continuous states to solve on, their weights, those in the first period, the places
    of the states asked about, and the rows of the data that they begin with: `most` of
    the data's, and all that the user gave."""
    asked, mass = _asked(fit, panel, states)
    known = fit.seen.state if panel is None else panel.state
    # Every so many rows, so that all units are among them.
    panel_row = np.arange(len(known))[:: max(1, -(-len(known) // most))]
    known = known[panel_row]
    if states is None:
        every = max(1, -(-len(asked) // most))
        mass, state, weight = mass[::every], known, np.ones(len(known))
        at = np.arange(len(known))
    elif len(states) > MOST_ASKED:
        raise DataError(
            f"`states` has {len(states):,} rows, but {MOST_ASKED:,} is the most at "
            "once. Give a sample of them."
        )
    else:
        state = np.concatenate([known, states])
        weight = np.append(np.ones(len(known)), np.zeros(len(states)))
        at = len(known) + np.arange(len(states))
    start = np.bincount(at, mass, len(state))
    return state, weight, start / start.sum(), at, panel_row


def _as_expectations(law: AnyLaw, fit: "Fit") -> AbstractTransition:
    if isinstance(law, Law):
        return FunctionLaw(law, fit.actions)
    assert isinstance(law, AbstractTransition)
    return law


def _direction(fit: "Fit", state: States) -> np.ndarray | None:
    """Along which the reward changes most: the value bends along it, too."""
    reward = fit.reward_function
    if not isinstance(reward, JointReward) or not isinstance(reward.basis, SmoothBasis):
        return None
    if state.shape[1] < 2:
        return None
    few = state[:: max(1, len(state) // 3_000)]
    return reward.basis.steepest(few, reward.theta)


def _refuse_categories(fit: "Fit") -> None:
    named = [str(c) for c in fit.encoding.columns if c.kind == "categorical"]
    if named:
        raise DataError(
            f"A `transition` given as a function needs numeric states, but {named} are "
            "categorical. Number the categories, or give an Edited."
        )

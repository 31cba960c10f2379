"""The law of the next state behind a fit, and draws from it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import Codes, Mask, States
from ..anchor._known import KnownTransition, resolve_transition
from ..law._choice import learn_transition
from ..law._table import Table
from ..law._transition import AbstractSampledTransition, AbstractTransition, Steps
from ..mdp._law import Law
from ..mdp._simulate import draw
from ..panel._encoding import Encoding
from ..panel._panel import Panel
from ..reward._joint_reward import JointReward
from ..reward._table import LawReward, TableReward
from ..reward._temperature import AffineReward

if TYPE_CHECKING:
    from .._fit import Fit

AnyLaw = KnownTransition | Law | AbstractTransition


def find_law(fit: "Fit", panel: Panel | None) -> AnyLaw:
    """Where actions lead, as the fit has it, or as it is learned from the panel again."""
    reward = fit.reward_function
    bare = reward.policy_part if isinstance(reward, AffineReward) else reward
    if isinstance(bare, LawReward):
        return bare.transition
    if isinstance(bare, (JointReward, TableReward)) and bare.law is not None:
        return bare.law
    given = None if fit.model is None else fit.model.transition
    if panel is None:
        raise DataError(
            "This fit does not hold where its actions lead: give the panel it was made "
            "from, as in fit.counterfactual(panel, ...)."
        )
    if given is not None:
        return resolve_transition(given, panel)
    if isinstance(bare, TableReward):
        return Table(bare.cells, Steps.of(panel).pooled())
    return learn_transition(panel).law


def law_is_learned(law: AnyLaw) -> bool:
    """Whether a law was estimated from a panel; others are given and hold no error."""
    return not isinstance(law, (KnownTransition, Law))


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws from a law, kept to the kinds of states that the data have.

    What never changes within a unit stays; a category is one of its levels, drawn by its
    probability; whole numbers stay whole, rounded up as often as keeps their mean; and
    nothing leaves the range of the data.
    """

    law: AnyLaw
    actions: tuple[Any, ...]
    fixed: Mask
    whole: Mask
    categories: tuple[slice, ...]
    low: Float[np.ndarray, " state_feature"]
    high: Float[np.ndarray, " state_feature"]

    @classmethod
    def of(cls, law: AnyLaw, panel: Panel) -> "Sampler":
        after = panel.has_next
        here, there = panel.state[after], panel.next_state[after]
        every = np.concatenate([panel.state, there])
        return cls(
            law,
            panel.actions,
            (here == there).all(axis=0),
            (every == np.round(every)).all(axis=0),
            _category_blocks(panel.encoding),
            every.min(axis=0),
            every.max(axis=0),
        )

    def draw(
        self, state: States, action: Codes, rng: np.random.Generator
    ) -> tuple[States, Mask]:
        """A next state of each row, and whether the process ended instead."""
        if isinstance(self.law, KnownTransition):
            return self.law.draw(state, action, rng)
        if isinstance(self.law, Law):
            found, ends = state.copy(), np.zeros(len(state), bool)
            for one in np.unique(action):
                rows = action == one
                label = self.actions[one]
                found[rows], ends[rows] = self.law.draw(state[rows], label, rng)
            return found, ends
        assert isinstance(self.law, AbstractSampledTransition)
        found, ends = self.law.draw(state, action, rng)
        return (
            found if isinstance(self.law, Table) else self._kept(found, state, rng)
        ), ends

    def _kept(self, place: States, state: States, rng: np.random.Generator) -> States:
        """Places as states of the data's kinds."""
        found = np.clip(place, self.low, self.high)
        for block in self.categories:
            # Indicators of all levels but the first, here as probabilities.
            others = np.clip(place[:, block], 0.0, 1.0)
            first = np.clip(1 - others.sum(axis=1, keepdims=True), 0.0, None)
            level = draw(np.concatenate([first, others], axis=1), rng)
            found[:, block] = level[:, None] == 1 + np.arange(others.shape[1])
        rounded = np.floor(
            found[:, self.whole] + rng.random((len(found), self.whole.sum()))
        )
        # Differences such as 2.9999999 come out of sums of steps: they are whole already.
        near = np.round(found[:, self.whole])
        close = np.abs(found[:, self.whole] - near) < 1e-9 * (1 + np.abs(near))
        found[:, self.whole] = np.where(close, near, rounded)
        found[:, self.fixed] = state[:, self.fixed]
        return found


def _category_blocks(encoding: Encoding) -> tuple[slice, ...]:
    found, at = [], 0
    for column in encoding.columns:
        width = len(column.feature_names)
        if column.kind == "categorical":
            found.append(slice(at, at + width))
        at += width
    return tuple(found)

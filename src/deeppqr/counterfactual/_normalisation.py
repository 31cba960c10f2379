r"""Whether the reward assumed for the anchor can move an answer, and by how much.

If the anchor earns $g + \delta$ and not g, all rewards move by
$\phi(s) - \gamma E[\phi(s')|s,a]$ with $\phi = (I - \gamma P_A)^{-1}\delta$: a shaping. It
leaves the choices as they are in any problem with the same law and discount, whichever
actions there are and whatever is added to their rewards. Values then move by $\phi$ before
and after. Laws, discounts or single rewards that change break this, unless $\delta$ is the
same in all states of a process that never ends.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from .._errors import DataError
from .._shapes import PerAction, PerRow
from ..mdp._tabular import ROUNDING
from ._measures import AMOUNT, DECISIONS, PAID, SHARE, VALUE
from ._problem import Setting
from ._scenario import Scenario, amount_at

# A bound is sought until no step improves it by more than this, or these are made; a step
# is halved down to the shortest.
ENOUGH, MOST_STEPS, SHORTEST = 1e-9, 20, 0.1


def broken_by(scenario: Scenario) -> list[str]:
    """What in a scenario lets the anchor's reward matter to the choices."""
    found = []
    if scenario.changes_law:
        found.append("the transitions change")
    if scenario.discount != scenario.old_discount:
        found.append("the discount changes")
    if np.ptp(scenario.scale) > 0:
        found.append("some rewards are multiplied and others are not")
    if any(each.source is None for each in scenario.available):
        found.append("a new action has a reward of its own")
    if any(each.law is not None for each in scenario.available):
        found.append("a new action has a law of its own")
    return found


def depends(quantity: str, scenario: Scenario) -> bool:
    """Whether the change of a figure depends on the anchor's reward."""
    if quantity in (SHARE, AMOUNT, PAID, DECISIONS):
        return bool(broken_by(scenario))
    if quantity == VALUE:
        # Values move by phi before, and by the common factor times phi after.
        return bool(broken_by(scenario)) or bool((scenario.scale != 1).any())
    return True


def statement(scenario: Scenario, anchor: Any) -> str:
    """Whether the normalisation can move the answer, in a sentence or two."""
    reasons = broken_by(scenario)
    if reasons:
        return (
            f"The reward assumed for the anchor {anchor!r} can move the probabilities and "
            f"the welfare here, because {' and '.join(reasons)}; only an error that is the "
            "same in all states of a process that never ends, and multiplied alike for all "
            "actions, cannot. `anchor_bounds=(low, high)` says how far."
        )
    if (scenario.scale != 1).any():
        return (
            f"The reward assumed for the anchor {anchor!r} cannot move the probabilities "
            "here, as all rewards are multiplied alike; it moves rewards and values."
        )
    return (
        f"The reward assumed for the anchor {anchor!r} cannot move the probabilities and "
        "the change of the value here: the law, the discount and the rewards behind the "
        "transfers stay the same. It moves the mean reward per decision."
    )


def anchor_gradient(setting: Setting, by_reward: PerAction) -> PerRow:
    """A gradient by the fit's rewards as one by the anchor's reward at the nodes."""
    environment, anchor = setting.environment, setting.fit.estimate.anchor
    later = setting.fit.discount * environment.unproject(environment.collect(by_reward))
    by_potential = by_reward.sum(axis=1) - later
    return environment.potential_gradient(anchor, by_potential)


def shaped(setting: Setting, error: PerRow) -> PerAction:
    """The fit's rewards if the anchor earned so much more."""
    environment, anchor = setting.environment, setting.fit.estimate.anchor
    potential = environment.potential(anchor, error)
    weight = environment.project(potential[:, None])
    ahead = environment.follow(weight)[:, :, 0]
    return setting.reward + potential[:, None] - setting.fit.discount * ahead


Gradients = Callable[[PerAction], tuple[np.ndarray, Sequence[PerAction]]]
"""From rewards at the nodes to figures and their gradients by these rewards."""


def bounds(
    setting: Setting, figures: Gradients, anchor_bounds: Any, moving: np.ndarray
) -> Float[np.ndarray, "end figure"]:
    """The ends of figures over all anchor rewards between two functions of the state.

    By conditional gradients from the fit's g: a step leads towards low or high in every
    state, by the sign of the gradient, as far as the figure improves. A figure that is
    concave or monotone in g reaches its sharp bound; another one may have a farther end
    elsewhere, so each end is an anchor reward's answer and the range is what they span.
    """
    known = setting.fit.estimate.anchor_reward(setting.state)
    low, high = (end - known for end in bounds_at(setting, anchor_bounds))
    begin = np.clip(0.0, low, high)
    values, gradients = figures(shaped(setting, begin))
    found = np.full((2, len(values)), np.nan)
    for at in map(int, np.flatnonzero(moving)):
        for end, sign in enumerate((-1.0, 1.0)):
            best, error, gradient = sign * values[at], begin, gradients[at]
            for _ in range(MOST_STEPS):
                slope = anchor_gradient(setting, sign * gradient)
                towards, length = np.where(slope > 0, high, low) - error, 1.0
                while length > SHORTEST:
                    trial = error + length * towards
                    tried, gradients_there = figures(shaped(setting, trial))
                    if sign * tried[at] > best + ENOUGH * (1 + abs(best)):
                        break
                    length /= 2
                else:
                    break
                best, error, gradient = sign * tried[at], trial, gradients_there[at]
            found[end, at] = sign * best
    return found


def bounds_at(setting: Setting, given: Any) -> tuple[PerRow, PerRow]:
    """The anchor's least and largest reward at the nodes."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise DataError(
            "`anchor_bounds` must be a pair (low, high) of numbers, columns' names or "
            f"functions of the states, but {given!r} arrived."
        )
    encoding = setting.fit.encoding
    low, high = (amount_at(end, setting.state, encoding, "anchor_bounds") for end in given)
    wrong = low > high + ROUNDING
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"`anchor_bounds` must have its low end first, but in the state "
            f"{encoding.decode(setting.state[row : row + 1])[0]} they are {low[row]:g} and "
            f"{high[row]:g} ({int(wrong.sum())} states in all)."
        )
    return low, high

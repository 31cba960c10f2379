"""What identifies a fit's reward: the statement, and payments that end the process."""

from typing import TYPE_CHECKING

import numpy as np

from ._layout import listed

if TYPE_CHECKING:
    from .._fit import Fit

# Share of an action's decisions after which the process ended, from which its reward is a
# payment once and for all. Ends are nearly always of all decisions of an action or of few.
ENDS = 0.99


def terminal_actions(fit: "Fit") -> list[int]:
    """Actions that end the process: their reward is a lump sum, the others' a flow."""
    shares = fit.provenance["panel"].get("ends", [])
    return [index for index, share in enumerate(shares) if share >= ENDS]


def identification(fit: "Fit") -> str:
    """The statement of `Fit.identification`, in three sentences."""
    return " ".join([_normalised(fit), _said_by_data(fit), _free_of_it(fit)])


def _normalised(fit: "Fit") -> str:
    anchor = repr(fit.anchor)
    known = fit.estimate.anchor_reward
    earned = "its given reward g(s)"
    if known.is_zero:
        earned = "zero"
    elif known.constant is not None:
        earned = f"{known.constant:g}"
    return (
        f"Normalised, not estimated: in every state {anchor} earns {earned}, the future is "
        f"discounted by {fit.discount:g} a period, and choices are soft with temperature "
        f"{fit.temperature:g}; given these three, choices and where they lead determine "
        "the reward of every other action."
    )


def _said_by_data(fit: "Fit") -> str:
    rows = fit.provenance["panel"]["rows"]
    figure = {each.name: each.value for each in fit.diagnostics}
    found = f"The data: of {rows:,} decisions"
    if "anchor_share" in figure:
        found += f" {100 * figure['anchor_share']:.3g} % were {fit.anchor!r}"
    if "anchor_min_prob" in figure:
        found += (
            f", whose smallest estimated probability is {figure['anchor_min_prob']:.2g}"
        )
    if figure.get("no_anchor_nearby", 0) > 0:
        share = 100 * figure["no_anchor_nearby"]
        found += f" and which was never taken near {share:.2g} % of the states"
    return (
        f"{found}; what it earns they cannot say, as any other g explains the same choices "
        "equally well."
    )


def _free_of_it(fit: "Fit") -> str:
    lumps = terminal_actions(fit)
    constant = (
        "that all rewards move by the same constant if g does, so that differences between "
        "actions stay"
    )
    shares = np.array(fit.provenance["panel"].get("ends", []))
    if ((shares > 0) & (shares < ENDS)).any():
        constant = (
            "differences between actions that end the process equally often, if g is off "
            "by a constant"
        )
    elif lumps:
        named = listed(repr(fit.actions[index]) for index in lumps)
        ending, others = "c", f"{1 - fit.discount:.3g} c"
        if fit.estimate.anchor not in lumps:
            ending, others = f"c / {1 - fit.discount:.3g}", "c"
        constant = (
            f"that a constant c added to g adds {ending} to the rewards of {named}, which "
            f"end the process, and {others} to the others', so that differences among "
            "these stay"
        )
    return (
        f"Whatever {fit.anchor!r} really earns: the choice probabilities, the answers to "
        "transfers, to actions taken away and to a common scale of all rewards, and "
        f"{constant}; slopes and levels of rewards, other transitions and another discount "
        "do depend on g wherever its error differs between states."
    )


def flow_equivalents(fit: "Fit", figures: np.ndarray) -> dict[int, np.ndarray]:
    """For each action that ends the process, the payment per period that is worth as
    much: 1 - discount times the lump sum."""
    return {index: (1 - fit.discount) * figures[index] for index in terminal_actions(fit)}

"""What identifies a fit's reward: the statement, and payments that end the process."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ._html import plain_name
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
    return " ".join(sentences(fit))


def sentences(fit: "Fit") -> list[str]:
    """What is normalised, what the data say of the anchor, and what is free of it."""
    return [_normalised(fit), _said_by_data(fit), _free_of_it(fit)]


def _shown(label: Any) -> str:
    """A label as Python writes it, cut if it is very long."""
    return plain_name(repr(label), 60)


def _normalised(fit: "Fit") -> str:
    anchor = _shown(fit.anchor)
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
        found += f" {100 * figure['anchor_share']:.3g} % were {_shown(fit.anchor)}"
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
        named = listed(_shown(fit.actions[index]) for index in lumps)
        ending, others = "c", f"{1 - fit.discount:.3g} c"
        if fit.estimate.anchor not in lumps:
            ending, others = f"c / {1 - fit.discount:.3g}", "c"
        constant = (
            f"that a constant c added to g adds {ending} to the rewards of {named}, which "
            f"end the process, and {others} to the others', so that differences among "
            "these stay"
        )
    return (
        f"Some things stay true whatever {_shown(fit.anchor)} really earns: the choice "
        "probabilities, the answers to transfers, to actions taken away and to a common "
        f"scale of all rewards, and {constant}; slopes and levels of rewards and the "
        "answers to other transitions or another discount depend on g wherever its error "
        "differs between states."
    )


def flow_factors(fit: "Fit") -> Float[np.ndarray, " action"]:
    """What makes rewards comparable as payments per period: 1 - discount for lump sums,
    which are worth as much for ever, and one for the others."""
    factors = np.ones(len(fit.actions))
    factors[terminal_actions(fit)] = 1 - fit.discount
    return factors


def lump_note(fit: "Fit") -> str:
    """Which rewards of a table are lump sums; empty where none is."""
    lumps = terminal_actions(fit)
    if not lumps:
        return ""
    named = listed(_shown(fit.actions[index]) for index in lumps)
    verb, its = ("ends", "its reward is a lump sum")
    if len(lumps) > 1:
        verb, its = ("end", "their rewards are lump sums")
    return (
        f"{named} {verb} the process: {its} beside the others' payments per period, worth "
        f"1 - discount = {1 - fit.discount:.3g} times as much a period for ever."
    )

"""Checks that a panel identifies the rewards: every action and the anchor occur."""

import warnings
from typing import Any

import numpy as np

from .._errors import ActionNeverTaken, AnchorNeverTaken, WeakOverlapWarning
from .._messages import counted
from ..panel._panel import Panel
from ._diagnostics import Diagnostics

ENDS = (
    "If the process ends with the action, mark these rows as terminal, as with "
    'Panel.from_frame(..., terminal="ended"), or --terminal ended on the command line, for '
    "a column that is true there."
)


def check_identified(panel: Panel, label: Any) -> int:
    """The anchor's index, refusing panels in which it or another action never occurs."""
    anchor = panel.action_index(label)
    # Rows to which the user gave weight zero identify nothing.
    counts = panel.weight > 0
    taken = np.bincount(panel.action, counts, panel.num_actions)
    useful = np.bincount(panel.action, counts & panel.is_transition, panel.num_actions)
    occur = [a for a, n in zip(panel.actions, taken, strict=True) if n]
    if taken[anchor] == 0:
        raise AnchorNeverTaken(
            f"The anchor {label!r} is taken in none of the {len(panel):,} rows that have "
            "weight. The level of the reward is identified from such rows only: choose an "
            f"anchor that occurs (actions taken: {occur})."
        )
    if useful[anchor] == 0:
        raise AnchorNeverTaken(
            f"The anchor {label!r} is taken in {counted(int(taken[anchor]), 'row')}, but "
            "in none of them is the next state known. PQR must see where the anchor leads. "
            f"{ENDS} If it goes on, add the rows that follow, or name the next state's "
            "columns."
        )
    never = [a for a, n in zip(panel.actions, taken, strict=True) if n == 0]
    if never:
        raise ActionNeverTaken(
            f"The action {never[0]!r} is never taken in this panel, so its reward is not "
            f"identified by anything in it: every reward that is low enough explains that "
            f"({counted(len(never), 'such action')}: {never}; taken: {occur}). Leave it "
            "out of `actions`, or pool these units with others that take it."
        )
    missing = [a for a, n in zip(panel.actions, useful, strict=True) if n == 0]
    if missing:
        times = int(taken[panel.action_index(missing[0])])
        raise ActionNeverTaken(
            f"The action {missing[0]!r} is taken in {counted(times, 'row')}, and in "
            "none of them is the next state known, so its reward is not identified "
            f"({counted(len(missing), 'such action')}: {missing}). {ENDS} If it goes on, "
            "add the rows that follow, or name the next state's columns."
        )
    return anchor


def warn_of_weak_overlap(diagnostics: Diagnostics) -> None:
    weak = diagnostics["anchor_share"]
    if weak.verdict == "trouble":
        warnings.warn(
            f"{weak.meaning[0].upper()}{weak.meaning[1:]}. Rewards of other actions lean "
            "on few rows; see `fit.diagnostics`.",
            WeakOverlapWarning,
            stacklevel=3,
        )

"""The methods that studies compare, in words: PQR in its kinds, and the others.

The estimators themselves are in `_methods`, which takes seconds to import; these names are
for settings, their help and reports.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

PQR_KINDS = {
    "default": "PQR with every stage chosen by itself",
    "paper": "PQR as printed, its steps read as gradient steps",
    "paper-epochs": "PQR as printed, its steps read as passes over the data",
    "regression": "PQR with the anchor's value and the continuation by linear regression",
    "likelihood": "PQR with the reward refined by its likelihood",
    "joint": "PQR with the stages estimated together",
}
"""PQR without further knowledge: what is claimed of PQR is judged of each that has run."""

METHODS = {
    **PQR_KINDS,
    "one-parameter": "PQR with the reward of keeping a bus known but for its slope",
    "maxent": "MaxEnt-IRL on a deep policy",
    "dairl": "D-AIRL with a reward of state and action",
    "splgd": "SPL-GD that plans for itself",
    "splgd-truth": "SPL-GD handed the true Q and V",
    "cloning": "the log-odds of behavioural cloning",
    "zero": "zero for every action but the anchor",
    "oracle": "maximum likelihood told the form of the reward",
}


def described(*names: str) -> dict[str, str]:
    """Some of the methods, in this order, in words."""
    return {name: METHODS[name] for name in names}


def all_but(*names: str) -> dict[str, str]:
    """The methods without those that a study has no use for."""
    return {name: words for name, words in METHODS.items() if name not in names}


def kinds(frame: "pl.DataFrame") -> list[str]:
    """The methods of a table that are PQR."""
    present = set(frame["method"])
    return [name for name in PQR_KINDS if name in present]

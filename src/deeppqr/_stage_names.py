"""The names under which each stage's estimators are known, in one place.

The command line offers them without loading what they stand for, which takes seconds; each
room's `_resolve` says what that is, in the same order.
"""

POLICIES = ("auto", "frequency", "logit", "network", "boosted", "airl")
ANCHOR_VALUES = (
    *("auto", "exact", "linear", "averager", "fitted"),
    *("exit", "self-loop", "renewal"),
)
REWARDS = ("auto", "joint", "likelihood", "regression", "table", "linear", "network")

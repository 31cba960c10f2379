"""The names of each stage's estimators.

They stand apart from the estimators, so that `deeppqr --help` can list them without
importing JAX, which takes seconds. `_resolve` of each room maps them to classes, in the
same order.
"""

# "auto" first: it is the default of each stage.
POLICIES = ("auto", "frequency", "logit", "network", "boosted", "airl")
# Of amounts, with `reward="regression"`.
DENSITIES = ("auto", "tensor", "gaussian", "mixture", "network")
ANCHOR_VALUES = (
    *("auto", "exact", "linear", "averager", "fitted"),
    *("exit", "self-loop", "renewal"),
)
REWARDS = ("auto", "joint", "likelihood", "regression", "table", "linear", "network")

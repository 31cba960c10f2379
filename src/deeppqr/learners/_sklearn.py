"""Helpers for scikit-learn estimators: seeds from JAX keys, sample weights, checks."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray
from sklearn.base import is_classifier

from .._errors import DataError
from .._random import integer_seed


def seeded(estimator: Any, *, key: PRNGKeyArray) -> Any:
    """Fill in every `random_state` the user left open, so that a fit can be repeated."""
    seed = integer_seed(key)
    open_states = {
        name: seed
        for name, value in estimator.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    return estimator.set_params(**open_states)


def fit_weighted(estimator: Any, inputs: np.ndarray, target: np.ndarray, weight) -> None:
    """Fit with sample weights if rows differ in weight; raise if it takes none."""
    # Equal weights change nothing, and some estimators take none.
    if np.all(weight == weight[0]):
        estimator.fit(inputs, target)
        return
    if "sample_weight" not in inspect.signature(estimator.fit).parameters:
        raise DataError(
            f"The panel has weights, but `{type(estimator).__name__}.fit` takes no "
            "`sample_weight`. Use an estimator that does, or a panel without weights."
        )
    estimator.fit(inputs, target, sample_weight=weight)


def resolve_part(
    part: Any,
    role: str,
    names: Mapping[Any, type],
    ours: type,
    wrap: Callable[[Any], Any],
    kinds: str,
) -> Any:
    """A stage's estimator: the one of a name, one of `ours`, or `wrap` of another's.

    `wrap` returns None for what it cannot use; `kinds` says in words what it can.
    """
    if isinstance(part, type):
        raise DataError(
            f"`{role}` must be an instance, but the class {part.__name__} arrived. Write "
            f"{part.__name__}() with the settings you want."
        )
    if isinstance(part, str) and part in names:
        return names[part]()
    found = part if isinstance(part, ours) else wrap(part)
    if found is None:
        raise DataError(
            f"`{role}` must be one of {sorted(names)}, {kinds}, but {part!r} arrived."
        )
    return found


def is_regressor(part: Any, role: str) -> bool:
    """Whether a part can be fitted and predicts; refuses a classifier."""
    if not (hasattr(part, "fit") and hasattr(part, "predict")):
        return False
    if is_classifier(part):
        raise DataError(
            f"`{role}` needs a regressor, but {type(part).__name__} is a classifier. Use "
            "one that predicts numbers, such as Ridge or HistGradientBoostingRegressor."
        )
    return True

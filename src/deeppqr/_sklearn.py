"""scikit-learn estimators as parts: seeded by our keys, weighted where they can be."""

import inspect
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from ._errors import DataError
from ._random import integer_seed


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
    """Fit with sample weights if they matter; refuse if the estimator takes none."""
    if np.all(weight == weight[0]):
        estimator.fit(inputs, target)
        return
    if "sample_weight" not in inspect.signature(estimator.fit).parameters:
        raise DataError(
            f"The panel has weights, but `{type(estimator).__name__}.fit` takes no "
            "`sample_weight`. Use an estimator that does, or a panel without weights."
        )
    estimator.fit(inputs, target, sample_weight=weight)

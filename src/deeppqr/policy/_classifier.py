"""Any scikit-learn classifier as a policy."""

from dataclasses import dataclass
from typing import Any

import jax.random as jr
import numpy as np
from sklearn.base import clone

from .._stored import stored
from ..learners._sklearn import fit_weighted, seeded
from ..panel._panel import Panel
from ._policy import AbstractPolicy, AbstractPolicyEstimator, cross_validated


@dataclass(frozen=True)
class Classifier(AbstractPolicyEstimator):
    """A scikit-learn classifier with `predict_proba`; it is cloned, never changed."""

    estimator: Any

    def fit(self, panel, *, key):
        # Another key than the folds', which every estimator draws from `key` itself.
        key_seed = jr.fold_in(key, 1)

        def maximise(part: Panel) -> ClassifierPolicy:
            model = seeded(clone(self.estimator), key=key_seed)
            fit_weighted(model, part.state, part.action, part.weight)
            return ClassifierPolicy(model)

        return cross_validated(maximise, panel, type(self.estimator).__name__, key=key)


@stored
@dataclass(frozen=True, eq=False)
class ClassifierPolicy(AbstractPolicy):
    """A fitted classifier; a probability of zero becomes a log-probability of -inf."""

    estimator: Any

    def log_prob(self, state):
        if len(state) == 0:  # scikit-learn raises for empty input
            return np.empty((0, len(self.estimator.classes_)))
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.estimator.predict_proba(state), np.float64))

"""Any scikit-learn classifier as a policy."""

from dataclasses import dataclass
from typing import Any

import jax.random as jr
import numpy as np
from sklearn.base import clone

from .._errors import DataError
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
            _check_classes(model, part.num_actions)
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
        prob = self._checked(self.estimator.predict_proba(state), state)
        with np.errstate(divide="ignore"):
            return np.log(prob / prob.sum(axis=1, keepdims=True))

    def _checked(self, found: Any, state: np.ndarray) -> np.ndarray:
        """Probabilities in the order of the actions; whatever is none is refused."""
        name = f"`{type(self.estimator).__name__}.predict_proba`"
        try:
            prob = np.asarray(found, np.float64)
        except (TypeError, ValueError):
            prob = np.empty(0)
        shape = (len(state), len(self.estimator.classes_))
        if prob.shape != shape:
            raise DataError(
                f"{name} must give a probability for each of {shape[0]} rows and "
                f"{shape[1]} actions, but its shape is {np.shape(prob)}. A "
                "classifier must know every action it was fitted on."
            )
        # Loose: networks compute in float32. What is left is divided out.
        sums = np.abs(prob.sum(axis=1) - 1) < 1e-4
        wrong = np.flatnonzero(~((prob >= 0).all(axis=1) & sums))
        if len(wrong):
            raise DataError(
                f"{name} must give probabilities that sum to one in each row, none "
                f"negative, but for the state {state[wrong[0]]} it gave {prob[wrong[0]]} "
                f"({len(wrong)} of {len(state)} rows). Scores become probabilities by a "
                "softmax, or by sklearn.calibration.CalibratedClassifierCV."
            )
        # Its columns are those of `classes_`, which need not be sorted.
        return prob[:, np.argsort(self.estimator.classes_)]


def _check_classes(model: Any, num_actions: int) -> None:
    """Refuse a classifier that does not say which column is which action."""
    classes = getattr(model, "classes_", None)
    if classes is None or not np.array_equal(np.sort(classes), np.arange(num_actions)):
        raise DataError(
            f"`{type(model).__name__}.classes_` must hold the actions' numbers, 0 to "
            f"{num_actions - 1}, in the order of the columns of `predict_proba`, but it is "
            f"{classes}. Set it in `fit`, as scikit-learn does: "
            "`self.classes_ = np.unique(y)`."
        )

"""Which policy estimator a name or an object stands for."""

from typing import Any

from .._errors import DataError
from .._stage_names import POLICIES
from ..learners._sklearn import resolve_part
from ._airl import AIRL
from ._auto import Auto
from ._boosted import Boosted
from ._classifier import Classifier
from ._frequency import Frequency
from ._given import Given, from_stable_baselines
from ._logit import Logit
from ._network import Network
from ._policy import AbstractPolicyEstimator

_CLASSES = (Auto, Frequency, Logit, Network, Boosted, AIRL)
NAMES = dict(zip(POLICIES, _CLASSES, strict=True))


KINDS = (
    "an estimator from `deeppqr.policy`, a scikit-learn classifier or a function that "
    "gives log-probabilities"
)


def resolve(policy: Any) -> AbstractPolicyEstimator:
    """The estimator behind a name, an estimator of ours, or a scikit-learn classifier."""
    return resolve_part(policy, "policy", NAMES, AbstractPolicyEstimator, _wrap, KINDS)


def _wrap(policy: Any) -> AbstractPolicyEstimator | None:
    # By attributes and not by class: stable-baselines3 and imitation are optional, and
    # importing them to check would take seconds.
    if hasattr(policy, "get_distribution") or hasattr(policy, "gen_algo"):
        return from_stable_baselines(getattr(policy, "gen_algo", policy))
    if callable(policy):
        return Given(policy)
    if hasattr(policy, "fit") and not hasattr(policy, "predict_proba"):
        raise DataError(
            f"`policy` must give probabilities, but {type(policy).__name__} has no "
            "`predict_proba`. Use a classifier that has it, such as "
            "LogisticRegression or HistGradientBoostingClassifier."
        )
    return Classifier(policy) if hasattr(policy, "predict_proba") else None

"""P: log pi(a|s), estimated."""

from typing import Any

from .._errors import DataError
from .._network import Training as Training
from .._sklearn import refuse_class
from ._airl import AIRL as AIRL
from ._airl import AIRLPolicy as AIRLPolicy
from ._auto import Auto as Auto
from ._boosted import Boosted as Boosted
from ._boosted import BoostedPolicy as BoostedPolicy
from ._classifier import Classifier as Classifier
from ._classifier import ClassifierPolicy as ClassifierPolicy
from ._frequency import Frequency as Frequency
from ._frequency import FrequencyPolicy as FrequencyPolicy
from ._given import Given as Given
from ._given import GivenPolicy as GivenPolicy
from ._given import from_stable_baselines as from_stable_baselines
from ._imitation import ImitationAIRL as ImitationAIRL
from ._logit import Logit as Logit
from ._logit import LogitPolicy as LogitPolicy
from ._network import Network as Network
from ._network import NetworkPolicy as NetworkPolicy
from ._policy import AbstractPolicy as AbstractPolicy
from ._policy import AbstractPolicyEstimator as AbstractPolicyEstimator
from ._policy import Clipped as Clipped
from ._policy import PolicyFit as PolicyFit
from ._policy import clip as clip
from ._policy import log_shares as log_shares

NAMES = {
    "auto": Auto,
    "frequency": Frequency,
    "logit": Logit,
    "network": Network,
    "boosted": Boosted,
    "airl": AIRL,
}


def resolve(policy: Any) -> AbstractPolicyEstimator:
    """The estimator behind a name, an estimator of ours, or a scikit-learn classifier."""
    refuse_class(policy, "policy")
    if isinstance(policy, str) and policy in NAMES:
        return NAMES[policy]()
    if isinstance(policy, AbstractPolicyEstimator):
        return policy
    if hasattr(policy, "get_distribution") or hasattr(policy, "gen_algo"):
        return from_stable_baselines(getattr(policy, "gen_algo", policy))
    if callable(policy) and not isinstance(policy, type):
        return Given(policy)
    if hasattr(policy, "predict_proba") or hasattr(policy, "fit"):
        if not hasattr(policy, "predict_proba"):
            raise DataError(
                f"`policy` must give probabilities, but {type(policy).__name__} has no "
                "`predict_proba`. Use a classifier that has it, such as "
                "LogisticRegression or HistGradientBoostingClassifier."
            )
        return Classifier(policy)
    raise DataError(
        f"`policy` must be one of {sorted(NAMES)}, an estimator from `deeppqr.policy`, a "
        "scikit-learn classifier or a function that gives log-probabilities, but "
        f"{policy!r} arrived."
    )

"""Which policy estimator a name or an object stands for."""

from functools import partial
from typing import Any

from .._errors import DataError
from .._stage_names import DENSITIES, POLICIES
from ..learners._sklearn import resolve_part
from ._airl import AIRL
from ._auto import Auto
from ._boosted import Boosted
from ._classifier import Classifier
from ._density import AbstractDensityEstimator
from ._density_network import EnergyNetwork, Mixture
from ._frequency import Frequency
from ._given import Given, from_stable_baselines
from ._given_density import GivenDensity, squashed_density
from ._logit import Logit
from ._network import Network
from ._policy import AbstractPolicyEstimator
from ._tensor import Tensor

_CLASSES = (Auto, Frequency, Logit, Network, Boosted, AIRL)
NAMES = dict(zip(POLICIES, _CLASSES, strict=True))


# "auto" is the quick one; a mixture has three parts.
_DENSITIES = (Tensor, Tensor, Mixture, partial(Mixture, 3), EnergyNetwork)
DENSITY_NAMES: dict[str, Any] = dict(zip(DENSITIES, _DENSITIES, strict=True))

KINDS = (
    "an estimator from `deeppqr.policy`, a scikit-learn classifier or a function that "
    "gives log-probabilities"
)


def resolve(policy: Any) -> AbstractPolicyEstimator:
    """The estimator behind a name, an estimator of ours, or a scikit-learn classifier."""
    return resolve_part(policy, "policy", NAMES, AbstractPolicyEstimator, _wrap, KINDS)


def resolve_density(policy: Any) -> AbstractDensityEstimator:
    """The same for policies over amounts."""
    kinds = (
        "an estimator of densities from `deeppqr.policy`, or a function of states and "
        "actions that gives log densities"
    )
    ours = AbstractDensityEstimator
    return resolve_part(policy, "policy", DENSITY_NAMES, ours, _wrap_density, kinds)


def check_policy(policy: Any) -> None:
    """Refuse what is an estimator neither of policies nor of densities."""
    by_name = isinstance(policy, str) and policy in DENSITY_NAMES
    if not by_name and not isinstance(policy, AbstractDensityEstimator):
        # What stable-baselines3 gives for amounts has an actor of its own.
        if not hasattr(getattr(policy, "policy", None), "actor"):
            resolve(policy)


def _wrap_density(policy: Any) -> AbstractDensityEstimator | None:
    if hasattr(getattr(policy, "policy", None), "actor"):
        return squashed_density(policy)
    return GivenDensity(policy) if callable(policy) else None


def _wrap(policy: Any) -> AbstractPolicyEstimator | None:
    if isinstance(policy, AbstractDensityEstimator):
        raise DataError(
            f"{type(policy).__name__} is for actions that are amounts, but the panel's are "
            f"labels. Use one of {sorted(NAMES)}, or build the panel with "
            "actions=deeppqr.Box(low, high)."
        )
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

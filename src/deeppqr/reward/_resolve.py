"""Which reward estimator a name or an object stands for."""

from typing import Any

from .._errors import DataError
from .._stage_names import REWARDS
from ..learners._sklearn import refuse_class, refuse_classifier
from ._auto import Auto
from ._joint import Joint
from ._likelihood import Likelihood
from ._regression import RE, Linear, Network, Regressor
from ._reward import AbstractRewardEstimator
from ._table import Table

_CLASSES = (Auto, Joint, Likelihood, RE, Table, Linear, Network)
NAMES = dict(zip(REWARDS, _CLASSES, strict=True))


def resolve(reward: Any) -> AbstractRewardEstimator:
    """The estimator behind a name, an estimator of ours, or a scikit-learn regressor."""
    refuse_class(reward, "reward")
    if isinstance(reward, str) and reward in NAMES:
        return NAMES[reward]()
    if isinstance(reward, AbstractRewardEstimator):
        return reward
    if hasattr(reward, "fit") and hasattr(reward, "predict"):
        refuse_classifier(reward, "reward")
        return Regressor(reward)
    raise DataError(
        f"`reward` must be one of {sorted(NAMES)}, an estimator from `deeppqr.reward` or a "
        f"scikit-learn regressor, but {reward!r} arrived."
    )

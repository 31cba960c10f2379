"""Which reward estimator a name or an object stands for."""

from typing import Any

from .._stage_names import REWARDS
from ..learners._sklearn import is_regressor, resolve_part
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
    wrap = lambda part: Regressor(part) if is_regressor(part, "reward") else None
    kinds = "an estimator from `deeppqr.reward` or a scikit-learn regressor"
    return resolve_part(reward, "reward", NAMES, AbstractRewardEstimator, wrap, kinds)

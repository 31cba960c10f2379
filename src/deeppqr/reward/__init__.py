"""R: the reward from the policy and its value."""

from typing import Any

from .._errors import DataError
from .._sklearn import refuse_class, refuse_classifier
from ._auto import Auto as Auto
from ._departure import CorrectedReward as CorrectedReward
from ._departure import Departure as Departure
from ._departure import DepartureValue as DepartureValue
from ._departure import Gap as Gap
from ._departure import Sum as Sum
from ._evaluation import OneStep as OneStep
from ._evaluation import Projected as Projected
from ._joint import FOLDS as FOLDS
from ._joint import BasisReward as BasisReward
from ._joint import Joint as Joint
from ._joint import RewardGains as RewardGains
from ._likelihood import Likelihood as Likelihood
from ._likelihood import NetworkLogitReward as NetworkLogitReward
from ._likelihood import OwnReward as OwnReward
from ._likelihood import ValueColumn as ValueColumn
from ._likelihood import fit_offset_logit as fit_offset_logit
from ._re import RE as RE
from ._refined import AnchorAhead as AnchorAhead
from ._refined import ChoicePolicy as ChoicePolicy
from ._refined import FixedFunction as FixedFunction
from ._refined import FixedReward as FixedReward
from ._regression import Linear as Linear
from ._regression import LinearReward as LinearReward
from ._regression import Network as Network
from ._regression import NetworkReward as NetworkReward
from ._regression import Regressor as Regressor
from ._regression import RegressorReward as RegressorReward
from ._reward import AbstractReward as AbstractReward
from ._reward import AbstractRewardEstimator as AbstractRewardEstimator
from ._reward import RewardFit as RewardFit
from ._reward_basis import GivenBasis as GivenBasis
from ._reward_basis import RewardBasis as RewardBasis
from ._reward_basis import checked_features as checked_features
from ._table import Known as Known
from ._table import KnownLaw as KnownLaw
from ._table import LawReward as LawReward
from ._table import Table as Table
from ._table import TableReward as TableReward
from ._temperature import Affine as Affine
from ._temperature import AffineReward as AffineReward
from ._temperature import select_temperature as select_temperature

NAMES = {
    "auto": Auto,
    "joint": Joint,
    "likelihood": Likelihood,
    "regression": RE,
    "table": Table,
    "linear": Linear,
    "network": Network,
}


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

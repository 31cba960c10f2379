"""R, the third stage: estimators of the reward, given the policy and its values."""

from ._auto import Auto as Auto
from ._joint import Joint as Joint
from ._likelihood import Likelihood as Likelihood
from ._regression import Linear as Linear
from ._regression import Network as Network

"""P, the first stage: estimators of the policy log pi(a|s)."""

from ..learners._network import Training as Training
from ._airl import AIRL as AIRL
from ._boosted import Boosted as Boosted
from ._density_network import EnergyNetwork as EnergyNetwork
from ._density_network import Mixture as Mixture
from ._frequency import Frequency as Frequency
from ._given import Given as Given
from ._given_density import GivenDensity as GivenDensity
from ._given_density import squashed_density as squashed_density
from ._imitation import ImitationAIRL as ImitationAIRL
from ._logit import Logit as Logit
from ._network import Network as Network
from ._tensor import Tensor as Tensor

"""Standard errors, bands and tests: influence functions, projection, bootstrap."""

from ..panel._clusters import clustered_covariance as clustered_covariance
from ._bands import Bands as Bands
from ._bands import quantile_band as quantile_band
from ._bands import sup_t_bands_of_draws as sup_t_bands_of_draws
from ._bootstrap import Bootstrap as Bootstrap
from ._checked import SimulationCheck as SimulationCheck
from ._functionals import average as average
from ._functionals import compare as compare
from ._functionals import slopes as slopes
from ._influence import reward_influence as reward_influence
from ._one_step import OneStep as OneStep
from ._one_step import one_step as one_step
from ._projection import Projection as Projection
from ._projection import project as project
from ._ranking import Ranking as Ranking
from ._ranking import rank as rank
from ._resample import RewardAt as RewardAt
from ._simulation_check import simulation_check as simulation_check

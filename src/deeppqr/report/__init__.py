"""Tables and figures."""

from ._draws import summarise_draws as summarise_draws
from ._estimates import EstimateRow as EstimateRow
from ._estimates import Estimates as Estimates
from ._estimates import latex_escape as latex_escape
from ._figures import scatter_rewards as scatter_rewards
from ._rewards import rescaled_range as rescaled_range
from ._rewards import reward_range as reward_range
from ._summary import summarise as summarise

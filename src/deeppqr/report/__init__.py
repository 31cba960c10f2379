"""Tables and figures."""

from ._figures import scatter_rewards as scatter_rewards
from ._summary import summarise as summarise

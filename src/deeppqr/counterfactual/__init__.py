"""What agents would do if the world were another one."""

from ._demand import demand as demand
from ._demand import stationary_distribution as stationary_distribution

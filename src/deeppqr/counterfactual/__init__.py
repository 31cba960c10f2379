"""What agents would do if the world were another one."""

from ._changed import MeansAt as MeansAt
from ._changed import changed_states as changed_states
from ._demand import demand as demand

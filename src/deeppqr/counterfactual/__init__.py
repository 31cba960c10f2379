"""Counterfactuals: choices and rewards at changed states, demand under transfers."""

from ._changed import MeansAt as MeansAt
from ._changed import changed_states as changed_states
from ._demand import demand as demand

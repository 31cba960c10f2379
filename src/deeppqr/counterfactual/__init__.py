"""Counterfactuals: the agents' problem changed, solved again and compared."""

from ._answer import Counterfactual as Counterfactual
from ._changed import MeansAt as MeansAt
from ._changed import changed_states as changed_states
from ._counterfactual import counterfactual as counterfactual
from ._demand import demand as demand
from ._laws import Edited as Edited
from ._scenario import NewAction as NewAction
from ._sensitivity import sensitivity as sensitivity
from ._sensitivity_table import Sensitivity as Sensitivity

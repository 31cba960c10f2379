"""Names for the arrays that nearly every function takes or returns.

An axis of the same name has the same length in all of a call's arguments and results; the
tests enforce that. Rarer shapes are spelt out where they occur.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

States = Float[np.ndarray, "row state_feature"]  # encoded states, one per row
PerRow = Float[np.ndarray, " row"]  # a number for each row: a weight, a value
PerAction = Float[np.ndarray, "row action"]  # one for each row and action: Q, r, log pi
Codes = Int[np.ndarray, " row"]  # a whole number for each row: an action, a fold, a cell
Mask = Bool[np.ndarray, " row"]  # rows that are meant
TableValues = Float[np.ndarray, " state"]  # a number for each state of a table
TableActions = Float[np.ndarray, "state action"]  # one for each state and action of it

"""Where actions lead, learned from data and chosen by held-out units."""

from ._choice import Learned as Learned
from ._choice import learn_transition as learn_transition
from ._moves import MovedAhead as MovedAhead
from ._moves import Moves as Moves
from ._regression import RegressedAhead as RegressedAhead
from ._regression import Regression as Regression
from ._table import Table as Table
from ._table import TableAhead as TableAhead
from ._transition import AbstractAhead as AbstractAhead
from ._transition import AbstractTransition as AbstractTransition
from ._transition import StateFunction as StateFunction
from ._transition import Steps as Steps
from ._transition import in_pieces as in_pieces

"""Q, the second stage: solvers of the anchor's one-action Bellman equation."""

from ..learners._basis import RandomFeatures as RandomFeatures
from ._averager import Averager as Averager
from ._fitted import Fitted as Fitted
from ._linear import Linear as Linear
from ._structure import Renewal as Renewal

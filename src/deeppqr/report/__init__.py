"""Tables and figures."""

from ._compare import Comparison as Comparison
from ._compare import compare as compare
from ._estimates import Estimates as Estimates
from ._figures import STYLE as STYLE
from ._grid import latex_escape as latex_escape

"""Tables and figures."""

from ._compare import Comparison as Comparison
from ._compare import compare as compare
from ._estimates import Estimates as Estimates
from ._estimates import latex_escape as latex_escape
from ._figures import STYLE as STYLE

"""How far to trust what was estimated."""

from ._diagnostics import Diagnostic as Diagnostic
from ._diagnostics import Diagnostics as Diagnostics
from ._diagnostics import diagnose as diagnose

"""Decisions in: DataFrames, files and arrays, checked once on the way."""

from ._cells import COUNTED as COUNTED
from ._cells import Cells as Cells
from ._cells import few_states as few_states
from ._cells import fewest_rows as fewest_rows
from ._encoding import Encoding as Encoding
from ._encoding import StateColumn as StateColumn
from ._panel import Panel as Panel
from ._panel import action_index as action_index
from ._panel import read_file as read_file
from ._panel import require_panel as require_panel
from ._split import unit_folds as unit_folds

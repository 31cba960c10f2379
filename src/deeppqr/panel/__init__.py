"""RawDecisions in: DataFrames, files and arrays, checked once on the way."""

from ._panel import Panel as Panel

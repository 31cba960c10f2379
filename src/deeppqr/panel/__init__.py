"""Panels of observed decisions, from DataFrames, files, arrays or trajectories."""

from ._panel import Panel as Panel

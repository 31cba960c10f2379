"""Diagnostics of a fit: figures with verdicts, computed with it."""

from ._diagnostics import Diagnostics as Diagnostics

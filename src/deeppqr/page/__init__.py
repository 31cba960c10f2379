"""The HTML report of a fit, and how fits show themselves in notebooks."""

from ._report import write_report as write_report

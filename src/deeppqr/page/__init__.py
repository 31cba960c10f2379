"""The HTML report of a fit, and how fits show themselves in notebooks."""

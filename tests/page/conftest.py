"""Fits to report on."""

from drawn_fits import counted, fit, light, many, mixed  # noqa: F401

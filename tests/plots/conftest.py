"""Figures are drawn without a screen, and closed after each test."""

import matplotlib
import pytest

from drawn_fits import counted, fit, light, many, mixed  # noqa: F401

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def _close_figures():
    from matplotlib import pyplot

    yield
    pyplot.close("all")

"""Figures of a fit, drawn from what the fit keeps of its data."""

from ._curves import Curves as Curves
from ._curves import reward_curves as reward_curves
from ._plots import Plots as Plots

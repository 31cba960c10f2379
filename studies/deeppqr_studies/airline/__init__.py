"""The paper's real-world study: which markets carriers serve, and the reward of serving.

Decisions of periods 13 and 14 are fitted, those of period 15 predicted. The anchor is to
stay out of a market, with reward zero.
"""

from ._study import Airline as Airline

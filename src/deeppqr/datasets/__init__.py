"""Public data sets: loaders with the source, licence and checksum of each file."""

from ._airline import CARRIERS as CARRIERS
from ._airline import PLACES as PLACES
from ._airline import airline as airline
from ._airline import airline_frame as airline_frame
from ._airline import link_periods as link_periods
from ._bus import bus as bus
from ._bus import bus_frame as bus_frame
from ._bus import bus_increments as bus_increments
from ._card import card as card

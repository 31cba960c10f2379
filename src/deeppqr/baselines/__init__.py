"""Competing estimators behind one interface; each fit says which truth it was given."""

from ._bus_costs import bus_costs as bus_costs
from ._ccp import NPL as NPL
from ._ccp import HotzMiller as HotzMiller
from ._dairl import DAIRL as DAIRL
from ._law import CountedLaw as CountedLaw
from ._law import KnownLaw as KnownLaw
from ._law import MileageIncrements as MileageIncrements
from ._maxent import BehaviouralCloning as BehaviouralCloning
from ._maxent import MaxEntIRL as MaxEntIRL
from ._nfxp import NFXP as NFXP
from ._splgd import SPLGD as SPLGD
from ._structural import LinearReward as LinearReward
from ._tdccp import TDCCP as TDCCP

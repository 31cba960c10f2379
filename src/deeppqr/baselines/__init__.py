"""The paper's competing methods behind one interface; each says which truth it is given."""

from ._baseline import AbstractBaseline as AbstractBaseline
from ._baseline import BaselineFit as BaselineFit
from ._cloning import BehaviouralCloning as BehaviouralCloning
from ._dairl import DAIRL as DAIRL
from ._maxent import MaxEntIRL as MaxEntIRL
from ._splgd import SPLGD as SPLGD
from ._zero import Zero as Zero

"""Recover the reward behind observed decisions, identified by an anchor action.

Names load when they are first used, so that `import deeppqr` is quick and starts no
device.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import AbsorbingStateWarning as AbsorbingStateWarning
from ._errors import ActionNeverTaken as ActionNeverTaken
from ._errors import AnchorNeverTaken as AnchorNeverTaken
from ._errors import DataError as DataError
from ._errors import DataWarning as DataWarning
from ._errors import DeepPQRError as DeepPQRError
from ._errors import NoInfluenceFunction as NoInfluenceFunction
from ._errors import NotConvergedWarning as NotConvergedWarning
from ._errors import RoundedTransitionWarning as RoundedTransitionWarning
from ._errors import StorageError as StorageError
from ._errors import WeakOverlapWarning as WeakOverlapWarning

if TYPE_CHECKING:  # what `_LAZY` and `_ROOMS` say, as editors and type checkers read it
    from . import anchor as anchor
    from . import baselines as baselines
    from . import cluster as cluster
    from . import counterfactual as counterfactual
    from . import datasets as datasets
    from . import diagnostics as diagnostics
    from . import explore as explore
    from . import inference as inference
    from . import mdp as mdp
    from . import metrics as metrics
    from . import plots as plots
    from . import policy as policy
    from . import progress as progress
    from . import provenance as provenance
    from . import report as report
    from . import reward as reward
    from . import worlds as worlds
    from ._exact import exact as exact
    from ._exact_density import exact_density as exact_density
    from ._fit import Fit as Fit
    from ._pqr import PQR as PQR
    from ._storage import load as load
    from .actions._space import Box as Box
    from .actions._space import Mixed as Mixed
    from .inference._bootstrap import bootstrap as bootstrap
    from .panel._panel import Panel as Panel

_LAZY = {
    "Box": "actions._space",
    "Fit": "_fit",
    "Mixed": "actions._space",
    "PQR": "_pqr",
    "Panel": "panel._panel",
    "bootstrap": "inference._bootstrap",
    "exact": "_exact",
    "exact_density": "_exact_density",
    "load": "_storage",
}
_ROOMS = (
    *("anchor", "baselines", "cluster", "counterfactual", "datasets", "diagnostics"),
    *("explore", "inference", "mdp", "metrics", "plots", "policy", "progress"),
    *("provenance", "report"),
    *("reward", "worlds"),
)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name in _LAZY:
        value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    errors = [name for name in globals() if name.endswith(("Error", "Warning", "Taken"))]
    return sorted([*_LAZY, *_ROOMS, *errors, "NoInfluenceFunction"])

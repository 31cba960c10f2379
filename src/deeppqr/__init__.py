"""Recover the reward behind observed decisions, identified by an anchor action.

Names load when they are first used, so that `import deeppqr` is quick and starts no
device.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import anchor as anchor
    from . import baselines as baselines
    from . import cluster as cluster
    from . import counterfactual as counterfactual
    from . import datasets as datasets
    from . import inference as inference
    from . import mdp as mdp
    from . import metrics as metrics
    from . import policy as policy
    from . import progress as progress
    from . import provenance as provenance
    from . import report as report
    from . import reward as reward
    from . import worlds as worlds
    from ._errors import ActionNeverTaken as ActionNeverTaken
    from ._errors import AdversarialWarning as AdversarialWarning
    from ._errors import AnchorNeverTaken as AnchorNeverTaken
    from ._errors import DataError as DataError
    from ._errors import DeepPQRError as DeepPQRError
    from ._errors import NoInfluenceFunction as NoInfluenceFunction
    from ._errors import NotConvergedWarning as NotConvergedWarning
    from ._errors import StorageError as StorageError
    from ._errors import WeakOverlapWarning as WeakOverlapWarning
    from ._exact import ExactSolution as ExactSolution
    from ._exact import exact as exact
    from ._fit import Fit as Fit
    from ._pqr import PQR as PQR
    from ._storage import load as load
    from .inference import bootstrap as bootstrap
    from .panel import Panel as Panel

# Where each public name lives; `__getattr__` imports it from there on first use.
_ERRORS = (
    "ActionNeverTaken",
    "AdversarialWarning",
    "AnchorNeverTaken",
    "DataError",
    "DeepPQRError",
    "NoInfluenceFunction",
    "NotConvergedWarning",
    "StorageError",
    "WeakOverlapWarning",
)
_HOME = {
    "PQR": "_pqr",
    "Fit": "_fit",
    "Panel": "panel",
    "exact": "_exact",
    "ExactSolution": "_exact",
    "load": "_storage",
    "bootstrap": "inference",
    **dict.fromkeys(_ERRORS, "_errors"),
}
_MODULES = (
    "anchor",
    "baselines",
    "cluster",
    "counterfactual",
    "datasets",
    "inference",
    "mdp",
    "metrics",
    "policy",
    "progress",
    "provenance",
    "report",
    "reward",
    "transition",
    "worlds",
)
__all__ = sorted([*_HOME, *_MODULES])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value  # found directly the next time
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""The benchmark: each figure or table of deeppqr's documentation as a study.

A study is a list of tasks that run independently, and a report of their rows. `deeppqr
study NAME` runs one; `run_study` does the same from Python.
"""

from typing import Any

from deeppqr import DataError

from ._error_budget import ErrorBudget
from ._reward_recovery import RewardRecovery
from ._runner import Outcome as Outcome
from ._runner import attempt
from ._runner import run_study as run_study
from ._study import Option as Option
from ._study import Study as Study
from ._study import Task as Task
from ._study import all_options as all_options
from ._study import complete_settings as complete_settings
from .airline import Airline
from .buses._known_cost import BusKnownCost
from .buses._rust_pqr import RustPQR
from .buses._rust_table_ix import RustTableIX
from .buses._samq import SamqBusSlopes
from .paper._alpha_selection import AlphaSelection
from .paper._anchor_support import AnchorSupport
from .paper._convergence import Convergence
from .paper._q_recovery import QRecovery
from .paper._robustness import Robustness
from .paper._sensitivity import Sensitivity
from .paper._training_error import TrainingError

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        RewardRecovery(),
        QRecovery(),
        TrainingError(),
        Convergence(),
        ErrorBudget(),
        Robustness(),
        Sensitivity(),
        AlphaSelection(),
        AnchorSupport(),
        RustTableIX(),
        RustPQR(),
        BusKnownCost(),
        SamqBusSlopes(),
        Airline(),
    )
}


def find_study(name: str) -> Study:
    """The study of this name."""
    if name not in STUDIES:
        raise DataError(f"There is no study {name!r}; there are {sorted(STUDIES)}.")
    return STUDIES[name]


def run_task(study: str, task: Task) -> dict[str, Any]:
    """The record of one task of a named study, in whatever process this is."""
    return attempt(find_study(study), task)

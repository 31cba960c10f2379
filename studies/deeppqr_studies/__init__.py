"""The benchmark, one file per figure or table: tidy rows in, tables and figures out."""

from typing import Any

from deeppqr._errors import DataError
from ._airline import Airline as Airline
from ._alpha_selection import AlphaSelection as AlphaSelection
from ._anchor_support import AnchorSupport as AnchorSupport
from ._bus_known_cost import BusKnownCost as BusKnownCost
from ._convergence import Convergence as Convergence
from ._error_budget import ErrorBudget as ErrorBudget
from ._q_recovery import QRecovery as QRecovery
from ._reward_recovery import RewardRecovery as RewardRecovery
from ._robustness import Robustness as Robustness
from ._runner import Outcome as Outcome
from ._runner import attempt as attempt
from ._runner import run_study as run_study
from ._rust_pqr import RustPQR as RustPQR
from ._rust_table_ix import RustTableIX as RustTableIX
from ._samq_bus import SamqBusSlopes as SamqBusSlopes
from ._sensitivity import Sensitivity as Sensitivity
from ._study import Option as Option
from ._study import Study as Study
from ._study import Task as Task
from ._study import all_options as all_options
from ._training_error import TrainingError as TrainingError

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

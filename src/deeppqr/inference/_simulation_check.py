"""A simulation check: panels drawn from the fit, fitted again and compared with it."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError, DeepPQRError, NoInfluenceFunction
from .._messages import counted
from .._random import check_seed
from ..cluster._executor import CannotSend, Executor, Failed
from ..panel._panel import Panel
from ..progress import track
from ..report._estimates import Estimates
from ..report._interval import check_level
from ._bootstrap import EXPECTED, REPEATED, Failure, executor_of, numbers_of, require_model
from ._checked import Figures, Kept, SimulationCheck, figures_of
from ._functionals import average, slopes
from ._simulated import Simulation

if TYPE_CHECKING:
    from .._fit import Fit
    from .._pqr import PQR

Statistic = Callable[["Fit"], Estimates | Sequence[Estimates]]
# Numeric columns whose slopes are among the figures by default: a table of five actions
# and four columns has twenty lines, which a screen holds.
MAX_COLUMNS = 4


def simulation_check(
    fit: "Fit",
    panel: Panel,
    statistic: Statistic | None = None,
    *,
    replicates: Any = 20,
    seed: int = 0,
    level: float = 0.95,
    workers: Any = 1,
    executor: str | Executor | None = None,
    out: str | Path | None = None,
) -> SimulationCheck:
    """Whether a panel of this size tells the truth, were the fit the truth.

    Panels are drawn from the fit: every unit begins where it began and is followed as
    long, decides by the fit's policy, and moves by its law. Each is fitted again with the
    same model, and its figures and their intervals are compared with the fit's own. What
    the model cannot express, such as dependence between units, is not in these panels.

    Parameters
    ----------
    panel
        The panel that the fit was made from.
    statistic
        A function of a fit that gives a table of estimates, or a list of them, such as
        `lambda fit: fit.slopes("mileage", states)`. By default average rewards, and the
        average slopes in the first numeric columns, over the panel's states.
    replicates
        How many, or which: replicate 17 is the same panel whether it runs alone or among
        200. Results of different ones `join`.
    workers, executor
        As in `deeppqr.bootstrap`.
    out
        A CSV file that holds each replicate when it is done: what is in it is not run
        again, so that a stopped check goes on where it was.
    """
    check_seed(seed)
    check_level(level)
    numbers = numbers_of(replicates)
    model, simulation = require_model(fit), Simulation.of(fit, panel)
    chosen = _Default(panel) if statistic is None else statistic
    own = figures_of(chosen(fit), level)
    task = _Replicate(model, simulation, chosen, own.names, seed, level)
    kept = Kept.read(out, own, seed, level)
    todo = [number for number in numbers if number not in kept.found]
    for number, found in _run(task, todo, executor_of(workers, executor)):
        kept.add(number, found)
    done = {n: one for n, one in kept.found.items() if n in numbers}
    drawn = {n: one for n, one in sorted(done.items()) if isinstance(one, Figures)}
    stacked = lambda name: np.array(
        [getattr(one, name) for one in drawn.values()], np.float64
    ).reshape(len(drawn), len(own.names))
    low, high = stacked("low"), stacked("high")
    covered = np.where(np.isnan(low), np.nan, (low <= own.value) & (own.value <= high))
    return SimulationCheck(
        own.names,
        own.value,
        stacked("value"),
        stacked("error"),
        covered,
        np.array([*drawn], np.int64),
        tuple(one for _, one in sorted(done.items()) if isinstance(one, Failure)),
        seed,
        level,
        f"about {len(panel):,} decisions by {counted(panel.num_units, 'unit')}",
    )


@dataclass(frozen=True, eq=False)
class _Default:
    """Average rewards and slopes over a panel's states."""

    panel: Panel

    def __call__(self, fit: "Fit") -> list[Estimates]:
        states = self.panel.encoding.decode(self.panel.state)
        try:
            fit._errors()
        except NoInfluenceFunction:
            return [self._without_errors(fit, states)]
        found = [average(fit, self.panel)]
        numeric = [c.name for c in fit.encoding.columns if c.kind == "numeric"]
        return found + [slopes(fit, name, self.panel) for name in numeric[:MAX_COLUMNS]]

    def _without_errors(self, fit: "Fit", states: np.ndarray) -> Estimates:
        reward = fit.reward(states)
        value = np.average(reward, weights=self.panel.weight, axis=0)
        unknown = np.full((len(value), len(value)), np.nan)
        anchor = fit.estimate.anchor
        unknown[anchor, anchor] = 0.0
        return Estimates("Average reward", tuple(map(str, fit.actions)), value, unknown)


@dataclass(frozen=True, eq=False)
class _Replicate:
    """One simulated panel fitted again; it depends on its number alone."""

    model: "PQR"
    simulation: Simulation
    statistic: Statistic
    names: tuple[str, ...]
    seed: int
    level: float

    def __call__(self, number: int) -> Figures | Failure:
        rng = np.random.default_rng([self.seed, number])
        try:
            with warnings.catch_warnings():
                for warned in REPEATED:
                    warnings.simplefilter("ignore", warned)
                fit = self.model.fit(self.simulation.draw(rng))
            found = figures_of(self.statistic(fit), self.level)
        except EXPECTED as problem:
            return Failure(number, f"{type(problem).__name__}: {problem}")
        if found.names != self.names:
            return Failure(number, f"its figures are others: {', '.join(found.names[:3])}")
        if not np.isfinite(found.value).all():
            wrong = int((~np.isfinite(found.value)).sum())
            return Failure(number, f"{wrong} of {found.value.size} figures are not finite")
        return found


def _run(task: _Replicate, numbers: list[int], executor: Executor):
    """Each replicate's number with its figures, or why there are none."""
    results = executor.run(task, numbers)
    try:
        with closing(results), track("simulation check", len(numbers)) as progress:
            for position, value in results:
                number = numbers[position]
                if isinstance(value, Failed):
                    if value.traceback:
                        raise DeepPQRError(
                            f"Replicate {number} of the check stopped with "
                            f"{value.message}. No simulated panel explains such an error: "
                            "it is in the statistic, in a function that the model was "
                            f"given, or in deeppqr. It was raised here:\n{value.traceback}"
                        )
                    value = Failure(number, value.message)
                yield number, value
                progress.advance()
    except CannotSend as problem:
        raise DataError(
            "The fit, its panel and the statistic are sent to other processes and must be "
            f"picklable, but one is not ({problem.__cause__ or problem}). Use functions "
            "defined at the top level of a file, or workers=1."
        ) from problem

"""The bootstrap over units: refits on units drawn with replacement."""

import inspect
import warnings
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._errors import (
    AbsorbingStateWarning,
    DataError,
    DeepPQRError,
    NotConvergedWarning,
    RoundedTransitionWarning,
    WeakOverlapWarning,
)
from .._messages import counted
from .._random import check_seed
from ..cluster._cores import Cores
from ..cluster._executor import CannotSend, Executor, Failed, Here
from ..cluster._resolve import resolve
from ..panel._panel import Panel, require_panel
from ..progress import track
from ..report._estimates import print_draws
from ..report._interval import check_level, normal_interval
from ._bands import Bands, needed_draws, sup_t_bands_of_draws
from ._resample import RewardAt, copied_panel, draw_units, weighted_panel

if TYPE_CHECKING:
    from .._fit import Fit
    from .._pqr import PQR

Statistic = Callable[["Fit"], Any]
MIN_UNITS = 2  # with one unit every replicate is the panel itself
# Errors that resampling can cause in correct code: an action that is no longer taken, a
# singular system, a statistic that divides by zero. Other exceptions are bugs and raised.
EXPECTED = (DeepPQRError, np.linalg.LinAlgError, ArithmeticError)
# Warnings that the fit on the panel itself has given already.
REPEATED = (
    AbsorbingStateWarning,
    NotConvergedWarning,
    RoundedTransitionWarning,
    WeakOverlapWarning,
)


class Failure(NamedTuple):
    """A replicate that could not be fitted."""

    replicate: int
    message: str


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap:
    """A statistic with its draws over resampled units; print it."""

    estimate: Float[np.ndarray, "*shape"]
    """On the panel itself."""
    draws: Float[np.ndarray, "draw *shape"]
    replicates: Int[np.ndarray, " draw"]
    """Which replicate each draw is, in order."""
    failures: tuple[Failure, ...]
    """Replicates that are missing, and why. Errors that leave many out are too small."""
    seed: int
    names: tuple[str, ...] = ()
    """Of the statistic's entries, raveled, where it has names for them."""

    @property
    def note(self) -> str:
        """How many replicates there are, and how many failed."""
        tried = len(self.draws) + len(self.failures)
        if not self.failures:
            return f"{counted(tried, 'replicate')}, none failed"
        first = self.failures[0]
        return (
            f"{len(self.failures)} of {tried:,} replicates failed, the first of them "
            f"number {first.replicate}: {first.message}"
        )

    @property
    def standard_errors(self) -> Float[np.ndarray, "*shape"]:
        return self._some().std(axis=0, ddof=1)

    @property
    def covariance(self) -> Float[np.ndarray, "entry entry"]:
        """Of the statistic's entries, raveled."""
        flat = self._some().reshape(len(self.draws), -1)
        return np.atleast_2d(np.cov(flat, rowvar=False))

    def interval(
        self, level: float = 0.95, *, kind: str = "percentile"
    ) -> Float[np.ndarray, "end *shape"]:
        """Low and high ends: of the draws' quantiles, or `"normal"` about the estimate."""
        check_level(level)
        if kind == "normal":
            error, df = self.standard_errors, len(self.draws) - 1
            return normal_interval(self.estimate, error, level, df=df)
        if kind != "percentile":
            raise DataError(f'`kind` must be "percentile" or "normal", but it is {kind!r}.')
        if self.few_draws(level):
            raise DataError(
                f"The quantiles of {counted(len(self.draws), 'draw')} cannot be the ends "
                f"of a {100 * level:g} % interval; that takes {needed_draws(level)} at "
                'least. Draw more `replicates`, or take kind="normal", which allows for '
                "few draws by Student's t."
            )
        tail = (1 - level) / 2
        return np.quantile(self._some(), [tail, 1 - tail], axis=0)

    def few_draws(self, level: float) -> bool:
        """Whether the draws are too few for quantiles at this level."""
        return len(self.draws) < needed_draws(level)

    def bands(self, states: Any, level: float = 0.95) -> Bands:
        """Bands that hold the whole curve at once, for a statistic over `states`."""
        if self.estimate.shape != (len(states),):
            raise DataError(
                f"Bands need a statistic with one number for each of the {len(states)} "
                f"states, but its shape is {self.estimate.shape}."
            )
        return sup_t_bands_of_draws(
            np.asarray(states), self.estimate, self._some(), level=level
        )

    def join(self, other: "Bootstrap") -> "Bootstrap":
        """Both results as one; their replicates must differ and their seeds agree."""
        tried = set(self.replicates) | {failure.replicate for failure in self.failures}
        again = set(other.replicates) | {failure.replicate for failure in other.failures}
        if self.seed != other.seed or tried & again:
            raise DataError(
                "Only results of one seed and of different replicates can be joined, but "
                f"the seeds are {self.seed} and {other.seed} and {len(tried & again)} "
                "replicates are in both."
            )
        number = np.concatenate([self.replicates, other.replicates])
        order = np.argsort(number)
        failures = sorted([*self.failures, *other.failures])
        draws = np.concatenate([self.draws, other.draws])[order]
        return replace(
            self, draws=draws, replicates=number[order], failures=tuple(failures)
        )

    def summary(self) -> str:
        """A table: estimate, standard error and 95 % interval of each entry."""
        return print_draws(self).text()

    def latex(self) -> str:
        """The same table for LaTeX, with the rules of booktabs."""
        return print_draws(self).latex()

    __str__ = summary

    def __repr__(self) -> str:
        return f"Bootstrap(shape={self.estimate.shape}, {self.note})"

    def _some(self) -> np.ndarray:
        if len(self.draws) < 2:
            raise DataError(f"Errors need two draws at least: {self.note}.")
        return self.draws


def bootstrap(
    model: "PQR",
    panel: Panel,
    statistic: Statistic,
    *,
    replicates: Any = 200,
    seed: int = 0,
    workers: Any = 1,
    executor: str | Executor | None = None,
    estimate: Any = None,
    warm: bool = False,
    device: Any = None,
    fit: "Fit | None" = None,
) -> Bootstrap:
    """Refit a model on resampled units and collect a statistic of each fit.

    Units are drawn with replacement. A unit drawn twice gets twice the weight, and is not
    copied, so that cross-validation cannot train on one copy and test on the other. Where
    an estimator takes no weights, its rows are repeated as another unit.

    Parameters
    ----------
    statistic
        A function of a fit that gives a number or an array; `RewardAt(states)`, say. Where
        it has no value it may raise a `DataError` or an `ArithmeticError`: the replicate
        then counts as failed. Any other exception ends the bootstrap.
    replicates
        How many, or which: replicate 17 draws the same units whether it runs alone, among
        200, or in another process. Results of different ones `join`.
    workers
        Processes to use. The model, the panel and the statistic must then be picklable:
        functions defined at the top level of a file.
    executor
        In place of `workers`: "here", "cores", "cores:4", "ray", "ray:ADDRESS", or an
        executor of `deeppqr.cluster`. The draws are the same for all.
    estimate
        The statistic on the panel itself, where it is known already.
    warm
        Replicates of a default fit start from it, many at a time, which takes a hundredth
        of the time. They draw the same units. Their coefficients, value, policy and, to
        first order, the law follow from the new weights; terms, penalties and features
        of the value are the fit's. See the guide to performance.
    device
        Where warm refits run: "cpu", "gpu"; by default where JAX does, as JAX_PLATFORMS
        says.
    fit
        The model's fit on the panel, where it is at hand; warm refits start from it.
    """
    require_panel(panel, amounts=True)
    check_seed(seed)
    numbers = numbers_of(replicates)
    if panel.num_units < MIN_UNITS:
        raise DataError(
            "The bootstrap draws whole units, and this panel has a single one. Cut its "
            "path into shorter ones and name these with `unit`."
        )
    if warm:
        fit = model.fit(panel) if fit is None else fit
    if estimate is None:
        estimate = measure(statistic, model.fit(panel) if fit is None else fit)
    if warm and fit is not None:
        if executor is not None or workers != 1:
            raise DataError(
                "Warm refits run in batches in this process, on all its cores or its "
                "device. Leave `workers` and `executor` out, or `warm`."
            )
        found = _warm(model, fit, panel, statistic, numbers, seed, device)
        return _collect(
            np.asarray(estimate, dtype=np.float64), found, seed, _names(statistic, panel)
        )
    chosen = executor_of(workers, executor)
    task = _Replicate(model, panel, statistic, seed, copies=not takes_weights(model))
    found = sorted(_run(task, numbers, chosen), key=lambda one: one[0])
    names = _names(statistic, panel)
    return _collect(np.asarray(estimate, dtype=np.float64), found, seed, names)


def _names(statistic: Statistic, panel: Panel) -> tuple[str, ...]:
    return statistic.names(panel) if isinstance(statistic, RewardAt) else ()


def _warm(model, fit, panel, statistic, numbers, seed, device):
    """Draws by refits that start from the fit, or why there is none, by number."""
    from .warm._replicates import warm_fits  # compiled functions, for those who ask

    found = []
    with track("bootstrap", len(numbers)) as progress:
        for number, made in warm_fits(model, fit, panel, numbers, seed, device):
            failed = isinstance(made, str)
            value = Failure(number, made) if failed else drawn(number, made, statistic)
            found.append((number, value))
            progress.advance()
    return found


def _collect(
    estimate: np.ndarray,
    found: list[tuple[int, np.ndarray | Failure]],
    seed: int,
    names: tuple[str, ...],
) -> Bootstrap:
    """Draws apart from failures; a draw of another shape is one of these."""
    draws, failures, shape = {}, [], estimate.shape
    for number, value in found:
        if isinstance(value, Failure):
            failures.append(value)
        elif value.shape != shape:
            wrong = f"its shape is {value.shape} where the panel's is {shape}"
            failures.append(Failure(number, wrong))
        else:
            draws[number] = value
    drawn = np.array([*draws.values()], np.float64).reshape(len(draws), *shape)
    numbers = np.array([*draws], np.int64)
    return Bootstrap(estimate, drawn, numbers, tuple(failures), seed, names)


@dataclass(frozen=True, eq=False)
class _Replicate:
    """One refit, which depends on its number and not on the other replicates."""

    model: "PQR"
    panel: Panel
    statistic: Statistic
    seed: int
    copies: bool

    def __call__(self, number: int) -> np.ndarray | Failure:
        count, seed = draw_units(self.panel.num_units, self.seed, number)
        draw = copied_panel if self.copies else weighted_panel
        model = replace(self.model, seed=seed)
        return drawn(number, lambda: model.fit(draw(self.panel, count)), self.statistic)


def drawn(
    number: int, refit: Callable[[], "Fit"], statistic: Statistic
) -> np.ndarray | Failure:
    """A replicate's statistic, or why it has none."""
    try:
        with warnings.catch_warnings():
            for warned in REPEATED:
                warnings.simplefilter("ignore", warned)
            fit = refit()
        value = np.asarray(statistic(fit), dtype=np.float64)
    # A replicate may lack an action or a state. It is counted as failed and reported,
    # since leaving such replicates out in silence makes errors too small.
    except EXPECTED as problem:
        return Failure(number, f"{type(problem).__name__}: {problem}")
    if not np.isfinite(value).all():
        wrong = int((~np.isfinite(value)).sum())
        why = f"{wrong} of {value.size} entries of the statistic are not finite"
        return Failure(number, why)
    return value


def require_own_panel(fit: "Fit", panel: Panel) -> None:
    """Refuse a panel other than the fit's: draws of one say nothing about the other."""
    require_panel(panel, amounts=True)
    own = fit.provenance.get("panel", {})
    if own.get("digest", panel.digest) != panel.digest:
        raise DataError(
            f"The panel must be the one that the fit was made from, of {own['rows']:,} "
            f"decisions by {counted(own['units'], 'unit')}, but another one of "
            f"{len(panel):,} by {counted(panel.num_units, 'unit')} arrived: its errors are "
            "not those of this fit. Pass the fit's own panel, or fit again on this one: "
            "fit.model.fit(panel)."
        )


def measure(statistic: Statistic, fit: "Fit") -> Float[np.ndarray, "*shape"]:
    """The statistic of the fit on the panel itself, where a mistake in it shows first."""
    example = "such as `lambda fit: fit.reward([[0.0]])`"
    if not callable(statistic):
        raise DataError(
            f"`statistic` must be a function of a fit, {example}, but {statistic!r} "
            "arrived."
        )
    try:
        found = statistic(fit)
    except DeepPQRError:
        raise
    except Exception as problem:
        raise DataError(
            f"`statistic` stopped with {type(problem).__name__}: {problem}, on the panel "
            f"itself. It is called with a Fit and returns numbers, {example}."
        ) from problem
    return _numbers_of(found, example)


def _numbers_of(found: Any, example: str) -> np.ndarray:
    try:
        numbers = None if found is None else np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or numbers.size == 0:
        said = repr(found)
        raise DataError(
            f"`statistic` must return a number or an array of them, {example}, but it "
            f"returned {said if len(said) < 80 else said[:77] + '...'}."
        )
    return numbers


def require_model(fit: "Fit") -> "PQR":
    """The model to refit, refusing a fit that has none."""
    if fit.model is None:
        raise DataError(
            "Errors of this fit need refits, and a fit that was read from a folder does "
            "not know its model. Fit the model again, or call deeppqr.bootstrap(model, "
            "panel, statistic)."
        )
    return fit.model


def takes_weights(model: "PQR") -> bool:
    """Whether every scikit-learn part of a model can be fitted with weights."""
    parts = [model.policy, model.anchor_value, model.reward]
    parts += [getattr(p, n, None) for p in parts for n in ("estimator", "regressor")]
    learners = [p for p in parts if hasattr(p, "fit") and hasattr(p, "get_params")]
    return all(
        "sample_weight" in inspect.signature(learner.fit).parameters for learner in learners
    )


def executor_of(workers: Any, executor: str | Executor | None) -> Executor:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise DataError(
            f"`workers` must be a number of processes, 1 or more, but it is {workers!r}."
        )
    if executor is None:
        return Here() if workers == 1 else Cores(workers)
    if workers != 1:
        raise DataError(
            f"Give `workers` or `executor`, not both: {workers!r} and {executor!r} "
            f'arrived. executor="cores:{workers}" says the same as the first.'
        )
    return resolve(executor)


def _run(
    task: _Replicate, numbers: list[int], executor: Executor
) -> list[tuple[int, np.ndarray | Failure]]:
    """Draws, or why there is none, by number.

    A lost process costs its replicate. An exception that resampling does not explain
    would be in every replicate: it ends the bootstrap.
    """
    found = []
    results = executor.run(task, numbers)
    try:
        with closing(results), track("bootstrap", len(numbers)) as progress:
            for position, value in results:
                number = numbers[position]
                if isinstance(value, Failed):
                    if value.traceback:
                        raise DeepPQRError(
                            f"Replicate {number} of the bootstrap stopped with "
                            f"{value.message}. No draw of units explains such an error: it "
                            "is in the statistic, in a function that the model was given, "
                            f"or in deeppqr. It was raised here:\n{value.traceback}"
                        )
                    value = Failure(number, value.message)
                found.append((number, value))
                progress.advance()
    except CannotSend as problem:
        raise DataError(
            "The model, the panel and the statistic are sent to other processes and must "
            f"be picklable, but one is not ({problem.__cause__ or problem}). Use functions "
            "defined at the top level of a file, deeppqr.inference.RewardAt, or workers=1."
        ) from problem
    return found


def numbers_of(replicates: Any) -> list[int]:
    listed = replicates
    if isinstance(replicates, (int, np.integer)) and not isinstance(replicates, bool):
        listed = range(int(replicates))
    # A list of what cannot be listed is empty, and refused below.
    numbers = list(listed) if isinstance(listed, Iterable) else []
    whole = all(isinstance(n, (int, np.integer)) for n in numbers)
    if not (numbers and whole) or min(numbers) < 0 or len({*numbers}) < len(numbers):
        raise DataError(
            "`replicates` must be a number of replicates, or different whole numbers from "
            f"0 on, but {replicates!r} arrived."
        )
    return sorted(map(int, numbers))

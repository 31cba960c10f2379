"""Chooses the complexity of the reward on held-out units."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from .._shapes import Codes, PerRow
from ._reward_basis import APART, LEVELS, GivenBasis, RewardBasis
from ._ridge_logit import FREE, Choices, RidgeLogit, fit_ridge_logit, held_out_predictor


@dataclass(frozen=True, eq=False)
class Chosen:
    """Coefficients of all features, zero where simpler rewards do as well."""

    theta: Float[np.ndarray, " feature"]
    name: str
    judged: "Judged"
    evidence: tuple[tuple[str, float], ...]
    """Levels of complexity with their held-out log-likelihood, simplest first."""

    @property
    def held_out(self) -> PerRow:
        """Log-probability of each choice under coefficients found without its fold."""
        return self.judged.scores

    @property
    def note(self) -> str:
        fit, factor = self.judged.fit, self.judged.factor
        used = float(fit.effective.sum()) or float(len(fit.theta))
        compared = ", ".join(f"{name} {score:.5f}" for name, score in self.evidence)
        shrunk = f", times {factor:.2f}" if factor < 0.995 else ""
        return (
            f"{self.name}, {used:.1f} effective coefficients{shrunk} (held-out "
            f"log-likelihood: {compared})"
        )


def choose_level(choices: Choices, basis: RewardBasis | GivenBasis, fold: Codes) -> Chosen:
    """The simplest reward whose held-out log-likelihood is within two standard errors of
    the best one's (a form of the one-standard-error rule of cross-validation).
    """
    if isinstance(basis, GivenBasis):
        # The user's features are the model: no choice of complexity and no shrinkage.
        judged = _judge(choices, basis.group, fold, shrink=False)
        mean = float(np.average(judged.scores, weights=choices.weight))
        return Chosen(judged.theta, "given features", judged, (("given", mean),))
    levels, tried = np.unique(basis.level), []
    for level in levels:
        used = basis.level <= level
        group = np.unique(basis.group[used], return_inverse=True)[1]
        tried.append((used, _judge(choices.use(used), group, fold)))
    means = [float(np.average(j.scores, weights=choices.weight)) for _, j in tried]
    best = int(np.argmax(means))
    # Linear terms are penalised and shrink to zero by themselves, so a reward without them
    # is chosen only if it is the best, not if it is merely close.
    simplest = 0 if best == 0 else 1
    pick = next(
        place
        for place in range(simplest, best + 1)
        if not clearly_better(tried[best][1].scores, tried[place][1].scores, choices.weight)
    )
    used, judged = tried[pick]
    theta = np.zeros(len(used))
    theta[used] = judged.theta
    names = [LEVELS[level] for level in levels]
    evidence = tuple(zip(names, means, strict=True))
    return Chosen(theta, names[pick], judged, evidence)


def choose_grouping(choices: Choices, basis: RewardBasis, fold: Codes) -> RewardBasis:
    """Whether actions depart from a smooth function of their number, and which terms need
    penalties of their own: only if held-out units clearly say so."""

    def score(candidate: RewardBasis, used: Bool[np.ndarray, " feature"]) -> np.ndarray:
        return _judge(choices.use(used), candidate.group, fold).scores

    chosen, used = basis.without_free_shapes(), ~basis.is_free
    best = score(chosen, used)
    if basis.is_free.any():
        every = np.ones(len(used), dtype=bool)
        freer = score(basis, every)
        if clearly_better(freer, best, choices.weight):
            chosen, used, best = basis, every, freer
    # Greedy, from few penalties to many: each must earn its place on held-out units.
    for apart in APART[1:]:
        candidate = replace(chosen, apart=apart)
        scores = score(candidate, used)
        if clearly_better(scores, best, choices.weight):
            chosen, best = candidate, scores
    return chosen


@dataclass(frozen=True, eq=False)
class Judged:
    """A fitted logit with what held-out units say of it."""

    fit: RidgeLogit
    factor: float
    """At most one: the multiple of the coefficients that held-out units prefer."""
    scores: PerRow

    @property
    def theta(self) -> Float[np.ndarray, " feature"]:
        return self.factor * self.fit.theta


def _judge(choices: Choices, group: np.ndarray, fold: np.ndarray, *, shrink=True) -> Judged:
    fit = fit_ridge_logit(choices, group)
    predictor = held_out_predictor(choices, fit, group, fold)
    alone = replace(choices, design=predictor[:, :, None])
    full, none = alone.chosen(np.ones(1)), alone.chosen(np.zeros(1))
    factor = 1.0
    # With little signal the chosen penalties are noise themselves, and too small as often
    # as too large; a single factor, chosen on held-out rows, corrects that.
    if shrink and not clearly_better(full, none, choices.weight):
        best = fit_ridge_logit(alone, np.array([FREE])).theta[0]
        factor = float(np.clip(best, 0.0, 1.0))
    return Judged(fit, factor, alone.chosen(np.array([factor])))


def clearly_better(scores: PerRow, others: PerRow, weight: PerRow) -> bool:
    """Whether the mean advantage exceeds twice its standard error.

    Given the states, choices are independent: rows count, by their weight.
    """
    gain = scores - others
    mean = np.average(gain, weights=weight)
    error = np.sqrt(np.sum(weight * (gain - mean) ** 2)) / weight.sum()
    # Two standard errors. At four, the paper world (p = 2, 2,000 decisions) gets a reward
    # linear in the state instead of one with bends, and rewards move by 0.66 of their
    # standard deviation; the choices on the table, the firms and Rust's group 4 stay.
    return bool(mean > 2 * error)

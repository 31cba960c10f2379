"""How complex a reward the data support: judged on held-out units."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from ._reward_basis import LEVELS, GivenBasis, RewardBasis
from ._ridge_logit import Choices, RidgeLogit, fit_ridge_logit, held_out_scores


@dataclass(frozen=True, eq=False)
class Chosen:
    """Coefficients of all features, zero where simpler rewards do as well."""

    theta: Float[np.ndarray, " feature"]
    fit: RidgeLogit
    name: str
    held_out: Float[np.ndarray, " row"]
    """Log-probability of each choice under coefficients found without its fold."""
    evidence: tuple[tuple[str, float], ...]
    """Levels of complexity with their held-out log-likelihood, simplest first."""

    @property
    def note(self) -> str:
        used = float(self.fit.effective.sum()) or float(len(self.fit.theta))
        compared = ", ".join(f"{name} {score:.5f}" for name, score in self.evidence)
        return (
            f"{self.name}, {used:.1f} effective coefficients (held-out log-likelihood: "
            f"{compared})"
        )


def choose_level(
    choices: Choices, basis: RewardBasis | GivenBasis, fold: Int[np.ndarray, " row"]
) -> Chosen:
    """The simplest reward that predicts held-out units about as well as any.

    About as well: the best one's advantage does not exceed twice its standard error.
    """
    if isinstance(basis, GivenBasis):
        fit, scores = _judge(choices, basis.group, fold)
        mean = float(np.average(scores, weights=choices.weight))
        return Chosen(fit.theta, fit, "given features", scores, (("given", mean),))
    tried = []
    for level in range(int(basis.level.max()) + 1):
        used = basis.level <= level
        group = np.unique(basis.group[used], return_inverse=True)[1]
        fit, scores = _judge(choices.use(used), group, fold)
        theta = np.zeros(len(used))
        theta[used] = fit.theta
        tried.append((LEVELS[level], theta, fit, scores))
    means = [float(np.average(t[3], weights=choices.weight)) for t in tried]
    best = int(np.argmax(means))
    # Linear terms are shrunk anyway: constants must be better, not just about as good.
    simplest = 0 if best == 0 else 1
    pick = next(
        index
        for index in range(simplest, best + 1)
        if not clearly_better(tried[best][3], tried[index][3], choices.weight)
    )
    name, theta, fit, scores = tried[pick]
    evidence = tuple((t[0], mean) for t, mean in zip(tried, means, strict=True))
    return Chosen(theta, fit, name, scores, evidence)


def choose_grouping(
    choices: Choices, basis: RewardBasis, fold: Int[np.ndarray, " row"]
) -> RewardBasis:
    """Whether actions depart from a smooth function of their number, and whether state
    variables need penalties of their own: only if held-out units clearly say so."""

    def score(candidate: RewardBasis, used: Bool[np.ndarray, " feature"]) -> np.ndarray:
        return _judge(choices.use(used), candidate.group, fold)[1]

    smooth, used = basis.without_free_shapes(), ~basis.is_free
    scores = score(smooth, used)
    if basis.is_free.any():
        every = np.ones(len(used), dtype=bool)
        freer = score(basis, every)
        if clearly_better(freer, scores, choices.weight):
            smooth, used, scores = basis, every, freer
    apart = replace(smooth, by_variable=True)
    own = clearly_better(score(apart, used), scores, choices.weight)
    return apart if own else smooth


def _judge(choices: Choices, group: np.ndarray, fold: np.ndarray):
    fit = fit_ridge_logit(choices, group)
    return fit, held_out_scores(choices, fit, group, fold)


def clearly_better(
    scores: Float[np.ndarray, " row"],
    others: Float[np.ndarray, " row"],
    weight: Float[np.ndarray, " row"],
) -> bool:
    """Whether the mean advantage exceeds twice its standard error.

    Given the states, choices are independent: rows count, by their weight.
    """
    gain = scores - others
    mean = np.average(gain, weights=weight)
    error = np.sqrt(np.sum(weight * (gain - mean) ** 2)) / weight.sum()
    return bool(mean > 2 * error)

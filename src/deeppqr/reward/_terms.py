"""Which terms of the reward the data ask for, and other steps between the stages."""

import numpy as np

from .._shapes import States
from ..learners._ridge_logit import FREE, best_penalty, log_evidence
from ..learners._smooth_basis import SmoothBasis
from ._given_basis import GivenBasis
from ._rounds import Fitted, num_groups

# A term with fewer effective coefficients is dropped; constants always stay.
ASKED_FOR = 0.5
# Coefficients of the lines from which on few families are tried, as each takes seconds: 25
# unordered actions and 30 columns have twice as many.
LARGE = 500
# Evidence, in nats, for a family of terms over a simpler one, and for each penalty more:
# the largest evidence rises by a quarter on average for one that is not needed, and with
# one for every variable such gains add up.
FAMILY, PER_PENALTY = 3.0, 0.5


def evidence(fit: Fitted, basis: SmoothBasis) -> float:
    """The largest log evidence with a basis' penalties, at the fit's quadratic form."""
    right = fit.information @ fit.theta + fit.gradient
    start = np.ones(num_groups(basis))
    penalty, _ = best_penalty(fit.information, right, basis.group, start, 100)
    return log_evidence(fit.information, right, basis.group, penalty)


def asked_for(basis: SmoothBasis, information, right) -> SmoothBasis:
    """The basis with the terms that the evidence supports, at a quadratic approximation.

    First which family: bends along the learned direction, bends of single variables with
    products, the surface, or several of these; then, within it, terms with some effective
    coefficients.
    """
    kinds = [term.kind for term in basis.terms]
    always = np.array([k == "constants" or k[:5] in ("lines", "level") for k in kinds])
    along = np.array(["direction" in k for k in kinds])
    surface = np.array([k == "surface" for k in kinds])
    own = ~(always | along | surface)
    families = [always | along, always | own]
    if surface.any():
        families += [always | surface, always | surface | along, np.ones_like(always)]
    large = always[basis.term_of].sum() > LARGE
    if large:
        families = [always | own, np.ones_like(always)]
    best, chosen, found = -np.inf, basis, np.zeros(0)
    for family in families:
        used = family[basis.term_of]
        system, target = information[np.ix_(used, used)], right[used]
        part = basis.narrowed(family)
        # Bends of all variables with one penalty, or with one each.
        tied = part.tied("bends of")
        for tried in (tied,) if large or tied is part else (tied, part):
            start = np.ones(num_groups(tried))
            penalty, effective = best_penalty(system, target, tried.group, start, 40)
            score = log_evidence(system, target, tried.group, penalty)
            score -= PER_PENALTY * len(penalty)
            if score > best + FAMILY:
                best, chosen, found = score, tried, effective
    ends = np.cumsum([term.width for term in chosen.terms])[:-1]
    groups = [np.unique(group) for group in np.split(chosen.group, ends)]
    stays = [
        group[0] == FREE or term.kind == "constants"
        for group, term in zip(groups, chosen.terms, strict=True)
    ]
    enough = [
        stay or found[group].sum() >= ASKED_FOR
        for stay, group in zip(stays, groups, strict=True)
    ]
    return chosen.narrowed(np.array(enough))


def carry_over_coefficients(basis: SmoothBasis, fit: Fitted, sample: States) -> np.ndarray:
    """Coefficients with which a basis comes closest to a reward found with another."""
    most = max(200, 4_000_000 // (basis.num_actions * len(basis)))
    state = sample[:: max(1, len(sample) // min(3_000, most))]
    design = basis.design(state).reshape(-1, len(basis))
    target = fit.basis(state, fit.theta).ravel()
    gram = design.T @ design + 1e-6 * len(design) * np.eye(len(basis))
    return np.linalg.solve(gram, design.T @ target)


def term_names(basis: SmoothBasis | GivenBasis) -> str:
    if isinstance(basis, GivenBasis):
        return "the given features"
    kinds = dict.fromkeys(term.kind.split(" of ")[0] for term in basis.terms)
    return ", ".join(kinds)


def said_of(fit: Fitted, rows: int, more: str = "") -> str:
    """An estimate in words: its terms, how many coefficients, how many rounds."""
    used = float(fit.effective.sum()) or float(len(fit.theta))
    return (
        f"{used:.1f} effective coefficients in {term_names(fit.basis)}; {fit.rounds} "
        f"rounds on {rows:,} decisions{more}{'' if fit.converged else ', not converged'}"
    )


def spaced(number: int, most: int) -> np.ndarray:
    """Up to `most` rows in evenly spaced blocks: paths keep their neighbours."""
    if number <= most:
        return np.arange(number)
    length = min(250, most)
    starts = np.linspace(0, number - length, max(1, most // length)).astype(np.int64)
    return np.unique((starts[:, None] + np.arange(length)).ravel())

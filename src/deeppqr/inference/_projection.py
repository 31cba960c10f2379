r"""Projection of a fitted reward on features: minimum distance, and a test of the form.

Estimates $\hat\beta$ of the reward, at states and actions or as coefficients on columns
that contain the features, obey $\beta = C\theta$ if r is linear in the features. With
$\Omega$ the covariance of $\hat\beta$, clustered by unit,
$$\hat\theta = \arg\min_\theta\,(\hat\beta - C\theta)'\,\Omega^{-1}(\hat\beta - C\theta),$$
and the minimum J tests the form: it is chi-squared with one degree of freedom for each
direction in which the estimates can vary beyond those of theta. With few clusters
$\Omega$ is itself uncertain, which is allowed for exactly as if $\hat\beta$ were normal: J
is referred to Hotelling's F, and $\hat\theta$'s covariance grows by
$\nu(\nu-1)/\{(\nu-q)(\nu-q-1)\}$.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._errors import DataError, NoInfluenceFunction
from ..panel._clusters import Clusters, clustered_covariance
from ..panel._panel import Panel
from ..policy._frequency import FrequencyPolicy
from ..policy._policy import Clipped
from ..report._estimates import Estimates
from ..report._interval import normal_interval
from ..reward._influence import Realised, solve_gram
from ..reward._joint_reward import JointReward
from ..reward._table import TableReward
from ._bootstrap import bootstrap, require_model, require_own_panel
from ._features import Features, resolve_features, with_extras
from ._influence import bare_reward, require_same_columns, reward_influence
from ._resample import RewardAt

if TYPE_CHECKING:
    from .._fit import Fit

# Rows behind an estimated reward for the normal approximation to be trusted, by the usual
# rule of thumb. At 40 the two projections of tests/pinned are the same.
MIN_ROWS = 20.0
# Clusters needed for each estimate that is weighted by their covariance: an estimated
# covariance of q estimates has an inverse that is too large by about q / clusters. Doubled,
# the projections of the bus with known costs and of Rust's group 4 are the same.
CLUSTERS_PER_MOMENT = 4
PARAMETRIC = "since the policy is parametric"
# Variance, as a share of the largest, below which a direction of the estimates is fixed: a
# policy's form can tie coefficients to each other, and what is left of their variance is
# rounding error, 1e-26 under a logit at discount 0. Real directions of the projections in
# tests/pinned have 1e-5 and more.
FIXED = 1e-10
FEW_DRAWS = 100  # with more, Student's t and the normal quantile differ by less than 1.3 %


class SpecificationTest(NamedTuple):
    """Whether a reward linear in the features can have given the data."""

    statistic: float
    """J, the weighted distance that theta leaves."""
    df: int
    p: float

    def __str__(self) -> str:
        p = "p < 0.001" if self.p < 0.0005 else f"p = {self.p:.3f}"
        return f"J = {self.statistic:.2f}, df = {self.df}, {p}"


@dataclass(frozen=True, eq=False)
class Projection:
    """The parameters of a reward that is linear in given features."""

    names: tuple[str, ...]
    theta: Float[np.ndarray, " feature"]
    covariance: Float[np.ndarray, "feature feature"]
    test: SpecificationTest | None
    """None where nothing can be tested; the note then says why."""
    facts: dict[str, str] = field(default_factory=dict)
    note: str = ""
    """How it was found."""
    df: float = np.inf
    """Degrees of freedom of the errors: one less than the draws, where they were drawn."""

    @property
    def standard_errors(self) -> Float[np.ndarray, " feature"]:
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float = 0.95) -> Float[np.ndarray, "end feature"]:
        """Low and high ends: normal, or by Student's t where errors come from few draws."""
        return normal_interval(self.theta, self.standard_errors, level, df=self.df)

    def estimates(self) -> "Estimates":
        """The table, to print as text, Markdown or LaTeX."""
        title = "The reward projected on features"
        facts = dict(self.facts)
        if self.test is not None:
            facts["specification test"] = str(self.test)
        parts = (title, self.names, self.theta, self.covariance, facts, self.note)
        return Estimates(*parts, df=self.df)

    def summary(self) -> str:
        """The table as text."""
        return self.estimates().text()

    __str__ = summary


@dataclass(frozen=True, eq=False)
class Moments:
    """Estimates that a linear form is matched to, with their covariance and weights."""

    beta: Float[np.ndarray, " moment"]
    covariance: Float[np.ndarray, "moment moment"]
    design: Float[np.ndarray, "moment feature"]
    metric: Float[np.ndarray, "moment moment"]
    """How much each matters by how often it is visited: the other weight."""
    clusters: int
    note: str
    caution: str = ""
    """Why their covariance should not choose the weights, if it should not."""
    df: float = np.inf
    """Of the covariance, where it was drawn."""


def project(
    fit: "Fit",
    features: Any,
    panel: Panel,
    *,
    names: Sequence[str] | None = None,
    weight: str = "auto",
    errors: str = "auto",
    min_rows: Any = MIN_ROWS,
    replicates: Any = 200,
    seed: int = 0,
    workers: int = 1,
    executor: Any = None,
) -> Projection:
    """Project a fitted reward on features, with errors clustered by unit and a test.

    Parameters
    ----------
    features
        What the reward of the actions other than the anchor is linear in. A list of terms
        for each of these actions: `"1"`, state columns, products and powers of them
        (`"x"`, `"x^2"`, `"x * y"`), where a category such as `"town"` stands for an
        indicator of each level but the first; a formula such as `"x + bs(y, df=4) +
        C(town)"`, with formulaic's transforms and an intercept; a dict of either by
        action; or a function of the states that gives an array (row, action, feature).
    panel
        The panel that the fit was made from.
    names
        Of the features, in the table.
    weight
        `"optimal"` weighs by the inverse covariance, `"visits"` by how often states occur:
        the best linear approximation where the form is wrong. `"auto"` is optimal where
        the policy was counted and clusters are many enough to estimate the covariance. A
        parametric policy, such as a logit, has small errors wherever its form determines
        it, right or wrong, and optimal weights would rely on just these estimates.
    errors
        `"influence"` needs stages with closed forms, `"bootstrap"` refits; `"auto"` takes
        the first that is possible.
    min_rows
        Tabular rewards are used where the action and, with a frequency policy, the anchor
        were taken at least this often: with fewer rows they are far from normal.
    replicates, seed, workers, executor
        Of the bootstrap, see `deeppqr.bootstrap`.
    """
    require_same_columns(fit, panel)
    _check_choice("weight", weight, ("auto", "optimal", "visits"))
    _check_choice("errors", errors, ("auto", "influence", "bootstrap"))
    if not isinstance(min_rows, (int, float)) or not min_rows >= 0:
        raise DataError(f"`min_rows` must be a number of rows, but it is {min_rows!r}.")
    about = (panel.encoding, fit.actions, fit.estimate.anchor, panel.state)
    chosen = resolve_features(features, names, *about)
    moments = None
    if errors != "bootstrap":
        try:
            moments = _influenced(fit, panel, chosen, min_rows)
        except NoInfluenceFunction:
            if errors == "influence":
                raise
    if moments is None:
        refits = {"replicates": replicates, "seed": seed, "workers": workers}
        moments = _bootstrapped(fit, panel, chosen, executor=executor, **refits)
    theta, covariance, how = _match(moments, weight, chosen.names)
    test, untested = specification_test(moments)
    facts = {
        "decisions": f"{len(panel):,}",
        "units": f"{panel.num_units:,}",
        "anchor": str(fit.anchor),
        "discount": f"{fit.discount:g}",
    }
    note = f"{moments.note}; {how}.{untested}"
    return Projection(chosen.names, theta, covariance, test, facts, note, moments.df)


def _influenced(fit: "Fit", panel: Panel, features: Features, min_rows) -> Moments:
    """Rewards cell by cell where clusters are many enough for that, else columns."""
    if isinstance(fit.reward_function, JointReward):
        return _coefficient_moments(fit, panel, features)
    if isinstance(bare_reward(fit), TableReward):
        moments = _cell_moments(fit, panel, features, min_rows)
        if moments and moments.clusters > CLUSTERS_PER_MOMENT * len(moments.beta):
            return moments
    return _row_moments(fit, panel, features)


def _cell_moments(fit: "Fit", panel: Panel, features: Features, min_rows):
    """None where no cell has the rows, and the policy needs no cells."""
    found = reward_influence(fit, panel)
    anchor = found.anchor
    enough = (found.rows >= min_rows) & ~found.unseen
    policy = fit.estimate.policy
    policy = policy.policy if isinstance(policy, Clipped) else policy
    counted = isinstance(policy, FrequencyPolicy)
    if counted:
        at = panel.action == anchor
        cell = found.cells.locate(panel.state[at])
        taken = np.bincount(cell[cell >= 0], panel.weight[at][cell >= 0], len(found.cells))
        enough &= (taken >= min_rows)[:, None]
    enough[:, anchor] = False
    possible = found.reward.size - len(found.cells)
    if not enough.any() and not counted:
        return None
    if not enough.any():
        raise DataError(
            f"None of the {possible} (state, action) pairs has the {min_rows:g} rows, of "
            "the action and of the anchor, that its reward needs to be close to normal. "
            'Lower `min_rows`, fit with states in coarser bins, or with policy="logit".'
        )
    cell, action = np.nonzero(enough)
    influence = found.influence[:, enough]
    return Moments(
        found.reward[enough],
        clustered_covariance(influence),
        features.at(found.cells.states[cell], action),
        np.diag(found.rows[enough]),
        len(influence),
        f"rewards of {int(enough.sum())} of {possible} (state, action) pairs, those with "
        f"{min_rows:g} rows; errors by influence functions, "
        f"{found.note.partition(';')[0]}",
        "" if counted else PARAMETRIC,
    )


def _row_moments(fit: "Fit", panel: Panel, features: Features) -> Moments:
    """Realised rewards regressed on the features and some columns beyond them."""
    clusters = Clusters.of(panel)
    realised = Realised.of(fit.estimate, panel, clusters)
    rows = realised.rows
    weight = panel.weight[rows]
    columns = _columns(features, panel, rows)
    beta, influence = realised.regress(columns)
    return Moments(
        beta,
        clustered_covariance(influence),
        np.eye(len(beta), len(features.names)),
        columns.T @ (columns * weight[:, None]),
        clusters.count,
        f"realised rewards Q(s,a) - discount V(s') of {int(rows.sum()):,} decisions on "
        f"{len(beta)} columns; errors by influence functions, {clusters.note}",
        "" if isinstance(fit.estimate.policy, FrequencyPolicy) else PARAMETRIC,
    )


def _coefficient_moments(fit: "Fit", panel: Panel, features: Features) -> Moments:
    """The fitted reward regressed on the columns; it is linear in coefficients whose
    covariance came with the fit."""
    reward = fit.reward_function
    assert isinstance(reward, JointReward)
    require_own_panel(fit, panel)
    rows = panel.is_transition & (panel.action != reward.anchor) & (panel.weight > 0)
    state, action, weight = panel.state[rows], panel.action[rows], panel.weight[rows]
    columns = _columns(features, panel, rows)
    gram = columns.T @ (columns * weight[:, None])
    pull = solve_gram(gram, (columns * weight[:, None]).T)
    found = fit.reward(panel.encoding.decode(state))[np.arange(len(state)), action]
    slopes = fit.temperature * pull @ reward.slopes(state, action)
    return Moments(
        pull @ found,
        slopes @ reward.covariance @ slopes.T,
        np.eye(len(gram), len(features.names)),
        gram,
        Clusters.of(panel).count,
        f"the fitted reward at {len(state):,} decisions on {len(gram)} columns; errors "
        "from its coefficients' covariance",
        PARAMETRIC,
    )


def _bootstrapped(fit, panel, features: Features, **refits: Any) -> Moments:
    """The fitted reward regressed on the same columns, its covariance from refits."""
    model = require_model(fit)
    require_own_panel(fit, panel)
    rows = panel.is_transition & (panel.action != fit.estimate.anchor) & (panel.weight > 0)
    weight = panel.weight[rows]
    columns = _columns(features, panel, rows)
    gram = columns.T @ (columns * weight[:, None])
    pull = solve_gram(gram, (columns * weight[:, None]).T)
    states = panel.encoding.decode(panel.state[rows])
    result = bootstrap(
        model,
        panel,
        RewardAt(states, panel.action[rows], pull),
        **refits,
        estimate=pull @ fit.reward(states)[np.arange(len(states)), panel.action[rows]],
    )
    draws = len(result.draws)
    # The covariance is known from the units or from the draws, whichever are fewer.
    clusters = min(Clusters.of(panel).count, draws)
    few = "" if draws >= FEW_DRAWS else f"; p, interval: Student's t, {draws - 1} d.f."
    return Moments(
        result.estimate,
        result.covariance,
        np.eye(len(result.estimate), len(features.names)),
        gram,
        clusters,
        f"the fitted reward at {len(states):,} decisions on {len(gram)} columns; errors by "
        f"bootstrap over units ({result.note}){few}",
        PARAMETRIC,
        draws - 1,
    )


def _columns(features: Features, panel: Panel, rows: np.ndarray) -> np.ndarray:
    """The features of some decisions and columns beyond them for the test."""
    state, action = panel.state[rows], panel.action[rows]
    _check_rank(features.at(state, action), features.names)
    return with_extras(features, state, action, panel.weight[rows])


def _match(moments: Moments, weight: str, names: tuple[str, ...]):
    """Theta, its covariance and how it was found."""
    _check_rank(moments.design, names)
    beta, design, covariance = moments.beta, moments.design, moments.covariance
    why = moments.caution
    if not why and moments.clusters <= CLUSTERS_PER_MOMENT * len(beta):
        why = f"since {moments.clusters} clusters are few for {len(beta)} estimates"
    if weight == "optimal" or (weight == "auto" and not why):
        root = _whiten(moments)
        extra, free = len(root) - design.shape[1], moments.clusters - 1
        if free <= len(beta) + 1:
            raise DataError(
                f'weight="optimal" needs more clusters than the {len(beta)} estimates it '
                f'weighs, but there are {moments.clusters}. Use weight="visits".'
            )
        if _rank(root @ design) < design.shape[1]:
            raise DataError(
                'weight="optimal" weighs by the inverse of a covariance, but only '
                f"{_rank(root @ design)} of the {len(names)} coefficients of {list(names)} "
                "vary with the data: the policy's form, or a discount of 0, fixes the "
                'others. Use weight="visits".'
            )
        theta_root = np.linalg.pinv(root @ design)
        growth = free * (free - 1) / ((free - extra) * (free - extra - 1))
        found = theta_root @ root @ beta, growth * theta_root @ theta_root.T
        return *found, "optimally weighted"
    # The sandwich: any weights are consistent where the form is right.
    push = design.T @ moments.metric
    pull = solve_gram(push @ design, push)
    how = f"weighted by visits, {why}" if weight == "auto" else "weighted by visits"
    return pull @ beta, pull @ covariance @ pull.T, how


def specification_test(moments: Moments) -> tuple[SpecificationTest | None, str]:
    """Hotelling's test of the estimates beyond theta; chi-squared as clusters grow.

    Or no test, and a sentence that says why.
    """
    from scipy.stats import f

    if len(moments.beta) == moments.design.shape[1]:
        return None, " No specification test: the features say all there is to say."
    root = _whiten(moments)
    design = root @ moments.design
    # Degrees of freedom count what can vary, not what was estimated.
    extra, free = len(root) - _rank(design), moments.clusters - 1
    if extra == 0:
        return None, (
            " No specification test: the fitted reward lies in the features' span whatever "
            "the data, as with a logit at discount 0, so nothing is left to be tested."
        )
    if free <= len(moments.beta):
        return None, (
            f" No specification test: {moments.clusters} clusters or draws are too few for "
            f"{len(moments.beta)} estimates."
        )
    left = root @ moments.beta
    left = left - design @ np.linalg.lstsq(design, left, rcond=None)[0]
    statistic = float(left @ left)
    # Hotelling's T squared as an F; a chi-squared would reject too often with few clusters.
    scaled = statistic * (free - extra + 1) / (free * extra)
    p = float(f.sf(scaled, extra, free - extra + 1))
    return SpecificationTest(statistic, extra, p), ""


def _whiten(moments: Moments) -> np.ndarray:
    """A square root of the covariance's inverse, along the directions that vary."""
    scale = np.sqrt(np.maximum(np.diag(moments.metric), 1e-300))
    size, axes = np.linalg.eigh(moments.metric / np.outer(scale, scale))
    # Coordinates in which each direction is as large as the rewards it stands for: only
    # there can a variance be compared with another one. Scaling each estimate by its own
    # error would make rounding errors look like data.
    units = (axes * np.sqrt(np.maximum(size, 0.0))).T * scale
    values, vectors = np.linalg.eigh(units @ moments.covariance @ units.T)
    kept = values > FIXED * max(values.max(), 1e-300)
    return (vectors[:, kept] / np.sqrt(values[kept])).T @ units


def _rank(design: np.ndarray) -> int:
    """The number of independent columns, whatever their scales."""
    if design.size == 0:
        return 0
    largest = np.maximum(np.abs(design).max(axis=0), 1e-300)
    return int(np.linalg.matrix_rank(design / largest))


def _check_rank(design: np.ndarray, names: tuple[str, ...]) -> None:
    """Refuse features that others already say, naming them; and numbers too large."""
    # Squares are summed: beyond 1e150 they are infinite.
    large = [
        n for n, c in zip(names, design.T, strict=True) if np.abs(c).max(initial=0) > 1e150
    ]
    if large:
        raise DataError(
            f"The features {large} have values beyond 1e150, whose squares are no numbers. "
            "Divide the state column by its scale, or take a lower power."
        )
    rank = _rank(design)
    if rank < design.shape[1]:
        # One at a time, so that the first of equal features is kept.
        ranks = [_rank(design[:, : number + 1]) for number in range(design.shape[1])]
        again = [names[i] for i, now in enumerate(ranks) if now == ([0, *ranks])[i]]
        raise DataError(
            f"The {len(names)} features {list(names)} must not be combinations of one "
            f"another, but over the {len(design)} rewards they are matched to only {rank} "
            f"are independent. Leave out {again}."
        )


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise DataError(f"`{name}` must be one of {list(known)}, but it is {value!r}.")

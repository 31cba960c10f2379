"""Diagnostics of a fit: each measures a condition that the theory needs.

Their thresholds decide only which verdict is printed, and whether a warning is raised; no
estimate depends on them. Counts of 30 and 10 are the usual rules for a normal approximation
and for too few to compare; a test is at 5 %, one-sided (1.645 standard errors).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .._stored import stored
from ..anchor._problem import AnchorSolution
from ..anchor._value import AnchoredValue, Evaluated
from ..panel._clusters import clustered_mean
from ..panel._panel import Panel
from ..policy._policy import AbstractPolicy, Clipped, PolicyFit, log_shares
from ._anchor_reach import log_odds_slope, share_outside
from ._holes import FROM, find_hole

Verdict = Literal["ok", "watch", "trouble", "no signal"]
GRADES: tuple[Verdict, ...] = ("ok", "watch", "trouble")  # the best first


# What to do about a figure that is not ok: docs/diagnostics.md in a line each.
ADVICE = {
    "anchor_share": "take an anchor that is chosen more often, if its reward is known; or "
    "read rewards relative to each other",
    "anchor_share_rarest": "report other states, or take an anchor that occurs there",
    "anchor_min_prob": "compare another policy's held_out_gain; or set `clip`",
    "no_anchor_nearby": "leave out states in which the anchor cannot be taken, or add a "
    "column that says so; else take a policy with bends",
    "anchor_leaves_data": "take an anchor after which decisions go on, or add rows there",
    "log_odds_slope": 'take another policy, such as policy="auto", which is calibrated',
    "fewest_action_rows": "merge the action with one like it, or leave its reward aside",
    "rows_per_level": 'merge levels, or take reward="joint", which shrinks them',
    "clipped_share": "remove actions that are not available there, or smooth the policy",
    "held_out_gain": "add states that the agents saw, or decisions",
    "bellman_residual": 'raise `max_rounds`, or take anchor_value="linear"',
    "condition": 'drop columns that repeat each other; or anchor_value="averager"',
    "amplification": "read differences between actions, not between states",
    "anchor_residual": 'take stages that match, as "exact" with "table", or the default',
    "unseen_share": 'take reward="linear" or "joint", or coarser bins',
    "reward_gain": "look for states that are missing or where the process ends unmarked",
    "effective_units": "gather more units",
    "anchor_min_density": "take an anchor where decisions are more frequent",
    "edge_share": "widen the box, or name the bound an atom: Mixed(atoms=[...], box=...)",
    "integral_error": "narrow the box to where decisions are",
}


@stored
@dataclass(frozen=True)
class Diagnostic:
    """One figure, its verdict and what it means for the reader."""

    name: str
    value: float
    verdict: Verdict
    meaning: str

    @property
    def advice(self) -> str:
        """What to do about it; empty where the verdict is ok."""
        return "" if self.verdict == "ok" else ADVICE.get(self.name, "")

    def __str__(self) -> str:
        line = f"{self.name:<22} {self.value:>11.4g}  {self.verdict:<9} {self.meaning}"
        return f"{line}. What to do: {self.advice}" if self.advice else line


@stored
@dataclass(frozen=True)
class Diagnostics:
    """All figures of a fit, in the order of the three stages; index by name."""

    figures: tuple[Diagnostic, ...]

    def __getitem__(self, name: str) -> Diagnostic:
        for figure in self.figures:
            if figure.name == name:
                return figure
        raise KeyError(f"{name!r}; there are {[figure.name for figure in self.figures]}")

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.figures)

    @property
    def warnings(self) -> list[Diagnostic]:
        """The figures whose verdict is not "ok"."""
        return [figure for figure in self.figures if figure.verdict != "ok"]

    def __str__(self) -> str:
        return "\n".join(str(figure) for figure in self.figures)


def diagnose(
    panel: Panel,
    policy: PolicyFit,
    solution: AnchorSolution,
    value: AnchoredValue,
    raw_reward: np.ndarray,
    explained: np.ndarray | None = None,
) -> Diagnostics:
    """Compute every figure. `raw_reward` is the third stage's, before g replaces the
    anchor's column, at the panel's states; `explained` the held-out log-probabilities of
    the choices as the reward explains them, where it does."""
    known = value(panel.state)
    return Diagnostics(
        (
            *_support(panel, value.anchor, known.log_prob[:, value.anchor]),
            *_levels(panel, penalised=explained is not None),
            _clipped(panel, value),
            held_out_gain(panel, policy, value.policy),
            *_calibration(panel, known.log_prob),
            *_equation(solution, float(np.std(known.value))),
            amplification(value, known),
            _anchor_residual(raw_reward, value.anchor, known.anchor_reward),
            *_unseen(panel, raw_reward, value.anchor),
            *_reward_gain(panel, policy, explained),
            units(panel),
        )
    )


def _support(panel: Panel, anchor: int, log_prob: np.ndarray) -> Iterator[Diagnostic]:
    taken = panel.action == anchor
    share = float(np.average(taken, weights=panel.weight))
    grades = (grade(share, 0.05, 0.01), grade(taken.sum(), 30, 10))
    verdict: Verdict = max(grades, key=GRADES.index)
    yield Diagnostic(
        "anchor_share",
        share,
        verdict,
        f"the anchor {panel.actions[anchor]!r} was taken in {int(taken.sum()):,} of "
        f"{len(panel):,} rows; all that is known about levels comes from them",
    )
    rare = log_prob <= np.quantile(log_prob, 0.1)
    # 1e-300 for a tenth of rows that may all have weight zero.
    rare_share = float(np.average(taken[rare], weights=panel.weight[rare] + 1e-300))
    yield Diagnostic(
        "anchor_share_rarest",
        rare_share,
        grade(rare_share, 0.01, 1e-12),
        "its share in the tenth of rows where it is least likely; values there rest "
        "on extrapolation if it is zero",
    )
    smallest = float(np.exp(log_prob.min()))
    yield Diagnostic(
        "anchor_min_prob",
        smallest,
        grade(smallest, 1e-3, 1e-6),
        "its smallest estimated probability; the logarithm of this enters Q and r",
    )
    hole = find_hole(panel, anchor, log_prob)
    seen = "" if hole.share else f"; it is around all of the {FROM} looked at"
    if hole.share:
        seen = (
            f": {hole.expected:.0f} times near {hole.place}, and it was never taken there"
        )
    yield Diagnostic(
        "no_anchor_nearby",
        hole.share,
        grade(-hole.share, -0.05, -0.15),
        f"rows around which the policy expects the anchor, and none is{seen}",
    )
    outside = share_outside(panel, anchor)
    yield Diagnostic(
        "anchor_leaves_data",
        outside,
        grade(-outside, -0.05, -0.2),
        "states that the anchor leads to in which nobody decides nearby; values along a "
        "chain of anchors rest on extrapolation there",
    )
    rows = np.bincount(panel.action[panel.is_transition], minlength=panel.num_actions)
    yield Diagnostic(
        "fewest_action_rows",
        float(rows.min()),
        grade(rows.min(), 30, 10),
        f"rows that show where the rarest action, {panel.actions[int(rows.argmin())]!r}, "
        "leads; its reward rests on them",
    )


def _levels(panel: Panel, *, penalised: bool) -> Iterator[Diagnostic]:
    """Rows behind the levels of a category, where their coefficients are not shrunk
    towards each other by what the data say of them together."""
    named = {c.name: c for c in panel.encoding.columns if c.kind == "categorical"}
    if penalised or not named:
        return
    decoded = panel.encoding.decode(panel.state)
    rows: dict[str, float] = {}
    for name in named:
        levels = decoded[:, panel.encoding.names.index(name)].astype(str)
        _, code = np.unique(levels, return_inverse=True)
        # Of the median decision, not of the rarest level: one rare level does no harm.
        rows[name] = float(np.median(np.bincount(code)[code])) / panel.num_actions
    worst = min(rows, key=lambda name: rows[name])
    yield Diagnostic(
        "rows_per_level",
        rows[worst],
        grade(rows[worst], 20, 10),
        f"rows per action behind a typical level of {worst!r}, which has "
        f"{len(named[worst].categories)}; each level's rewards rest on them",
    )


def _clipped(panel: Panel, value: AnchoredValue) -> Diagnostic:
    policy = value.policy
    share = policy.clipped_share(panel.state) if isinstance(policy, Clipped) else 0.0
    return Diagnostic(
        "clipped_share",
        share,
        grade(-share, 0.0, -0.05),
        "log-probabilities raised to the floor; rewards there are bounds, not estimates"
        if share
        else "no log-probability was clipped",
    )


def held_out_gain(panel: Panel, policy: PolicyFit, used: AbstractPolicy) -> Diagnostic:
    """Held-out log-likelihood per decision over that of the overall action shares.

    The standard error is clustered by unit. Where the gain is not clearly positive, the
    states do not help to predict the actions and no reward can be learned from them.
    """
    judged = ~np.isnan(policy.held_out)
    # Scores of the policy as it is used: a probability of zero would make the mean -inf.
    floor = np.log(used.floor) if isinstance(used, Clipped) else -np.inf
    gain = np.maximum(policy.held_out, floor) - log_shares(panel)[panel.action]
    mean, error = clustered_mean(panel, gain, judged)
    meaning = (
        "log-likelihood per decision on held-out units beyond action shares, "
        f"{mean:.4f} ({error:.4f})"
    )
    if mean > 1.645 * error:
        return Diagnostic("held_out_gain", mean, "ok", meaning)
    meaning += (
        ": the states do not predict the actions better than fixed shares do, so the data "
        "cannot tell the rewards"
    )
    return Diagnostic("held_out_gain", mean, "no signal", meaning)


def _calibration(panel: Panel, log_prob: np.ndarray) -> Iterator[Diagnostic]:
    """Whether the policy's log-odds are those of the decisions, or too large or small."""
    slope, error = log_odds_slope(panel, log_prob)
    if np.isnan(slope):
        return
    # How far it surely is from one: two standard errors less than it looks.
    excess = max(abs(slope - 1) - 2 * error, 0.0)
    yield Diagnostic(
        "log_odds_slope",
        slope,
        grade(-excess, -0.2, -0.5),
        f"by which the policy's log-odds would fit the decisions best ({error:.2g}): below "
        "one they are too extreme, above one too flat, and so are the rewards",
    )


def _equation(solution: AnchorSolution, spread: float) -> Iterator[Diagnostic]:
    missing = f"; up to {solution.missing:.2g} missing" if solution.missing > 0 else ""
    yield Diagnostic(
        "bellman_residual",
        solution.residual,
        grade(-solution.residual / max(spread, 1e-12), -1e-3, -0.05),
        f"violation of the anchor's equation as solved ({solution.note}){missing}",
    )
    if solution.condition is not None:
        yield Diagnostic(
            "condition",
            solution.condition,
            grade(-solution.condition, -1e8, -1e12),
            "condition number of the solve: relative errors grow by up to this",
        )


def amplification(value: AnchoredValue, known: Evaluated) -> Diagnostic:
    """How much larger differences between states are in V than in what the anchor adds.

    Under a renewal anchor nothing of a difference survives and the factor is one; under
    one that leaves the state as it is, it stays forever: 1 / (1 - discount).
    """
    bonus = known.anchor_reward - value.temperature * known.log_prob[:, value.anchor]
    spread = float(np.std(bonus))
    factor = float(np.std(known.value)) / spread if spread > 1e-12 else 1.0
    return Diagnostic(
        "amplification",
        factor,
        grade(-factor, -10, -100),
        "differences of log pi(anchor) between states are this many times larger in V, "
        "and so are errors in them",
    )


def _anchor_residual(raw_reward, anchor: int, anchor_reward) -> Diagnostic:
    gap = np.abs(raw_reward[:, anchor] - anchor_reward)
    # Judged against the size of the rewards to be estimated; a large gap beside large
    # rewards does little harm.
    others = np.delete(raw_reward, anchor, axis=1) - anchor_reward[:, None]
    size = float(np.sqrt(np.nanmean(others**2)))
    typical = float(np.sqrt(np.nanmean(gap**2)))
    return Diagnostic(
        "anchor_residual",
        float(np.nanmax(gap)),
        grade(-typical / max(size, 1e-12), -0.25, -1.0),
        f"largest |r(s, anchor) - g(s)|, zero in theory: the Q and R steps disagree; "
        f"typically {typical:.2g}, against rewards of {size:.2g}",
    )


def _unseen(panel: Panel, raw_reward: np.ndarray, anchor: int) -> Iterator[Diagnostic]:
    """How much of a table is empty; nothing to report where no cell is."""
    unknown = np.isnan(np.delete(raw_reward, anchor, axis=1))
    if unknown.any():
        share = float(np.average(unknown.mean(axis=1), weights=panel.weight))
        yield Diagnostic(
            "unseen_share",
            share,
            grade(-share, -0.01, -0.1),
            "rewards of the panel's states and other actions that are unknown (NaN), "
            "since the pair never occurred",
        )


def _reward_gain(panel: Panel, policy: PolicyFit, explained) -> Iterator[Diagnostic]:
    """What it costs held-out units that a reward of limited complexity explains them."""
    if explained is not None:
        judged = ~(np.isnan(policy.held_out) | np.isnan(explained))
        mean, error = clustered_mean(panel, explained - policy.held_out, judged)
        yield Diagnostic(
            "reward_gain",
            mean,
            grade(mean, -1.645 * error, -3 * error),
            f"log-likelihood per decision on held-out units as the reward explains them, "
            f"beyond the policy's own ({error:.4f}): far below zero, the reward is too "
            "simple or where actions lead is not understood",
        )


def units(panel: Panel) -> Diagnostic:
    return Diagnostic(
        "effective_units",
        panel.effective_units,
        grade(panel.effective_units, 30, 10),
        f"independent units behind {len(panel):,} decisions; errors shrink with these, "
        "not with rows",
    )


def grade(value: Any, ok: float, watch: float) -> Verdict:
    """The verdict of a value of which more is better."""
    return "ok" if value >= ok else "watch" if value >= watch else "trouble"

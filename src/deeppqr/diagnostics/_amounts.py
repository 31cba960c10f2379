"""Diagnostics of fits over amounts: those that differ where actions are a continuum."""

from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from ..anchor._value import AnchoredValue
from ..continuous._anchor import near_anchor, reach
from ..continuous._joint import AmountEstimate
from ..continuous._reward import AmountReward
from ..continuous._staged import StagedEstimate
from ..panel._clusters import clustered_mean
from ..panel._panel import Panel
from ._diagnostics import (
    GRADES,
    Diagnostic,
    Diagnostics,
    Verdict,
    amplification,
    grade,
    units,
)

# Share of the box's length, at either end, within which a decision counts as at its edge.
EDGE = 0.002
# Rows at which integrals are taken again with twice the nodes.
CHECKED = 500

Estimate = AmountEstimate | StagedEstimate


def diagnose_amounts(panel: Panel, estimate: Estimate, value: AnchoredValue) -> Diagnostics:
    """Every figure of a fit over amounts."""
    known = value(panel.state)
    return Diagnostics(
        (
            *_support(panel, estimate, known.log_prob[:, value.anchor]),
            _edges(panel),
            _held_out_gain(panel, estimate),
            *_integrals(panel, estimate),
            _residual(estimate, float(np.std(known.value)), value.temperature),
            amplification(value, known),
            units(panel),
        )
    )


def _support(
    panel: Panel, estimate: Estimate, log_density: np.ndarray
) -> Iterator[Diagnostic]:
    shapes = estimate.reward.shapes
    space, point = shapes.space, shapes.anchor_action
    near = near_anchor(panel, point)
    share = float(np.average(near, weights=panel.weight))
    is_atom = space.atom_of(point[None])[0] >= 0
    grades = (grade(share, 0.05, 0.01), grade(near.sum(), 30, 10))
    verdict: Verdict = max(grades, key=GRADES.index)
    rows = f"{int(near.sum()):,} of {len(panel):,} rows"
    yield Diagnostic(
        "anchor_share",
        share,
        verdict,
        f"the anchor was taken in {rows}; all that is known about levels comes from them"
        if is_atom
        else f"{rows} lie within {reach(space):.0%} of the box's length of the anchor; log "
        "density and next states there are read from them",
    )
    smallest = float(np.exp(log_density.min()))
    yield Diagnostic(
        "anchor_min_density",
        smallest,
        grade(smallest, 1e-3, 1e-6),
        "the smallest estimated "
        + (
            "probability of the anchor"
            if is_atom
            else "density at the anchor, of 1 on average"
        )
        + "; the logarithm of this enters Q and r",
    )
    assert panel.amount is not None
    atom = space.atom_of(panel.amount)[panel.is_transition]
    count = np.bincount(atom + 1, minlength=len(space.points) + 1)
    least = int(count.argmin())
    named = "the box" if least == 0 else f"the atom {space.points[least - 1].tolist()}"
    yield Diagnostic(
        "fewest_action_rows",
        float(count[least]),
        grade(count[least], 30, 10),
        f"rows that show where {named} leads; rewards there rest on them",
    )


def _edges(panel: Panel) -> Diagnostic:
    space, amount = panel.space, panel.amount
    assert space is not None
    assert amount is not None
    inside = space.atom_of(amount) < 0
    far = np.abs(space.centred(amount)).max(axis=1)
    at_edge = inside & (far >= 1 - 2 * EDGE)
    share = float(np.average(at_edge, weights=panel.weight))
    # Of actions spread evenly as many lie there.
    usual = 1 - (1 - 2 * EDGE) ** space.dimensions
    return Diagnostic(
        "edge_share",
        share,
        grade(-share, -5 * usual, -20 * usual),
        "decisions at a bound of the box: many of them were cut off there, and the density "
        "cannot follow",
    )


def _held_out_gain(panel: Panel, estimate: Estimate) -> Diagnostic:
    judged = ~np.isnan(estimate.log_density)
    gain = estimate.log_density - estimate.of_histogram
    mean, error = clustered_mean(panel, gain, judged)
    over_even, _ = clustered_mean(panel, estimate.log_density, judged)
    meaning = (
        "log density per decision on held-out units beyond a histogram of all actions, "
        f"{mean:.4f} ({error:.4f}); beyond choosing any action alike {over_even:.4f}"
    )
    if mean > 1.645 * error:
        return Diagnostic("held_out_gain", mean, "ok", meaning)
    meaning += (
        ": the states do not predict the actions better than one density for all does, so "
        "the data cannot tell the rewards"
    )
    return Diagnostic("held_out_gain", mean, "no signal", meaning)


def _integrals(panel: Panel, estimate: Estimate) -> Iterator[Diagnostic]:
    """How much the log of the integral of exp Q changes with twice the nodes."""
    reward = estimate.reward
    if not isinstance(reward, AmountReward):  # densities of other kinds check their own
        return
    space, shapes = reward.shapes.space, reward.shapes
    q = reward.q_by_shape(panel.state[:: max(1, len(panel) // CHECKED)])
    used, _ = reward.nodes
    beside = len(used) - len(space.points)
    each = round(beside ** (1 / space.dimensions)) if space.dimensions <= 2 else beside
    totals = []
    for nodes in (used, space.nodes(2 * each)):
        at = q @ shapes(nodes.action).T + np.log(nodes.weight)
        totals.append(logsumexp(at, axis=1))
    largest = float(np.abs(totals[0] - totals[1]).max())
    yield Diagnostic(
        "integral_error",
        largest,
        grade(-largest, -0.01, -0.1),
        f"largest change of log densities if integrals over actions had twice the "
        f"{len(used)} nodes: large where the density is far narrower than the box",
    )


def _residual(estimate: Estimate, spread: float, temperature: float) -> Diagnostic:
    size = temperature * estimate.residual
    return Diagnostic(
        "bellman_residual",
        size,
        grade(-size / max(spread, 1e-12), -0.02, -0.1),
        f"what the value's features leave of its equation ({estimate.value_note})",
    )

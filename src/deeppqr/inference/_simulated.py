"""Panels simulated from a fit, of the shape of the panel that it was made from."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .._errors import DataError
from .._random import check_seed
from .._shapes import Codes, Mask, PerRow, States
from ..anchor._known import KnownTransition
from ..law._table import Table
from ..mdp._simulate import draw
from ..panel._cells import Cells
from ..panel._panel import Panel
from ._bootstrap import require_own_panel
from ._fitted_law import Sampler, find_law

if TYPE_CHECKING:
    from .._fit import Fit

# Where every unit of a panel was followed to its end, simulated ones that have none are
# stopped after this many times the longest that was seen.
LONGEST = 10


@dataclass(frozen=True, eq=False)
class Paths:
    """The stretches of decisions in a panel, each row's next state the next row's state."""

    state: States
    """Where each begins."""
    unit: Codes
    weight: PerRow
    length: Codes
    ended: Mask
    """Whether the process was over at its end."""
    last_seen: Mask
    """Whether the state after its last decision is in the panel."""

    @classmethod
    def of(cls, panel: Panel) -> "Paths":
        order = np.argsort(panel.unit, kind="stable")
        unit, here = panel.unit[order], panel.state[order]
        there, has_next = panel.next_state[order], panel.has_next[order]
        goes_on = has_next[:-1] & (unit[1:] == unit[:-1])
        goes_on &= (there[:-1] == here[1:]).all(axis=1)
        first = np.flatnonzero(np.append(True, ~goes_on))
        last = np.append(first[1:], len(unit)) - 1
        weight = np.add.reduceat(panel.weight[order], first) / (last - first + 1)
        return cls(
            here[first],
            unit[first],
            weight,
            last - first + 1,
            panel.terminal[order][last],
            has_next[last],
        )

    def horizons(self, rng: np.random.Generator) -> tuple[Codes, Mask]:
        """How long each would have been observed, and whether its last sequel is seen.

        Of a unit that left it is not known: it is that of another one, drawn from those
        that were still observed when it left.
        """
        length, seen = self.length.copy(), self.last_seen.copy()
        stayed = np.flatnonzero(~self.ended)
        order = stayed[np.argsort(self.length[stayed], kind="stable")]
        for one in np.flatnonzero(self.ended):
            first = np.searchsorted(self.length[order], self.length[one])
            if first < len(order):
                like = order[rng.integers(first, len(order))]
                length[one], seen[one] = self.length[like], self.last_seen[like]
            elif len(order) == 0:
                length[one] = LONGEST * self.length.max()
        return length, seen


@dataclass(frozen=True, eq=False)
class Simulation:
    """What panels are drawn from: a fit, its law and the paths of its panel."""

    fit: "Fit"
    panel: Panel
    sampler: Sampler
    paths: Paths
    cells: Cells | None
    """All states, where they are few: the policy is then looked up."""
    prob: np.ndarray | None

    @classmethod
    def of(cls, fit: "Fit", panel: Panel) -> "Simulation":
        fit._require_finite("Simulations")
        require_own_panel(fit, panel)
        law = find_law(fit, panel)
        cells = law.cells if isinstance(law, (KnownTransition, Table)) else None
        prob = None
        if cells is not None:
            prob = np.exp(fit.estimate.policy.log_prob(cells.states))
            if isinstance(law, Table):
                # Nothing says where an action leads that was never taken there.
                steps = law.steps
                told = steps.state, steps.action, steps.num_actions, steps.weight
                prob = np.where(cells.tally(*told) > 0, prob, 0.0)
            if not prob.any(axis=1).all():
                cell = cells.states[int(np.flatnonzero(~prob.any(axis=1))[0])]
                raise DataError(
                    f"Nothing can be simulated from this fit: in the state {cell} no "
                    "decision with a sequel was seen, so it is not known where any action "
                    "leads there. Leave such states out, or take the default reward."
                )
        return cls(fit, panel, Sampler.of(law, panel), Paths.of(panel), cells, prob)

    def draw(self, rng: np.random.Generator) -> Panel:
        """One panel: the same first states, and as many periods for each unit."""
        paths, panel = self.paths, self.panel
        horizon, last_seen = paths.horizons(rng)
        state, path = paths.state, np.arange(len(paths.state))
        rows = []
        for period in range(int(horizon.max())):
            action = draw(self._prob(state), rng)
            after, ends = self.sampler.draw(state, action, rng)
            last = horizon[path] == period + 1
            after = np.where((ends | (last & ~last_seen[path]))[:, None], np.nan, after)
            # A sequel that would not have been seen is none, not even an end.
            rows.append((path, state, action, after, ends & (~last | last_seen[path])))
            stays = ~(ends | last)
            state, path = after[stays], path[stays]
            if len(path) == 0:
                break
        columns = [np.concatenate(part) for part in zip(*rows, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        path, state, action, after, ends = (part[order] for part in columns)
        return replace(
            panel,
            state=state,
            action=action,
            next_state=after,
            unit=paths.unit[path],
            terminal=ends,
            weight=paths.weight[path],
        )

    def _prob(self, state: States) -> np.ndarray:
        if self.cells is None:
            return np.exp(self.fit.estimate.policy.log_prob(state))
        assert self.prob is not None
        return self.prob[self.cells.require(state)]


def simulate_fit(fit: "Fit", panel: Panel, seed: int = 0) -> Panel:
    """Decisions of agents with the fit's reward, as many as in the panel it is from.

    Every unit begins where it began and is followed as long; what it does is drawn from
    the fit's policy, and where that leads from its law.
    """
    check_seed(seed)
    return Simulation.of(fit, panel).draw(np.random.default_rng(seed))

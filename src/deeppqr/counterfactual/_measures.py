r"""What is read off a solved problem, each figure with its gradient by the reward.

A figure is a mean of flows $f(s) = \sum_a \pi_a(s)\,\phi_a(s)$ over the decisions now, in
the first T periods or in the long run. It moves with the policy by how much mass is where,
and by what follows from there; the policy moves with Q, and Q with the reward.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .._shapes import PerAction
from ._law_error import Sequels
from ._problem import Posed

NOW, LONG_RUN = "now", "long run"
SHARE, REWARD, VALUE, PAID, DECISIONS = (
    "probability",
    "reward",
    "value",
    "transfer",
    "decisions",
)


AMOUNT = "mean amount"


@dataclass(frozen=True, eq=False)
class Tally:
    """What is counted of the actions: shares of them, or how much is done on average."""

    names: tuple[tuple[str, Any], ...]
    """Quantity and the label of an action, or of a dimension of the amounts."""
    each: Float[np.ndarray, "action name"]

    @classmethod
    def of_shares(cls, labels: tuple[Any, ...]) -> "Tally":
        return cls(tuple((SHARE, label) for label in labels), np.eye(len(labels)))


@dataclass(frozen=True, eq=False)
class Measure:
    """One figure of one problem."""

    horizon: str
    quantity: str
    action: Any
    """The action's label where it is one's share, or the name of an amount's dimension."""
    value: float
    by_reward: PerAction
    """By the rewards at the nodes, in units of the reward."""
    by_law: Float[np.ndarray, " cluster"]
    """What each cluster's sequels do to it through the law, at these rewards."""

    @property
    def key(self) -> tuple[str, str, Any]:
        """Which figure it is."""
        return self.horizon, self.quantity, self.action


def measure(
    posed: Posed,
    temperature: float,
    tally: Tally,
    *,
    periods: int | None,
    long_run: bool,
    transfers: bool,
    sequels: Sequels | None = None,
) -> Iterator[Measure]:
    """What is tallied, rewards, transfers and values of one problem by horizon."""
    prob, start = posed.prob, posed.start
    each = np.broadcast_to(tally.each, (len(prob), *tally.each.shape))
    parts = [each, posed.reward[:, :, None]]
    names: list[tuple[str, Any]] = [*tally.names, (REWARD, None)]
    if transfers:
        parts.append(posed.paid[:, :, None])
        names.append((PAID, None))
    parts.append(np.ones((*prob.shape, 1)))
    paid_flow = np.concatenate(parts, axis=2)
    flow = np.einsum("ra,rac->rc", prob, paid_flow)

    def by_reward(by_prob: PerAction, direct: PerAction) -> PerAction:
        mean = (prob * by_prob).sum(axis=1, keepdims=True)
        by_q = prob * (by_prob - mean) / temperature
        return posed.environment.reward_gradient(prob, by_q) + direct

    def by_law(by_reward: PerAction, carried: np.ndarray) -> np.ndarray:
        if sequels is None:
            return np.zeros(0)
        return sequels.moved(by_reward, carried, temperature)

    now = np.zeros((0 if sequels is None else len(sequels.node), flow.shape[1]))
    spans = [(NOW, (start @ flow, start, np.zeros_like(paid_flow), now))]
    if periods is not None:
        label = f"{periods} period{'s' if periods > 1 else ''}"
        spans.append((label, posed.flow.over_periods(flow, periods, sequels)))
    if long_run:
        spans.append((LONG_RUN, posed.flow.long_run(flow, sequels)))
    nothing = np.zeros_like(prob)
    for horizon, (sums, mass, moved, carried) in spans:
        by_prob = mass[:, None, None] * paid_flow + moved
        decisions = sums[-1]
        for at, (quantity, action) in enumerate(names):
            # Per decision: units that left take none.
            value = sums[at] / decisions
            ratio = (by_prob[:, :, at] - value * by_prob[:, :, -1]) / decisions
            direct = nothing
            if quantity == REWARD:
                direct = mass[:, None] * prob / decisions
            gradient = by_reward(ratio, direct)
            along = (carried[:, at] - value * carried[:, -1]) / decisions
            law = by_law(gradient - direct, along)
            yield Measure(horizon, quantity, action, float(value), gradient, law)
        if horizon not in (NOW, LONG_RUN) and posed.environment.ends():
            gradient = by_reward(by_prob[:, :, -1], nothing)
            law = by_law(gradient, carried[:, -1])
            yield Measure(horizon, DECISIONS, None, float(decisions), gradient, law)
        if horizon == NOW:
            # V moves with Q by the policy, and Q with r: the temperature cancels.
            gradient = posed.environment.reward_gradient(prob, start[:, None] * prob)
            value = float(start @ posed.solved.value) * temperature
            # What is earned now is no sequel.
            later = by_law(gradient, np.zeros(len(carried)))
            yield Measure(NOW, VALUE, None, value, gradient, later)

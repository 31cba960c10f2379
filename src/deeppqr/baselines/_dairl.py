"""D-AIRL: adversarial IRL that separates the reward from shaping, offline."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax.random as jr
import numpy as np

from .._errors import DataError
from .._shapes import PerAction, States
from ..learners._network import Ensemble, Training
from ..panel._cells import Cells, few_states
from ..panel._panel import Panel, require_panel
from ._baseline import (
    NOTHING,
    AbstractBaseline,
    BaselineFit,
    RewardFunction,
    check_settings,
    fit_policy,
    look_up,
)
from ._discriminator import Transitions, fit_networks, fit_tables

MAX_CELLS = 500  # states of a table; its design has as many columns for each of g and h


@dataclass(frozen=True)
class DAIRL(AbstractBaseline):
    r"""Disentangling AIRL on the demonstrated transitions.

    $$D = \frac{e^{f(s,s')}}{e^{f(s,s')} + P(a|s)}, \qquad
    f(s,s') = \frac{g(s) + \gamma\,h(s') - h(s)}{\alpha},$$
    and $\hat r(s,a) = g(s)$. The negatives are the demonstrated transitions themselves,
    weighted by $P(a|s)/\hat\pi(a|s)$, so no environment is needed. If the reward depends
    on the state alone and transitions are deterministic and decomposable, then
    $g = r$ up to a constant. Otherwise it is not. The constant is chosen so that g has
    mean zero over the panel, unless terminal rows pin it down.

    Parameters
    ----------
    discount, temperature
        $\gamma$ and $\alpha$ of the agent.
    state_only
        Whether g is a function of the state, as the theorem needs. With False it is
        g(s, a), and nothing separates it from h: the result depends on the algorithm.
        Grounding a state-only reward at an anchor gives zero everywhere.
    policy
        The policy $\hat\pi$: anything that `PQR` takes.
    generator
        P: `"policy"` for $\hat\pi$, where the game ends, or `"uniform"`.
    form
        `"table"` for g and h as tables over the distinct states, `"network"` for networks,
        `"auto"` for tables where states are few.
    training
        The networks. They are not stopped early: what they learn is the estimated
        policy, which has no noise to overfit.

    References
    ----------
    [fu2018airl], Theorems 5.1 and 5.2; [geng2020pqr], "Competing Methods".
    """

    discount: float
    temperature: float = 1.0
    state_only: bool = True
    policy: Any = "auto"
    generator: str = "policy"
    form: Literal["auto", "table", "network"] = "auto"
    training: Training = field(default_factory=lambda: Training(members=3))
    seed: int = 0

    def __post_init__(self):
        check_settings(self)
        for name, known in (
            ("generator", ("policy", "uniform")),
            ("form", ("auto", "table", "network")),
        ):
            if getattr(self, name) not in known:
                raise DataError(
                    f"`{name}` must be one of {list(known)}, but it is "
                    f"{getattr(self, name)!r}."
                )

    def fit(self, panel):
        require_panel(panel)
        policy, policy_note = fit_policy(self.policy, panel, seed=self.seed)
        data = self._transitions(panel, policy)
        width = 1 if self.state_only else panel.num_actions
        learn = self._tables if self._tabular(panel) else self._networks
        g, note = learn(data, width, centred=not panel.terminal.any())
        reward = partial(state_reward, g, panel.num_actions)
        name = "D-AIRL" if self.state_only else "D-AIRL with g(s, a)"
        note = f"{note}; policy: {policy_note}"
        about = (name, NOTHING, panel.actions, panel.encoding)
        return BaselineFit(*about, reward, policy, note)

    def _tabular(self, panel: Panel) -> bool:
        if self.form != "auto":
            return self.form == "table"
        rows_per_cell = 2 * panel.num_actions
        return few_states(panel.state, rows_per_cell=rows_per_cell, max_cells=MAX_CELLS)

    def _transitions(self, panel: Panel, policy) -> Transitions:
        rows = panel.is_transition
        state, action = panel.state[rows], panel.action[rows]
        log_policy = policy.log_prob(state)[np.arange(len(state)), action]
        log_generator = log_policy
        if self.generator == "uniform":
            log_generator = np.full(len(state), -np.log(panel.num_actions))
        return Transitions(
            state,
            # Any finite state will do after the end: h is multiplied by zero there.
            np.where(panel.terminal[rows, None], state, panel.next_state[rows]),
            panel.has_next[rows],
            np.zeros_like(action) if self.state_only else action,
            log_policy,
            log_generator,
            panel.weight[rows] / panel.weight[rows].mean(),
        )

    # Both return g in units of reward and a note. Its level, which terminal rows alone
    # identify, is such that its mean over the rows is zero if it is to be `centred`.
    def _tables(self, data: Transitions, width: int, *, centred: bool):
        cells = Cells.of(data.state)
        table, loss = fit_tables(data, cells, width, discount=self.discount)
        g = table[cells.locate(data.state), data.column]
        level = float(np.average(g, weights=data.weight)) if centred else 0.0
        found = partial(look_up, cells, self.temperature * (table - level))
        return found, f"tables over {len(cells):,} states, loss {loss:.4f}"

    def _networks(self, data: Transitions, width: int, *, centred: bool):
        key = jr.fold_in(jr.key(self.seed), 1)
        settings = {"discount": self.discount, "training": self.training}
        ensemble, loss = fit_networks(data, width, **settings, key=key)
        g = ensemble(data.state).mean(axis=0)[np.arange(len(data.state)), data.column]
        level = float(np.average(g, weights=data.weight)) if centred else 0.0
        found = partial(network_reward, ensemble, level, self.temperature)
        note = f"{self.training.members} networks, {ensemble.num_steps:,} steps"
        return found, f"{note}, loss {loss:.4f}"


def network_reward(
    ensemble: Ensemble, level: float, temperature: float, state: States
) -> np.ndarray:
    """g as networks, whose last output is h."""
    return temperature * (ensemble(state).mean(axis=0)[:, :-1] - level)


def state_reward(g: RewardFunction, num_actions: int, state: States) -> PerAction:
    """g for every action, also where it has one column and depends on the state alone."""
    return np.broadcast_to(g(state), (len(state), num_actions)).copy()

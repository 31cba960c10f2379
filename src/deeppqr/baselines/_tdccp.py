"""CCP with values by temporal differences, without an estimated transition law."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._errors import DataError
from .._shapes import PerAction, States
from ..mdp._tabular import check_preferences
from ..panel._clusters import clustered_covariance
from ..panel._panel import Panel, require_panel
from ..policy._policy import AbstractPolicy
from ._ascent import Choices, maximise_logit, solve_information, symmetric
from ._baseline import fit_policy
from ._ccp import POLICY
from ._structural import AbstractStructural, assemble


@dataclass(frozen=True)
class TDCCP(AbstractStructural):
    r"""CCP with values by temporal differences: no law of the next state is estimated.

    What follows a decision, in features and in shocks, is linear in a basis, $c =
    b(s,a)^\top\omega$, and solves its Bellman equation on the observed moves:
    $$\sum_i b_i \{c_i - \gamma\,[f_{\hat\pi}(s'_i) + c_{\hat\pi}(s'_i)]\} = 0, \qquad
    f_{\hat\pi}(s') = \sum_a \hat\pi(a|s')\, f(s',a),$$
    the semi-gradient, or least-squares temporal difference, with $f$ the features
    $\phi$ and the shocks $-\alpha\log\hat\pi$. Theta then maximises the
    pseudo-likelihood as in `HotzMiller`.

    Parameters
    ----------
    discount, temperature, reward, policy
        As in `HotzMiller`.
    knots
        The basis is piecewise linear in each state column, for every action, with this
        many knots at quantiles of the states in which the action was taken.
        On Rust's groups 1-3, with 27 replacements, the answer depends on this choice by
        about a standard error.
    rows_per_knot
        A rare action gets one knot per this many rows; one knot is a constant.

    References
    ----------
    [adusumilli2019tdccp]; [bradtke1996lstd].
    """

    temperature: float = 1.0
    policy: Any = POLICY
    knots: int = 20
    rows_per_knot: int = 100
    max_steps: int = 200
    seed: int = 0

    def __post_init__(self):
        check_preferences(self.discount, self.temperature)
        for name in ("knots", "rows_per_knot"):
            if getattr(self, name) < 1:
                raise DataError(
                    f"`{name}` must be at least 1, but it is {getattr(self, name)}."
                )

    def fit(self, panel):
        require_panel(panel)
        begin = time.perf_counter()
        policy, policy_note = fit_policy(self.policy, panel, seed=self.seed)
        basis = Basis.of(panel, self.knots, self.rows_per_knot)
        model, names = Ahead.learn(panel, policy, basis, self), self.reward.free_names
        free, known = self.reward.split(panel.state, panel.num_actions)
        ahead = np.einsum("rab,bk->rak", basis(panel.state), model.omega)
        counts = np.zeros(known.shape)
        counts[np.arange(len(panel)), panel.action] = panel.weight
        logit = (known + ahead[:, :, -1], free + ahead[:, :, :-1], counts)
        theta, choices, steps = maximise_logit(*logit, np.zeros(len(names)), names, self)
        covariances = td_covariances(panel, model, choices, counts, theta, names)
        note = f"policy: {policy_note}; {len(model.omega)} basis functions, "
        note += f"{steps} scoring steps [{time.perf_counter() - begin:.2f} s]"
        likelihood = choices.point(counts).log_likelihood
        found = (theta, covariances, likelihood, partial(temporal_q, model, theta), note)
        return assemble("TD-CCP (semi-gradient)", self, panel, *found)


@dataclass(frozen=True, eq=False)
class Basis:
    """Piecewise linear functions of each state column, a block for every action."""

    knots: tuple[tuple[np.ndarray, ...], ...]
    """By action and by column; a column with a single knot adds nothing."""

    @classmethod
    def of(cls, panel: Panel, number: int, rows_per_knot: int) -> "Basis":
        """Knots at quantiles of the states in which each action was taken."""
        blocks = []
        for action in range(panel.num_actions):
            state = panel.state[panel.action == action]
            count = int(np.clip(len(state) // rows_per_knot, 1, number))
            share = np.linspace(0, 1, count)
            # unique, since quantiles of discrete states coincide.
            columns = [np.unique(np.quantile(x, share)) for x in state.T if len(x)]
            blocks.append(tuple(columns))
        return cls(tuple(blocks))

    def __call__(self, state: States) -> Float[np.ndarray, "row action basis"]:
        blocks = [_hats(state, knots) for knots in self.knots]
        width = sum(block.shape[1] for block in blocks)
        table = np.zeros((len(state), len(blocks), width))
        begin = 0
        for action, block in enumerate(blocks):
            table[:, action, begin : begin + block.shape[1]] = block
            begin += block.shape[1]
        return table


@dataclass(frozen=True, eq=False)
class Ahead:
    """Expected discounted features and shocks after a decision, as basis coefficients."""

    settings: TDCCP
    policy: AbstractPolicy
    basis: Basis
    omega: Float[np.ndarray, "basis component"]
    """A column per free parameter, and one for what is known with the shocks."""
    system: Float[np.ndarray, "basis basis"]
    rows: Int[np.ndarray, " move"]
    """Decisions whose next state was seen."""
    here: Float[np.ndarray, "move basis"]
    difference: Float[np.ndarray, "move basis"]
    """b less the discounted b of the next period."""
    earned: Float[np.ndarray, "move component"]
    """The next period's flow, discounted."""

    @classmethod
    def learn(
        cls, panel: Panel, policy: AbstractPolicy, basis: Basis, settings: TDCCP
    ) -> "Ahead":
        """Solve the Bellman equation on the observed moves."""
        if panel.terminal.any():
            raise DataError(
                "TD-CCP is for a process that goes on forever, but "
                f"{int(panel.terminal.sum())} rows are terminal."
            )
        rows = np.flatnonzero(panel.has_next)
        after = panel.next_state[rows]
        log_policy = policy.log_prob(after)
        # The mean over the estimated policy at the next state, not the action seen there:
        # the same expectation with less noise.
        mix = np.exp(log_policy)
        free, known = settings.reward.split(after, panel.num_actions)
        shocks = known - settings.temperature * log_policy
        both = np.concatenate([free, shocks[:, :, None]], axis=2)
        earned = settings.discount * np.einsum("ra,rak->rk", mix, both)
        here = basis(panel.state[rows])[np.arange(len(rows)), panel.action[rows]]
        there = np.einsum("ra,rab->rb", mix, basis(after))
        difference = here - settings.discount * there
        weighted = here * panel.weight[rows, None]
        system = weighted.T @ difference
        # Beyond this double precision leaves no digit of omega. Rust's groups 1-4 get
        # there with 40 knots, since the buses keep within few bins for long.
        if not np.linalg.cond(system) < 1e14:
            raise DataError(
                f"The {len(system)} basis functions are collinear on these transitions. "
                "Use fewer `knots`."
            )
        omega = np.linalg.solve(system, weighted.T @ earned)
        return cls(settings, policy, basis, omega, system, rows, here, difference, earned)


def temporal_q(model: Ahead, theta: np.ndarray, state: States) -> PerAction:
    """Q from the estimated components, at any state."""
    free, known = model.settings.reward.split(state, len(model.basis.knots))
    return known + free @ theta + model.basis(state) @ (model.omega @ np.append(theta, 1.0))


def td_covariances(
    panel: Panel, model: Ahead, choices: Choices, counts, theta, names
) -> tuple[np.ndarray, np.ndarray]:
    r"""Covariances, plain and clustered, with the error of the temporal differences.

    A move changes $\omega$ along $A^{-1} b_i \delta_i$, its TD error at theta, and the
    score by minus the information between theta and $\omega$. The policy's error has
    no effect to first order.
    """
    scale = model.settings.temperature
    mass = counts.sum(axis=1, keepdims=True) * choices.policy
    pulled = mass[:, :, None] * choices.score / scale
    cross = np.einsum("rak,rab->kb", pulled, model.basis(panel.state))
    weights = np.append(theta, 1.0)
    td_error = model.earned @ weights - model.difference @ (model.omega @ weights)
    pulled_back = np.linalg.solve(model.system.T, cross.T)
    moved = model.here @ pulled_back * (panel.weight[model.rows] * td_error)[:, None]

    eye = np.eye(len(names))
    inverse = solve_information(choices.expected(counts), eye, names)
    score = choices.rows(np.arange(len(panel)), panel.action, panel.weight)
    outer = solve_information(score.T @ score, eye, names)
    covariance = outer + inverse @ (moved.T @ moved) @ inverse
    by_unit = np.zeros((panel.num_units, len(names)))
    np.add.at(by_unit, panel.unit, score)
    np.add.at(by_unit, panel.unit[model.rows], -moved)
    return symmetric(covariance), clustered_covariance(by_unit @ inverse)


def _hats(state: np.ndarray, knots: tuple[np.ndarray, ...]) -> np.ndarray:
    """A constant, and per column the hat functions of all knots but the first."""
    columns = [np.ones(len(state))]
    for x, places in zip(state.T, knots, strict=bool(knots)):
        height = np.eye(len(places))
        columns += [np.interp(x, places, height[j]) for j in range(1, len(places))]
    return np.stack(columns, axis=1)

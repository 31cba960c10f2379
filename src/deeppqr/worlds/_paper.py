"""The synthetic world of the paper's experiments, with its exact solution.

Inside the box [-p, p]^p a path moves along the all-ones direction only, by one of five
steps of a few tenths; a step that would leave the box leads to a uniform draw from it.
So the states that can be reached from s before a jump lie on one *line* s + c 1, with c on
a grid of tenths: at most 20 p + 1 points. Given the scalar J = E[V(uniform state)], each
line is a small soft Bellman problem with a banded system, and J solves a scalar equation.
The solution is exact for any p, and no network has to be trained for it.
"""

from dataclasses import dataclass, fields
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import solve_banded
from scipy.special import log_softmax, logsumexp
from scipy.stats import qmc

from .._errors import DataError
from .._shapes import PerAction, PerRow
from ..mdp._law import Law
from ..mdp._simulate import check_count, draw, generator, panel_of_paths, split_steps
from ..mdp._tabular import check_preferences
from ..panel._panel import Panel

# Five actions and their steps: [geng2020pqr], Supplements, "Data Generation Process".
NUM_ACTIONS = 5
# Tenths by which each action moves every coordinate: a/5 - 0.5.
SHIFT = np.array([-5, -3, -1, 1, 3])
# Power of two of the states that stand for a uniform draw: see `jump_value`.
JUMPS = 13
# Bound on the points of lines solved at once. A point takes 0.7 kB with its banded system
# (measured at p = 5): 0.7 GB at the bound.
POINTS_AT_ONCE = 1_000_000
# Beyond it rewards times 1 / (1 - discount) leave no digits to the differences of actions.
MAX_SCALE = 1e6


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines through some states, one after the other, as one set of points.

    Line i occupies the points `start[i] : start[i + 1]`.
    """

    start: Int[np.ndarray, " line_and_end"]
    home: Int[np.ndarray, " line"]
    """Where on its line each state lies, as an index into the points."""
    reward: Float[np.ndarray, "point action"]
    target: Int[np.ndarray, "point action"]
    """The point an action leads to, where it stays inside the box."""
    inside: Bool[np.ndarray, "point action"]


@dataclass(frozen=True, eq=False)
class PaperWorld:
    r"""The paper's synthetic world: p state variables, five actions, anchor 0.

    $$r(s,a) = \text{scale} \cdot
    \frac{a \tanh\{(s/p, a/4) \cdot \omega\}}{4 \cdot 1^\top \omega}$$

    Parameters
    ----------
    p
        Dimension of the state; the state space is the box [-p, p]^p.
    reward_scale
        Multiplies the printed reward, which is weak: 1 is the paper's formula.
    seed
        Draws omega, uniform on (0, 1) in each of its p + 1 entries.
    state_only
        Whether the reward is $\text{scale} \cdot \tanh\{(s/p) \cdot \omega_s\}$, the same
        for every action: then no action is an anchor.
    premium
        Added to the reward of every action but 0. It leaves the anchor's as it is and
        makes the anchor rare.

    References
    ----------
    [geng2020pqr], Supplements, "Data Generation Process" and "Robustness Analysis", whose
    printed state-only reward has the action inside tanh.
    """

    p: int = 5
    reward_scale: float = 1.0
    seed: int = 0
    discount: float = 0.9
    temperature: float = 1.0
    state_only: bool = False
    premium: float = 0.0

    def __post_init__(self):
        check_count("p", self.p, most=qmc.Sobol.MAXDIM)
        for name in ("reward_scale", "premium"):
            value = getattr(self, name)
            if not np.abs(value) <= MAX_SCALE:
                raise DataError(
                    f"`{name}` must be a number between -{MAX_SCALE:g} and {MAX_SCALE:g}, "
                    f"but it is {value}."
                )
        check_preferences(self.discount, self.temperature)

    @property
    def actions(self) -> tuple[int, ...]:
        return tuple(range(NUM_ACTIONS))

    @property
    def state_names(self) -> list[str]:
        return [f"x{i + 1}" for i in range(self.p)]

    @cached_property
    def omega(self) -> Float[np.ndarray, " p_and_action"]:
        return generator(self.seed).uniform(size=self.p + 1)

    def reward(self, states) -> PerAction:
        states = self._check(states)
        return self._reward_along(states @ self.omega[:-1] / self.p)

    def q(self, states) -> PerAction:
        states = self._check(states)
        at_once = max(1, POINTS_AT_ONCE // (20 * self.p + 1))
        found = []
        for first in range(0, max(1, len(states)), at_once):
            lines, q = self.solve_lines(states[first : first + at_once])
            found.append(q[lines.home])
        return np.concatenate(found)

    def value(self, states) -> PerRow:
        return self.temperature * logsumexp(self.q(states) / self.temperature, axis=1)

    def log_policy(self, states) -> PerAction:
        return log_softmax(self.q(states) / self.temperature, axis=1)

    def shaped_reward(self, states, anchor: int) -> PerAction:
        r"""The reward that PQR identifies if `anchor` is assumed to earn zero.

        $$r(s,a) + \phi(s) - \gamma E[\phi(s')|s,a], \qquad
        \phi(s) = -r(s,a^A) + \gamma E[\phi(s')|s,a^A].$$
        It implies the same decisions as r, and equals r if the assumption holds.

        References
        ----------
        [geng2020pqr], Lemma 2.
        """
        states = self._check(states)
        lines = self._lines(self.jump_states)
        level, slope = self._shaping(lines, anchor)[:, lines.home].mean(axis=1)
        # phi at a jump is its own mean: one scalar equation, as for J.
        jump = level / (1 - slope)
        lines = self._lines(states)
        level, slope = self._shaping(lines, anchor)
        phi = level + slope * jump
        home = lines.home
        ahead = np.where(lines.inside[home], phi[lines.target[home]], jump)
        return lines.reward[home] + phi[home][:, None] - self.discount * ahead

    @cached_property
    def jump_value(self) -> float:
        """J, the expected value of the uniform draw that follows leaving the box.

        The expectation is over a fixed Sobol sample of 8,192 states. It is part of the
        world's definition: `transition` jumps to the same states.
        """
        return _jump_value(JUMPS, *(getattr(self, field.name) for field in fields(self)))

    @cached_property
    def jump_states(self) -> Float[np.ndarray, "point p"]:
        """The Sobol sample that stands for a uniform draw from the box."""
        # Sobol points: the error of their mean falls almost like 1 / n, not 1 / sqrt(n).
        return self.p * (2 * qmc.Sobol(self.p, rng=0).random_base2(JUMPS) - 1)

    @property
    def transition(self) -> Law:
        """The law of the next state: a step, or a common draw where it leaves the box."""

        def step(states: np.ndarray, action: int) -> tuple[np.ndarray, np.ndarray]:
            moved = states + SHIFT[action] / 10
            # Sums of tenths are not exact in binary; 1e-9 keeps the edge inside the box.
            inside = (np.abs(moved) <= self.p + 1e-9).all(axis=1)
            stays = np.where(inside[:, None], moved, states)
            return stays[:, None], inside[:, None].astype(np.float64)

        return Law(step, common=self.jump_states)

    def simulate(self, steps: int = 50_000, units: int = 50, seed: int = 1) -> Panel:
        """Decisions of the exactly optimal policy, from uniform starting states.

        `steps` is the total, split evenly over the units.
        """
        horizon = split_steps(steps, units)
        rng = generator(seed)
        path = np.empty((horizon + 1, units, self.p))
        action = np.empty((horizon, units), dtype=np.int64)
        path[0] = self.initial_states(units, rng)
        # Each unit's line is solved once per visit; `log_policy` would solve it each step.
        lines = _LineWalk(self, path[0])
        for t in range(horizon):
            action[t] = draw(np.exp(lines.log_policy()), rng)
            jumped = lines.move(action[t])
            path[t + 1] = path[t] + SHIFT[action[t]][:, None] / 10
            path[t + 1, jumped] = self.initial_states(int(jumped.sum()), rng)
            lines.restart(jumped, path[t + 1, jumped])
        return panel_of_paths(self, path, action)

    def initial_states(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform draws from the box: where paths start and where a jump lands."""
        return rng.uniform(-self.p, self.p, size=(number, self.p))

    def next_states(self, state, action, rng: np.random.Generator) -> np.ndarray:
        moved = state + SHIFT[action][:, None] / 10
        outside = (np.abs(moved) > self.p + 1e-9).any(axis=1)
        moved[outside] = self.initial_states(int(outside.sum()), rng)
        return moved

    def solve_lines(
        self, states: Float[np.ndarray, "line p"]
    ) -> tuple[Lines, Float[np.ndarray, "point action"]]:
        """The lines through the states, with their exact action values."""
        lines = self._lines(states)
        return lines, self._solve(lines, jump_value=self.jump_value)[0]

    def _lines(self, states: np.ndarray) -> Lines:
        # How many tenths a state can move down and up before a coordinate leaves the box;
        # 1e-9 as in `transition`.
        low = -np.floor((self.p + states.min(axis=1)) * 10 + 1e-9).astype(np.int64)
        high = np.floor((self.p - states.max(axis=1)) * 10 + 1e-9).astype(np.int64)
        start = np.concatenate([[0], np.cumsum(high - low + 1)])
        line = np.repeat(np.arange(len(states)), high - low + 1)
        tenths = np.arange(start[-1]) - start[line] + low[line]
        weight = self.omega[:-1]
        index = ((states @ weight)[line] + tenths / 10 * weight.sum()) / self.p
        # Points of a line are consecutive, a tenth apart, so steps are shifts of the index.
        target = np.arange(start[-1])[:, None] + SHIFT
        inside = (target >= start[line, None]) & (target < start[line + 1, None])
        reward = self._reward_along(index)
        return Lines(start, start[:-1] - low, reward, np.where(inside, target, 0), inside)

    def _solve(self, lines: Lines, *, jump_value: float | None) -> tuple[np.ndarray, float]:
        r"""Q on the lines, and J: given, or solved for along with them.

        $$V(k) = \alpha \log \sum_a \exp\{[r(k,a) + \gamma V(k + d_a)] / \alpha\},$$
        with J in place of V where k + d_a leaves the line. Newton's method: a step
        evaluates the current policy exactly, by one banded system for all lines, as an
        affine function of J; the mean over the states themselves then gives J.
        """
        jump = self.temperature * np.log(NUM_ACTIONS) / (1 - self.discount)
        jump = jump if jump_value is None else jump_value
        value, best = np.full(len(lines.reward), jump), np.inf
        for step in range(100):
            ahead = np.where(lines.inside, value[lines.target], jump)
            q = lines.reward + self.discount * ahead
            updated = self.temperature * logsumexp(q / self.temperature, axis=1)
            residual = np.abs(updated - value).max()
            # Newton's residual falls quadratically until rounding stops it; after five
            # steps, one that does not fall is rounding error.
            if residual < 1e-14 * (1 + abs(jump)) or (step > 5 and residual >= best):
                break
            best = residual
            level, slope = self._evaluate(lines, log_softmax(q / self.temperature, axis=1))
            if jump_value is None:
                jump = level[lines.home].mean() / (1 - slope[lines.home].mean())
            value = level + slope * jump
        return q, float(jump)

    def _evaluate(self, lines: Lines, log_policy: np.ndarray):
        """The policy's value as `level + slope * J`; slope is the discount at the jump."""
        policy = np.exp(log_policy)
        stay = policy * lines.inside
        level = (policy * (lines.reward - self.temperature * log_policy)).sum(axis=1)
        slope = self.discount * (policy - stay).sum(axis=1)
        return self._solve_banded(stay, np.stack([level, slope], axis=1)).T

    def _shaping(self, lines: Lines, anchor: int):
        """phi of `shaped_reward` as `level + slope * J`, J its mean over uniform states."""
        taken = np.arange(NUM_ACTIONS) == anchor
        stay = taken * lines.inside
        slope = self.discount * (taken & ~lines.inside).sum(axis=1)
        right = np.stack([-lines.reward[:, anchor], slope], axis=1)
        return self._solve_banded(stay, right).T

    def _solve_banded(self, stay, right):
        """(I - discount P) x = right, where `stay` moves along the line by SHIFT."""
        upper, lower = SHIFT.max(), -SHIFT.min()
        banded = np.zeros((upper + lower + 1, len(stay)))
        banded[upper] = 1.0
        for action, shift in enumerate(SHIFT):
            # Entry (i, i + shift) of the matrix sits in row `upper - shift`.
            row = banded[upper - shift]
            weight = -self.discount * stay[:, action]
            if shift > 0:
                row[shift:] = weight[:-shift]
            else:
                row[:shift] = weight[-shift:]
        return solve_banded(
            (lower, upper), banded, right, overwrite_ab=True, check_finite=False
        )

    def _reward_along(self, index: np.ndarray) -> np.ndarray:
        """The reward of each action where s'omega / p equals `index`."""
        action = np.arange(NUM_ACTIONS)
        if self.state_only:
            bend = np.tanh(index)[:, None]
            reward = np.repeat(self.reward_scale * bend, NUM_ACTIONS, axis=1)
        else:
            bend = np.tanh(index[:, None] + action / 4 * self.omega[-1])
            reward = self.reward_scale * action * bend / (4 * self.omega.sum())
        return reward + self.extra

    @property
    def extra(self) -> Float[np.ndarray, " action"]:
        """What the premium adds to the reward of each action."""
        return self.premium * (np.arange(NUM_ACTIONS) > 0)

    def _check(self, states) -> np.ndarray:
        states = np.asarray(states, dtype=np.float64)
        if states.ndim != 2 or states.shape[1] != self.p:
            raise DataError(
                f"`states` must have {self.p} columns, one row per state, but its shape "
                f"is {states.shape}."
            )
        outside = ~(np.abs(states) <= self.p + 1e-9).all(axis=1)
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise DataError(
                f"`states` must lie in the box [-{self.p}, {self.p}]^{self.p}, but row "
                f"{row} does not ({int(outside.sum())} rows in all)."
            )
        return states


@lru_cache(maxsize=1_000)  # half a second each, and studies build a world for every task
def _jump_value(jumps: int, *settings) -> float:
    world = PaperWorld(*settings)
    return world._solve(world._lines(world.jump_states), jump_value=None)[1]


class _LineWalk:
    """Each unit's place on its solved line; a new line is solved only after a jump."""

    def __init__(self, world: PaperWorld, states: np.ndarray):
        self.world = world
        self.q = [np.empty(0)] * len(states)
        self.position = np.zeros(len(states), dtype=np.int64)
        self.restart(np.ones(len(states), dtype=bool), states)

    def restart(self, units: np.ndarray, states: np.ndarray) -> None:
        if len(states) == 0:
            return
        lines, q = self.world.solve_lines(states)
        for index, unit in enumerate(np.flatnonzero(units)):
            first, last = lines.start[index : index + 2]
            self.q[unit] = q[first:last]
            self.position[unit] = lines.home[index] - first

    def log_policy(self) -> np.ndarray:
        q = np.stack([line[k] for line, k in zip(self.q, self.position, strict=True)])
        return log_softmax(q / self.world.temperature, axis=1)

    def move(self, action: np.ndarray) -> np.ndarray:
        """Step along the lines; true for the units that leave theirs."""
        self.position = self.position + SHIFT[action]
        length = np.array([len(line) for line in self.q])
        return (self.position < 0) | (self.position >= length)

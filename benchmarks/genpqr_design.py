r"""The synthetic design of the GenPQR paper, made from its description, and its figures.

The world is built backwards from the policy: with $u = s W_a / \sqrt 5 + b_a$ the log-odds
of an action are those of
$$0.8 \tanh(u + 0.35 \sin(1.5\, u) + 0.2\, |W_a| \cdot s^2 / 5),$$
W normal with standard deviation 0.7 and b falling evenly from 0.5 to -0.3. The anchor stays
where it is, so that its equation is solved by $Q^A = -\gamma/(1-\gamma) \log \pi^A$; the
other four actions move all five coordinates by -0.35 to 0.35, and a move out of the box
[-5, 5]^5 leads to its centre. Then r = Q - gamma V(s') is exact. A shift of -1 in the
anchor's b makes it rare. Paths start from N(0, I) and last ten periods.

Rewards are scored as there: mean squared error at the decisions of 300 other paths.
"""

import numpy as np
from scipy.special import log_softmax

import deeppqr

DIM, ACTIONS, DISCOUNT, PERIODS, SCORED = 5, 5, 0.9, 10, 300
MOVES = np.array([0.0, *np.linspace(-0.35, 0.35, ACTIONS - 1)])
SETTINGS = ((2_000, -1.0), (10_000, -1.0), (10_000, 0.0), (25_000, 0.0))
PUBLISHED = {
    (2_000, -1.0): [("DeepPQR", 2.599, 7.33), ("GenPQR, AIRL", 0.912, 5.22)],
    (10_000, -1.0): [("DeepPQR", 1.480, 38.84), ("GenPQR, AIRL", 0.758, 27.76)],
    (10_000, 0.0): [
        ("DeepPQR", 0.794, 38.24),
        ("GenPQR, AIRL", 0.632, 26.43),
        ("GenPQR, BC", 0.370, 4.74),
        ("MaxEnt-IRL", 1.167, 8.57),
    ],
    (25_000, 0.0): [("DeepPQR", 0.703, 92.82), ("GenPQR, AIRL", 0.598, 64.09)],
}
"""By rows and shift: mean error and seconds over 100 draws, on the authors' machine. Tables
1 and 2 of the draft's experiments in the repository Larsvanderlaan/rl-eval-kit, with Q by
neural fitted evaluation."""


class Design:
    """One draw of the world."""

    def __init__(self, seed: int, shift: float):
        self.rng = np.random.default_rng(seed)
        self.weights = self.rng.normal(scale=0.7, size=(DIM, ACTIONS))
        self.bias = np.linspace(0.5, -0.3, ACTIONS)
        self.bias[0] += shift

    def log_policy(self, states: np.ndarray) -> np.ndarray:
        scaled = states / np.sqrt(DIM)
        index = scaled @ self.weights + self.bias
        bent = index + 0.35 * np.sin(1.5 * index) + 0.2 * scaled**2 @ np.abs(self.weights)
        return log_softmax(0.8 * np.tanh(bent), axis=1)

    def value(self, states: np.ndarray) -> np.ndarray:
        """Q of the anchor less its log-probability; it earns nothing and stays."""
        return -self.log_policy(states)[:, 0] / (1 - DISCOUNT)

    def ahead(self, states: np.ndarray, action) -> np.ndarray:
        moved = states + np.reshape(MOVES[action], (-1, 1))
        return np.where(np.abs(moved).max(axis=1, keepdims=True) > DIM, 0.0, moved)

    def reward(self, states: np.ndarray) -> np.ndarray:
        q = self.log_policy(states) + self.value(states)[:, None]
        later = [self.value(self.ahead(states, action)) for action in range(ACTIONS)]
        return q - DISCOUNT * np.stack(later, axis=1)

    def paths(self, number: int) -> deeppqr.Panel:
        states, actions, after = [], [], []
        state = self.rng.normal(size=(number, DIM))
        for _ in range(PERIODS):
            noise = self.rng.gumbel(size=(number, ACTIONS))
            action = (self.log_policy(state) + noise).argmax(axis=1)
            states.append(state)
            actions.append(action)
            state = self.ahead(state, action)
            after.append(state)
        unit = np.tile(np.arange(number), PERIODS)
        return deeppqr.Panel.from_arrays(
            np.concatenate(states),
            np.concatenate(actions),
            np.concatenate(after),
            unit=unit,
            actions=list(range(ACTIONS)),
        )


def problem(rows: int, shift: float, seed: int):
    """The default model, a panel of so many rows, and the error of a fit."""
    world = Design(seed, shift)
    panel, other = world.paths(rows // PERIODS), world.paths(SCORED)
    taken = np.arange(len(other)), other.action

    def score(fit: deeppqr.Fit) -> float:
        gap = fit.reward(other.state)[taken] - world.reward(other.state)[taken]
        return float((gap**2).mean())

    return deeppqr.PQR(discount=DISCOUNT, anchor=0), panel, score

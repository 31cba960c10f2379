r"""Newton rounds of many replicates at once, from a fit to each one's own maximum.

With a replicate's weights w its coefficients solve
$$\sum_i w_i\,Z_i'(1_{a_i} - \pi_\theta(s_i)) = \Lambda\theta,$$
$\pi_\theta$ following from the reward, the replicate's law and the value that solves their
Bellman equation. Z and the information's policy are the fit's: any Z gives moments that
hold at the truth, and rounds end at the root whatever matrix they step with.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Num
from scipy.linalg import cho_solve

from ..._errors import DataError
from ._start import Held, Posed, level_of_value, pose_rows, posed
from ._sums import (
    At,
    Block,
    Shared,
    Valued,
    choice_sums,
    information,
    normal_product,
    spread,
    value_residual,
)

# Expected gain of a step, in nats, at which a replicate is done: it is then within 2 % of
# a standard error of one coefficient.
ENOUGH = 2e-4
MAX_ROUNDS = 12
# Steps of the value in a round; the mean squared Bellman residual that is left, as a share
# of what a period of a discount leaves, at which they end.
VALUE_STEPS, VALUE_TOL = 8, 1e-4
# A step that is left as large a share of the last one as this ends them too.
STALLED = 0.7
# Conjugate gradients for one policy end once its equations' residual is this share of what
# it was: the next policy moves it again.
GRADIENT_STEPS, IMPROVED = 10, 0.1
# Earlier steps that a step learns from.
REMEMBERED = 3
# Largest root mean squared change of log-odds in one step.
MAX_CHANGE = 0.5
# Rows of a block: 130 MB of Q for a hundred replicates and five actions on a GPU, which
# holds many such; a CPU's cache holds what 16 need.
GPU_ROWS, CPU_ROWS = 65_536, 4_096
GPU_BATCH, CPU_BATCH = 128, 16


@dataclass(frozen=True, eq=False)
class Refit:
    """Where some replicates ended; the last axis of the arrays is the replicate."""

    theta: Float[np.ndarray, "coefficient replicate"]
    """Differences from the fit."""
    extra: Float[np.ndarray, "feature replicate"]
    left: Float[np.ndarray, "near_state replicate"]
    law: np.ndarray
    gain: Float[np.ndarray, " replicate"]
    """Nats that one more step promises."""
    rounds: int
    """Sums over all rows that were taken."""
    steps: int
    """Sums over the rows of the value."""

    @property
    def converged(self) -> Bool[np.ndarray, " replicate"]:
        return self.gain < ENOUGH


class Refits:
    """A fit's rows on a device, and replicates of it."""

    def __init__(self, held: Held, *, device: Any = None, precision: str = "highest"):
        self.held, self.precision = held, precision
        self.device = chosen_device(device)
        on_gpu = self.device.platform != "cpu"
        self.batch = GPU_BATCH if on_gpu else CPU_BATCH
        self._rows = GPU_ROWS if on_gpu else CPU_ROWS
        problem = held.problem
        shared = (held.agent.discount, problem.landing, held.fit.successor)
        self.shared: Shared = self._put(Shared(*_singles(shared)))
        self._load()
        self._gram = problem._gram
        self._left = problem.left.astype(np.float32)
        every = np.ones((held.num_units, 1))
        self._still = self._start(every)
        self.base = self._solve(every, self._still)
        if not self.base.converged.all():
            raise DataError(
                "The fit is no place for warm refits to start: its own rounds, continued "
                f"in single precision, promise {self.base.gain.max():.2g} nats more after "
                f"{self.base.rounds} rounds. Leave `warm` out: then every replicate is a "
                "fit from scratch."
            )

    def on(self, device: Any, *, precision: str | None = None) -> "Refits":
        """The same rows on another device, or in another precision."""
        found = copy(self)
        found.device = chosen_device(device)
        found.precision = precision or self.precision
        if found.device != self.device:
            for name in ("shared", "blocks", "value_block", "valued"):
                setattr(found, name, found._put(getattr(self, name)))
        return found

    def _put(self, tree: Any) -> Any:
        return jax.device_put(tree, self.device)

    def _load(self) -> None:
        """Put the rows onto the device in blocks, and the value's rows as one."""
        held, member = self.held, self.held.membership
        unit, weight = member.unit.astype(np.int32), member.weight.astype(np.float32)
        self.blocks: list[Block] = []
        for rows, found in pose_rows(held):
            if held.rows is None:
                self._load_value(found, unit, weight)
            length = len(found.action)
            for first in range(0, length, self._rows):
                part = slice(first, min(first + self._rows, length))
                at = slice(rows.start + part.start, rows.start + part.stop)
                self.blocks.append(self._put(_block(found, part, unit[at], weight[at])))
        if held.rows is not None:
            few = held.problem
            none = (
                np.zeros(len(few.action), np.int32),
                np.zeros(len(few.action), np.float32),
            )
            self._load_value(posed(held, few), *none)

    def _load_value(self, found: Posed, unit: np.ndarray, weight: np.ndarray) -> None:
        problem = self.held.problem
        rows = np.arange(len(problem.action))[problem.valued]
        here = problem.here.astype(np.float32)
        self.value_block: Block = self._put(_block(found, slice(None), unit, weight))
        parts: list[Any] = [
            here,
            level_of_value(self.held, found).astype(np.float32),
            rows.astype(np.int32),
            here[rows],
            found.ahead[:, rows],
            problem.weight[rows].astype(np.float32),
        ]
        self.valued: Valued = self._put(Valued(*parts))

    def _start(self, count: np.ndarray) -> At:
        """The fit itself, or where its own rounds ended, in every replicate."""
        number, base = count.shape[1], getattr(self, "base", None)
        law = self.held.shift.coefficients(count)
        if base is None:
            theta = np.zeros((len(self.held.fit.theta), 1))
            extra, left = np.zeros((len(self._gram[0]), 1)), self._left[:, None]
        else:
            theta, extra, left = base.theta, base.extra, base.left
        each = [np.repeat(part, number, axis=1) for part in (theta, extra, left)]
        parts: list[Any] = [part.astype(np.float32) for part in [*each, law]]
        return At(*parts)

    def replicates(self, count: Num[np.ndarray, "unit replicate"]) -> Iterator[Refit]:
        """Refits with units counted so often, in batches."""
        for first in range(0, count.shape[1], self.batch):
            part = np.asarray(count[:, first : first + self.batch], dtype=np.float64)
            number = part.shape[1]
            if number < self.batch and first:
                # Filled up with the fit itself: one compiled size serves all batches.
                fill = np.ones((len(part), self.batch - number))
                part = np.concatenate([part, fill], axis=1)
            yield _first(self._solve(part, self._start(part)), number)

    def _solve(self, count: np.ndarray, start: At) -> Refit:
        fit = self.held.fit
        with jax.default_matmul_precision(self.precision):
            weights = self._put(self.held.membership.count(count))
            system = self._information(weights) + np.diag(fit.diagonal)
            theta = np.asarray(start.theta, np.float64)
            extra = np.asarray(start.extra, np.float64)
            at, gain = self._put(start), np.full(count.shape[1], np.inf)
            rounds, steps, past = 0, 0, []
            while rounds < MAX_ROUNDS:
                rounds += 1
                at, extra, taken = self._evaluate(at, theta, extra)
                steps += taken
                slope = self._gradient(at, weights)
                slope -= fit.diagonal[:, None] * (fit.theta[:, None] + theta)
                step = np.linalg.solve(system, slope.T[:, :, None])[:, :, 0].T
                gain = 0.5 * (step * slope).sum(axis=0)
                if (gain < ENOUGH).all() or not np.isfinite(gain).all():
                    break
                past.append((theta, step))
                theta = theta + self._limited(_accelerated(past, system), system)
                at = at._replace(theta=self._put(theta.astype(np.float32)))
        gain = np.where(np.isfinite(gain), np.abs(gain), np.inf)
        left, law = np.asarray(at.left), np.asarray(at.law)
        return Refit(theta, extra, left, law, gain, rounds, steps)

    def _limited(self, step: np.ndarray, system: np.ndarray) -> np.ndarray:
        """A step, shortened where it would change the choices by much."""
        size = np.einsum("mr,rmk,kr->r", step, system, step)
        size = np.sqrt(np.maximum(size, 0.0) / self.held.membership.weight.sum())
        return step * np.minimum(1.0, MAX_CHANGE / np.maximum(size, 1e-12))

    def _information(self, weights: Any) -> np.ndarray:
        at = self._put(self._still)
        found = [information(block, self.shared, at, weights) for block in self.blocks]
        return np.sum([np.asarray(part, np.float64) for part in found], axis=0)

    def _gradient(self, at: At, weights: Any) -> np.ndarray:
        found = [choice_sums(block, self.shared, at, weights)[0] for block in self.blocks]
        return np.sum([np.asarray(part, np.float64) for part in found], axis=0)

    def _evaluate(self, at: At, theta: np.ndarray, extra: np.ndarray) -> tuple:
        """Policy iteration until the value's weights rest."""
        problem, fit = self.held.problem, self.held.fit
        total = float(problem.weight[problem.valued].sum())
        enough, taken = VALUE_TOL * (1 - self.held.agent.discount), 0
        before = np.inf
        while taken < VALUE_STEPS:
            taken += 1
            error, prob, back = value_residual(
                self.value_block, self.shared, self.valued, at
            )
            weight = problem.value_weight[:, None] + fit.successor @ theta + extra
            back = np.asarray(back, np.float64) - problem._ridge[:, None] * weight
            step, size = self._improve(prob, back)
            extra, light = extra + step, self._put(step.astype(np.float32))
            known = self.value_block, self.shared, self.valued
            at = spread(*known, at, error, prob, light)
            moved = np.sqrt(size.max(initial=0.0) / total)
            # Where it no longer falls what is left is single precision's rounding.
            if moved < enough or moved > STALLED * before:
                break
            before = moved
        return at, extra, taken

    def _improve(self, prob: Any, back: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The value's normal equations under new policies, by conjugate gradients.

        The fit's own equations precondition them: with many rows they are nearly the
        same, and one product is enough.
        """
        ridge, found = self.held.problem._ridge[:, None], np.zeros_like(back)
        residual = np.nan_to_num(back, posinf=0.0, neginf=0.0)
        towards = cho_solve(self._gram, residual)
        direction, size = towards, (residual * towards).sum(axis=0)
        first = size
        for _ in range(GRADIENT_STEPS):
            light = self._put(direction.astype(np.float32))
            product = np.asarray(
                normal_product(self.shared, self.valued, prob, light), np.float64
            )
            product = product + ridge * direction
            length = size / np.maximum((direction * product).sum(axis=0), 1e-300)
            found = found + length * direction
            residual = residual - length * product
            towards = cho_solve(self._gram, residual)
            before, size = size, (residual * towards).sum(axis=0)
            if (size <= IMPROVED**2 * first).all():
                break
            direction = towards + size / np.maximum(before, 1e-300) * direction
        return found, first


def _accelerated(past: list[tuple[np.ndarray, np.ndarray]], system: np.ndarray):
    """The last step, made longer or shorter along what earlier steps did to it.

    Z leaves out what neighbours add to V, so that Newton's steps alone would close in at
    a fixed rate (Anderson 1965). Each replicate by itself, in the norm of its information.
    """
    del past[: -1 - REMEMBERED]
    theta, step = past[-1]
    if len(past) == 1:
        return step
    root = np.linalg.cholesky(system).transpose(0, 2, 1)
    changes = np.stack([step - before for _, before in past[:-1]]).transpose(2, 1, 0)
    moves = np.stack([theta - before for before, _ in past[:-1]]).transpose(2, 1, 0)
    share = np.linalg.pinv(root @ changes, rcond=1e-4) @ (root @ step.T[:, :, None])
    return step - ((moves + changes) @ share)[:, :, 0].T


def chosen_device(device: Any) -> Any:
    """A JAX device by its platform's name; by default JAX's own first one."""
    if device is None:
        return jax.devices()[0]
    if not isinstance(device, str):
        return device
    try:
        return jax.devices(device)[0]
    except RuntimeError as problem:
        have = sorted({one.platform for one in jax.devices()})
        raise DataError(
            f"`device` must name a platform that JAX finds here, {have}, but it is "
            f"{device!r}."
        ) from problem


def _block(found: Posed, rows: slice, unit: np.ndarray, weight: np.ndarray) -> Any:
    by_action = found.slope, found.ahead, found.near, found.share, found.reset, found.q
    pair = found.pair[:, rows] if found.pair.shape[1] else found.pair
    parts: list[Any] = [part[:, rows] for part in by_action]
    parts += [found.action[rows], unit, weight, pair, found.column[rows]]
    return Block(*parts)


def _singles(parts: Any) -> list[Any]:
    return [np.asarray(part, np.float32) for part in parts]


def _first(refit: Refit, number: int) -> Refit:
    """The first replicates of a batch."""
    names = ("theta", "extra", "left", "law", "gain")
    return replace(refit, **{name: getattr(refit, name)[..., :number] for name in names})

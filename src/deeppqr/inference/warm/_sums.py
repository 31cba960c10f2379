"""The sums over rows of many replicates at once, as JAX functions for any device.

A replicate is a column: coefficients theta, weights of the value's features and what they
leave are kept as differences from the fit, which float32 holds to more digits than a
replicate needs. Rows are in blocks that are summed in float32; sums of blocks are added,
and systems solved, in float64 by whoever calls.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import log_softmax
from jaxtyping import Array, Float, Int

# Relative change at which what is left of V is spread, and repetitions at most: those of
# the fit.
SPREAD_TOL, SPREAD_STEPS = 1e-3, 300
# Numbers in the rows' matrices of products of which the information is a sum.
PRODUCT_NUMBERS = 16_000_000


class Block(NamedTuple):
    """Some rows with where their actions lead; what a law has none of has width zero."""

    slope: Float[Array, "action row coefficient"]
    """Z, the change of Q with the coefficients."""
    ahead: Float[Array, "action row feature"]
    near: Int[Array, "action row near"]
    share: Float[Array, "action row near"]
    reset: Float[Array, "action row"]
    q: Float[Array, "action row"]
    """At the fit, without what the features leave, less each row's mean."""
    action: Int[Array, " row"]
    unit: Int[Array, " row"]
    weight: Float[Array, " row"]
    pair: Int[Array, "action row"]
    column: Float[Array, "row column"]


class Shared(NamedTuple):
    """What all blocks share."""

    discount: Float[Array, ""]
    landing: Float[Array, " near_state"]
    successor: Float[Array, "feature coefficient"]


class Valued(NamedTuple):
    """What the value's equation needs beside its block of rows."""

    here: Float[Array, "row feature"]
    level: Float[Array, " row"]
    """The rows' means of Q at the fit, less the value by its features."""
    rows: Int[Array, " valued"]
    """Those on which the features' weights are found."""
    used_here: Float[Array, "valued feature"]
    used_ahead: Float[Array, "action valued feature"]
    used_weight: Float[Array, " valued"]


class At(NamedTuple):
    """Where the replicates are, as differences from the fit; `left` is the whole."""

    theta: Float[Array, "coefficient replicate"]
    extra: Float[Array, "feature replicate"]
    """Of the value's weights, beyond what the coefficients change to first order."""
    left: Float[Array, "near_state replicate"]
    law: Array
    """Coefficients of the law's shift."""


def _rows_by(matrix: Array, weights: Array) -> Array:
    """(action, row, k) times (k, replicate), as one product."""
    flat = matrix.reshape(-1, matrix.shape[2]) @ weights
    return flat.reshape(*matrix.shape[:2], -1)


def _summed(matrix: Array, by: Array) -> Array:
    """sum over actions and rows of (action, row, k) times (action, row, replicate)."""
    return matrix.reshape(-1, matrix.shape[2]).T @ by.reshape(-1, by.shape[2])


def _expect_left(block: Block, shared: Shared, left: Array) -> Array | float:
    if block.near.shape[2] == 0:
        return 0.0
    found = block.reset[:, :, None] * (shared.landing @ left)[None, None]
    for place in range(block.near.shape[2]):
        found += block.share[:, :, place, None] * left[block.near[:, :, place]]
    return found


def _law_shift(block: Block, law: Array) -> Array | float:
    if block.pair.shape[1]:
        return law[block.pair]
    if block.column.shape[1]:
        return jnp.einsum("rc,acn->arn", block.column, law)
    return 0.0


def _choices(block: Block, shared: Shared, at: At) -> tuple[Array, Array]:
    """Q without what the features leave, and the log-probabilities."""
    ahead = _rows_by(block.ahead, at.extra) + _law_shift(block, at.law)
    bare = block.q[:, :, None] + _rows_by(block.slope, at.theta) + shared.discount * ahead
    whole = bare + shared.discount * _expect_left(block, shared, at.left)
    return bare, log_softmax(whole, axis=0)


def _taken(block: Block) -> Array:
    every = jnp.arange(block.q.shape[0])[:, None]
    return (every == block.action[None])[:, :, None]


@jax.jit
def choice_sums(
    block: Block, shared: Shared, at: At, count: Float[Array, "unit replicate"]
) -> tuple[Array, Array]:
    """The log-likelihood's gradient, (coefficient, replicate), and itself."""
    _, log_prob = _choices(block, shared, at)
    mass = block.weight[:, None] * count[block.unit]
    taken = _taken(block)
    residual = jnp.where(taken, 1.0, 0.0) - jnp.exp(log_prob)
    gradient = _summed(block.slope, residual * mass[None])
    fit = (jnp.where(taken, log_prob, 0.0).sum(axis=0) * mass).sum(axis=0)
    return gradient, fit


@jax.jit
def information(
    block: Block, shared: Shared, at: At, count: Float[Array, "unit replicate"]
) -> Float[Array, "replicate coefficient coefficient"]:
    """The information at the fit's policy, under the replicates' weights."""
    _, log_prob = _choices(block, shared, at)  # of one replicate: the fit itself
    prob = jnp.exp(log_prob)
    centred = block.slope - (prob * block.slope).sum(axis=0, keepdims=True)
    centred *= jnp.sqrt(prob)
    mass = block.weight[:, None] * count[block.unit]
    rows, width = mass.shape[0], centred.shape[2]
    size = max(1, min(rows, PRODUCT_NUMBERS // width**2))
    parts = -(-rows // size)
    # Rows that fill up the last part weigh nothing.
    mass = jnp.pad(mass, ((0, parts * size - rows), (0, 0))).reshape(parts, size, -1)
    centred = jnp.pad(centred, ((0, 0), (0, parts * size - rows), (0, 0)))
    centred = jnp.moveaxis(centred.reshape(-1, parts, size, width), 1, 0)

    def add(total, part):
        z, by = part
        products = jnp.einsum("arm,ark->rmk", z, z).reshape(size, -1)
        return total + by.T @ products, None

    start = jnp.zeros((mass.shape[2], width * width), mass.dtype)
    total, _ = jax.lax.scan(add, start, (centred, mass))
    return total.reshape(-1, width, width)


@jax.jit
def value_residual(
    block: Block, shared: Shared, valued: Valued, at: At
) -> tuple[Array, Array, Array]:
    """The Bellman residual, the policy, and L'W times the residual."""
    bare, log_prob = _choices(block, shared, at)
    prob = jnp.exp(log_prob)
    change = shared.successor @ at.theta + at.extra
    error = (prob * (bare - log_prob)).sum(axis=0) + valued.level[:, None]
    error -= valued.here @ change
    part = valued.used_weight[:, None] * error[valued.rows]
    back = valued.used_here.T @ part
    after = _summed(valued.used_ahead, prob[:, valued.rows] * part[None])
    return error, prob, back - shared.discount * after


@jax.jit
def normal_product(
    shared: Shared, valued: Valued, prob: Array, weights: Float[Array, "feature replicate"]
) -> Float[Array, "feature replicate"]:
    """L'WL under the replicates' policies, times some weights."""
    share = shared.discount * prob[:, valued.rows]
    drop = valued.used_here @ weights
    drop -= (share * _rows_by(valued.used_ahead, weights)).sum(axis=0)
    drop *= valued.used_weight[:, None]
    return valued.used_here.T @ drop - _summed(valued.used_ahead, share * drop[None])


@jax.jit
def spread(
    block: Block,
    shared: Shared,
    valued: Valued,
    at: At,
    error: Array,
    prob: Array,
    step: Float[Array, "feature replicate"],
) -> At:
    """The value under the same policy after a step of the features' weights.

    What is then left is spread between the states, c = e + discount E_pi[c], by
    repetition, warm from the last one: together the two solve the policy's equation, so
    that the next policy is one of policy iteration.
    """
    ahead = (prob * _rows_by(block.ahead, step)).sum(axis=0)
    error = error - valued.here @ step + shared.discount * ahead
    at = at._replace(extra=at.extra + step)
    if block.near.shape[2] == 0:
        return at
    enough = SPREAD_TOL * (1 - shared.discount) * jnp.abs(error).mean(axis=0)

    def goes_on(carry):
        _, change, steps = carry
        return (steps < SPREAD_STEPS) & (change > enough).any()

    def once(carry):
        left, _, steps = carry
        moved = (prob * _expect_left(block, shared, left)).sum(axis=0)
        update = error + shared.discount * moved
        return update, jnp.abs(update - left).mean(axis=0), steps + 1

    start = at.left, jnp.full(error.shape[1], jnp.inf, error.dtype), 0
    return at._replace(left=jax.lax.while_loop(goes_on, once, start)[0])

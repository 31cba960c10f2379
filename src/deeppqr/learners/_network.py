"""Ensembles of small networks: one training loop for all regressions and likelihoods.

A member trains on its own rows and is judged on the rows held out from it; all members
train at once under `vmap`, in float32. Steps are compiled in chunks of `check_every`, so
that progress can be shown and training can stop between them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._shapes import Codes, PerRow
from .._stored import stored
from ..progress import track
from ._chunks import in_compiled_chunks
from ._scaling import Scaling

Loss = Callable[[Float[Array, " output"], Any], Float[Array, ""]]
"""Loss of one row: the network's outputs and the row's target, any pytree."""
Predict = Callable[[np.ndarray], np.ndarray]
"""Inputs to every member's outputs."""


def squared_error(outputs: Float[Array, " output"], target: Array) -> Float[Array, ""]:
    """The loss of a regression with one output."""
    return jnp.square(outputs[0] - target)


def chosen_squared_error(outputs: Float[Array, " output"], target: Any) -> Array:
    """The loss of a regression with one output per action, of the action taken."""
    action, value = target
    return jnp.square(outputs[action] - value)


@dataclass(frozen=True)
class Training:
    """How a network is built and trained.

    The defaults suit tens of thousands of rows and tens of inputs; early stopping on
    held-out rows makes them safe for fewer.
    """

    # Doubled one at a time on the paper world (p = 2, 2,000 decisions, default stages),
    # rewards move by these shares of their standard deviation: width 0.04, members 0.007,
    # max_steps 0.02, patience 0, weight_decay 2e-5, learning_rate 0.13 (the networks then
    # lose to the quadratic logit). Another seed moves them by 0.32.
    width: int = 64
    depth: int = 2
    """Hidden layers."""
    members: int = 5
    """Networks in the ensemble; member k is judged on fold k of the units."""
    max_steps: int = 2_000
    batch_size: int = 1_024
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    optimiser: Literal["adamw", "adagrad"] = "adamw"
    decay: bool = True
    """Lower AdamW's learning rate along a cosine; Adagrad lowers its own."""
    early_stopping: bool = True
    """Hold units out and keep the best step; otherwise train on all, keep the last."""
    check_every: int = 100
    """Steps between looks at the held-out rows."""
    patience: int = 8
    """Looks without any member improving before training stops."""


@stored
@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trained networks on standardised inputs; calling it gives every member's outputs."""

    leaves: tuple[np.ndarray, ...]
    num_outputs: int
    width: int
    depth: int
    scaling: Scaling
    held_out_loss: Float[np.ndarray, " member"]
    num_steps: int
    trace: Float[np.ndarray, "check member"] = field(
        default_factory=lambda: np.zeros((0, 0))
    )
    """Held-out loss at each look, for plotting."""

    @cached_property
    def _networks(self):
        build = partial(_build, jr.key(0), len(self.scaling.center), self.num_outputs, self)
        like, static = eqx.partition(eqx.filter_eval_shape(build), _is_shape)
        leaves = [jnp.asarray(leaf) for leaf in self.leaves]
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(like), leaves), static)

    def __call__(
        self, inputs: Float[np.ndarray, "row input"]
    ) -> Float[np.ndarray, "member row output"]:
        return _outputs(self._networks, inputs, self.scaling)

    def hidden(
        self, inputs: Float[np.ndarray, "row input"]
    ) -> Float[np.ndarray, "row unit"]:
        """The last hidden layer of every member, side by side."""
        layers = self._networks.layers[:-1]
        scaled = self.scaling(inputs).astype(np.float32)
        units = in_compiled_chunks(partial(_hidden, layers), scaled)
        return np.moveaxis(units, 0, 1).reshape(len(inputs), -1)


def train(
    inputs: Float[np.ndarray, "row input"],
    targets: Any,
    weight: PerRow,
    fold: Codes,
    *,
    loss: Loss,
    num_outputs: int,
    training: Training,
    key: PRNGKeyArray,
    label: str,
    refresh: Callable[[Predict], Any] | None = None,
) -> Ensemble:
    """Fit an ensemble by minibatches, keeping each member's best held-out step.

    `targets` is an array or a pytree of arrays with a row for each row of `inputs`.
    Member k trains on the rows outside fold k.
    `refresh` gives new targets every `check_every` steps, or None to stop; losses are
    then not comparable over time, and the last step is kept instead of the best.
    """
    key_init, key_steps = jr.split(key)
    members = training.members
    scaling = Scaling.of(inputs)
    keys = jr.split(key_init, members)
    networks, opt_state = _start(keys, inputs.shape[1], num_outputs, training)
    data = _to_device((scaling(inputs), targets, weight))
    (inside, num_inside), (held, num_held) = _member_rows(fold, training)
    params, static = eqx.partition(networks, eqx.is_array)
    best, best_loss = params, jnp.full(members, jnp.inf)
    # Held-out losses under changing targets cannot be compared: the last step counts.
    keep_last = refresh is not None or not training.early_stopping
    trace, stale, step = [], 0, 0
    chunk = partial(_chunk, static=static, loss=loss, training=training)
    with track(label, training.max_steps) as progress:
        while step < training.max_steps and stale <= training.patience:
            # Keys by the step's number: a shorter run is the beginning of a longer one.
            keys = jr.split(jr.fold_in(key_steps, step), members)
            params, opt_state = chunk(params, opt_state, data, inside, num_inside, keys)
            current = _held_out(params, data, held, num_held, static=static, loss=loss)
            improved = (current < best_loss) | keep_last
            best = jax.tree.map(partial(_where_member, improved), params, best)
            best_loss = jnp.where(improved, current, best_loss)
            trace.append(np.asarray(current))
            stale = 0 if bool(improved.any()) else stale + 1
            step += training.check_every
            _report(progress, step, training, best_loss)
            if refresh is not None:
                snapshot = eqx.combine(params, static)
                renewed = refresh(lambda x: _outputs(snapshot, x, scaling))  # noqa: B023
                if renewed is None:
                    break
                data = (data[0], _to_device(renewed), data[2])
    return Ensemble(
        tuple(np.asarray(leaf) for leaf in jax.tree.leaves(best)),
        num_outputs,
        training.width,
        training.depth,
        scaling,
        np.asarray(best_loss, dtype=np.float64),
        step,
        np.stack(trace).astype(np.float64),
    )


def _outputs(networks, inputs, scaling) -> Float[np.ndarray, "member row output"]:
    scaled = scaling(inputs).astype(np.float32)
    return in_compiled_chunks(partial(_predict, networks), scaled)


def _build(key: PRNGKeyArray, num_inputs: int, num_outputs: int, shape) -> eqx.nn.MLP:
    network = eqx.nn.MLP(
        num_inputs, num_outputs, shape.width, shape.depth, activation=jnp.tanh, key=key
    )
    # The last layer starts at zero, so that the first prediction is a constant and the
    # random initial weights add no noise where there are few data.
    last = lambda mlp: (mlp.layers[-1].weight, mlp.layers[-1].bias)
    return eqx.tree_at(last, network, [jnp.zeros_like(leaf) for leaf in last(network)])


@eqx.filter_jit
def _start(keys, num_inputs: int, num_outputs: int, training: Training):
    """New networks and the optimiser's state, a member each."""
    build = partial(_build, num_inputs=num_inputs, num_outputs=num_outputs, shape=training)
    networks = eqx.filter_vmap(build)(keys)
    init = _optimiser(training).init
    return networks, jax.vmap(init)(eqx.filter(networks, eqx.is_array))


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _optimiser(training: Training) -> optax.GradientTransformation:
    if training.optimiser == "adagrad":
        return optax.adagrad(training.learning_rate)
    rate = training.learning_rate
    # Down to a twentieth of the rate, not to zero: the last steps still move.
    schedule = optax.cosine_decay_schedule(rate, training.max_steps, alpha=0.05)
    return optax.adamw(
        schedule if training.decay else rate, weight_decay=training.weight_decay
    )


def _to_device(tree: Any) -> Any:
    """Floats as float32, whole numbers as int32."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(
            leaf, dtype=jnp.float32 if np.asarray(leaf).dtype.kind == "f" else jnp.int32
        ),
        tree,
    )


def _member_rows(fold: np.ndarray, training: Training):
    """The rows each member trains on and those it is judged on."""
    own = [fold == k for k in range(training.members)]
    # With fewer units than folds a member may have no held-out rows of its own; it is
    # then judged on the rows it trains on.
    held = [rows if rows.any() else ~rows for rows in own]
    inside = [~rows if training.early_stopping else np.ones_like(rows) for rows in own]
    return _padded_rows(inside), _padded_rows(held)


def _padded_rows(masks: list[np.ndarray]) -> tuple[Int[Array, "member row"], Array]:
    rows = [np.flatnonzero(mask) for mask in masks]
    longest = max(len(row) for row in rows)
    # Rows repeat to equal lengths for `vmap`; the true number limits what is drawn.
    padded = np.stack([np.resize(row, longest) for row in rows])
    return jnp.asarray(padded), jnp.asarray([len(row) for row in rows])


@eqx.filter_jit
def _chunk(
    params, opt_state, data, rows, num_rows, keys, *, static, loss, training: Training
):
    inputs, targets, weight = data
    optimiser = _optimiser(training)

    def batch_loss(member, picked):
        network = eqx.combine(member, static)
        take = lambda leaf: leaf[picked]
        outputs = jax.vmap(network)(inputs[picked])
        losses = jax.vmap(loss)(outputs, jax.tree.map(take, targets))
        return jnp.sum(weight[picked] * losses) / jnp.sum(weight[picked])

    def one_step(carry, key):
        member, state, available, limit = carry
        # Drawn with replacement: a permutation per epoch would need a sort on the device,
        # and members with different numbers of rows could not share one `vmap`.
        picked = available[jr.randint(key, (training.batch_size,), 0, limit)]
        gradient = jax.grad(batch_loss)(member, picked)
        updates, state = optimiser.update(gradient, state, member)
        return (optax.apply_updates(member, updates), state, available, limit), None

    def one_member(member, state, available, limit, key):
        steps = jr.split(key, training.check_every)
        carry, _ = jax.lax.scan(one_step, (member, state, available, limit), steps)
        return carry[0], carry[1]

    return jax.vmap(one_member)(params, opt_state, rows, num_rows, keys)


@eqx.filter_jit
def _held_out(params, data, rows, num_rows, *, static, loss):
    inputs, targets, weight = data

    def one_member(member, available, limit):
        network = eqx.combine(member, static)
        outputs = jax.vmap(network)(inputs[available])
        take = lambda leaf: leaf[available]
        losses = jax.vmap(loss)(outputs, jax.tree.map(take, targets))
        counted = jnp.where(jnp.arange(available.size) < limit, weight[available], 0.0)
        return jnp.sum(counted * losses) / jnp.sum(counted)

    return jax.vmap(one_member)(params, rows, num_rows)


@eqx.filter_jit
def _predict(networks, inputs):
    outputs = eqx.filter_vmap(
        lambda network: jax.vmap(network)(inputs), in_axes=(eqx.if_array(0),)
    )
    return outputs(networks)


@eqx.filter_jit
def _hidden(layers, inputs):
    def one_member(member):
        units = inputs
        for layer in member:
            units = jnp.tanh(units @ layer.weight.T + layer.bias[None])
        return units

    return eqx.filter_vmap(one_member)(layers)


def _where_member(improved, new, old):
    shape = (-1,) + (1,) * (new.ndim - 1)
    return jnp.where(improved.reshape(shape), new, old)


def _report(progress, step: int, training: Training, loss) -> None:
    progress.advance(training.check_every, note=f"held-out loss {float(loss.mean()):.4f}")

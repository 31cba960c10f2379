"""The discriminator of D-AIRL, with tables or networks for g and h.

In units of the temperature, f = g(s) + discount h(s') - h(s) is linear in tables of g and h
and the loss is convex in f, so the tables' loss has no local minima.
"""

from dataclasses import dataclass, fields

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.optimize import minimize
from scipy.special import expit

from .._shapes import Codes, Mask, PerRow, States
from ..learners._network import Ensemble, Training, _optimiser, _start, _to_device
from ..learners._scaling import Scaling
from ..panel._cells import Cells
from ..progress import track


@dataclass(frozen=True, eq=False)
class Transitions:
    """Demonstrated transitions with the probabilities the discriminator is told."""

    state: States
    next_state: States
    follows: Mask
    """False where the process ended; h is zero there."""
    column: Codes
    """Which of the outputs of g counts: the action, or 0 if g is state-only."""
    log_policy: PerRow
    log_generator: PerRow
    weight: PerRow

    @property
    def negative(self) -> PerRow:
        """P / pi, the importance weight that makes demonstrated rows the generator's."""
        return np.exp(self.log_generator - self.log_policy)

    def grouped(self) -> "Transitions":
        """Equal rows merged, their weights added."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        weight = parts.pop("weight")
        rows = np.column_stack(list(parts.values()))
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        distinct = {name: part[first] for name, part in parts.items()}
        return Transitions(**distinct, weight=np.bincount(group.ravel(), weight))


def discriminator_loss(score, log_generator, negative):
    r"""The loss of transitions that stand for both sides.

    $$-\log D - \frac{P}{\hat\pi}\log(1 - D), \qquad D = \frac{e^f}{e^f + P}.$$

    Its minimum over f alone is $\log\hat\pi(a|s)$, whatever P is.
    """
    ahead = score - log_generator
    return jax.nn.softplus(-ahead) + negative * jax.nn.softplus(ahead)


def fit_tables(
    data: Transitions, cells: Cells, num_columns: int, *, discount: float
) -> tuple[Float[np.ndarray, "cell column"], float]:
    """g over the cells, in units of the temperature, and the mean loss.

    The start is the least-squares solution of f = log pi, of least norm; where some f
    attains it in every row, as the theorem says, that is also the optimum.
    """
    data = data.grouped()
    design = _design(data, cells, num_columns, discount)
    weight = data.weight / data.weight.sum()
    root = np.sqrt(weight)
    # f = log pi is the optimum wherever it is attainable, so the search starts there.
    start = np.linalg.lstsq(design * root[:, None], data.log_policy * root, rcond=1e-12)[0]
    negative = data.negative

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        ahead = design @ theta - data.log_generator
        each = np.logaddexp(0, -ahead) + negative * np.logaddexp(0, ahead)
        slope = negative * expit(ahead) - expit(-ahead)
        return float(weight @ each), design.T @ (weight * slope)

    # Tight, since g and h are nearly collinear: the loss is flat long before g has settled.
    options = {"gtol": 1e-10, "ftol": 1e-15, "maxiter": 5_000}
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return best.x[: len(cells) * num_columns].reshape(-1, num_columns), float(best.fun)


def _design(data: Transitions, cells: Cells, num_columns: int, discount: float):
    """Rows of f as a linear function of the tables of g and h."""
    seen = Cells.of(np.concatenate([data.state, data.next_state]))
    rows, offset = np.arange(len(data.state)), len(cells) * num_columns
    design = np.zeros((len(rows), offset + len(seen)))
    design[rows, cells.locate(data.state) * num_columns + data.column] = 1.0
    design[rows, offset + seen.locate(data.state)] -= 1.0
    # A state may lead to itself, so the two entries of h add up.
    design[rows, offset + seen.locate(data.next_state)] += discount * data.follows
    return design


def fit_networks(
    data: Transitions,
    num_columns: int,
    *,
    discount: float,
    training: Training,
    key: PRNGKeyArray,
) -> tuple[Ensemble, float]:
    """Networks with outputs (g, h) applied at both ends of each transition."""
    key_init, key_steps = jr.split(key)
    scaling = Scaling.of(data.state)
    outputs = num_columns + 1
    keys = jr.split(key_init, training.members)
    networks, opt_state = _start(keys, data.state.shape[1], outputs, training)
    params, static = eqx.partition(networks, eqx.is_array)
    scaled = (scaling(data.state), scaling(data.next_state), discount * data.follows)
    columns = (data.log_generator, data.negative, data.weight, data.column)
    rows = _to_device((*scaled, *columns))
    step, trace = 0, []
    with track("D-AIRL", training.max_steps) as progress:
        while step < training.max_steps:
            keys = jr.split(jr.fold_in(key_steps, step), training.members)
            params, opt_state, losses = _chunk(
                params, opt_state, rows, keys, static=static, training=training
            )
            step += training.check_every
            trace.append(np.asarray(losses, dtype=np.float64))
            progress.advance(training.check_every, note=f"loss {trace[-1].mean():.4f}")
    leaves = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(params))
    shape = (outputs, training.width, training.depth)
    ensemble = Ensemble(leaves, *shape, scaling, trace[-1], step, np.stack(trace))
    return ensemble, float(trace[-1].mean())


@eqx.filter_jit
def _chunk(params, opt_state, rows, keys, *, static, training: Training):
    optimiser = _optimiser(training)

    def batch_loss(member, picked) -> Float[Array, ""]:
        network = eqx.combine(member, static)
        state, after, discount, log_generator, negative, weight, column = (
            values[picked] for values in rows
        )
        here, there = jax.vmap(network)(state), jax.vmap(network)(after)
        g = jnp.take_along_axis(here[:, :-1], column[:, None], axis=1)[:, 0]
        score = g + discount * there[:, -1] - here[:, -1]
        losses = discriminator_loss(score, log_generator, negative)
        return jnp.sum(weight * losses) / jnp.sum(weight)

    def one_step(carry, key):
        member, state = carry
        picked = jr.randint(key, (training.batch_size,), 0, len(rows[0]))
        loss, gradient = jax.value_and_grad(batch_loss)(member, picked)
        updates, state = optimiser.update(gradient, state, member)
        return (optax.apply_updates(member, updates), state), loss

    def one_member(member, state, key):
        steps = jr.split(key, training.check_every)
        (member, state), losses = jax.lax.scan(one_step, (member, state), steps)
        return member, state, losses.mean()

    return jax.vmap(one_member)(params, opt_state, keys)

"""econirl's estimators on the paper's world, whose states are cut into cells for them.

`bench.py` runs these in the environment that has econirl. Each estimator keeps its
documented defaults but for what the problem asks: sizes, the discount, and the anchor where
it takes one. Cells are nearest centroids of a k-means of the observed states, and each
cell's reward is read off at its centroid; making the cells is not in the times.

- GLADIUS (neural): told the anchor and its reward; sees the centroids' coordinates.
- TD-CCP: the linear semi-gradient and the neural variant; handed reward features of nearly
  the true form (`features`), coordinates for its basis, and the cells' counted transitions.
- AIRL (neural): its reward is of the state alone, which the paper's world does not have.
- AIRL2: one segment, the same features as TD-CCP, the anchor as its exit, and a state that
  nobody reaches as the absorbing one that it asks for.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from bench_cells import timed

# As many as in the comparison that the project's benchmarks were set by.
GLADIUS_CELLS, TABLE_CELLS = 1_951, 984


class Cells(NamedTuple):
    """A panel on cells, in econirl's form."""

    panel: Any
    centroids: np.ndarray
    """In units of the box's half-width."""
    transition: np.ndarray
    """Counted shares, `action state next_state`; a pair that was not seen stays."""
    nearest: Callable[[np.ndarray], np.ndarray]


def cut(panel: Any, number: int, seed: int) -> Cells:
    import pandas as pd
    from econirl.core.types import TrajectoryPanel  # pyright: ignore[reportMissingImports]
    from sklearn.cluster import MiniBatchKMeans

    rows = np.flatnonzero(panel.is_transition)
    scale = panel.state.shape[1]  # the box is [-p, p]^p
    means = MiniBatchKMeans(number, random_state=seed, batch_size=4_096, n_init=1)
    means.fit(panel.state[rows])
    # Cells that no row lies in, or that are only left, have no decisions to learn from.
    labels = means.predict(panel.state[rows])
    used, here = np.unique(labels, return_inverse=True)
    centroids = means.cluster_centers_[used]
    means.cluster_centers_ = centroids
    nearest = means.predict
    ahead = nearest(panel.next_state[rows])
    frame = pd.DataFrame(
        {"id": panel.unit[rows], "s": here, "a": panel.action[rows], "after": ahead}
    )
    counts = np.zeros((len(panel.actions), len(used), len(used)), np.float32)
    np.add.at(counts, (panel.action[rows], here, ahead), 1.0)
    unseen = counts.sum(axis=2) == 0
    stays = np.eye(len(used), dtype=np.float32)
    counts[unseen] = np.broadcast_to(stays, counts.shape)[unseen]
    return Cells(
        TrajectoryPanel.from_dataframe(
            frame, state="s", action="a", id="id", next_state="after"
        ),
        centroids / scale,
        counts / counts.sum(axis=2, keepdims=True, dtype=np.float64),
        nearest,
    )


def features(centroids: np.ndarray, actions: int) -> Any:
    """a/4 times (1, s, a/4), a in 0..4, where the truth is a/4 times a tanh of the sum."""
    from econirl.core.reward_spec import RewardSpec  # pyright: ignore[reportMissingImports]

    share = np.arange(actions) / (actions - 1)
    size = (len(centroids), actions, 1)
    states = np.repeat(centroids[:, None, :], actions, axis=1)
    inside = [np.ones(size), states, np.broadcast_to(share[:, None], size)]
    matrix = share[:, None] * np.concatenate(inside, axis=2)
    names = [f"f{index}" for index in range(matrix.shape[2])]
    return RewardSpec(matrix.astype(np.float32), names=names)


def gladius(cells: Cells, actions: int, discount: float) -> Any:
    from econirl.estimators import GLADIUS  # pyright: ignore[reportMissingImports]

    coordinates = cells.centroids.astype(np.float32)
    model = GLADIUS(
        n_actions=actions,
        discount=discount,
        anchor_action=0,
        anchor_rewards=[0.0] * len(coordinates),
        state_encoder=lambda states: _take(coordinates, states),
        state_dim=coordinates.shape[1],
    )
    return model.fit(cells.panel)


def _take(table: np.ndarray, states: Any) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(table)[jnp.asarray(states, dtype=jnp.int32)]


def td_ccp(cells: Cells, actions: int, discount: float, method: str) -> Any:
    from econirl.estimators import TDCCP  # pyright: ignore[reportMissingImports]

    model = TDCCP(
        n_states=len(cells.centroids),
        n_actions=actions,
        discount=discount,
        utility=features(cells.centroids, actions),
        method=method,
        basis_type="encoded",  # its default orders the states by their number
        state_features=cells.centroids,
    )
    return model.fit(cells.panel, transitions=cells.transition)


def airl(cells: Cells, actions: int, discount: float) -> Any:
    from econirl.estimators import NeuralAIRL  # pyright: ignore[reportMissingImports]

    model = NeuralAIRL(len(cells.centroids), actions, discount)
    return model.fit(cells.panel, transitions=cells.transition, features=cells.centroids)


def airl2(cells: Cells, actions: int, discount: float) -> Any:
    from econirl.estimators import AIRL2  # pyright: ignore[reportMissingImports]

    number = len(cells.centroids)
    transition = np.zeros((actions, number + 1, number + 1))
    transition[:, :number, :number] = cells.transition
    transition[:, number, number] = 1.0
    transition /= transition.sum(axis=2, keepdims=True)  # to double precision
    centroids = np.concatenate([cells.centroids, cells.centroids[:1]])
    model = AIRL2(
        number + 1,
        actions,
        exit_action=0,
        absorbing_state=number,
        discount=discount,
        num_segments=1,
        initialization="random",  # its default is for several segments
    )
    reward = features(centroids, actions)
    return model.fit(cells.panel, transitions=transition, reward=reward)


ESTIMATORS: dict[str, tuple[int, Callable[..., Any]]] = {
    "econirl GLADIUS": (GLADIUS_CELLS, gladius),
    "econirl TD-CCP": (TABLE_CELLS, lambda *given: td_ccp(*given, "semigradient")),
    "econirl TD-CCP neural": (TABLE_CELLS, lambda *given: td_ccp(*given, "neural")),
    "econirl AIRL neural": (TABLE_CELLS, airl),
    "econirl AIRL2": (TABLE_CELLS, airl2),
}
"""By name: how many cells are asked for, and the fit."""
# A fit takes ten minutes: no second one is made.
ONCE = {"econirl GLADIUS"}


def measure(
    name: str, panel: Any, states: np.ndarray, discount: float, seed: int
) -> tuple[tuple[float, float, float], np.ndarray, str]:
    """Seconds of the first and second fit and of processors, rewards less the anchor's."""
    number, fit = ESTIMATORS[name]
    cells = cut(panel, number, seed)
    again = lambda: fit(cells, len(panel.actions), discount)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is in `converged_`
        model, cold, cpu = timed(again)
        warm = np.nan if name in ONCE else timed(again)[1]
    reward = np.asarray(model.reward_matrix_)[cells.nearest(states)]
    said = f"{len(cells.centroids):,} cells"
    if not model.converged_:
        said += "; says that it did not converge"
    return (cold, warm, cpu), reward - reward[:, [0]], said

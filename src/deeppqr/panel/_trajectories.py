"""Reads trajectories, as imitation, Minari or a simulator records them, into rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import DataError
from .._messages import counted
from ..actions._space import Box
from ._columns import as_array

FORMS = (
    "an object with `obs`, `acts` and `terminal`, a tuple (states, actions) or (states, "
    'actions, terminal), or a dict with the keys "states", "actions" and, if the process '
    'can end, "terminal"'
)
SPACES = {
    "observation_space": ("Box", "Discrete"),
    "action_space": ("Discrete", "Box", "Dict"),
}


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One unit's path: T decisions with T + 1 states, or T if the last was not seen."""

    states: np.ndarray
    actions: np.ndarray
    terminal: bool
    discrete: bool = False
    """The observations are numbers of a Discrete space: labels, not quantities."""

    def next_states(self) -> np.ndarray:
        """The state after each decision; a missing row where none was seen or exists."""
        seen = self.states[1 : len(self.actions) + (0 if self.terminal else 1)]
        missing = None if self.states.dtype == object else np.nan
        absent = np.full((len(self.actions) - len(seen), self.states.shape[1]), missing)
        return np.concatenate([seen, absent])


def aligned_rows(
    trajectories: Iterable[Trajectory], noun: str
) -> tuple[dict[str, np.ndarray], bool]:
    """The arguments of `Panel.from_arrays`, with each trajectory as a unit.

    And whether the states are numbers of a Discrete space.
    """
    paths = []
    for path in trajectories:
        paths.append(path)
        columns, found = paths[0].states.shape[1], path.states.shape[1]
        if found != columns:
            raise DataError(
                f"Every trajectory must have the same state columns, {columns} in the "
                f"first, but {noun} {len(paths) - 1} has {found}."
            )
    if not paths:
        raise DataError("`trajectories` must hold at least one trajectory; it is empty.")
    last = [np.arange(len(path.actions)) == len(path.actions) - 1 for path in paths]
    rows = {
        "state": np.concatenate([path.states[: len(path.actions)] for path in paths]),
        "action": np.concatenate([path.actions for path in paths]),
        "next_state": np.concatenate([path.next_states() for path in paths]),
        "unit": np.repeat(np.arange(len(paths)), [len(path.actions) for path in paths]),
        "terminal": np.concatenate(
            [end & path.terminal for end, path in zip(last, paths, strict=True)]
        ),
    }
    return rows, all(path.discrete for path in paths)


def space_of(given: Any) -> Box | None:
    """The box of a Gymnasium Box of actions, or of a Dict of them; None of others."""
    kind = type(given).__name__
    if kind == "Dict":
        parts = [space_of(part) for part in given.spaces.values()]
        if any(part is None for part in parts):
            raise DataError(
                f"The dataset's `action_space` must be Discrete, a Box or a Dict of Boxes, "
                f"but it is {given}. Join what was done into amounts yourself, doing "
                "nothing being an atom, and pass the episodes to Panel.from_trajectories "
                "with actions=deeppqr.Mixed(atoms=[...], box=...)."
            )
        low = [bound for part in parts if part for bound in part.lower]
        return Box(low, [bound for part in parts if part for bound in part.upper])
    if kind != "Box":
        return None
    low, high = np.ravel(given.low), np.ravel(given.high)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise DataError(
            f"The dataset's `action_space` has no bounds: {given}. Pass "
            "actions=deeppqr.Box(low, high) with the range of its actions."
        )
    return Box(low.astype(np.float64), high.astype(np.float64))


def read_trajectories(trajectories: Any, *, wide: bool = False) -> Iterator[Trajectory]:
    """Each trajectory, checked, in any of the forms it may come in.

    Its actions may have several columns if `wide`.
    """
    single = isinstance(trajectories, Mapping) or hasattr(trajectories, "obs")
    if single or not isinstance(trajectories, Iterable):
        raise DataError(
            "`trajectories` must be a list of trajectories, but a "
            f"{type(trajectories).__name__} arrived. Put a single one into a list: "
            "Panel.from_trajectories([trajectory])."
        )
    for index, given in enumerate(trajectories):
        parts = _parts(given, index)
        # Recorded by a simulator, single integers number the states of a Discrete space.
        single = hasattr(given, "obs") and np.ndim(parts[0]) == 1
        discrete = single and np.asarray(parts[0]).dtype.kind in "iu"
        yield _check(*parts, name=f"trajectory {index}", discrete=discrete, wide=wide)


def read_episodes(dataset: Any, *, wide: bool = False) -> Iterator[Trajectory]:
    """Each episode of a Minari dataset, checked; `wide` if actions are amounts."""
    if not hasattr(dataset, "iterate_episodes"):
        raise DataError(
            "`dataset` must be a minari.MinariDataset or have its `iterate_episodes()`, "
            f"but a {type(dataset).__name__} arrived. Load one with "
            'minari.load_dataset("name").'
        )
    for role, kinds in SPACES.items():
        space = getattr(dataset, role, None)
        if space is not None and type(space).__name__ not in kinds:
            raise DataError(
                f"The dataset's `{role}` must be {' or '.join(kinds)}, but it is {space}. "
                "Translate the episodes yourself and pass them to Panel.from_trajectories."
            )
    space = getattr(dataset, "observation_space", None)
    discrete = type(space).__name__ == "Discrete"
    for index, episode in enumerate(dataset.iterate_episodes()):
        name = f"episode {index}"
        ended = np.asarray(episode.terminations, dtype=bool)
        # Minari stores whole episodes, so a termination inside one is a recording error.
        if ended[:-1].any():
            raise DataError(
                f"An episode must end where it terminates, but {name} terminates at step "
                f"{int(ended.argmax())} of {len(ended)}. Split it there."
            )
        actions = _joined(episode.actions)
        if actions.dtype.kind not in "iu" and not wide:
            raise DataError(
                f"Actions must be discrete, but those of {name} have the type "
                f"{actions.dtype}. If they are amounts, say between which bounds: "
                "actions=deeppqr.Box(low, high)."
            )
        told = {"name": name, "discrete": discrete, "wide": wide}
        yield _check(episode.observations, actions, bool(ended[-1:].any()), **told)


def _joined(actions: Any) -> np.ndarray:
    """Actions as one array; the parts of a Dict space beside each other."""
    if not isinstance(actions, Mapping):
        return np.asarray(actions)
    parts = [np.asarray(part) for part in actions.values()]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _parts(given: Any, index: int) -> tuple[Any, Any, Any]:
    """States, actions and whether the process ended with the last of them."""
    if hasattr(given, "obs") and hasattr(given, "acts"):
        return given.obs, given.acts, getattr(given, "terminal", False)
    if isinstance(given, Mapping):
        unknown = sorted(set(map(str, given)) - {"states", "actions", "terminal"})
        if unknown or "states" not in given or "actions" not in given:
            raise DataError(
                f"A trajectory must be {FORMS}, but trajectory {index} is a dict with the "
                f"keys {list(given)}."
            )
        return given["states"], given["actions"], given.get("terminal", False)
    if isinstance(given, tuple) and len(given) in (2, 3):
        return given[0], given[1], given[2] if len(given) == 3 else False
    size = f" of {len(given)}" if isinstance(given, tuple) else ""
    raise DataError(
        f"A trajectory must be {FORMS}, but trajectory {index} is a "
        f"{type(given).__name__}{size}."
    )


def _check(
    states: Any, actions: Any, terminal: Any, *, name: str, discrete: bool, wide: bool
) -> Trajectory:
    if hasattr(states, "keys") or isinstance(states, tuple):
        raise DataError(
            f"States must be one array with a row per state, but those of {name} are a "
            f"{type(states).__name__} of several. Join them into columns first."
        )
    if not isinstance(terminal, (bool, np.bool_)):
        raise DataError(
            f"`terminal` must say once, true or false, whether a trajectory ended with "
            f"its last decision, but {name} has {terminal!r}."
        )
    states, actions = _rows(states, "states", name), _rows(actions, "actions", name)
    if actions.shape[1] != 1 and not wide:
        raise DataError(
            f"An action must be one label, but those of {name} have {actions.shape[1]} "
            "columns. Number the combinations that occur and pass these numbers, or, if "
            "they are amounts, pass actions=deeppqr.Box([...], [...])."
        )
    if len(actions) == 0:
        raise DataError(f"A trajectory must have a decision; {name} has none. Drop it.")
    if len(states) not in (len(actions), len(actions) + 1):
        raise DataError(
            f"A trajectory of {counted(len(actions), 'action')} must have "
            f"{counted(len(actions) + 1, 'state')}, or {len(actions)} where the last next "
            f"state was not seen, but {name} has {len(states)}."
        )
    return Trajectory(states, actions if wide else actions[:, 0], bool(terminal), discrete)


def _rows(values: Any, role: str, name: str) -> np.ndarray:
    """One row per entry and its contents as columns, in C order."""
    try:
        array = as_array(values)
    except ValueError:  # rows of unequal lengths
        array = np.empty(())
    if array.ndim == 0:
        raise DataError(
            f"The {role} of a trajectory must be an array with a row for each, but those "
            f"of {name} are {str(values)[:60]!r}."
        )
    # An array of text cannot hold a missing value, an array of objects can (None).
    array = array.astype(object) if array.dtype.kind in "US" else array
    # Images and other shapes are flattened, as `WorldEnv` and Gymnasium do.
    return array.reshape(len(array), int(np.prod(array.shape[1:])))

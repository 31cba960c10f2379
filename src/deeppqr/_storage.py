"""Saves and loads fits: a folder of JSON and arrays, without pickle.

A fit is a tree of frozen dataclasses whose leaves are numbers, strings and arrays. The
tree goes to `model.json`, the arrays to `arrays.safetensors`, scikit-learn estimators to
skops files. Loading builds only classes registered in `_stored`, and runs no code from
the folder.
"""

import hashlib
import json
import math
import os
import re
import reprlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save as save_arrays

from . import _pqr as _pqr  # registers every class that a fit can be made of
from ._errors import DeepPQRError, StorageError
from ._files import as_path, new_folder
from ._fit import Fit
from ._stored import ROLE, TRANSIENT, check_fields, find_stored, is_stored
from ._untrusted import check_archive, read_json
from .mdp._tabular import check_preferences

# Raised by every change of what is stored; folders of other versions are refused.
FORMAT, VERSION = "deeppqr-fit", 5
AGAIN = "Copy or save the fit again."
PROBES = 500  # states of the data that are predicted for, to see whether the parts agree
ARRAYS = "arrays.safetensors"
# What parts of a fit hold a copy of; a copy that differs would be used without a word.
SHARED = ("anchor", "discount", "num_actions")


def save(fit: Fit, folder: str | Path) -> Path:
    """Write `fit` to a new folder, which appears only once it is complete."""
    with new_folder(folder) as partial:
        parts = _Parts()
        tree = parts.pack(fit, "fit")
        _write_parts(partial, parts)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "deeppqr": version("deeppqr"),
            "scikit-learn": version("scikit-learn"),
            "sha256": {name: _digest(partial / name) for name in _files(parts)},
            "fit": tree,
        }
        text = json.dumps(sealed(header), indent=1, allow_nan=False)
        (partial / "model.json").write_text(text, encoding="utf-8")
        (partial / "summary.txt").write_text(fit.summary() + "\n", encoding="utf-8")
    return Path(folder)


def load(
    folder: str | Path,
    *,
    anchor_reward: Any = None,
    policy: Any = None,
    transition: Any = None,
    reward_features: Any = None,
) -> Fit:
    """Read a fit that `Fit.save` wrote; nothing in the folder is executed.

    Functions are not stored: the arguments are those the fit was made with, where they
    were functions; `reward_features` are the `features` that a reward was known to be
    linear in.
    """
    folder = as_path(folder, "folder")
    try:
        header = _read_header(folder)
    except RecursionError:
        raise _damaged(folder, "its lists are nested too deeply") from None
    functions = {
        "anchor_reward": anchor_reward,
        "policy": policy,
        "transition": transition,
        "reward_features": reward_features,
    }
    reader = _Reader(folder, header, {k: f for k, f in functions.items() if f is not None})
    try:
        fit = reader.unpack(header["fit"], "fit")
        if not isinstance(fit, Fit):
            raise StorageError(f"{folder} holds no fit, but a {type(fit).__name__}.")
        _check_agreement(fit, reader.shared)
        if not reader.used:  # functions may be slow, or know the states of the data only
            _check_predictions(fit)
    except RecursionError:
        raise _damaged(folder, "its parts are nested too deeply") from None
    except _Damage as problem:
        raise _damaged(folder, str(problem)) from problem
    # An argument without effect is a mistake: the fit would not use the function given.
    unused = sorted(set(reader.functions) - reader.used)
    if unused:
        raise StorageError(
            f"The fit in {folder} was not made with a function for `{unused[0]}`; it is "
            "stored whole, so leave that argument out."
        )
    return fit


def is_fit(folder: Path) -> bool:
    """Whether a folder holds a fit, of this format's version or another."""
    try:
        header = read_json(folder / "model.json")
    except (ValueError, OSError):
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


class _Damage(ValueError):
    """What is wrong with the tree of a fit; `load` names the file and what to do."""


def _damaged(folder: Path, problem: str) -> StorageError:
    return StorageError(f"{folder / 'model.json'} is damaged: {problem}. {AGAIN}")


def _check_agreement(fit: Fit, shared: list[tuple[str, str, Any]]) -> None:
    """Raise unless labels, states and settings are possible and the same everywhere."""
    value, num_actions = fit.estimate, len(fit.actions)
    try:
        check_preferences(value.discount, value.temperature)
    except DeepPQRError as problem:
        raise _Damage(str(problem).rstrip(".")) from None
    if not 0 <= value.anchor < num_actions:
        raise _Damage(f"the anchor is action {value.anchor} of {num_actions} actions")
    whole = {"anchor": value.anchor, "discount": value.discount, "num_actions": num_actions}
    for path, name, found in shared:
        if found is not None and found != whole[name]:
            raise _Damage(f"{path}.{name} is {found}, and the fit's is {whole[name]}")
    width, seen = len(fit.encoding.feature_names), fit.seen
    if seen.state.shape[1] != width or not len(seen.state):
        raise _Damage(f"fit.seen.state has shape {seen.state.shape}, not (rows, {width})")
    if not (np.isfinite(seen.state).all() and (seen.scale > 0).all()):
        raise _Damage("fit.seen must hold finite states and positive scales, and does not")


def _check_predictions(fit: Fit) -> None:
    """Raise if the parts do not fit together: now, and not at the first prediction."""
    seen = fit.seen.state
    state = seen[:: -(-len(seen) // PROBES)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shapes = [
                np.shape(table)
                for table in (
                    fit.estimate(state).q,
                    fit._reward_of(state),
                    fit.estimate.policy.log_prob(state),
                )
            ]
    # A state can lie outside a table, which is no damage.
    except DeepPQRError:
        return
    except Exception as problem:
        raise _Damage(
            "its parts do not fit together: a prediction at a state of the data ends in "
            f"{type(problem).__name__}: {_first_line(problem)}"
        ) from problem
    expected = (len(state), len(fit.actions))
    if any(shape != expected for shape in shapes):
        shape = next(shape for shape in shapes if shape != expected)
        raise _Damage(f"a prediction has shape {shape} where {expected} is expected")


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or ["no reason given"])[0][:200].rstrip(".")


@dataclass
class _Parts:
    """Collects arrays and scikit-learn parts while a tree is packed."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    estimators: dict[str, bytes] = field(default_factory=dict)

    def pack(self, value: Any, path: str) -> Any:
        """A value as JSON holds it, its arrays and estimators collected here."""
        # NumPy's numbers are not JSON; as Python's they are, and equal after loading.
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            # JSON has no NaN or infinity; Python's extension would not be portable.
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            self.arrays[path] = np.ascontiguousarray(value)
            return {"array": path}
        # Lists become tuples: fits are frozen, and one kind of sequence is enough.
        if isinstance(value, (tuple, list)):
            items = [self.pack(item, f"{path}.{i}") for i, item in enumerate(value)]
            return {"tuple": items}
        if isinstance(value, dict):
            return {"dict": {k: self.pack(v, f"{path}.{k}") for k, v in value.items()}}
        if is_stored(type(value)):
            return self._pack_instance(value, path)
        if hasattr(value, "get_params"):
            return self._pack_estimator(value)
        raise StorageError(
            f"{path} is a {type(value).__name__} ({value!r}), which cannot be stored. "
            "Labels and categories must be text, numbers or booleans: convert them when "
            "the panel is built."
        )

    def _pack_instance(self, value: Any, path: str) -> dict[str, Any]:
        packed = {}
        for entry in fields(value):
            content, role = getattr(value, entry.name), entry.metadata.get(ROLE)
            if role is not None and content is not None:
                packed[entry.name] = {"function": role}
            elif TRANSIENT not in entry.metadata:
                packed[entry.name] = self.pack(content, f"{path}.{entry.name}")
        return {"class": type(value).__name__, "fields": packed}

    def _pack_estimator(self, estimator: Any) -> dict[str, str]:
        # skops lists every type a file would construct; only those it trusts are written.
        data = skops.io.dumps(estimator)
        untrusted = skops.io.get_untrusted_types(data=data)
        if untrusted:
            raise StorageError(
                f"A {type(estimator).__name__} cannot be stored safely: reading it back "
                f"would build {', '.join(untrusted)} from the file, which can run code. "
                "Use one of the library's own estimators for this stage, or a "
                "scikit-learn estimator that is linear or a pipeline of such."
            )
        name = f"part{len(self.estimators)}.skops"
        self.estimators[name] = data
        return {"skops": name}


def _write_parts(folder: Path, parts: _Parts) -> None:
    # Not `save_file`, whose files only their owner may read, whatever the umask.
    (folder / ARRAYS).write_bytes(save_arrays(parts.arrays))
    for name, data in parts.estimators.items():
        (folder / name).write_bytes(data)


def _files(parts: _Parts) -> list[str]:
    return [ARRAYS, *parts.estimators]


@dataclass
class _Reader:
    """Rebuilds the tree from a folder, after checking its files."""

    folder: Path
    header: dict[str, Any]
    functions: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(init=False)
    used: set[str] = field(default_factory=set)
    estimators: dict[str, Any] = field(default_factory=dict)
    shared: list[tuple[str, str, Any]] = field(default_factory=list)
    """Where the fields `SHARED` stand, and what they hold."""

    def __post_init__(self):
        for name, digest in self.header["sha256"].items():
            # A name with a slash or dots could point outside the folder.
            if not re.fullmatch(r"[A-Za-z0-9]+\.(safetensors|skops)", name):
                raise StorageError(f"{self.folder} names a file {name!r}; refused.")
            if not (self.folder / name).is_file():
                raise StorageError(
                    f"{self.folder} lacks {name}; the copy is incomplete. {AGAIN}"
                )
            if _digest(self.folder / name) != digest:
                raise StorageError(
                    f"{self.folder / name} is damaged: its checksum is not the one in "
                    f"model.json. {AGAIN}"
                )
        if ARRAYS not in self.header["sha256"]:
            raise _damaged(self.folder, f'"sha256" does not name {ARRAYS}')
        try:
            self.arrays = load_arrays(self.folder / ARRAYS)
        # KeyError: types of numbers that NumPy does not have.
        except (SafetensorError, OSError, KeyError, ValueError) as problem:
            raise StorageError(
                f"{self.folder / ARRAYS} cannot be read: {problem}. {AGAIN}"
            ) from problem

    def unpack(self, node: Any, path: str) -> Any:
        """The value that a node of the tree stands for; `path` is where it stands."""
        if isinstance(node, list) or node == {}:
            raise _Damage(f"{path} is {reprlib.repr(node):.80}, which is no value of a fit")
        if not isinstance(node, dict):
            return node
        ((kind, content), *rest) = node.items()
        if kind == "class" and isinstance(content, str):
            return self._unpack_instance(content, dict(rest).get("fields"), path)
        expected = {"array": str, "tuple": list, "dict": dict, "function": str}
        if kind == "float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if kind == "skops" and isinstance(content, str):
            return self._unpack_estimator(content)
        if not isinstance(content, expected.get(kind, ())):
            raise _Damage(f"{path} is {reprlib.repr(node):.80}, which is no value of a fit")
        if kind == "array":
            if content not in self.arrays:
                raise _Damage(f"{path} asks for the array {content!r}, which is not there")
            return self.arrays[content]
        if kind == "tuple":
            return tuple(self.unpack(each, f"{path}.{i}") for i, each in enumerate(content))
        if kind == "dict":
            return {k: self.unpack(each, f"{path}.{k}") for k, each in content.items()}
        return self._function(content)

    def _unpack_instance(self, name: str, packed: Any, path: str) -> Any:
        known = find_stored(name)
        if known is None:
            raise StorageError(
                f"{self.folder} names the class {name!r}, which no fit is made of."
            )
        if not isinstance(packed, dict):
            raise _Damage(f"{path} has no fields")
        values = {k: self.unpack(each, f"{path}.{k}") for k, each in packed.items()}
        try:
            check_fields(known, values)
            self._check_cells(known, values)
            instance = known(**values)
        except (ValueError, TypeError) as problem:
            raise _Damage(f"{path}: {_first_line(problem)}") from problem
        self.shared += [(path, each, values[each]) for each in SHARED if each in values]
        return instance

    def _check_cells(self, known: Any, values: dict[str, Any]) -> None:
        """Raise unless tables have a row for each cell, which they are looked up by."""
        if values.get("cells") is None:
            return
        cells = values["cells"]
        for entry in fields(known):
            axes = getattr(entry.type, "dim_str", "").split()
            if axes[:1] == ["cell"] and len(values[entry.name]) != len(cells):
                rows = len(values[entry.name])
                raise ValueError(f"{entry.name!r} has {rows} rows for {len(cells)} cells")

    def _unpack_estimator(self, name: str) -> Any:
        if name not in self.header["sha256"]:
            raise StorageError(f"{self.folder} names a part {name!r} without a checksum.")
        if name not in self.estimators:
            self.estimators[name] = self._read_estimator(name)
        return self.estimators[name]

    def _read_estimator(self, name: str) -> Any:
        stored, here = self.header["scikit-learn"], version("scikit-learn")
        if stored != here:
            warnings.warn(
                f"{self.folder} was written with scikit-learn {stored} and is read with "
                f"{here}; its scikit-learn parts may behave differently.",
                stacklevel=2,
            )
        try:
            check_archive(self.folder / name)
            return skops.io.load(self.folder / name)
        except Exception as problem:
            raise StorageError(
                f"{self.folder / name} was refused: {_first_line(problem)}. {AGAIN}"
            ) from problem

    def _function(self, role: str) -> Callable:
        if role not in self.functions:
            raise StorageError(
                f"This fit was made with a function for `{role}`, which is not stored. "
                f"Pass it again: deeppqr.load(folder, {role}=...)."
            )
        if not callable(self.functions[role]):
            raise StorageError(
                f"`{role}` must be the function the fit was made with, but "
                f"{self.functions[role]!r} is none."
            )
        self.used.add(role)
        return self.functions[role]


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    # Not `folder.is_file()`, which raises where a name is too long.
    if os.path.isfile(folder):
        raise StorageError(
            f"{folder} is a file, and a saved fit is a folder: the one that "
            "`fit.save(folder)` or `deeppqr fit --out folder` wrote. To read decisions "
            f"use deeppqr.Panel.from_file({str(folder)!r}, ...)."
        )
    if not os.path.isdir(folder):
        raise StorageError(
            f"There is no folder {folder.name} in {folder.parent.resolve()}."
        )
    if not path.is_file():
        raise StorageError(
            f"{folder} is not a saved fit: it has no model.json. Folders written by "
            "`fit.save(folder)` or `deeppqr fit --out folder` do."
        )
    try:
        header = read_json(path)
    except (ValueError, OSError) as problem:
        raise _damaged(folder, str(problem)) from problem
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise StorageError(
            f"{folder} was not written by deeppqr: model.json does not say "
            f'"format": "{FORMAT}".'
        )
    if header.get("version") != VERSION:
        raise StorageError(
            f"{folder} has format version {header.get('version')}, and this deeppqr "
            f"({version('deeppqr')}) reads version {VERSION}. Read it with the deeppqr "
            f"that wrote it ({header.get('deeppqr')}), or fit and save again with this one."
        )
    digests = header.get("sha256")
    if not isinstance(digests, dict) or not {str} >= set(map(type, digests.values())):
        raise _damaged(folder, '"sha256" is no table of checksums')
    if not isinstance(header.get("scikit-learn"), str) or "fit" not in header:
        raise _damaged(folder, 'it has no "fit", or not the version of "scikit-learn"')
    # Against accidents, not attacks: whoever changes the file can recompute it.
    if header != sealed(header):
        raise StorageError(
            f"{path} is damaged or was changed by hand: its contents do not have the "
            f"checksum written in it. {AGAIN}"
        )
    return header


def sealed(header: dict[str, Any]) -> dict[str, Any]:
    """The contents of `model.json` with a checksum of all but the checksum itself.

    It is computed from the parsed contents with sorted keys and without blanks, so that
    the layout of the file does not matter.
    """
    contents = {key: value for key, value in header.items() if key != "checksum"}
    contents = json.loads(json.dumps(contents, allow_nan=False))
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"))
    return {**contents, "checksum": hashlib.sha256(text.encode()).hexdigest()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

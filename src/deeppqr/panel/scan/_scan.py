"""Decisions that stay on disk, in shards of whole units.

Where no unit spans files a shard is some files, or a part of a large one; otherwise it is
a part of all files. Parts of a file are units by their hash, so that a unit's rows are
always together and every check of a panel holds on a shard.
"""

import glob
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..._errors import DataError
from ..._messages import counted, plain
from .._amounts import is_space
from .._cells import few_states
from .._columns import (
    column_names,
    open_frame,
    read_columns,
    read_labels,
    require_among,
    require_columns,
)
from .._encoding import Encoding
from .._panel import Panel
from .._repeats import history
from .._roles import raw_of_frame
from .._validation import encode_labels, validate
from ._rows import InMemory, OnDisk, Run

# Rows of a shard: 10 state columns take 200 MB while they are checked.
SHARD_ROWS = 500_000
# Rows held in memory, of evenly spaced units, from which everything is learned but the
# last step. The law of the next state adds next to nothing to a reward's error.
CORE_ROWS = 250_000
# At most, where an action is so rare that fewer units do not have it: 10 state columns take
# 400 MB while they are checked.
MOST_CORE_ROWS = 1_000_000
# Units that must be among them: errors are clustered on units.
FEWEST_UNITS = 50
ROLES = ("unit", "time", "terminal", "truncated", "weight")


@dataclass(frozen=True)
class Shard:
    """Whole units on disk, with what is needed to read and encode them."""

    paths: tuple[str, ...]
    part: int
    parts: int
    """Of units by their hash; one part is all of them."""
    columns: tuple[tuple[str, Any], ...]
    """The arguments of `Panel.from_frame`."""
    encoding: Encoding
    actions: tuple[Any, ...]
    mean_weight: float = 1.0

    @property
    def named(self) -> dict[str, Any]:
        return dict(self.columns)

    def frame(self, names: list[str]) -> pl.DataFrame:
        """Some columns of the shard's rows."""
        unit = self.named["unit"]
        lazy = _lazy(list(self.paths)).select(list(dict.fromkeys([*names, unit])))
        if self.parts > 1:
            lazy = lazy.filter(pl.col(unit).hash(0) % self.parts == self.part)
        return lazy.collect(engine="streaming")

    def rows(self) -> InMemory:
        """The decisions, as a sum needs them; they were checked when they were scanned."""
        named = self.named
        states, weight = column_names(named["state"], role="state"), named.get("weight")
        opened = open_frame(self.frame([*states, named["action"], *filter(None, [weight])]))
        coded = [c.name for c in self.encoding.columns if c.kind == "categorical"]
        columns = read_columns(opened, states, role="state", categorical=coded)
        labels = read_labels(opened, named["action"], role="action")
        observed, code = encode_labels(labels)
        action = np.array([self.actions.index(label) for label in observed], np.int64)
        mass = np.ones(len(code))
        if weight is not None:
            mass = np.asarray(opened[weight].to_numpy(), np.float64) / self.mean_weight
        return InMemory(self.encoding.encode(columns), action[code], mass)

    def describe(self) -> str:
        where = self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files from "
        where = where if len(self.paths) == 1 else where + self.paths[0]
        if self.parts > 1:
            return f"{where}, part {self.part + 1} of {self.parts} of the units"
        return where


@dataclass(frozen=True, eq=False, repr=False)
class ScannedPanel:
    """Decisions on disk, of which some units are in memory; from `Panel.scan`."""

    core: Panel
    """Evenly spaced units, all of their rows."""
    shards: tuple[Shard, ...]
    facts: dict[str, Any]
    """Rows, units, next states and terminal rows of all, and a checksum."""

    def __len__(self) -> int:
        return self.facts["rows"]

    @property
    def num_units(self) -> int:
        return self.facts["units"]

    def __repr__(self) -> str:
        return (
            f"ScannedPanel({counted(len(self), 'decision')} by "
            f"{counted(self.num_units, 'unit')} in {counted(len(self.shards), 'shard')}; "
            f"{counted(len(self.core), 'decision')} in memory; "
            f"states {[str(column) for column in self.core.encoding.columns]}; "
            f"actions {list(self.core.actions)})"
        )

    @property
    def actions(self) -> tuple[Any, ...]:
        return self.core.actions

    @property
    def has_few_states(self) -> bool:
        """Whether states are so few that equal rows are pooled, and fit into memory."""
        core = self.core
        return few_states(core.state, rows_per_cell=2 * core.num_actions)

    def collect(self) -> Panel:
        """All rows as a panel in memory."""
        first = self.shards[0]
        named, used = first.named, _used(first.named)
        paths = list(dict.fromkeys(path for shard in self.shards for path in shard.paths))
        frame = _lazy(paths).select(used).collect(engine="streaming")
        told = first.encoding, self.facts["gaps"]
        return Panel(**_validated(frame, named, *told, part=False))

    def everyone(self, run: Run | None = None) -> OnDisk:
        """All rows, for sums over them where `run` says."""
        # Weights have a mean of one.
        return OnDisk(list(self.shards), len(self), float(len(self)), run)


def _lazy(paths: Any) -> pl.LazyFrame:
    """Files by their names, as `week[1].parquet` is one."""
    return pl.scan_parquet(paths, glob=False)


def facts_of(panel: Panel | ScannedPanel) -> dict[str, Any]:
    """How many rows, units, next states and ends there are, and a checksum."""
    if isinstance(panel, ScannedPanel):
        return {name: fact for name, fact in panel.facts.items() if name != "gaps"}
    return {
        "rows": len(panel),
        "units": panel.num_units,
        "next_states": int(panel.has_next.sum()),
        "terminal": int(panel.terminal.sum()),
        "digest": panel.digest,
    }


def spaced_units(num_units: int, rows: int) -> slice:
    """Every so many units, with about as many rows as are held in memory."""
    return slice(None, None, max(1, -(-rows // CORE_ROWS)) if num_units > 1 else 1)


def in_memory(panel: Panel) -> tuple[Panel, InMemory | None]:
    """A panel's evenly spaced units and all its rows, as if they were scanned.

    Panels that are small, of few units, or of few states, which are pooled, stay whole.
    """
    units = spaced_units(panel.num_units, len(panel))
    every = np.zeros(panel.num_units, dtype=bool)
    every[units] = True
    kept = every[panel.unit]
    rare = len(np.unique(panel.action[kept])) < panel.num_actions
    few = few_states(panel.state, rows_per_cell=2 * panel.num_actions)
    small = units.step == 1 or every.sum() < FEWEST_UNITS
    if small or rare or few or panel.space is not None:
        return panel, None
    return panel.select(kept), InMemory(panel.state, panel.action, panel.weight)


def scan(source: Any, named: dict[str, Any]) -> ScannedPanel:
    """Check all rows, shard by shard, and read evenly spaced units."""
    gaps, paths = named.pop("gaps", "error"), _paths(source)
    named = {name: value for name, value in named.items() if value is not None}
    if not isinstance(named.get("unit"), str):
        raise DataError(
            "`Panel.scan` needs the column `unit`, since shards are made of whole units, "
            f"but {named.get('unit')!r} arrived. If all rows belong to one, read them with "
            "Panel.from_file."
        )
    if is_space(named.get("actions")):
        raise DataError(
            "`Panel.scan` takes finitely many actions, but `actions` is a space of "
            "amounts. Read the data into memory with Panel.from_file, or group the amounts."
        )
    used = _used(named)
    for path in paths:
        require_columns(open_frame(_first_rows(path)), used, role="scan")
    rows_of = [_units_of(path, named["unit"]) for path in paths]
    every = pl.concat(rows_of).group_by(named["unit"]).agg(pl.len(), pl.col("rows").sum())
    total = int(every["rows"].sum())
    if total == 0:
        raise DataError(f"{source} holds no rows. A panel needs at least one decision.")
    spans = bool((every["len"] > 1).any())
    labels = named.get("actions") or _levels(paths, named["action"])
    listed = tuple(encode_labels(_as_labels(labels))[0])
    actions = tuple(named.get("actions") or listed)
    encoding = _encoding(paths, named)
    columns = tuple((named | {"actions": actions}).items())
    sizes = [int(frame["rows"].sum()) for frame in rows_of]
    shards = [
        Shard(group, part, parts, columns, encoding, actions)
        for group, parts in _groups(paths, sizes, spans)
        for part in range(parts)
    ]
    facts, mass = _checked(shards, used, gaps)
    mean = mass / total
    units = encode_labels(_as_labels(every[named["unit"]]))[0]
    chosen = units[spaced_units(len(units), total)]
    held = paths, named, used, chosen, encoding, actions, gaps, mean
    core = _core(*held)
    if len(chosen) < len(units) and len(np.unique(core.action)) < len(actions):
        core = _widened(core, units, total, *held)
    shards = [replace(shard, mean_weight=mean) for shard in shards]
    return ScannedPanel(core, tuple(shards), facts)


def _paths(source: Any) -> list[str]:
    """The Parquet files that a path, a pattern, a folder or a list stands for."""
    given = [source] if isinstance(source, (str, Path)) else list(source)
    found: list[str] = []
    for one in map(str, given):
        pattern = f"{glob.escape(one)}/*.parquet" if Path(one).is_dir() else one
        # Names that exist are meant as they are, as `week[1].parquet` may.
        spelled = Path(pattern).is_file() or not glob.has_magic(pattern)
        found += [pattern] if spelled else sorted(glob.glob(pattern))
    wrong = [path for path in found if Path(path).suffix not in (".parquet", ".pq")]
    missing = [path for path in found if not Path(path).is_file()]
    if wrong or missing or not found:
        what = (
            f"{wrong[0]} is none" if wrong else f"there is no file {missing[:1] or given}"
        )
        raise DataError(
            f"`source` must name Parquet files, such as decisions/*.parquet, but {what}. "
            "Other files fit into memory: Panel.from_file reads them."
        )
    return found


def _used(named: dict[str, Any]) -> list[str]:
    """All columns that some argument names."""
    states = column_names(named["state"], role="state")
    later = column_names(named.get("next_state", []), role="next_state")
    roles = [named[role] for role in ROLES if role in named]
    return list(dict.fromkeys([*states, *later, named["action"], *roles]))


def _first_rows(path: str) -> pl.DataFrame:
    try:
        return _lazy(path).head(1).collect()
    except (pl.exceptions.PolarsError, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise DataError(f"{path} could not be read: {reason}") from problem


def _units_of(path: str, unit: str) -> pl.DataFrame:
    counts = _lazy(path).group_by(unit).agg(rows=pl.len())
    found = counts.collect(engine="streaming")
    if found[unit].null_count():
        raise DataError(
            f"`unit` must not be missing, but {path} has "
            f"{counted(int(found.filter(pl.col(unit).is_null())['rows'][0]), 'row')} "
            "without one. Every decision must say who took it."
        )
    return found


def _levels(paths: list[str], name: str) -> pl.Series:
    """The distinct values of a column over all files."""
    found = [
        _lazy(path).select(name).unique().collect(engine="streaming") for path in paths
    ]
    return pl.concat(found)[name].unique()


def _as_labels(values: Any) -> np.ndarray:
    frame = open_frame(pl.DataFrame({"label": values}))
    return read_labels(frame, "label", role="action")


def _encoding(paths: list[str], named: dict[str, Any]) -> Encoding:
    """What `Encoding.learn` finds, from the levels of each category alone."""
    states = column_names(named["state"], role="state")
    later = column_names(named.get("next_state", []), role="next_state")
    coded = set(require_among(named.get("categorical", ()), states))
    first = _first_rows(paths[0])

    def column(name: str, categorical: bool) -> np.ndarray:
        kind = first.schema[name]
        quantity = (kind.is_numeric() or kind == pl.Boolean) and not categorical
        values = first[name] if quantity else _levels(paths, name)
        as_categories = [name] if categorical else []
        frame = pl.DataFrame({name: values})
        return read_columns(frame, [name], role="state", categorical=as_categories)[name]

    coded |= {name for name in states if first.schema[name] in (pl.Categorical, pl.Enum)}
    columns = {name: column(name, name in coded) for name in states}
    pairs = zip(states, later, strict=False)
    following = {after: column(after, name in coded) for name, after in pairs}
    return Encoding.learn(columns, categorical=coded, following=following)


def _groups(
    paths: list[str], sizes: list[int], spans: bool
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Files of a shard, or of several parts of units, with the number of parts."""
    if spans:
        yield tuple(paths), max(1, -(-sum(sizes) // SHARD_ROWS))
        return
    group: list[str] = []
    rows = 0
    for path, size in zip(paths, sizes, strict=True):
        if group and rows + size > SHARD_ROWS:
            yield tuple(group), max(1, -(-rows // SHARD_ROWS))
            group, rows = [], 0
        group.append(path)
        rows += size
    yield tuple(group), max(1, -(-rows // SHARD_ROWS))


def _checked(shards: list[Shard], used: list[str], gaps: str) -> tuple[dict, float]:
    """Counts over all shards, each checked as a panel is; and the sum of weights."""
    counts, mass, checksum = np.zeros(4, np.int64), 0.0, 0
    for shard in shards:
        frame = shard.frame(used)
        if frame.is_empty():
            continue
        try:
            fields = _validated(frame, shard.named, shard.encoding, gaps, part=True)
        except DataError as problem:
            raise DataError(
                f"In {shard.describe()} (rows are counted there): {problem}"
            ) from problem
        seen = ~np.isnan(fields["next_state"][:, 0])
        ended = fields["terminal"]
        units = len(fields["unit_labels"])
        counts += np.array([len(frame), units, seen.sum(), ended.sum()], np.int64)
        weight = shard.named.get("weight")
        mass += float(frame[weight].sum()) if weight else float(len(frame))
        row = history(fields["state"], fields["action"], fields["next_state"], ended)
        checksum += int(row.sum(dtype=np.uint64))  # the same in any order
    names = ("rows", "units", "next_states", "terminal")
    facts = dict(zip(names, counts.tolist(), strict=True))
    return facts | {"digest": f"scan-{checksum % 2**64:016x}", "gaps": gaps}, mass


def _core(paths, named, used, units, encoding, actions, gaps, mean) -> Panel:
    """The panel of some units."""
    unit = named["unit"]
    lazy = _lazy(paths).select(used)
    kept = pl.Series(units, dtype=_first_rows(paths[0]).schema[unit])
    frame = lazy.filter(pl.col(unit).is_in(kept.implode())).collect(engine="streaming")
    fields = _validated(frame, named | {"actions": actions}, encoding, gaps, part=False)
    if "weight" in named:  # of mean one over all rows, not over these
        raw = frame[named["weight"]].to_numpy().astype(np.float64)
        fields["weight"] = fields["weight"] * (raw.mean() / mean)
    return Panel(**fields)


def _widened(core, units, total, paths, named, used, chosen, *told) -> Panel:
    """The panel of more units, evenly spaced, among which every action occurs.

    Units are not chosen by what they did: their choices would say nothing of the others'.
    """
    pair = [named["unit"], named["action"]]
    found = [_lazy(path).select(pair).unique() for path in paths]
    taken = pl.concat(lazy.collect(engine="streaming") for lazy in found).unique()
    wanted = taken[pair[1]].n_unique()
    if len(np.unique(core.action)) == wanted:  # the others are taken nowhere
        return core
    step = spaced_units(len(units), total).step
    while (step := step // 2) and total <= step * MOST_CORE_ROWS:
        chosen = units[::step]
        kept = pl.Series(chosen, dtype=taken.schema[pair[0]]).implode()
        if taken.filter(pl.col(pair[0]).is_in(kept))[pair[1]].n_unique() == wanted:
            return _core(paths, named, used, chosen, *told)
    lacking = [a for code, a in enumerate(core.actions) if code not in core.action]
    units_of = _as_labels(taken[pair[1]])
    by = {label: int((units_of == label).sum()) for label in lacking}
    rare = next(label for label, number in by.items() if number)
    raise DataError(
        f"Every action must occur among the {MOST_CORE_ROWS:,} rows that are worked on in "
        f"memory, but {plain(rare)} was taken by {counted(by[rare], 'unit')} of "
        f"{len(units):,} ({counted(sum(map(bool, by.values())), 'such action')}). Give "
        "rare actions one label in common, or read all rows with Panel.from_file."
    )


def _validated(frame, named, encoding, gaps, *, part: bool) -> dict[str, Any]:
    told = {name: value for name, value in named.items() if name != "actions"}
    raw = raw_of_frame(frame, actions=named["actions"], **told)
    return validate(raw, actions=named["actions"], gaps=gaps, encoding=encoding, part=part)

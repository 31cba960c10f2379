"""Rust's bus engines: monthly odometer readings as decisions to keep or replace."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from .._errors import DataError
from ..panel._panel import Panel
from ._source import Source

URL = (
    "https://raw.githubusercontent.com/OpenSourceEconomics/zurcher-data/"
    "d39eb4d6da1cbdcadf7e5594672bb8495e3394b0/data/original_data/"
)
SHA256 = {
    "g870": "28c565af50b316670ebf3bc21e45b779c743fc93ff5adab375a2296a5a9ca042",
    "rt50": "18281cf711d9ea17cbcae0b17371f3749c46d40f46f2b44bde8bee6360b0f43a",
    "t8h203": "edf9548b8e343991a9d5da514fde260d70b9002d84accfbbbd9c4abc78675684",
    "a530875": "d67a6b7ea23b1b1fa772a22e86930ce79ed2afb9b1f01f546c119349ee7badab",
    "a530874": "31f6236e6473129d1fad7182147c1af4f97addba357c3ad4e841d462ddec66a0",
    "a452374": "3d847a8584abd55c5b87924022b8c4546beb0003f8a5427d620224e00aa7f363",
    "a530872": "495f9bb33affe2b946de52732e1397b40c9bd4e76afa1d9c8bda44379d12f697",
    "a452372": "e851cf2f31f35f13566dfd84f2b6f1f6e848c5b14f5a3a0d35edd3242ab46e05",
    "d309": "ad6b630d6d799e88b075f1484453f10ee3c00da40ecc666a4b1151ec90257ac1",
}
ACTIONS = ("keep", "replace")
# Layout of the files: each bus begins with eleven numbers before its readings (bus number,
# date of purchase, two replacements with month, year and odometer, first month and year).
HEADER = 11
REPLACED_AT = (5, 8)  # odometer at the first and at the second replacement, 0 if none
BEGINS = (9, 10)  # month and year of the first reading


class BusGroup(NamedTuple):
    """One file: a make and year of bus."""

    file: str
    model: str
    entries: int
    """Numbers per bus."""
    buses: int


# Rust's groups 1 to 8; 9 is the Davidson 309, which he leaves aside.
BUS_GROUPS = {
    1: BusGroup("g870", "Grumman 870", 36, 15),
    2: BusGroup("rt50", "Chance RT50", 60, 4),
    3: BusGroup("t8h203", "GMC T8H203", 81, 48),
    4: BusGroup("a530875", "GMC A5308, 1975", 128, 37),
    5: BusGroup("a530874", "GMC A5308, 1974", 137, 12),
    6: BusGroup("a452374", "GMC A4523, 1974", 137, 10),
    7: BusGroup("a530872", "GMC A5308, 1972", 137, 18),
    8: BusGroup("a452372", "GMC A4523, 1972", 137, 18),
    9: BusGroup("d309", "Davidson 309", 110, 4),
}


def bus_frame(
    groups: Iterable[int] = (1, 2, 3, 4), *, bin_width: int = 5_000
) -> pl.DataFrame:
    """Every reading of these groups, one row per bus and month, the first included.

    `deeppqr.datasets.card("bus")` says what the columns mean.
    """
    _check_positive("bin_width", bin_width)
    parts = [
        pl.DataFrame(_of_bus(number, BUS_GROUPS[number], entry))
        for number in _check_groups(groups)
        for entry in _read(BUS_GROUPS[number])
    ]
    # Rust takes the ceiling of mileage / 5000, so bin 0 is (0, 5000]. With the floor, his
    # published shares of increments are not reproduced.
    number = (pl.col("mileage") / bin_width).ceil().cast(pl.Int64) - 1
    return (
        pl.concat(parts)
        .with_columns(number.clip(lower_bound=0).alias("bin"))
        .select(
            *("group", "file", "bus", "period", "year", "month"),
            *("odometer", "mileage", "bin", "replace"),
        )
    )


def bus(
    groups: Iterable[int] = (1, 2, 3, 4), *, bins: int = 90, bin_width: int = 5_000
) -> Panel:
    """Decisions to keep or replace an engine, seeing the bin of its mileage.

    The first month of each bus is dropped, as Rust does. Keeping leads to a higher bin
    or the same, replacing to one of the lowest.

    Parameters
    ----------
    groups
        Rust's groups, 1 to 8; 1-4 are those of his estimates.
    bins, bin_width
        The mileage at hand is in bin 0 up to `bin_width` miles and never beyond the last.
    """
    _check_positive("bins", bins)
    # Without the first month, as Rust's likelihood: 8,156 decisions in groups 1-4.
    frame = bus_frame(groups, bin_width=bin_width).filter(pl.col("period") > 0)
    labels = pl.col("replace").replace_strict({0: "keep", 1: "replace"})
    frame = frame.with_columns(
        pl.col("bin").clip(upper_bound=bins - 1).alias("mileage_bin"),
        labels.alias("decision"),
    )
    roles = {"state": "mileage_bin", "action": "decision", "unit": "bus", "time": "period"}
    return Panel.from_frame(frame, **roles, actions=ACTIONS)


def bus_increments(
    groups: Iterable[int] = (1, 2, 3, 4), *, bin_width: int = 5_000
) -> Int[np.ndarray, "bus increment"]:
    """How often each bus rose by 0, 1, 2, ... bins within a month, as Rust counts.

    One row per bus, in the order of the units of `bus`. The month into the second reading
    counts, which the panel has not; after a replacement all bins driven count, the one
    begun included.
    """
    frame = bus_frame(groups, bin_width=bin_width).sort("bus", "period")
    unit, level = frame["bus"].to_numpy(), frame["bin"].to_numpy()
    same = unit[1:] == unit[:-1]
    replaced = frame["replace"].to_numpy()[:-1] == 1
    # After a replacement Rust counts from zero miles: the bin reached and the one begun.
    rise = np.where(replaced, level[1:] + 1, level[1:] - level[:-1])[same]
    labels, row = np.unique(unit[1:][same], return_inverse=True)
    counts = np.zeros((len(labels), int(rise.max()) + 1), dtype=np.int64)
    np.add.at(counts, (row, rise), 1)
    return counts


def _read(group: BusGroup) -> Float[np.ndarray, "bus entry"]:
    name = f"{group.file}.asc"
    path = Source("bus", name, URL + name, SHA256[group.file]).path()
    values = np.array(path.read_text(encoding="ascii").split(), dtype=np.float64)
    return values.reshape(group.buses, group.entries)


def _of_bus(number: int, group: BusGroup, entry: Float[np.ndarray, " entry"]) -> dict:
    """The columns of one bus."""
    odometer = entry[HEADER:].astype(np.int64)
    period = np.arange(len(odometer))
    begin = entry[list(BEGINS)].astype(np.int64)
    month = begin[0] - 1 + period
    # Mileage since the last replacement: the odometer itself is never reset.
    base = np.zeros_like(odometer)
    for place in REPLACED_AT:
        if entry[place] > 0:
            base[odometer > entry[place]] = entry[place]
    replaced = np.append(base[1:] > base[:-1], False)
    return {
        "group": np.full(len(period), number),
        "file": [group.file] * len(period),
        "bus": np.full(len(period), int(entry[0])),
        "period": period,
        "year": 1900 + begin[1] + month // 12,
        "month": month % 12 + 1,
        "odometer": odometer,
        "mileage": odometer - base,
        "replace": replaced.astype(np.int64),
    }


def _check_groups(groups: Iterable[int]) -> list[int]:
    wanted = list(groups)
    unknown = [group for group in wanted if group not in BUS_GROUPS]
    if unknown or not wanted or len(set(wanted)) < len(wanted):
        raise DataError(
            f"`groups` must name some of {sorted(BUS_GROUPS)}, each once, but "
            f"{wanted} arrived."
        )
    return wanted


def _check_positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DataError(f"`{name}` must be a whole number from 1, but it is {value!r}.")

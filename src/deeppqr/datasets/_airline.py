"""Airline market entry: the data of the paper's empirical study."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from .._errors import DataError
from ..panel._panel import Panel
from ._source import Source

# Pinned to a commit, so that the files cannot change under the checksums below.
URL = (
    "https://raw.githubusercontent.com/gengsinong/SAmQ/"
    "dce1a658d0e750be913c244d52b3e97447554965/ailrline_data/"
)
SHA256 = {
    13: "8341e6aaf7340eff2a3ce0ca39edcba65968fdc182b6fd8ae1d186727e16f090",
    14: "425505ef5c4d3acef74cc5c1e49b7739728dd058e17671737c9004f5b3bae189",
    15: "19a923265e99663fcea7857b35ec7ddf5daafe27995603b19e3847d7c8199f99",
}
PERIODS = tuple(SHA256)
ACTIONS = ("out", "serve")
# In the order of the files' codes, code 1 first.
CARRIERS = {
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "CO": "Continental",
    "DL": "Delta",
    "HP": "America West",
    "NW": "Northwest",
    "OTHER": "all other carriers",
    "TW": "TWA",
    "UA": "United",
    "US": "US Airways",
    "WN": "Southwest",
}
NEVER_SERVES = "TW"  # TWA serves no market in these periods: no reward is identified
# The paper's state variables; populations and flights, which are skewed, in logarithms.
STATE = (
    *("Dist", "log_pop_origin", "log_pop_dest", "ln2002pssgrdens", "seg_entry_t"),
    *("nonstop_comps", "orig_share", "dest_share", "any_origin", "any_dest", "log_flights"),
)
AS_PRINTED = {
    "log_pop_origin": "pop_origin",
    "log_pop_dest": "pop_dest",
    "log_flights": "scheduled_flights",
}


class Place(NamedTuple):
    """A composite statistical area: its airports and where they lie on average."""

    name: str
    airports: str
    latitude: float
    longitude: float


def _read_places() -> tuple[Place, ...]:
    text = (Path(__file__).parent / "places.csv").read_text("utf-8")
    rows = csv.reader(text.splitlines()[1:])
    return tuple(Place(name, codes, float(y), float(x)) for name, codes, y, x in rows)


# The areas in the order of the files' codes, code 1 first. The paper's table of areas gives
# names and airports, left column first.
PLACES = _read_places()


def airline_frame() -> pl.DataFrame:
    """Every carrier, market and period: 12 x 1,770 x 3 rows, with names beside the codes.

    `deeppqr.datasets.card("airline")` says what the columns mean.
    """
    # All periods, whatever is asked for: the next state of one is in the file of the next.
    frame = pl.concat([_read(period) for period in PERIODS])
    name = dict(enumerate((place.name for place in PLACES), start=1))
    carrier = dict(enumerate(CARRIERS, start=1))
    frame = frame.rename({"yearq": "period"}).with_columns(
        *_without_gaps(frame),
        carrier=pl.col("CarrID").replace_strict(carrier),
        origin=pl.col("csa_code_origin").replace_strict(name),
        dest=pl.col("csa_code_dest").replace_strict(name),
        decision=pl.col("seg_entry_tplus1").replace_strict(dict(enumerate(ACTIONS))),
    )
    return frame.with_columns(
        pl.concat_str("origin", "dest", separator=" - ").alias("market"),
        pl.col("pop_origin").log().alias("log_pop_origin"),
        pl.col("pop_dest").log().alias("log_pop_dest"),
        pl.col("scheduled_flights").log1p().alias("log_flights"),
    ).sort("period", "carrier", "Segid")


def airline(
    carrier: str | None = None, *, periods: Iterable[int] = PERIODS, logs: bool = True
) -> Panel:
    """Decisions to serve a market next period, or to stay out of it, which is the anchor.

    Units are markets. The next state is the same carrier's and market's in the period
    after; decisions of the last period have none.

    Parameters
    ----------
    carrier
        A code such as "AA"; None for all carriers that ever serve a market, in one panel
        whose state has the carrier as its last column.
    periods
        Of the decisions, among 13, 14 and 15. The state that follows period 14 is read
        from the file of period 15, whatever is chosen here.
    logs
        Whether populations and flights enter in logarithms, or as they are.
    """
    chosen = _check(carrier, periods)
    names = list(STATE if logs else (AS_PRINTED.get(name, name) for name in STATE))
    frame = airline_frame()
    if carrier is None:
        frame = frame.filter(pl.col("carrier") != NEVER_SERVES)
        names.append("carrier")
    else:
        frame = frame.filter(pl.col("carrier") == carrier)
    linked = link_periods(frame, names)
    return Panel.from_frame(
        linked.filter(pl.col("period").is_in(chosen)),
        state=names,
        action="decision",
        unit="market",
        next_state=[f"next_{name}" for name in names],
        actions=ACTIONS,
    )


def link_periods(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Every row with its state one period later, null after the last period.

    Refuses files in which a carrier is not where its decision led it.
    """
    key = ["carrier", "market", "period"]
    later = frame.select(
        "carrier",
        "market",
        pl.col("period") - 1,
        pl.col("seg_entry_t").alias("then"),
        *(pl.col(name).alias(f"next_{name}") for name in names),
    )
    # validate="1:1" raises if a carrier has two rows for a market and period.
    linked = frame.join(later, on=key, how="left", validate="1:1", maintain_order="left")
    expected = pl.col("period") < max(PERIODS)
    broken = linked.filter(expected & pl.col("then").ne_missing(pl.col("seg_entry_tplus1")))
    if broken.height:
        row = broken.row(0, named=True)
        raise DataError(
            f"The periods do not link: {row['carrier']} decides to {row['decision']} "
            f"{row['market']} in period {row['period']}, but `seg_entry_t` of the next "
            f"period is {row['then']} ({broken.height} rows in all)."
        )
    return linked.drop("then")


def _read(period: int) -> pl.DataFrame:
    name = f"airline{period}.csv"
    path = Source("airline", name, URL + name, SHA256[period]).path()
    # As R writes tables: missing is NA, and the first column holds unnamed row numbers.
    return pl.read_csv(path, null_values="NA", infer_schema_length=None).drop("")


def _without_gaps(frame: pl.DataFrame) -> list[pl.Expr]:
    """Populations, San Juan's missing one being the median of the other areas'."""
    ends = ("origin", "dest")
    known = pl.concat(
        [frame.select(code=f"csa_code_{end}", pop=f"pop_{end}") for end in ends]
    )
    median = known.drop_nulls().unique("code")["pop"].median()
    return [pl.col(f"pop_{end}").cast(pl.Float64).fill_null(median) for end in ends]


def _check(carrier: str | None, periods: Iterable[int]) -> list[int]:
    if carrier is not None and carrier not in CARRIERS:
        raise DataError(
            f"`carrier` must be one of {list(CARRIERS)}, or None for all that ever serve "
            f"a market, but {carrier!r} arrived."
        )
    wanted = list(periods)
    if not wanted or len(set(wanted)) < len(wanted) or not set(wanted) <= set(PERIODS):
        raise DataError(
            f"`periods` must name some of {list(PERIODS)}, each once, but {wanted} arrived."
        )
    if wanted == [max(PERIODS)]:
        raise DataError(
            f"Decisions of period {max(PERIODS)} alone make no panel: nothing is known of "
            "the states that follow them. Take earlier periods too, or read the decisions "
            "from `airline_frame()`."
        )
    return wanted

"""What can be checked about the airline files, and what is said of TWA."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from deeppqr._errors import ActionNeverTaken
from deeppqr._pqr import PQR
from deeppqr.datasets import PLACES, airline, airline_frame
from deeppqr.datasets._airline import link
from ._airline import DISCOUNT, NEVER, TEST, TRAIN

if TYPE_CHECKING:
    import polars as pl


@lru_cache(maxsize=1)
def every_row() -> "pl.DataFrame":
    """The files, read once in a process."""
    return airline_frame()


def data() -> list[dict[str, Any]]:
    """What can be checked about the files and their codes."""
    import polars as pl

    frame = every_row()
    first = frame.filter(pl.col("carrier") == "AA", pl.col("period") == TRAIN[0])
    line = [
        great_circle(PLACES[start - 1], PLACES[end - 1])
        for start, end in zip(first["csa_code_origin"], first["csa_code_dest"], strict=True)
    ]
    sizes = frame.select(pl.col("carrier", "market", "period").n_unique()).row(0)
    linked = link(frame, ["Segid"]).select("period", "next_Segid")
    rows = [
        ("carriers, markets, periods", " x ".join(f"{size:,}" for size in sizes)),
        ("rows", f"{len(frame):,}"),
        ("rows of periods 13 and 14 linked to the next", _linked(linked, TRAIN)),
        ("rows of period 15 with a next state", _linked(linked, (TEST,))),
        (
            "distance in the files and between the named airports, correlation",
            f"{np.corrcoef(line, first['Dist'])[0, 1]:.5f}",
        ),
        ("largest population", _largest(frame)),
    ]
    rows += [(f"largest share of {code}", text) for code, text in _hubs(frame).items()]
    for period in (*TRAIN, TEST):
        part = frame.filter(pl.col("period") == period)
        switch = (part["seg_entry_t"] != part["seg_entry_tplus1"]).mean()
        rows.append((f"rows that switch in period {period}", f"{switch:.1%}"))
    return [{"kind": "data", "check": check, "found": found} for check, found in rows]


def never() -> list[dict[str, Any]]:
    """What the software says of a carrier that serves no market."""
    try:
        PQR(discount=DISCOUNT, anchor="out").fit(airline(NEVER, periods=TRAIN))
        said = "nothing"
    except ActionNeverTaken as problem:
        said = str(problem)
    return [{"kind": "never", "sample": NEVER, "note": said}]


def great_circle(start, end) -> float:
    """Thousands of miles."""
    north = np.radians([start.latitude, end.latitude])
    east = np.radians([start.longitude, end.longitude])
    half = np.sin(np.diff(north) / 2) ** 2
    half = half + np.cos(north[0]) * np.cos(north[1]) * np.sin(np.diff(east) / 2) ** 2
    return float(2 * 3.9588 * np.arcsin(np.sqrt(half))[0])


def _linked(frame: "pl.DataFrame", periods: tuple[int, ...]) -> str:
    import polars as pl

    part = frame.filter(pl.col("period").is_in(periods))
    return f"{part['next_Segid'].is_not_null().sum():,} of {len(part):,}"


def _largest(frame: "pl.DataFrame") -> str:
    row = frame.sort("pop_origin", descending=True).row(0, named=True)
    return f"{row['origin']}, {row['pop_origin']:,.0f}"


def _hubs(frame: "pl.DataFrame") -> dict[str, str]:
    import polars as pl

    ends = [("origin", "orig_share"), ("dest", "dest_share")]
    both = pl.concat(
        [
            frame.select(
                "carrier", pl.col(area).alias("area"), pl.col(share).alias("share")
            )
            for area, share in ends
        ]
    )
    means = both.group_by("carrier", "area").agg(pl.col("share").mean())
    best = means.sort("share", descending=True).unique("carrier", keep="first")
    return {
        row["carrier"]: f"{row['area']}, {row['share']:.2f}"
        for row in best.sort("carrier").iter_rows(named=True)
        if row["share"] > 0
    }

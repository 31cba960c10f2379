"""The 60 areas and 12 carriers of the airline data, in the order of the files' codes."""

import csv
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """A composite statistical area: its airports and where they lie on average."""

    name: str
    airports: str
    latitude: float
    longitude: float


def _read_places() -> tuple[Place, ...]:
    text = (Path(__file__).parent / "places.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(
        Place(r["name"], r["airports"], float(r["latitude"]), float(r["longitude"]))
        for r in rows
    )


# Code 1 first. The paper's table of areas gives names and airports, left column first.
PLACES = _read_places()

# Code 1 first.
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

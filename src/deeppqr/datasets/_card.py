"""Data cards: source, licence, columns and caveats of each data set."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from .._errors import DataError

WIDTH, MARGIN = 78, 13  # characters of a printed line, and of its left column


@dataclass(frozen=True)
class Card:
    """The data card of a dataset; print it."""

    name: str
    title: str
    source: str
    licence: str
    columns: Mapping[str, str]
    """What each column means."""
    caveats: tuple[str, ...]
    references: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.title.center(WIDTH).rstrip(), "=" * WIDTH]
        lines += _block("source", self.source) + _block("licence", self.licence)
        lines.append("-" * WIDTH)
        for column, meaning in self.columns.items():
            lines += _block(column, meaning)
        lines.append("-" * WIDTH)
        for caveat in self.caveats:
            lines += _block("mind", caveat)
        for reference in self.references:
            lines += _block("cite", reference)
        return "\n".join([*lines, "=" * WIDTH])


BUS = Card(
    name="bus",
    title="Bus engine replacement (Rust, 1987)",
    source="Nine odometer files of the Madison Metropolitan Bus Company, December 1974 to "
    "May 1985, as distributed by John Rust; read from "
    "github.com/OpenSourceEconomics/zurcher-data, data/original_data, commit d39eb4d6, "
    "each file checked by its SHA-256.",
    licence="The repository is under the MIT licence; the data are freely distributed by "
    "their author. Cite the paper.",
    columns={
        "group": "Rust's group, 1 to 8, by make and year; 9 is the Davidson 309, which he "
        "leaves aside",
        "file": "the file it was read from",
        "bus": "the company's number of the bus: the unit",
        "period": "months since the bus was first read, from 0",
        "year, month": "of the reading",
        "odometer": "miles on the odometer",
        "mileage": "miles since the engine was last replaced: odometer less its reading at "
        "the replacement",
        "bin": "mileage in bins, (0, 5000] being 0: Rust's ceiling of mileage / 5000, "
        "counted from zero",
        "replace": "1 if the engine was replaced after this reading and before the next",
    },
    caveats=(
        "Rust drops the first month of each bus as a decision and keeps the mileage "
        "driven into the second: groups 1-4 have 104 buses, 8,156 decisions, 60 of them "
        "replacements (0, 0, 27, 33 by group), and 8,156 increments. `bus` drops the "
        "month, so that its panel holds 104 transitions fewer; `bus_increments` counts "
        "all of them.",
        "In a month of replacement Rust counts the mileage driven since as the ceiling of "
        "mileage / 5000, one more than the bin reached; `bus_increments` does so too. "
        "Counted as the bin, the estimated replacement cost moves by about 0.01.",
        "A reading that is a whole multiple of 5,000 belongs to the lower bin. Taken as "
        "the higher one, groups 1-3 no longer give the published shares.",
        "Replacements are rare and nearly all at 100,000 to 300,000 miles: nothing is "
        "known of decisions elsewhere but what a model says.",
    ),
    references=(
        "J. Rust (1987), Optimal Replacement of GMC Bus Engines: An Empirical Model of "
        "Harold Zurcher, Econometrica 55(5), 999-1033.",
    ),
)
AIRLINE = Card(
    name="airline",
    title="Airline market entry (Geng et al., 2020)",
    source="Three files, periods 13, 14 and 15, published by the paper's first author "
    "with a later paper; read from github.com/gengsinong/SAmQ, ailrline_data (so spelled), "
    "commit dce1a658, each file checked by its SHA-256. Built by its authors from the "
    "Official Airline Guide and the Bureau of Transportation Statistics.",
    licence="The repository is under the MIT licence. Cite the paper.",
    columns={
        "period": "13, 14 or 15: an index of periods (the files' yearq)",
        "carrier": "code of the carrier; OTHER is all other carriers together",
        "market": "a pair of areas, the unit: 1,770 of them; `origin` and `dest` name the "
        "two, airports are in `deeppqr.datasets.PLACES`",
        "decision": "serve or out: whether the carrier serves the market next period "
        "(seg_entry_tplus1)",
        "seg_entry_t": "whether it serves the market now",
        "Dist": "distance, in thousands of miles",
        "pop_origin, pop_dest": "populations; log_pop_* are their logarithms",
        "ln2002pssgrdens": "logarithm of the market's passengers in 2002",
        "nonstop_comps": "competitors that fly the market non-stop now",
        "orig_share, dest_share": "the carrier's share of flights at each end",
        "any_origin, any_dest": "whether it flies from each end at all",
        "scheduled_flights": "its flights on the market; log_flights is log(1 + flights)",
    },
    caveats=(
        "The paper calls the periods 2013 to 2015. Continental, America West, Northwest "
        "and TWA no longer existed then; which years these are is not known.",
        "Only 4.5, 3.8 and 4.3 per cent of rows switch between serving and not serving. "
        'Any prediction must be held against "the same as last period".',
        "TWA serves no market in any period: its reward of serving is not identified. The "
        "pooled panel leaves it out.",
        "San Juan's population is missing in the files. It is set to the median of the "
        "other 59 areas' populations.",
        "America West has no scheduled flights in any row, though it serves about 100 "
        "markets; and 18 per cent of the markets others serve show none.",
        "A market is one row whatever the direction: Albuquerque - Albany, never the "
        "reverse. Origin and dest are the lower and the higher code, not a direction of "
        "travel.",
        "The law of competitors and shares is taken as given by each carrier: this is one "
        "agent's problem, not a game.",
    ),
    references=(
        "S. Geng, H. Nassif, C. Manzanares, M. Reppen, R. Sircar (2020), Deep PQR: Solving "
        "Inverse Reinforcement Learning using Anchor Actions, ICML.",
    ),
)
CARDS = {card.name: card for card in (AIRLINE, BUS)}


def card(name: str) -> Card:
    """The data card of this name."""
    if name not in CARDS:
        raise DataError(f"There is no dataset {name!r}; there are {sorted(CARDS)}.")
    return CARDS[name]


def _block(head: str, text: str) -> list[str]:
    margin = " " * MARGIN
    if len(head) >= MARGIN:
        return [
            head,
            *textwrap.wrap(text, WIDTH, initial_indent=margin, subsequent_indent=margin),
        ]
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{head:<{MARGIN}}", subsequent_indent=margin
    )

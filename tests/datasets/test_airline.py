"""Airline market entry: what the files hold, what their codes mean, what is refused."""

import os

import numpy as np
import polars as pl
import pytest

from deeppqr import PQR, ActionNeverTaken, DataError, DataWarning, datasets
from deeppqr.datasets import CARRIERS, PLACES, link_periods

STATE = (
    "Dist",
    "log_pop_origin",
    "log_pop_dest",
    "ln2002pssgrdens",
    "seg_entry_t",
    "nonstop_comps",
    "orig_share",
    "dest_share",
    "any_origin",
    "any_dest",
    "log_flights",
)
needs_files = pytest.mark.skipif(
    not os.environ.get("DEEPPQR_DATA"),
    reason="set DEEPPQR_DATA to the folder that holds airline/*.csv",
)
STATIC = ("Dist", "log_pop_origin", "log_pop_dest", "ln2002pssgrdens")
EARTH = 3.9588
"""Radius, in thousands of miles."""


@pytest.fixture(scope="module")
def frame():
    return datasets.airline_frame()


@pytest.fixture(scope="module")
def american():
    return datasets.airline("AA")


@needs_files
def test_every_carrier_market_and_period_is_there_once(frame):
    key = ("carrier", "market", "period")
    assert [frame[name].n_unique() for name in key] == [12, 1_770, 3]
    assert len(frame) == 12 * 1_770 * 3 == frame.select(key).n_unique()
    assert sorted(frame["carrier"].unique()) == list(CARRIERS)
    # Each pair of the 60 areas once, the lower code first.
    pairs = frame.select("csa_code_origin", "csa_code_dest").unique().rows()
    assert sorted(pairs) == [(i, j) for i in range(1, 61) for j in range(i + 1, 61)]


@needs_files
def test_every_decision_leads_to_the_next_period(frame, american):
    """Against a dictionary of the rows: where the next state is from, and what it is."""
    own = frame.filter(carrier="AA")
    rows = {(row["market"], row["period"]): row for row in own.iter_rows(named=True)}
    assert american.encoding.names == list(STATE)
    assert (len(american), american.num_units) == (3 * 1_770, 1_770)
    assert int(american.has_next.sum()) == 2 * 1_770
    period = dict.fromkeys(range(1_770), 12)
    for row, unit in enumerate(american.unit.tolist()):
        period[unit] += 1
        market = american.unit_labels[unit]
        here = rows[market, period[unit]]
        assert american.state[row].tolist() == [here[name] for name in STATE]
        assert american.actions[american.action[row]] == here["decision"]
        assert american.has_next[row] == (period[unit] < 15)
        if american.has_next[row]:
            then = rows[market, period[unit] + 1]
            assert american.next_state[row].tolist() == [then[name] for name in STATE]
    assert set(period.values()) == {15}


@needs_files
@pytest.mark.parametrize("carrier", ["AA", None])
def test_next_states_are_where_decisions_lead(carrier):
    panel = datasets.airline(carrier)
    seen = panel.has_next
    column = panel.encoding.feature_names.index
    present = panel.next_state[seen, column("seg_entry_t")]
    np.testing.assert_array_equal(present, panel.action[seen])
    still = [column(name) for name in STATIC]
    np.testing.assert_array_equal(
        panel.next_state[seen][:, still], panel.state[seen][:, still]
    )
    assert (panel.next_state[seen] != panel.state[seen]).any()


def positions() -> np.ndarray:
    """Of the areas on the unit sphere."""
    north, east = np.radians([(place.latitude, place.longitude) for place in PLACES]).T
    flat = np.cos(north)
    return np.stack([flat * np.cos(east), flat * np.sin(east), np.sin(north)], axis=1)


@needs_files
def test_distances_say_which_area_is_which(frame):
    """An area is where its airports are on average, within 50 miles of what the files
    have. If the names of any two areas were swapped, some distance would be farther off."""
    one = frame.filter(carrier="AA", period=13)
    start, end = (one[f"csa_code_{side}"].to_numpy() - 1 for side in ("origin", "dest"))
    printed = one["Dist"].to_numpy()

    def line(at: np.ndarray) -> np.ndarray:
        return EARTH * np.arccos((at[start] * at[end]).sum(axis=1))

    at = positions()
    assert np.corrcoef(line(at), printed)[0, 1] > 0.9999
    assert np.abs(line(at) - printed).max() < 0.05
    for first in range(len(PLACES)):
        for second in range(first):
            order = np.arange(len(PLACES))
            order[[first, second]] = second, first
            assert np.abs(line(at[order]) - printed).max() > 0.05


@needs_files
@pytest.mark.parametrize(
    ("carrier", "hub", "share"),
    [
        ("AA", "Dallas", 0.71),
        ("CO", "Houston", 0.55),
        ("DL", "Atlanta", 0.64),
        ("NW", "Minneapolis-St. Paul", 0.68),
        ("HP", "Phoenix", 0.35),
        ("US", "Charlotte", 0.65),
    ],
)
def test_carriers_have_their_hubs(frame, carrier, hub, share):
    """Of all areas, a carrier's mean share of flights is largest at its hub."""
    own = frame.filter(carrier=carrier)
    shares = {
        place.name: np.mean(
            own.filter(origin=place.name)["orig_share"].to_list()
            + own.filter(dest=place.name)["dest_share"].to_list()
        )
        for place in PLACES
    }
    assert max(shares, key=lambda name: shares[name]) == hub
    assert abs(shares[hub] - share) <= 0.005  # printed with two digits


@needs_files
def test_populations(frame):
    """New York's is the largest; San Juan's is not in the files, and the median fills it."""
    population = {}
    for side in ("origin", "dest"):
        for name, size in frame.select(side, f"pop_{side}").unique().rows():
            assert population.setdefault(name, size) == size
    assert len(population) == 60
    assert max(population, key=lambda name: population[name]) == "New York"
    filled = population.pop("San Juan")
    assert filled == sorted(population.values())[29]  # of 59
    assert frame["pop_origin"].null_count() == frame["pop_dest"].null_count() == 0


@needs_files
def test_the_caveats_are_true(frame):
    switch = (pl.col("seg_entry_t") != pl.col("seg_entry_tplus1")).mean().alias("share")
    by_period = frame.group_by("period").agg(switch).sort("period")["share"]
    assert [f"{share:.1%}" for share in by_period] == ["4.5%", "3.8%", "4.3%"]
    west = frame.filter(carrier="HP")
    assert west["scheduled_flights"].max() == 0
    served = west.group_by("period").agg(pl.col("seg_entry_t").sum())["seg_entry_t"]
    assert sorted(served) == [96, 96, 104]
    others = frame.filter(pl.col("carrier") != "HP", pl.col("seg_entry_t") == 1)
    assert f"{(others['scheduled_flights'] == 0).mean():.0%}" == "18%"


@needs_files
def test_twa_never_serves(frame):
    serving = frame.group_by("carrier").agg(pl.col("seg_entry_t", "seg_entry_tplus1").sum())
    never = serving.filter(seg_entry_t=0)
    assert never.rows() == [("TW", 0, 0)]
    with pytest.warns(DataWarning, match="is 0 in every row"):
        panel = datasets.airline("TW")
    assert panel.actions == ("out", "serve")
    with pytest.raises(
        ActionNeverTaken,
        match="'serve' is never taken in this panel, so its reward is not identified",
    ):
        PQR(discount=0.95, anchor="out").fit(panel)


@needs_files
def test_all_carriers_in_one_panel(american):
    panel = datasets.airline()
    carrier = panel.encoding.columns[-1]
    assert (carrier.name, carrier.kind) == ("carrier", "categorical")
    assert carrier.categories == tuple(code for code in CARRIERS if code != "TW")
    assert len(panel) == 11 * 1_770 * 3
    assert list(panel.unit_labels) == list(american.unit_labels)
    assert set(np.bincount(panel.unit)) == {11 * 3}
    decoded = panel.encoding.decode(panel.state)
    own = decoded[:, -1] == "AA"
    np.testing.assert_array_equal(decoded[own, :-1].astype(float), american.state)
    seen = panel.has_next
    later = panel.encoding.decode(panel.next_state[seen])
    np.testing.assert_array_equal(later[:, -1], decoded[seen, -1])


@needs_files
def test_as_printed_or_in_logarithms(american):
    plain = datasets.airline("AA", logs=False)
    names = plain.encoding.names
    assert names == [
        {"log_flights": "scheduled_flights"}.get(name, name.removeprefix("log_"))
        for name in STATE
    ]
    state = plain.state.copy()
    for name in ("pop_origin", "pop_dest"):
        state[:, names.index(name)] = np.log(state[:, names.index(name)])
    flights = names.index("scheduled_flights")
    state[:, flights] = np.log(1 + state[:, flights])
    # Two logarithms of numbers near 20, each rounded.
    np.testing.assert_allclose(state, american.state, rtol=4e-16 * 20, atol=1e-15)


@needs_files
@pytest.mark.parametrize("periods", [(13, 14), (13,), (15, 14)])
def test_the_next_state_is_seen_whatever_periods_are_chosen(american, periods):
    panel = datasets.airline("AA", periods=periods)
    assert len(panel) == 1_770 * len(periods)
    assert int(panel.has_next.sum()) == 1_770 * len({13, 14} & set(periods))
    if periods == (13,):
        np.testing.assert_array_equal(panel.next_state, american.state[1::3])


def linked_by_hand(**change) -> pl.DataFrame:
    """A carrier that enters in period 13 and leaves in 15, and one that stays out."""
    columns = {
        "carrier": ["AA"] * 3 + ["UA"] * 3,
        "market": ["here - there"] * 6,
        "period": [13, 14, 15] * 2,
        "seg_entry_t": [0, 1, 1, 0, 0, 0],
        "seg_entry_tplus1": [1, 1, 0, 0, 0, 0],
        "decision": ["serve", "serve", "out", "out", "out", "out"],
        "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    }
    return pl.DataFrame({**columns, **change})


def test_rows_are_linked_in_any_order():
    shuffled = linked_by_hand()[[5, 0, 3, 1, 4, 2]]
    linked = link_periods(shuffled, ["x"])
    assert linked["x"].to_list() == shuffled["x"].to_list()
    assert linked["next_x"].to_list() == [None, 1.0, 4.0, 2.0, 5.0, None]
    assert "then" not in linked.columns


def test_broken_links_are_refused():
    with pytest.raises(
        DataError,
        match=r"AA decides to serve here - there in period 13, but `seg_entry_t` of the "
        r"next period is 0 \(1 rows in all\)",
    ):
        link_periods(linked_by_hand(seg_entry_t=[0, 0, 1, 0, 0, 0]), ["x"])
    with pytest.raises(
        DataError, match=r"UA decides to out .* period is 1 \(2 rows in all"
    ):
        link_periods(linked_by_hand(seg_entry_t=[0, 1, 1, 0, 1, 1]), ["x"])


def test_a_period_that_is_missing_is_refused():
    frame = linked_by_hand()
    with pytest.raises(DataError, match=r"in period 14, but .* is None \(1 rows in all\)"):
        link_periods(
            frame.filter(~((pl.col("carrier") == "AA") & (pl.col("period") == 15))), ["x"]
        )


@pytest.mark.parametrize("carrier", ["XX", "aa", ""])
def test_carriers_must_exist(carrier):
    with pytest.raises(
        DataError, match=rf"`carrier` must be one of \['AA', .* but {carrier!r} arrived"
    ):
        datasets.airline(carrier)


@pytest.mark.parametrize("periods", [(), (12,), (13, 13), (13, 2014)])
def test_periods_must_exist(periods):
    with pytest.raises(
        DataError, match=r"`periods` must name some of \[13, 14, 15\], each"
    ):
        datasets.airline("AA", periods=periods)


def test_the_last_period_alone_is_no_panel():
    with pytest.raises(DataError, match="Decisions of period 15 alone make no panel"):
        datasets.airline("AA", periods=(15,))


def test_the_airline_card_prints():
    printed = str(datasets.card("airline"))
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 78
    told = " ".join(printed.split())
    for words in (
        "github.com/gengsinong/SAmQ",
        "commit dce1a658",
        "MIT licence",
        "TWA serves no market in any period",
        "San Juan's population is missing",
        'held against "the same as last period"',
        "which years these are is not known",
        "Deep PQR",
    ):
        assert words in told
    for column in datasets.card("airline").columns:
        # A name never runs into what it means.
        assert any(line == column or line.startswith(f"{column} ") for line in lines)


def test_every_state_column_is_on_the_card():
    told = str(datasets.card("airline"))
    for name in STATE:
        assert name in told or name.replace("log_pop_", "pop_") in told

"""Rust's buses: the counts of his paper, his conventions, and where the files come from."""

import os
import sys
import types
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from deeppqr import DataError, datasets

needs_files = pytest.mark.skipif(
    not os.environ.get("DEEPPQR_DATA"),
    reason="set DEEPPQR_DATA to the folder that holds bus/*.asc",
)


@needs_files
def test_groups_1_to_4_have_the_published_counts():
    panel = datasets.bus()
    assert (panel.num_units, len(panel)) == (104, 8_156)
    assert panel.actions == ("keep", "replace")
    frame = datasets.bus_frame().filter(pl.col("period") > 0)
    by_group = frame.group_by("group").agg(pl.len(), pl.col("replace").sum()).sort("group")
    assert by_group["replace"].to_list() == [0, 0, 27, 33]
    assert by_group["len"].to_list()[3] == 4_292
    assert int((panel.action == 1).sum()) == 60


@needs_files
def test_all_files_have_their_buses():
    frame = datasets.bus_frame(range(1, 10))
    buses = frame.group_by("group").agg(pl.col("bus").n_unique()).sort("group")["bus"]
    assert buses.to_list() == [15, 4, 48, 37, 12, 10, 18, 18, 4]
    assert frame["bus"].n_unique() == 166


@needs_files
def test_next_states_are_linked_within_a_bus():
    panel = datasets.bus((4,))
    assert int(panel.has_next.sum()) == len(panel) - panel.num_units
    moved = (panel.next_state - panel.state)[panel.has_next, 0]
    replaced = panel.action[panel.has_next] == 1
    assert set(moved[~replaced]) == {0.0, 1.0, 2.0}
    assert panel.next_state[panel.has_next, 0][replaced].max() <= 2


@needs_files
def test_increments_are_rusts():
    """Table IX prints .3010, .6884 for groups 1-3; .3919, .5953 for 4; .3489, .6394."""
    for groups, published in (
        ((1, 2, 3), (0.3010, 0.6884)),
        ((4,), (0.3919, 0.5953)),
        ((1, 2, 3, 4), (0.3489, 0.6394)),
    ):
        counts = datasets.bus_increments(groups)
        panel = datasets.bus(groups)
        assert counts.shape == (panel.num_units, 3)
        assert counts.sum() == len(panel)
        shares = counts.sum(axis=0) / counts.sum()
        np.testing.assert_allclose(shares[:2], published, atol=1.1e-4)


@needs_files
def test_increments_follow_the_order_of_the_panel():
    """All but the first month's, and one more in each month after a replacement."""
    panel, counts = datasets.bus((4,)), datasets.bus_increments((4,))
    rows = panel.has_next
    replaced = panel.action[rows] == 1
    rise = np.where(
        replaced, panel.next_state[rows, 0] + 1, (panel.next_state - panel.state)[rows, 0]
    ).astype(int)
    seen = np.zeros_like(counts)
    np.add.at(seen, (panel.unit[rows], rise), 1)
    assert ((counts - seen) >= 0).all()
    assert ((counts - seen).sum(axis=1) == 1).all()


@needs_files
def test_an_independent_rebuild_agrees():
    path = Path(os.environ["DEEPPQR_DATA"]) / "reserve/rust1987_bus_panel_groups1_8.csv.gz"
    if not path.exists():
        pytest.skip("the rebuilt panel is not in DEEPPQR_DATA/reserve")
    rebuilt = pl.read_csv(path).sort("bus_id", "period")
    ours = datasets.bus_frame(range(1, 9)).sort("bus", "period")
    for here, there in (
        ("bus", "bus_id"),
        ("year", "year"),
        ("month", "month"),
        ("odometer", "odometer"),
        ("mileage", "mileage_since_replacement"),
        ("replace", "replace"),
    ):
        assert (ours[here] == rebuilt[there]).all(), here
    # The rebuild takes floors: whole multiples of 5,000 belong to the next bin there.
    differ = ours["bin"] != rebuilt["bin5000"]
    assert (ours["mileage"] % 5_000 == 0).equals(differ)


@needs_files
def test_the_last_bin_takes_the_rest():
    assert datasets.bus((4,), bins=30).state.max() == 29


@pytest.mark.parametrize("groups", [(0,), (), (1, 1), (10,)])
def test_groups_must_exist(groups):
    with pytest.raises(DataError, match=r"`groups` must name some of \[1, 2, "):
        datasets.bus_frame(groups)


def test_bins_must_be_counts():
    with pytest.raises(
        DataError, match="`bins` must be a whole number from 1, but it is 0"
    ):
        datasets.bus(bins=0)


@needs_files
@pytest.mark.parametrize("place", ["bus/g870.asc", "g870.asc"])
def test_a_file_beside_needs_no_network(tmp_path, monkeypatch, place):
    published = Path(os.environ["DEEPPQR_DATA"]) / "bus" / "g870.asc"
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(published.read_bytes())
    monkeypatch.setenv("DEEPPQR_DATA", str(tmp_path))
    assert datasets.bus_frame([1])["bus"].n_unique() == 15


def test_another_checksum_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPPQR_DATA", str(tmp_path))
    (tmp_path / "g870.asc").write_bytes(b"1 2 4")
    with pytest.raises(DataError, match="must be the published file with SHA-256"):
        datasets.bus_frame([1])


def pretend(monkeypatch, retrieve):
    """A pooch that is not there to download."""
    fake = types.ModuleType("pooch")
    fake.retrieve = retrieve  # pyright: ignore[reportAttributeAccessIssue]
    fake.os_cache = lambda name: Path("/cache") / name  # pyright: ignore[reportAttributeAccessIssue]
    fake.get_logger = lambda: types.SimpleNamespace(setLevel=lambda level: None)  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "pooch", fake)
    monkeypatch.delenv("DEEPPQR_DATA", raising=False)


def test_downloads_are_pinned_to_their_checksum(tmp_path, monkeypatch):
    """What pooch is asked for; what it returns is read as it is."""
    asked, kept = {}, tmp_path / "g870.asc"
    kept.write_bytes(b"")

    def retrieve(url, **options):
        asked.update(options, url=url)
        return str(kept)

    pretend(monkeypatch, retrieve)
    with pytest.raises(Exception):  # noqa: B017, PT011
        datasets.bus_frame([1])
    kind, digest = asked["known_hash"].split(":")
    assert (kind, len(digest)) == ("sha256", 64)
    assert asked["fname"] == "g870.asc"
    assert asked["path"] == Path("/cache/deeppqr/bus")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            ConnectionError("no route"),
            "put the file into a folder and name that folder in DEEPPQR_DATA",
        ),
        (ValueError("hash differs"), "is not the published g870.asc: its SHA-256 must be"),
    ],
)
def test_trouble_on_the_way_is_told(monkeypatch, problem, message):
    def retrieve(url, **options):
        raise problem

    pretend(monkeypatch, retrieve)
    with pytest.raises(DataError, match=message):
        datasets.bus_frame([1])


def test_the_card_prints():
    printed = str(datasets.card("bus"))
    assert "8,156 decisions" in printed
    assert "zurcher-data" in printed
    assert max(map(len, printed.splitlines())) <= 78
    for column in ("odometer", "mileage", "replace"):
        assert f"\n{column} " in printed


def test_an_unknown_card():
    with pytest.raises(
        DataError, match=r"no dataset 'cars'; there are \['airline', 'bus'\]"
    ):
        datasets.card("cars")

"""The studies of the two buses: what they run, and what they say."""

import polars as pl
import pytest

from deeppqr import DataError
from deeppqr_studies import find_study, run_study


def test_known_cost_bus_in_small(tmp_path):
    settings = {
        "trajectories": [50],
        "methods": ["projection", "projection-2", "nfxp"],
        "seeds": [1001],
        "covered_trajectories": [60],
        "replications": 3,
    }
    outcome = run_study(find_study("bus-known-cost"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert outcome.num_tasks == 4
    for words in ("GLADIUS, published", "band over cells", "test rejects at 5 %"):
        assert words in outcome.text
    assert (tmp_path / "run" / "errors.png").exists()
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    errors = table.filter(pl.col("part") == "errors")
    assert (errors["mape"] < 20).all()
    # Seven standard deviations of 40 buses around the truth.
    assert ((errors["estimate"] + 1).abs() < 0.15 * 7).all()
    theta = table.filter(pl.col("part") == "theta")
    assert theta["replication"].to_list() == [0, 1, 2]
    cells = table.filter(pl.col("part") == "cell")
    assert set(cells["mileage"]) <= set(range(1, 21))


def test_replications_are_what_their_numbers_say():
    from deeppqr_studies.buses._known_cost import coverage

    study = find_study("bus-known-cost")
    settings = {
        "trajectories": [],
        "methods": ["nfxp"],
        "seeds": [1],
        "covered_trajectories": [40],
        "replications": 45,
        "first_replication": 5,
    }
    spans = [task.parameters["replications"] for task in study.tasks(settings)]
    assert spans == [[5, 25], [25, 45], [45, 50]]
    first, again = (coverage(40, 7, level=0.95) for _ in range(2))
    assert first == again


def test_samq_bus_in_small(tmp_path):
    settings = {"seeds": [1001], "steps": [1_000], "degree": 2}
    outcome = run_study(find_study("samq-bus"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert "95 % interval holds" in outcome.text
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    # A bus of 1,000 steps knows its slope to 0.1 or so.
    assert ((table["theta s1"] + 1).abs() < 4 * table["error s1"]).all()
    assert (table["error s1"] < 0.3).all()


def test_unknown_methods_are_refused(tmp_path):
    with pytest.raises(DataError, match="`methods` must be among"):
        run_study(find_study("bus-known-cost"), tmp_path / "run", {"methods": ["x"]})

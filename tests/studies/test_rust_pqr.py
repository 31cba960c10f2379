"""The study of PQR on Rust's buses: its tasks, its projection, its tables and figures."""

import os

import numpy as np
import polars as pl
import pytest

import deeppqr
from deeppqr import DataError, datasets
from deeppqr_studies import complete_settings, find_study, run_study
from deeppqr_studies.buses._rust_pqr import collect, report
from deeppqr_studies.buses._rust_pqr_fits import (
    BINS,
    COLUMNS,
    PARAMETERS,
    PRICES,
    draws,
    estimates,
    model,
    project,
)

needs_files = pytest.mark.skipif(
    not os.environ.get("DEEPPQR_DATA"),
    reason="set DEEPPQR_DATA to the folder that holds bus/*.asc",
)


def rows_of(part: str, slope: float = 2.0, **more) -> dict:
    """A row as a task makes it, of a made-up demand."""
    rates = {price: 0.1 * slope / price for price in PRICES}
    keep = COLUMNS @ np.array([10.0, slope])
    return {
        "sample": "4",
        "part": part,
        **dict(zip(PARAMETERS, (10.0, slope), strict=True)),
        **{f"r({x})": value for x, value in enumerate(keep)},
        **{f"demand({price})": rate for price, rate in rates.items()},
        **{f"line({price})": rate for price, rate in rates.items()},
        **more,
    }


def frame_of(drawn: list[dict]) -> pl.DataFrame:
    about = {"last_bin": 77, "seconds": 1.0, "RC s.e.": 1.0, "theta11 s.e.": 0.5}
    rows = [rows_of(part, **about) for part in ("PQR", "NFXP")]
    rows.append(rows_of("myopic", 9.0, **about))
    return pl.from_dicts(rows + drawn, infer_schema_length=None, strict=False)


def test_batches_of_replicates_are_tasks():
    study = find_study("rust-pqr")
    tasks = study.tasks(complete_settings(study, {}))
    assert len(tasks) == 3 * (1 + 20)
    settings = {"samples": ["4"], "replicates": 13, "first_replicate": 5}
    spans = [
        task.parameters["replicates"]
        for task in study.tasks(complete_settings(study, settings))
        if "replicates" in task.parameters
    ]
    assert spans == [[5, 15], [15, 18]]
    with pytest.raises(DataError, match="`samples` must be among"):
        study.tasks(complete_settings(study, {"samples": ["5"]}))


def test_a_line_is_projected_on_itself():
    weight = np.linspace(1.0, 0.0, BINS)
    theta = project(COLUMNS @ np.array([9.0, 3.0]), weight)
    np.testing.assert_allclose(theta, [9.0, 3.0], rtol=1e-10)


def test_the_report_counts_failures_and_what_the_bands_hold(tmp_path):
    slopes = np.linspace(1.0, 3.0, 41)
    drawn = [rows_of("draw", s, replicate=n, converged=n > 1) for n, s in enumerate(slopes)]
    for row in drawn[:4]:
        row["r(50)"] += 1.0  # costs that are no line
    drawn.append({"sample": "4", "part": "failure", "replicate": 41, "note": "Trouble"})
    frame = frame_of(drawn)
    (sample,) = collect(frame)
    assert sample.failures == ["Trouble"]
    assert sample.num_bent == 4
    assert (~sample.converged).sum() == 2
    # 39 of 41 curves, ordered as their slopes are: one is left out on either side.
    assert sample.line_demand_band is not None
    ends = 0.1 * np.outer(slopes[[1, -2]], 1 / np.array(PRICES))
    np.testing.assert_allclose(sample.line_demand_band, ends)
    text = report(frame, tmp_path)
    assert "that of lines at 28" in text
    assert "are in them at 0 and 0" in text
    assert f"2.000 (0.500) [{slopes.std(ddof=1):.3f}]" in text
    latex = (tmp_path / "tables.tex").read_text()
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 4
    for name in ("costs", "demand"):
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / f"{name}.pdf").exists()


def test_without_draws_there_is_no_band(tmp_path):
    assert "too few replicates for a band" in report(frame_of([]), tmp_path)


@needs_files
@pytest.mark.filterwarnings("ignore::deeppqr.WeakOverlapWarning")
def test_the_study_end_to_end(tmp_path):
    """With a single replicate."""
    settings = {"samples": ["4"], "replicates": 1}
    outcome = run_study(find_study("rust-pqr"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert "Econometrica 55(5)" in outcome.text
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    theta = {
        part: table.filter(part=part).select(PARAMETERS).to_numpy()
        for part in ("PQR", "NFXP", "draw")
    }
    np.testing.assert_allclose(theta["NFXP"][0], [10.0750, 2.2930], atol=5e-4)
    # Within half of Rust's standard errors, 1.582 and 0.639.
    apart = np.abs(theta["PQR"][0] - [10.0750, 2.2930])
    assert (apart < [0.791, 0.3195]).all()
    assert theta["draw"].shape == (1, 2)


@needs_files
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::deeppqr.WeakOverlapWarning")
def test_the_projection_is_that_of_a_fit():
    panel = datasets.bus([4])
    found = (
        model()
        .fit(panel)
        .project(
            ["1", "mileage_bin"], panel, weight="visits", errors="bootstrap", replicates=2
        )
    )
    scale = np.array([1.0, -1e3])
    row = estimates("4")[0]
    mine = [row[name] for name in PARAMETERS]
    np.testing.assert_allclose(mine, scale * found.theta, rtol=1e-6)
    again = deeppqr.PQR(discount=0.9999, anchor="replace", seed=9).fit(panel)
    closed = again.project(["1", "mileage_bin"], panel, weight="visits")
    # Nothing in the default is random.
    np.testing.assert_allclose(closed.theta, found.theta, rtol=1e-12)
    own = [row[f"{name} s.e."] for name in PARAMETERS]
    np.testing.assert_allclose(own, np.abs(scale) * closed.standard_errors, rtol=1e-9)
    drawn = [[row[name] for name in PARAMETERS] for row in draws("4", [0, 2])]
    errors = np.std(drawn, axis=0, ddof=1)
    np.testing.assert_allclose(errors, np.abs(scale) * found.standard_errors, rtol=1e-5)

"""The study of Rust's Table IX: its tables, its figure and what it is compared with."""

import os

import polars as pl
import pytest

from deeppqr import DataError
from deeppqr_studies import complete_settings, find_study, run_study
from deeppqr_studies.published import TABLE_IX

needs_files = pytest.mark.skipif(
    not os.environ.get("DEEPPQR_DATA"),
    reason="set DEEPPQR_DATA to the folder that holds bus/*.asc",
)


def test_the_published_figures_are_consistent():
    """Rust's own likelihood ratios, 12.782 and 3.746, and his test of homogeneity, 85.46."""
    likelihood = {key: row["log-likelihood"].value for key, row in TABLE_IX.items()}
    for sample, ratio in (("4", 3.746), ("1-4", 12.782)):
        found = 2 * (likelihood[sample, 0.9999] - likelihood[sample, 0.0])
        assert found == pytest.approx(ratio, abs=1e-3)
    parts = likelihood["1-3", 0.9999] + likelihood["4", 0.9999]
    assert 2 * (parts - likelihood["1-4", 0.9999]) == pytest.approx(85.46, abs=0.01)


def test_every_cell_is_a_task():
    study = find_study("rust-table-ix")
    tasks = study.tasks(complete_settings(study, {}))
    assert len(tasks) == 3 * 2 * 5 * 5
    with pytest.raises(DataError, match="`samples` must be among"):
        study.tasks(complete_settings(study, {"samples": ["5"]}))


@needs_files
def test_the_study_end_to_end(tmp_path):
    settings = {
        "samples": ["4"],
        "discounts": [0.9999],
        "forms": ["linear", "square root"],
        "methods": ["nfxp-full", "ccp", "tdccp"],
    }
    outcome = run_study(find_study("rust-table-ix"), tmp_path / "run", settings)
    assert outcome.failures == {}
    assert "Table IX, groups 4, discount 0.9999" in outcome.text
    assert "Econometrica 55(5)" in outcome.text
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    printed = table.filter(pl.col("published").is_not_null(), method="nfxp-full")
    assert len(printed) == 5
    assert (printed["difference"].abs() < 5e-4).all()
    latex = (tmp_path / "run" / "tables.tex").read_text()
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 3
    assert r"share +0 & 0.3919 & (0.0075) & 0.3919" in latex
    assert (tmp_path / "run" / "cost-curves.png").read_bytes()[:4] == b"\x89PNG"

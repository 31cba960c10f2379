"""Reports on tables in which little or nothing was found."""

import polars as pl
import pytest

from deeppqr_studies import find_study, run_study
from deeppqr_studies._figures import Chart, draw_charts, draw_dots
from deeppqr_studies._tables import method_table

FEW = {"p": [2], "scale": [5.0], "steps": 4, "units": 2, "seeds": [1], "methods": ["paper"]}
"""Four decisions: some of the five actions are never taken, and every fit is refused."""


@pytest.mark.parametrize(
    ("study", "scores"),
    [
        ("sensitivity", ["nmse", "policy_kl"]),
        ("robustness", ["nmse", "centred_nmse"]),
        ("alpha-selection", ["ratio", "error", "nmse"]),
        ("anchor-support", ["nmse", "level_error", "anchor_min_prob_verdict"]),
    ],
)
def test_where_every_fit_is_refused_the_report_says_so(study, scores, tmp_path):
    outcome = run_study(find_study(study), tmp_path / "run", FEW)
    assert outcome.failures == {}
    assert f"{outcome.num_tasks} of {outcome.num_tasks} fits were refused" in outcome.text
    assert not list((tmp_path / "run").glob("*.png"))
    table = pl.read_csv(tmp_path / "run" / "table.csv")
    assert table.select(scores).null_count().row(0) == (len(table),) * len(scores)


def test_an_oracle_has_no_diagnostics(small, tmp_path):
    settings = {**small, "premium": [0.0], "methods": ["oracle"]}
    outcome = run_study(find_study("anchor-support"), tmp_path / "run", settings)
    assert "What we expect, p = 2, scale 5\n- nothing to compare" in outcome.text
    assert "What the diagnostics say" not in outcome.text
    assert (tmp_path / "run" / "anchor-support.png").exists()


def test_nothing_to_draw_draws_nothing(tmp_path):
    draw_charts([Chart("title", "x", "y", {})], tmp_path, "charts")
    draw_charts([], tmp_path, "charts")
    draw_dots({"title": {}}, tmp_path, "dots", x_label="x")
    assert not list(tmp_path.iterdir())


def test_refused_fits_have_no_time_and_were_given_nothing():
    rows = [
        ("told", "the true Q", 0.5, 9.0, ""),
        ("told", "nothing", None, 0.0, "refused: an action never occurs"),
        ("told", "nothing", None, 0.0, "refused: an action never occurs"),
        ("never", "nothing", None, None, "refused: an action never occurs"),
    ]
    columns = ["method", "given", "nmse", "seconds", "note"]
    frame = pl.DataFrame(rows, schema=columns, orient="row").with_columns(p=5)
    found = method_table(frame, "Errors", over="p", score="nmse")
    assert found.rows == [["told", "0.5", "9", "the true Q"], ["never", "-", "-", "-"]]

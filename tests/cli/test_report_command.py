"""`deeppqr report`, and the report that `deeppqr fit` writes."""

import pytest

import deeppqr
from deeppqr.cli import main
from season_panel import decisions


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "decisions.csv"
    decisions(2, rows=600).write_csv(path)
    return path


def fit_words(data, out):
    words = f"fit {data} --state size season --action do --unit unit --time time"
    return (
        f"{words} --discount 0.5 --policy logit --reward joint --out {out} --quiet".split()
    )


def test_fit_writes_a_report_unless_told_not_to(data, tmp_path):
    anchor = ["--anchor", "act 00"]
    assert main([*fit_words(data, tmp_path / "run"), *anchor]) == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "What to believe, and what not" in page
    again = tmp_path / "again.html"
    assert main(["report", str(tmp_path / "run"), "--out", str(again), "--quiet"]) == 0
    assert again.read_text(encoding="utf-8") == page  # of the saved fit, to the letter
    out = tmp_path / "june.html"
    words = ["report", str(tmp_path / "run"), "--out", str(out), "--title", "Routes, June"]
    assert main(words) == 0
    assert "<title>Routes, June</title>" in out.read_text(encoding="utf-8")


def test_a_report_is_not_overwritten_and_needs_a_fit(data, tmp_path, capsys):
    (tmp_path / "no fit").mkdir()
    assert main(["report", str(tmp_path / "no fit")]) == 2
    assert "is not a saved fit" in capsys.readouterr().err
    assert list((tmp_path / "no fit").iterdir()) == []


def test_a_failing_report_costs_no_fit(data, tmp_path, monkeypatch):
    def fail(fit, path):
        raise RuntimeError("no font at all")

    monkeypatch.setattr(deeppqr.Fit, "report", fail)
    words = fit_words(data, tmp_path / "run")
    with pytest.warns(UserWarning, match=r"could not be written \(no font at all\)"):
        assert main([*words, "--anchor", "act 00"]) == 0
    assert deeppqr.load(tmp_path / "run").anchor == "act 00"


def test_a_failing_report_names_the_folder_that_stays(data, tmp_path, monkeypatch):
    """With --overwrite the fit is written under a hidden name first."""
    run = tmp_path / "run"
    words = [*fit_words(data, run), "--anchor", "act 00"]
    assert main([*words, "--no-report"]) == 0
    assert not (run / "report.html").exists()

    def fail(fit, path):
        raise RuntimeError("no font at all")

    monkeypatch.setattr(deeppqr.Fit, "report", fail)
    with pytest.warns(UserWarning, match=f"Try `deeppqr report {run}`"):
        assert main([*words, "--overwrite"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

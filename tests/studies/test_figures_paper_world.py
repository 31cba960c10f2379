"""The studies of the paper's synthetic figures, in small, end to end."""

import numpy as np
import polars as pl
import pytest

from deeppqr import PQR
from deeppqr_studies import find_study, run_study
from deeppqr_studies._problem import make_problem
from deeppqr_studies._scores import q_errors

SMALL = {"p": [2], "scale": [5.0], "units": 20, "seeds": [1]}
CELL = {"world": "paper", "p": 2, "scale": 5.0, "steps": 600, "units": 20}


def run(name, folder, **settings):
    """The study in small: its table, its text and the names of its figures."""
    outcome = run_study(find_study(name), folder, {**SMALL, **settings})
    assert outcome.failures == {}
    figures = {path.stem for path in folder.glob("*.p*") if path.suffix in (".png", ".pdf")}
    for figure in figures:
        assert (folder / f"{figure}.png").read_bytes()[:4] == b"\x89PNG"
        assert (folder / f"{figure}.pdf").read_bytes()[:4] == b"%PDF"
    return pl.read_csv(folder / "table.csv"), outcome.text, figures


@pytest.fixture(scope="module")
def printed():
    """The paper's own fit, which every study below must meet."""
    problem = make_problem(CELL, 1)
    return problem, PQR.paper(discount=0.9, anchor=0, seed=1).fit(problem.panel)


@pytest.mark.slow
def test_q_recovery_in_small(tmp_path, printed):
    methods = ["paper", "maxent"]
    table, text, figures = run(
        "q-recovery", tmp_path / "run", steps=600, methods=methods, progress=[0.05, 1.0]
    )
    assert table["progress"].to_list() == [0.05, 1.0, None]
    early, full, told = table.rows(named=True)
    problem, fit = printed
    # Bit for bit: all of the training is `PQR.paper`.
    assert full["q_mse"] == q_errors(problem.q, fit.q(problem.states))["q_mse"]
    assert early["q_mse"] > full["q_mse"]
    assert told["given"] == "the true Q at one state and action"
    assert early["given"] == "nothing"
    assert "cannot tell: With sufficient training, Q by paper is more accurate" in text
    assert "paper, 5.0 % of training" in text
    scores = ("q-mse", "q-nmse", "q-centred-nmse")
    assert figures == {f"{score}-scale-5" for score in scores}


@pytest.mark.slow
def test_training_error_in_small(tmp_path, printed):
    table, text, figures = run(
        "training-error", tmp_path / "run", steps=600, methods=["paper"]
    )
    policy, q, reward = table.rows(named=True)
    problem, fit = printed
    taken = fit.log_policy(problem.panel.state)[np.arange(600), problem.panel.action]
    np.testing.assert_allclose(policy["loss"], -taken.mean(), rtol=1e-12)
    # Fixed shares beat a policy that has hardly moved, and the true policy beats both.
    assert policy["floor"] < policy["constant"] < policy["loss"]
    assert 1.0 < policy["game_loss"] < 3.0
    for found in (q, reward):
        assert 0 < found["floor"] < found["constant"] < found["target_truth"]
    assert reward["loss"] < reward["constant"]
    assert "the demonstrator's own log-loss" in text
    assert (
        "the demonstrator's own log-loss" in (tmp_path / "run" / "summary.md").read_text()
    )
    assert figures == {"training-error-scale-5"}


def test_errors_of_q_by_hand():
    truth = np.array([[1.0, 3.0], [5.0, 7.0]])  # variance 5, within states 1
    found = q_errors(truth, truth + np.array([2.0, 4.0]))
    assert found == {
        "q_mse": 10.0,
        "q_nmse": 2.0,
        "q_bias": 3.0,
        "q_centred_mse": 1.0,
        "q_centred_nmse": 1.0,
    }


@pytest.mark.slow
def test_convergence_in_small(tmp_path, printed, monkeypatch):
    monkeypatch.setattr("deeppqr_studies.paper._convergence.MAX_SCORED", 600)
    table, text, figures = run(
        "convergence", tmp_path / "run", steps=[600], methods=["paper"], kernel_rows=50
    )
    (row,) = table.rows(named=True)
    _, fit = printed
    assert row["rounds"] == fit.provenance["rounds"]
    np.testing.assert_allclose(row["missing"], 0.9 ** row["rounds"])
    assert 0 < row["policy_error"] < row["policy_error_max"]
    terms = row["complexity_q"] + 2 * row["missing"] + 0.9 * row["policy_error_max"]
    np.testing.assert_allclose(row["q_bound"], 10 * terms)
    assert row["reward_mae"] < row["reward_bound"]
    assert "Theorem 2's terms" in text
    names = ("nmse", "q-nmse", "q-centred-nmse", "bound")
    assert figures == {f"convergence-{name}" for name in names}


def test_the_papers_claims_are_judged():
    from deeppqr_studies._reward_recovery import _claims

    rows = [
        {"method": method, "p": p, "seed": seed, "mse": size * p * (1 + 0.01 * seed)}
        for method, size in (("paper", 2.0), ("maxent", 1.0), ("dairl", 3.0))
        for p in (5, 10)
        for seed in (1, 2, 3)
    ]
    claims = _claims(pl.DataFrame(rows), "claims").claims
    assert [(claim.text, claim.verdict) for claim in claims] == [
        ("PQR (paper) is more accurate than MaxEnt-IRL at every p", "disagrees"),
        ("PQR (paper) is more accurate than D-AIRL at every p", "agrees"),
        ("The error of PQR (paper) grows from p = 5 to 10", "agrees"),
        ("MaxEnt-IRL is worse than D-AIRL at every p", "disagrees"),
    ]

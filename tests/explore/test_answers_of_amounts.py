"""The explorer where actions are amounts: shares of cells, and payments per unit."""

from typing import Any

import numpy as np
import pytest

import deeppqr
from deeppqr.explore._answers import Answers
from deeppqr.explore._text import as_json
from deeppqr.explore._what_if import PER_UNIT, what_if


@pytest.fixture(scope="module", params=["box", "atom"])
def answers(request):
    """Decisions with one number as the state, and the page's answers."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=500)
    amount = np.clip(4 + state + 1.5 * rng.normal(size=500), 0.01, 9.99)
    space: Any = deeppqr.Box(0.0, 10.0)
    if request.param == "atom":
        space = deeppqr.Mixed(atoms=[0.0], box=space)
        amount[rng.random(500) < 0.4] = 0.0
    after = 0.6 * state + 0.1 * amount + 0.5 * rng.normal(size=500)
    told: dict[str, Any] = {"unit": np.arange(500) % 50, "actions": space}
    panel = deeppqr.Panel.from_arrays(state[:, None], amount, after[:, None], **told)
    anchor = 0.0 if request.param == "atom" else 4.0
    return Answers.of(deeppqr.PQR(discount=0.8, anchor=anchor).fit(panel), "run")


def test_probabilities_are_shares_and_add_up(answers):
    about = answers.about()
    as_json(about)  # what the page gets
    assert "amounts in" in about["note"]
    atoms = len(answers.fit.space.points)
    assert [each["code"] for each in about["payable"]] == [PER_UNIT, *range(atoms)]
    table = answers.at_state({"state": [0.25]})["table"]
    assert abs(table["probability"].sum() - 1) < 1e-9
    np.testing.assert_allclose(table["reward"], answers.fit.reward([[0.25]])[0])


def test_a_tax_on_each_unit(answers):
    question = {"kind": "transfer", "action": PER_UNIT, "amount": -0.2}
    found = what_if(answers.fit, answers.controls, question)
    assert found["title"] == "-0.2 for each unit of the amount, in every period"
    rows = {(row["horizon"], row["quantity"], row["action"]): row for row in found["rows"]}
    # Less is done, and the interval says so.
    assert rows["now", "mean amount", None]["high"] < 0


def test_atoms_are_paid_and_taken_away(answers):
    fit, controls = answers.fit, answers.controls
    for kind in ("transfer", "remove"):
        question = {"kind": kind, "action": 0, "amount": 0.3}
        if not len(fit.space.points):
            with pytest.raises(deeppqr.DataError, match=r"no atoms to pay or to take away"):
                what_if(fit, controls, question)
            continue
        rows = what_if(fit, controls, question)["rows"]
        share = next(row for row in rows if row["quantity"] == "probability")
        assert (share["change"] > 0) == (kind == "transfer")
    with pytest.raises(deeppqr.DataError, match=r"cannot be taken away one by one"):
        what_if(fit, controls, {"kind": "remove", "action": PER_UNIT})

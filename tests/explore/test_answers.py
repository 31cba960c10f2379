"""The explorer's answers are the fit's own figures; what is no state is refused in words."""

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import deeppqr
from deeppqr.explore._answers import Answers
from deeppqr.explore._text import as_csv, as_json, shown
from deeppqr.explore._what_if import what_if

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def answers(hostile_fit):
    return Answers.of(hostile_fit, "run")


def test_an_answer_is_what_the_fit_says(answers, hostile_fit):
    """Codes of levels and booleans mean the state that the user would have written."""
    found = answers.at_state({"state": [0.25, 2, 1], "along": 0, "quantity": "q"})
    state = np.array([[0.25, hostile_fit.encoding.columns[1].categories[2], True]], object)
    np.testing.assert_allclose(found["table"]["reward"], hostile_fit.reward(state)[0])
    np.testing.assert_allclose(found["table"]["q"], hostile_fit.q(state)[0])
    np.testing.assert_allclose(found["value"], hostile_fit.value(state)[0])
    chosen = np.exp(hostile_fit.log_policy(state)[0])
    np.testing.assert_allclose(found["table"]["probability"], chosen)
    half = norm.ppf(0.975) * hostile_fit.standard_errors(state)[0]
    width = found["table"]["high"] - found["table"]["low"]
    np.testing.assert_allclose(width, 2 * half)


def test_a_curve_passes_through_the_chosen_state(answers):
    found = answers.at_state({"state": [0.25, 2, 1], "along": 0, "quantity": "q"})
    curve = found["curve"]
    here = curve["x"].index(0.25)
    np.testing.assert_allclose(curve["y"][:, here], found["table"]["q"])
    assert curve["x"] == sorted(curve["x"])
    levels = answers.at_state({"state": [0.25, 2, 1], "along": 1})["curve"]
    assert levels["x"] == [0.0, 1.0, 2.0, 3.0]


def test_a_state_far_away_is_marked(answers):
    assert answers.at_state({"state": [0.0, 0, 0]})["inside"]
    assert not answers.at_state({"state": [1e6, 0, 0]})["inside"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({}, "A state must be a list of 3 values"),
        ({"state": [0.0, 0]}, "A state must be a list of 3 values"),
        ({"state": ["1", 0, 0]}, "'price' must be a finite number, but it is '1'"),
        ({"state": [None, 0, 0]}, "'price' must be a finite number"),
        ({"state": [1e300, 0, 0]}, "'price' must be a finite number"),
        ({"state": [True, 0, 0]}, "'price' must be a finite number"),
        ({"state": [0.0, 4, 0]}, "must be the number of one of its 4 levels"),
        ({"state": [0.0, 0.5, 0]}, "must be the number of one of its 4 levels"),
        ({"state": [0.0, 0, 2]}, "'open' must be 0 or 1, but it is 2"),
        ({"state": [0.0, 0, 0], "along": 3}, "The column must be a whole number"),
        ({"state": [0.0, 0, 0], "along": -1}, "The column must be a whole number"),
        ({"state": [0.0, 0, 0], "quantity": "r"}, "`quantity` must be one of"),
    ],
)
def test_what_is_no_state_is_refused(question, message, answers):
    with pytest.raises(deeppqr.DataError, match=message):
        answers.at_state(question)


def test_a_changed_column_gives_the_averages_of_the_changed_states(answers, hostile_fit):
    question = {"kind": "state", "column": 0, "mode": "add", "value": 1.0}
    found = what_if(hostile_fit, answers.controls, question)
    states = hostile_fit.encoding.decode(hostile_fit.seen.state)
    changed = states.copy()
    changed[:, 0] += 1.0
    for when, at in (("before", states), ("after", changed)):
        shares = np.exp(hostile_fit.log_policy(at)).mean(axis=0)
        rows = [row for row in found["rows"] if row["quantity"] == "probability"]
        np.testing.assert_allclose([row[when] for row in rows], shares)
        rewards = [row[when] for row in found["rows"] if row["quantity"] == "reward"]
        np.testing.assert_allclose(rewards, hostile_fit.reward(at).mean(axis=0))
    assert found["title"] == "price + 1"


def test_a_category_is_set_by_its_level(answers, hostile_fit):
    question = {"kind": "state", "column": 1, "value": 1}
    found = what_if(hostile_fit, answers.controls, question)
    assert found["title"] == f"{HOSTILE} = =1+1"
    states = hostile_fit.encoding.decode(hostile_fit.seen.state)
    states[:, 1] = "=1+1"
    shares = np.exp(hostile_fit.log_policy(states)).mean(axis=0)
    after = [r["after"] for r in found["rows"] if r["quantity"] == "probability"]
    np.testing.assert_allclose(after, shares)


@pytest.mark.parametrize(
    ("question", "options"),
    [
        pytest.param(
            {"kind": "transfer", "action": 1, "amount": 0.5},
            {"transfer": 0.5},
            marks=pytest.mark.slow,
        ),
        ({"kind": "remove", "action": 1}, {"remove": None}),
        pytest.param(
            {"kind": "transfer", "action": 1, "amount": 0.5, "periods": 3},
            {"transfer": 0.5},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_changed_problem_is_the_librarys_counterfactual(
    question, options, answers, hostile_fit
):
    """Solved again by `fit.counterfactual`, from the states that the fit kept."""
    label = hostile_fit.actions[1]
    given: dict[str, Any] = (
        {"remove": [label]} if "remove" in options else {"transfer": {label: 0.5}}
    )
    states = hostile_fit.encoding.decode(hostile_fit.seen.state)
    expected: Any = hostile_fit.counterfactual(
        states=states, periods=question.get("periods"), **given
    )
    found = what_if(hostile_fit, answers.controls, question)
    np.testing.assert_allclose([row["change"] for row in found["rows"]], expected.changes)
    lows = [row["low"] for row in found["rows"]]
    np.testing.assert_allclose(lows, [each.low for each in expected.figures])
    assert expected.identification in found["notes"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"kind": "miracle"}, "`kind` must be one of"),
        ({"kind": "state", "column": 9, "value": 0}, "The column must be"),
        ({"kind": "state", "column": 1, "mode": "add", "value": 1}, "`mode` must be"),
        ({"kind": "state", "column": 0, "value": "x"}, "must be a finite number"),
        ({"kind": "transfer", "action": 7, "amount": 1}, "The action must be"),
        ({"kind": "transfer", "action": 0, "amount": None}, "The amount must be"),
        ({"kind": "remove", "action": 1.5}, "The action must be"),
        ({"kind": "remove", "action": 1, "periods": 0}, "The number of periods must be"),
        ({"kind": "remove", "action": 1, "periods": "2"}, "The number of periods must be"),
    ],
)
def test_what_is_no_scenario_is_refused(question, message, answers, hostile_fit):
    with pytest.raises(deeppqr.DataError, match=message):
        what_if(hostile_fit, answers.controls, question)


def test_few_values_are_visited_one_by_one(tabular):
    _, panel = tabular
    model = deeppqr.PQR(discount=0.9, anchor=0, policy="frequency", reward="table")
    answers = Answers.of(model.fit(panel), "run")
    (column,) = answers.about()["columns"]
    assert column["values"] == tuple(np.unique(panel.state))
    found = answers.at_state({"state": [3.0]})
    assert found["curve"]["x"] == list(column["values"])
    with pytest.raises(deeppqr.DeepPQRError):
        answers.at_state({"state": [3.5]})  # a table knows its own states only


def test_what_leaves_is_json_without_numbers_that_are_none():
    text = as_json({"a": [float("nan"), np.inf, np.float64(1.5)], "b": np.array([[True]])})
    assert json.loads(text) == {"a": [None, None, 1.5], "b": [[True]]}


def test_no_cell_is_a_formula(answers):
    found = answers.at_state({"state": [0.0, 1, 0]})
    rows = list(csv.reader(io.StringIO(found["csv"])))
    assert rows[0][:4] == ["price", HOSTILE, "open", "action"]
    cells = {cell for row in rows for cell in row}
    assert "'=cmd()" in cells
    assert "'=1+1" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]
    assert len(rows) == 1 + 3 * (1 + len(found["curve"]["x"]))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t="])
def test_formulas_are_quoted(start):
    assert as_csv(["n"], [[f"{start}1"]]).splitlines()[1].lstrip('"')[0] in ("'", " ")


def test_text_is_one_short_line_in_its_own_direction():
    assert shown("a\u202eb\x00c\nd") == "a\ufffdb\ufffdc d"
    assert len(shown("x" * 10_000)) == 200
    assert shown("عربي") == "عربي"

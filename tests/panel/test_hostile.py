"""Hostile and unlucky input: each is refused in words, with the culprit named."""

import datetime as dt
import gzip
import inspect
import os
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from deeppqr import PQR, ActionNeverTaken, DataError, DataWarning, Panel, mdp
from deeppqr.cli import main
from deeppqr.cli._fit import anchor_reward, find_label
from deeppqr.cli._main import _plain_warnings
from deeppqr.panel._file import read_file

ROWS = 40
NAMES = {"state": ["x"], "action": "a", "unit": "u", "time": "t"}
BIG = 2**53


def table(**changes):
    columns = {
        "u": np.repeat(np.arange(4), 10).tolist(),
        "t": np.tile(np.arange(10), 4).tolist(),
        "x": np.cos(np.arange(ROWS)).tolist(),
        "a": [0, 1, 1, 0, 1] * 8,
    }
    return {**columns, **changes}


def panel(roles=None, **changes):
    columns = {name: objects(values) for name, values in table(**changes).items()}
    return FROM_FRAME(Panel, pd.DataFrame(columns), **{**NAMES, **(roles or {})})


def objects(values):
    """As given: pandas would make one type of a list of several."""
    mixed = len({type(value) for value in values}) > 1 or not isinstance(
        values[0], (int, float, str, bool)
    )
    return pd.Series(values, dtype=object) if mixed else values


# The tests check annotations at every call, which would refuse these arguments before us.
FROM_FRAME = inspect.unwrap(Panel.from_frame.__func__)
FROM_FILE = inspect.unwrap(Panel.from_file.__func__)


def arrays(state=((0.0,), (1.0,)), action=(0, 1), next_state=((1.0,), (0.0,)), **more):
    return Panel.from_arrays(state, action, next_state, **more)


REFUSED = {
    "lists as a state": (lambda: panel(x=[[1, 2]] * ROWS), r"Column 'x' must hold single values, but row 0 has \[1, 2\] \(40 rows in all\)"),
    "lists as an action": (lambda: panel(a=[[1]] * ROWS), "`action` must hold single values"),
    "lists as a unit": (lambda: panel(u=[[1]] * ROWS), "`unit` must hold single values"),
    "dicts as a state": (lambda: panel(x=[{"a": 1}] * ROWS), "Column 'x' must hold single values"),
    "a set among categories": (lambda: panel(x=["u", "v"] * 19 + ["u", {1}]), r"but row 39 has \{1\} \(1 row in all\)"),
    "no state": (lambda: panel({"state": None}), '`state` must name columns, .* but None arrived. Write state="x"'),
    "a number as a state": (lambda: panel({"state": 3}), "`state` must name columns, one or a list of them, but 3 arrived"),
    "a dict as a state": (lambda: panel({"state": {"x": 1}}), "`state` must name columns"),
    "no action": (lambda: panel({"action": None}), '`action` must name columns by text, but None is NoneType. Name one column'),
    "a list as the action's name": (lambda: panel({"action": ["a"]}), '`action` must name columns by text, but .* is list. Name one column'),
    "a number as next state": (lambda: panel({"next_state": 7}), "`next_state` must name columns"),
    "an unknown category": (lambda: panel({"categorical": "y"}), "`categorical` must name state columns, but 'y' is none of"),
    "mixed actions": (lambda: panel(a=[1, "1"] * 20), r"`action` must hold labels of one type, but row 0 has 1 \(int\) and row 1 has '1' \(str\). Convert"),
    "mixed units": (lambda: panel(u=["1"] * 20 + [1] * 20, t=list(range(40))), r"`unit` must hold labels of one type, but row 0 has '1' \(str\) and row 20 has 1"),
    "mixed categories": (lambda: panel(x=["1", "k", 1, "l"] * 10), "State column 'x' must hold labels of one type"),
    "flags and numbers": (lambda: panel(a=[1, True, 0, 0] * 10), r"row 1 has True \(bool\)"),
    "actions that are quantities": (lambda: panel(a=table()["x"]), "`action` must name one of a few choices, but there are 40 different labels in 40 rows"),
    "actions as one text": (lambda: panel({"actions": "01"}), "`actions` must be a list of labels, but '01' arrived"),
    "actions as a number": (lambda: panel({"actions": 2}), "`actions` must be a list of labels, but 2 arrived"),
    "actions as lists": (lambda: panel({"actions": [[0], [1]]}), "`actions` must be a list of labels"),
    "actions with None": (lambda: panel({"actions": [0, 1, None]}), "`actions` must be a list of labels"),
    "no actions": (lambda: panel({"actions": []}), "`actions` must be a list of labels"),
    "long integers": (lambda: panel(x=[BIG + i for i in range(ROWS)]), r"'x' must not go beyond 2\^53 .* but row 1 has 9007199254740993 \(39 rows in all\). Subtract"),
    "long negative integers": (lambda: panel(x=[-BIG - i for i in range(ROWS)]), r"but row 1 has -9007199254740993"),
    "integers of 401 digits": (lambda: panel(x=[10**400, *range(39)]), r"but row 0 has 1000+\.\.\. \(1 row in all\)"),
    "a long whole decimal": (lambda: panel(x=[Decimal("1e200"), *range(39)]), "must be below 1e.150 in size, but row 0"),
    "huge floats": (lambda: panel(x=[1e200, *table()["x"][1:]]), r"'x' must be below 1e\+150 in size, but row 0 \(unit 0, time 0\) has 1e\+200"),
    "complex states": (lambda: panel(x=[1j] * ROWS), "'x' holds complex numbers"),
    "dates as objects": (lambda: panel(x=[dt.date(2020, 1, 1)] * ROWS), "'x' holds dates or times"),
    "months of pandas": (lambda: panel(x=list(pd.period_range("2020-01", periods=ROWS, freq="M"))), "'x' holds dates or times"),
    "endless times": (lambda: panel(t=[*map(float, range(9)), np.inf] * 4), r"`time` must be finite, but row 9 .* has inf \(4 rows"),
    "times of two types": (lambda: panel(t=[*range(9), dt.date(2020, 1, 1)] * 4), "`time` must be of one type, but holds date and int"),
    "times as bytes": (lambda: panel(t=[b"1"] * ROWS), "`time` must be a number or a date, but row 0"),
    "a gap among long times": (lambda: panel(t=[2**60 + i + (i > 4) for i in range(10)] * 4), "jumps from time 1152921504606846980 .* to 1152921504606846982"),
    "a weight's text in the last row": (lambda: panel({"weight": "w"}, w=["1"] * 39 + ["a"]), r"`weight` must hold numbers, but row 39 \(unit 3, time 9\) has 'a' \(1 row in all\)"),
    "dates as weights": (lambda: panel({"weight": "w"}, w=pd.to_datetime(["2020-01-01"] * ROWS)), "`weight` must hold numbers, but row 0"),
    "no weight somewhere": (lambda: panel({"weight": "w"}, w=[1.0] * 39 + [None]), "`weight` must be finite and not negative, but row 39 .* has nan"),
    "terminal as text": (lambda: panel({"terminal": "e"}, e=["false"] * ROWS), "`terminal` must be true or false .* but row 0 .* has 'false'"),
    "1,500 codes": (lambda: Panel.from_frame(pd.DataFrame({"k": [f"k{i}" for i in range(1_500)], "a": [0, 1] * 750}), state="k", action="a"), "At most 1,000 are supported.* As numbers they would count as quantities"),
    "codes as text": (lambda: panel(x=[f"0{i:04d}" for i in range(ROWS)]), r"look like codes, such as '00000': pass categorical=\[\"x\"\], or group them; as numbers they would count as quantities"),
    "no arrays": (lambda: Panel.from_arrays(None, [0, 1], None), "`state` must have one row per decision .* but None arrived"),
    "no actions in arrays": (lambda: arrays(action=None), "`action` must have one entry per row, but None arrived"),
    "rows of unequal lengths": (lambda: arrays(state=[[1, 2], [3]]), "must have rows of equal lengths"),
    "one unit for all": (lambda: arrays(unit=3), r"`unit` must have one entry per row, but its shape is \(\)"),
    "two columns of actions": (lambda: arrays(action=[[0, 1], [1, 0]]), r"`action` must have one entry per row, but its shape is \(2, 2\)"),
    "dates in arrays": (lambda: arrays(state=np.array(["2020-01-01", "2020-01-02"], "M8[D]")), r"holds dates or times \(datetime64"),
    "complex arrays": (lambda: arrays(state=np.ones((2, 1)) * 1j), "holds complex numbers"),
    "a seed of 10^20": (lambda: PQR(discount=0.9, anchor=0, seed=10**20), r"`seed` must be at most 4,294,967,295 \(32 bits\), but it is 100000000000000000000"),
    "an array as the anchor": (lambda: panel().action_index(np.array([0, 1])), r"`anchor` must be one of the actions \[0, 1\], but it is array"),
    "NA as the anchor": (lambda: panel().action_index(pd.NA), "`anchor` must be one of the actions .* but it is <NA>"),
    "states of 401 digits": (lambda: panel().encoding.encode_any([[10**400]]), r"must not go beyond 2\^53"),
    "lists at prediction": (lambda: panel().encoding.encode_any(pl.DataFrame({"x": [[1]]})), "Column 'x' must hold single values"),
    "ragged predictions": (lambda: panel().encoding.encode_any([[1], [1, 2]]), "must have rows of equal lengths"),
    "a path that is none": (lambda: FROM_FILE(Panel, None, **NAMES), "`path` must name a file, but None arrived"),
    "a path with a zero byte": (lambda: Panel.from_file("a\0.csv", **NAMES), "There is no file"),
    "a path of 300 characters": (lambda: Panel.from_file("a" * 300 + ".csv", **NAMES), "There is no file aaa"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_words(case):
    build, message = REFUSED[case]
    with pytest.raises(DataError, match=message) as refused:
        build()
    assert len(str(refused.value)) < 700


ACCEPTED = {
    "units from 2^64 on": (lambda: panel(u=[2**64 + i // 10 for i in range(ROWS)]), lambda p: p.unit_labels[0] == 2**64),
    "times of 128 bits": (lambda: panel(t=[2**100 + i for i in range(10)] * 4), lambda p: p.has_next.sum() == 36),
    "long times without a gap": (lambda: panel(t=[2**60 + i for i in range(10)] * 4), lambda p: p.has_next.sum() == 36),
    "weights of 1e308": (lambda: panel({"weight": "w"}, w=[1e308] * ROWS), lambda p: (p.weight == 1).all()),
    "weights of 1e-320": (lambda: panel({"weight": "w"}, w=[1e-320] * ROWS), lambda p: (p.weight == 1).all()),
    "numbers as categories": (lambda: panel({"categorical": ["x"]}, x=[3, 10, 2, 7] * 10), lambda p: p.encoding.columns[0].categories == (2, 3, 7, 10)),
    "floats as categories": (lambda: panel({"categorical": "x"}, x=[3.0, 10.0, 2.5, 7.0] * 10), lambda p: p.encoding.columns[0].categories == (2.5, 3.0, 7.0, 10.0)),
    "flags as categories": (lambda: panel({"categorical": "x"}, x=[True, False] * 20), lambda p: p.encoding.feature_names == ["x=True"]),
    "long integers as categories": (lambda: panel({"categorical": "x"}, x=[BIG, BIG + 1] * 20), lambda p: len(p.encoding.columns[0].categories) == 2),
    "anything after the end": (lambda: panel({"terminal": "e", "next_state": "n"}, e=[False] * 39 + [True], n=[*table()["x"][1:], np.inf]), lambda p: not p.has_next[-1]),
    "a reset's category after the end": (lambda: panel({"terminal": "e", "next_state": "n"}, x=["u", "v"] * 20, e=[False] * 39 + [True], n=["v", "u"] * 19 + ["v", "start"]), lambda p: not p.has_next[-1]),
    "a single column name": (lambda: arrays(state_names="load"), lambda p: p.encoding.names == ["load"]),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted_with_its_meaning(case):
    build, holds = ACCEPTED[case]
    assert holds(build())


HEADER = "u,t,x,a\n"
LINES = [f"{i // 10},{i % 10},{i}.5,{i % 2}" for i in range(ROWS)]


def changed(row, line):
    return HEADER + "\n".join([*LINES[:row], line, *LINES[row + 1 :]])


BAD_FILES = {
    "repeated header": ("u,t,x,a,x\n" + "\n".join(f"{line},7" for line in LINES), "must name each column once, but 'x' heads the columns 3, 5"),
    "a comment first": ("# from the till\n" + HEADER + "\n".join(LINES), r"line 1 is the comment '# from the till'.*comment_prefix=\"#\""),
    "a comment inside": (changed(5, "# holiday"), "line 7 has 1, the comment '# holiday'"),
    "decimal commas": (HEADER + "\n".join(line.replace(".", ",") for line in LINES), r"4 fields in each line.*line 2 has 5 \(40 lines in all\). Are there decimal commas"),
    "decimal commas in quotes": (HEADER + "\n".join(f'{i // 10},{i % 10},"{i},5",{i % 2}' for i in range(ROWS)), "text that looks like numbers with commas, such as '0,5' in row 0"),
    "a long line": (changed(3, "0,3,1.5,1,9"), r"line 5 has 5 \(1 line in all\)"),
    "a short line": (changed(3, "0,3,1.5"), r"line 5 has 3 \(1 line in all\)"),
    "an open quote": (changed(3, '0,3,"1.5,1'), "could not be read|fields in each line"),
    "zero bytes at the end": (HEADER + "\n".join(LINES) + "\0" * 9, "zero bytes"),
    "nothing": ("", "is empty. A CSV file begins with the columns' names"),
    "blanks alone": ("\n\n  \n", "is empty"),
    "a header alone": (HEADER, "The data have no rows"),
    "semicolons": (HEADER.replace(",", ";") + "\n".join(line.replace(",", ";") for line in LINES), "one column, named 'u;t;x;a'"),
    "blanks in the header": ("u, t, x, a\n" + "\n".join(LINES), "Did you mean ' x'"),
    "labels that merge": (HEADER + "\n".join(f"{i // 10},{i % 10},{i}.5,{('1.1', '1.10', '2')[i % 3]}" for i in range(ROWS)), r"Column 'a' .* holds labels, and '1.1' and '1.10' are the same number \(1 such number\).*polars.String"),
    "units that merge": (HEADER + "\n".join(f"{('001', '1')[i // 20]},{i},{i}.5,{i % 2}" for i in range(ROWS)), "Column 'u' .* holds labels, and '001' and '1' are the same number"),
    "a category with an empty cell": (HEADER + "\n".join(f"{i // 10},{i % 10},{'' if i == 7 else 'uv'[i % 2]},{i % 2}" for i in range(ROWS)), r"'x' must not be missing, but row 7 .* give what is missing a level of its own, such as 'none'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_FILES)
def test_files_are_refused_by_their_line(case, tmp_path):
    text, message = BAD_FILES[case]
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        Panel.from_file(tmp_path / "d.csv", **NAMES)


@pytest.mark.parametrize(("encoding", "message"), [("utf-16", "looks like UTF-16"), ("utf-16-le", "looks like UTF-16"), ("latin-1", 'could not be read: .*encoding="latin-1"')])  # fmt: skip
def test_other_encodings(encoding, message, tmp_path):
    (tmp_path / "d.csv").write_text(changed(0, "0,0,é,1"), encoding=encoding)
    with pytest.raises(DataError, match=message):
        Panel.from_file(tmp_path / "d.csv", **NAMES)


def test_what_is_no_file(tmp_path):
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(
        DataError, match=r"must be a file, but it is a folder.*polars.read_csv"
    ):
        Panel.from_file(tmp_path / "d.csv", **NAMES)
    os.mkfifo(tmp_path / "f.csv")
    with pytest.raises(DataError, match="must be a regular file, but it is a pipe"):
        Panel.from_file(tmp_path / "f.csv", **NAMES)


@pytest.mark.parametrize("write", ["byte order mark", "gzip", "blank lines", "trailing comma", "carriage returns", "quotes"])  # fmt: skip
def test_harmless_differences(write, tmp_path):
    path, text = tmp_path / "d.csv", HEADER + "\n".join(LINES)
    path.write_text(text)
    expected = Panel.from_file(path, **NAMES)
    if write == "gzip":
        path.write_bytes(gzip.compress(text.encode()))
    elif write == "byte order mark":
        path.write_text(text, encoding="utf-8-sig")
    elif write == "blank lines":
        path.write_text(text.replace("\n", "\n\n") + "\n\n")
    elif write == "trailing comma":
        path.write_text(text.replace("\n", ",\n") + ",")
    elif write == "carriage returns":
        path.write_bytes(text.replace("\n", "\r\n").encode())
    else:
        path.write_text(
            "\n".join(
                ",".join(f'"{v}"' for v in line.split(",")) for line in text.splitlines()
            )
        )
    found = Panel.from_file(path, **NAMES)
    np.testing.assert_array_equal(found.state, expected.state)
    np.testing.assert_array_equal(found.action, expected.action)


def test_codes_with_leading_zeros(tmp_path):
    (tmp_path / "d.csv").write_text(
        "u,t,zip5,a\n"
        + "\n".join(f"{i // 10},{i % 10},0{1000 + i % 5},{i % 2}" for i in range(ROWS))
    )
    names = {**NAMES, "state": ["zip5"]}
    with pytest.warns(
        DataWarning,
        match=r"numbers with a leading zero, such as '01000' \(40 rows in all\).*categorical=\[\"zip5\"\]",
    ):
        Panel.from_file(tmp_path / "d.csv", **names)
    coded = Panel.from_file(tmp_path / "d.csv", **names, categorical="zip5")
    assert len(coded.encoding.columns[0].categories) == 5


@pytest.mark.parametrize(
    ("actions", "typed", "expected"),
    [(("1.1", "1.10", "2"), "1.10", "1.10"), (("1.1", "1.10", "2"), "1.1", "1.1"), ((0, 1), "1.0", 1),
     ((2**53, 2**53 + 1), str(2**53 + 1), 2**53 + 1), ((0.0, 0.1), "0.1", 0.1), ((False, True), "True", True),
     (("none", "buy"), "none", "none"), ((Decimal("1.0"), Decimal("2.0")), "1", Decimal("1.0"))],
)  # fmt: skip
def test_an_anchor_is_the_one_that_was_typed(actions, typed, expected):
    assert find_label(actions, typed) == expected


@pytest.mark.parametrize("typed", ["1.100", "01", "one", "", "nan"])
def test_an_anchor_that_is_none_of_the_actions(typed):
    with pytest.raises(
        DataError, match=r"--anchor must be one of the actions \['1', '1.10'\], but it is"
    ):
        find_label(("1", "1.10"), typed)


def test_a_number_that_is_also_a_column():
    assert anchor_reward(None, ["2020"]) == 0.0
    assert anchor_reward("2021", ["2020"]) == 2021.0
    assert anchor_reward("cost", ["cost"]) == "cost"
    assert anchor_reward("+2020", ["2020"]) == 2020.0
    with pytest.raises(
        DataError,
        match=r"--anchor-reward 2020 is a number and a state column. Write \+2020 for the number, or rename",
    ):
        anchor_reward("2020", ["2020", "x"])
    with pytest.raises(DataError, match="Write -1e0 for the number"):
        anchor_reward("-1", ["-1"])


def test_predictions_read_files_with_the_same_care(tmp_path):
    (tmp_path / "d.csv").write_text("x,x\n1,2\n")
    with pytest.raises(DataError, match="must name each column once"):
        read_file(tmp_path / "d.csv")


def spoil(states):
    """Write into what was given."""
    states[:] = np.nan if states.dtype == float else None


def test_functions_of_the_user_get_copies():
    """What they write into their argument is theirs: panel and fit stay as they are."""
    rng = np.random.default_rng(0)
    whole = panel(x=rng.integers(0, 3, ROWS).astype(float).tolist())
    before = whole.state.copy()

    def known(states):
        value = states[:, 0].copy()
        spoil(states)
        return value

    def step(states, action):
        found = states.copy()
        spoil(states)
        return found

    def log_policy(states):
        found = np.full((len(states), 2), np.log(0.5))
        spoil(states)
        return found

    stages: dict = {"policy": "frequency", "anchor_value": "linear", "reward": "table"}
    clean = PQR(discount=0.5, anchor=0, anchor_reward=lambda s: s[:, 0], **stages).fit(
        whole
    )
    fit = PQR(discount=0.5, anchor=0, anchor_reward=known, **stages).fit(whole)
    states = np.arange(3.0)[:, None]
    np.testing.assert_array_equal(fit.reward(states), clean.reward(states))
    fit.counterfactual(whole, lambda s: (known(s), s * 0 + 1.0)[0][:, None] * 0 + 1.0)
    PQR(discount=0.5, anchor=0, policy=log_policy, transition=mdp.Law(step)).fit(whole)
    np.testing.assert_array_equal(whole.state, before)
    np.testing.assert_array_equal(states, np.arange(3.0)[:, None])


def coded_firms(tmp_path):
    """A file whose state column is named like an identifier."""
    rng = np.random.default_rng(0)
    columns = {
        "u": np.repeat(np.arange(20), 20),
        "t": np.tile(np.arange(20), 20),
        "store_id": rng.integers(0, 12, 400),
        "a": rng.integers(0, 2, 400),
    }
    pl.DataFrame(columns).write_csv(tmp_path / "d.csv")
    run = ["fit", str(tmp_path / "d.csv"), "--state", "store_id", "--action", "a"]
    run += ["--unit", "u", "--time", "t", "--anchor", "0", "--discount", "0.5"]
    return [*run, "--policy", "logit", "--anchor-value", "linear", "--reward", "linear"]


def test_the_command_warns_in_sentences(tmp_path, capsys):
    run = coded_firms(tmp_path)
    usual = warnings.formatwarning
    with pytest.warns(DataWarning, match="'store_id' is named like an") as caught:
        assert main([*run, "--out", str(tmp_path / "a")]) == 0
    with _plain_warnings():
        text = warnings.formatwarning(caught[0].message, DataWarning, "file.py", 1)
    assert text.startswith("deeppqr: warning: State column 'store_id'")
    assert warnings.formatwarning is usual
    capsys.readouterr()
    assert main([*run, "--out", str(tmp_path / "b"), "--categorical", "store_id"]) == 0
    assert capsys.readouterr().err == ""


def test_an_action_that_ends_the_process_unmarked():
    rng = np.random.default_rng(0)
    length = rng.integers(2, 9, 60)
    unit = np.repeat(np.arange(60), length)
    last = np.append(np.diff(unit) != 0, True)
    columns = {"x": rng.normal(size=len(unit)), "u": unit, "a": np.where(last, "exit", rng.choice(["wait", "grow"], len(unit))), "end": last}  # fmt: skip
    stages: dict = {"policy": "logit", "anchor_value": "linear", "reward": "linear"}
    model = PQR(discount=0.9, anchor="wait", **stages)
    names = {"state": "x", "action": "a", "unit": "u"}
    with pytest.raises(
        ActionNeverTaken,
        match=r"'exit' is taken in 60 rows,.*If the process ends with the action, mark these rows as terminal.*terminal=\"ended\"",
    ):
        model.fit(Panel.from_frame(pl.DataFrame(columns), **names))
    model.fit(Panel.from_frame(pl.DataFrame(columns), **names, terminal="end"))

"""A saved fit is the same fit; a folder that is not one is refused; no code runs."""

import hashlib
import json
import os

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

import deeppqr
from deeppqr import Panel, StorageError
from deeppqr.anchor import Fitted
from deeppqr.policy import Boosted, Network, Training
from deeppqr.reward import Network as RewardNetwork

SMALL = Training(width=8, depth=1, members=2, max_steps=20, check_every=20)
COMBINATIONS = {
    "tabular": {},
    "logit-linear": {"policy": "logit", "anchor_value": "linear", "reward": "linear"},
    "neighbours": {"anchor_value": "averager"},
    "networks": {
        "policy": Network(SMALL),
        "anchor_value": Fitted(training=SMALL, max_rounds=2),
        "reward": RewardNetwork(SMALL),
    },
    "scikit-learn": {
        "policy": LogisticRegression(),
        "anchor_value": Ridge(),
        "reward": Ridge(),
    },
    "boosted": {"policy": Boosted(members=2, max_iter=20)},
    "clipped": {"clip": 0.1},
}


@pytest.fixture
def folder(tmp_path, tabular):
    """A saved tabular fit."""
    _, panel = tabular
    return (
        deeppqr.PQR(discount=0.9, anchor=0, reward="regression")
        .fit(panel)
        .save(tmp_path / "fit")
    )


@pytest.mark.filterwarnings("ignore::deeppqr.NotConvergedWarning")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "networks" else name
        for name in COMBINATIONS
    ],
)
def test_round_trip(name, tabular, tmp_path):
    world, panel = tabular
    panel = panel.select(panel.unit < 10)
    fit = deeppqr.PQR(discount=0.9, anchor=0, **COMBINATIONS[name]).fit(panel)
    fit.save(tmp_path / "fit")
    again = deeppqr.load(tmp_path / "fit")
    for function in ("reward", "q", "value", "log_policy"):
        first, second = (getattr(f, function)(world.states) for f in (fit, again))
        np.testing.assert_array_equal(first, second)
        assert getattr(again, function)(world.states[:0]).shape == (0, *first.shape[1:])
    assert again.summary() == fit.summary()
    assert again.provenance == fit.provenance
    assert again.actions == fit.actions


def test_categories_survive(tmp_path, rng):
    frame = {
        "k": rng.choice(["a", "b", "c"], 60),
        "x": rng.normal(size=60),
        "y": [0, 1] * 30,
    }
    import polars as pl

    table = pl.DataFrame(frame)
    panel = Panel.from_frame(table, state=["k", "x"], action="y")
    fit = deeppqr.PQR(discount=0.5, anchor=0, policy="logit", reward="regression").fit(
        panel
    )
    again = deeppqr.load(fit.save(tmp_path / "fit"))
    np.testing.assert_array_equal(again.reward(table), fit.reward(table))


def test_function_anchors_are_asked_for_again(tabular, tmp_path, anchor_reward):
    world, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=anchor_reward, reward="regression"
    ).fit(panel)
    fit.save(tmp_path / "fit")
    with pytest.raises(
        StorageError, match=r"Pass it again: deeppqr.load\(folder, anchor_reward"
    ):
        deeppqr.load(tmp_path / "fit")
    again = deeppqr.load(tmp_path / "fit", anchor_reward=anchor_reward)
    np.testing.assert_array_equal(again.reward(world.states), fit.reward(world.states))


def test_what_is_not_a_function_is_refused(tabular, tmp_path, anchor_reward):
    _, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, anchor_reward=anchor_reward, reward="regression"
    ).fit(panel)
    fit.save(tmp_path / "fit")
    with pytest.raises(StorageError, match="`anchor_reward` must be the function"):
        deeppqr.load(tmp_path / "fit", anchor_reward="x0")


def test_a_function_that_is_not_needed_is_refused(folder):
    with pytest.raises(
        StorageError, match="was not made with a function for `anchor_reward`"
    ):
        deeppqr.load(folder, anchor_reward=lambda s: s)


def test_nothing_is_overwritten(folder, tabular):
    _, panel = tabular
    with pytest.raises(StorageError, match="exists already, and nothing is overwritten"):
        deeppqr.PQR(discount=0.9, anchor=0).fit(panel).save(folder)


def test_unsafe_parts_are_refused_and_leave_nothing(tabular, tmp_path):
    _, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, policy=DecisionTreeClassifier(), reward="regression"
    ).fit(panel)
    with pytest.raises(
        StorageError, match="DecisionTreeClassifier cannot be stored safely"
    ):
        fit.save(tmp_path / "fit")
    assert list(tmp_path.iterdir()) == []


def test_labels_that_json_cannot_hold(tmp_path, tabular):
    _, panel = tabular
    labels = np.empty(3, dtype=object)
    labels[:] = [("stay", 1), ("go", 2), ("go", 3)]
    odd = Panel.from_arrays(
        panel.state, labels[panel.action], panel.next_state, unit=panel.unit
    )
    fit = deeppqr.PQR(discount=0.9, anchor=("stay", 1), reward="regression").fit(odd)
    assert fit.anchor == ("stay", 1)
    saved = deeppqr.load(fit.save(tmp_path / "fit"))
    assert saved.actions == fit.actions
    labels[:] = [frozenset("a"), frozenset("b"), frozenset("c")]
    odd = Panel.from_arrays(
        panel.state, labels[panel.action], panel.next_state, unit=panel.unit
    )
    fit = deeppqr.PQR(discount=0.9, anchor=frozenset("a"), reward="regression").fit(odd)
    with pytest.raises(
        StorageError, match="Labels and categories must be text, numbers or"
    ):
        fit.save(tmp_path / "other")


def edit(folder, **changes):
    """Change model.json with its checksum, as someone would who means harm."""
    path = folder / "model.json"
    header = {**json.loads(path.read_text()), **changes}
    del header["checksum"]
    text = json.dumps(header, sort_keys=True, separators=(",", ":"))
    header["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(header))


def test_foreign_and_damaged_folders(folder, tmp_path):
    with pytest.raises(StorageError, match="There is no folder"):
        deeppqr.load(tmp_path / "nowhere")
    (tmp_path / "d.csv").write_text("a,b")
    with pytest.raises(StorageError, match=r"d\.csv is a file, and a saved fit is a fold"):
        deeppqr.load(tmp_path / "d.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match="is not a saved fit: it has no model.json"):
        deeppqr.load(tmp_path / "empty")
    (tmp_path / "empty" / "model.json").write_text('{"format": "other"}')
    with pytest.raises(StorageError, match="was not written by deeppqr"):
        deeppqr.load(tmp_path / "empty")
    (tmp_path / "empty" / "model.json").write_text("{")
    with pytest.raises(StorageError, match=r"model\.json is damaged"):
        deeppqr.load(tmp_path / "empty")
    edit(folder, version=99)
    with pytest.raises(StorageError, match="has format version 99, and this deeppqr"):
        deeppqr.load(folder)


def test_damaged_arrays(folder):
    data = bytearray((folder / "arrays.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "arrays.safetensors").write_bytes(bytes(data))
    with pytest.raises(StorageError, match=r"arrays\.safetensors is damaged: its checksum"):
        deeppqr.load(folder)
    (folder / "arrays.safetensors").unlink()
    with pytest.raises(StorageError, match="lacks arrays.safetensors"):
        deeppqr.load(folder)


def test_a_changed_tree_is_not_read(folder):
    """A number changed by hand gives no other rewards; another layout is the same fit."""
    path = folder / "model.json"
    whole = path.read_text()
    path.write_text(json.dumps(json.loads(whole), sort_keys=True))
    deeppqr.load(folder)
    assert "0.9" in whole
    for damaged in (whole.replace("0.9", "0.5", 1), whole.replace('"checksum"', '"c"')):
        path.write_text(damaged)
        with pytest.raises(StorageError, match=r"changed by hand.*Copy or save the fit ag"):
            deeppqr.load(folder)
    path.write_text(whole[:-10])
    with pytest.raises(StorageError, match=r"is no JSON .*Copy or save the fit again"):
        deeppqr.load(folder)


def test_files_may_be_read_as_the_umask_says(tmp_path, tabular):
    _, panel = tabular
    model = deeppqr.PQR(discount=0.9, anchor=0, policy="logit", reward="linear")
    before = os.umask(0o027)
    try:
        folder = model.fit(panel).save(tmp_path / "fit")
    finally:
        os.umask(before)
    assert {oct(file.stat().st_mode & 0o777) for file in folder.iterdir()} == {"0o640"}


def test_paths_and_classes_from_the_file_are_not_trusted(folder):
    header = json.loads((folder / "model.json").read_text())
    edit(folder, sha256={"../../etc/passwd": "0"})
    with pytest.raises(StorageError, match="names a file '../../etc/passwd'; refused"):
        deeppqr.load(folder)
    edit(folder, sha256=header["sha256"], fit={"class": "Popen", "fields": {"args": "ls"}})
    with pytest.raises(StorageError, match="names the class 'Popen', which no fit"):
        deeppqr.load(folder)
    edit(folder, fit={"skops": "../part0.skops"})
    with pytest.raises(
        StorageError, match="names a part '../part0.skops' without a checksum"
    ):
        deeppqr.load(folder)


def test_another_scikit_learn_warns(tabular, tmp_path):
    _, panel = tabular
    fit = deeppqr.PQR(
        discount=0.9, anchor=0, policy=LogisticRegression(), reward="regression"
    ).fit(panel)
    edit(fit.save(tmp_path / "fit"), **{"scikit-learn": "0.1"})
    with pytest.warns(
        UserWarning, match=r"written with scikit-learn 0\.1 and is read with"
    ):
        deeppqr.load(tmp_path / "fit")

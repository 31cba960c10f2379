"""What is wrong in a saved fit is found when it is read, and said in one sentence."""

import json
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.linear_model import LogisticRegression, Ridge

import deeppqr
from deeppqr import StorageError
from deeppqr._untrusted import check_archive, read_json
from fuzzing import places, replace, reseal


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saved fits: of tables, of a logit with linear rewards, with scikit-learn's parts."""
    world = deeppqr.worlds.random_tabular(5, 3, seed=1)
    panel = world.simulate(steps=500, units=10)
    home = tmp_path_factory.mktemp("saved")
    stages = {
        "table": {"policy": "frequency", "reward": "table"},
        "linear": {"policy": "logit", "anchor_value": "linear", "reward": "linear"},
        "sklearn": {"policy": LogisticRegression(), "reward": Ridge()},
    }
    for name, chosen in stages.items():
        deeppqr.PQR(discount=0.9, anchor=0, **chosen).fit(panel).save(home / name)
    return home


@pytest.fixture
def copied(saved, tmp_path):
    def copy(name):
        shutil.copytree(saved / name, tmp_path / name)
        return tmp_path / name

    return copy


def change(folder, path, value):
    """Change the tree, and the checksum with it."""
    header = json.loads((folder / "model.json").read_text())
    replace(header, path, value)
    reseal(folder, header)


def change_array(folder, name, make):
    arrays = load_file(folder / "arrays.safetensors")
    arrays[name] = np.ascontiguousarray(make(arrays[name]))
    save_file(arrays, folder / "arrays.safetensors")
    reseal(folder, json.loads((folder / "model.json").read_text()))


ESTIMATE = ("fit", "fields", "estimate", "fields")
POLICY = (*ESTIMATE, "policy", "fields")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((*ESTIMATE, "anchor"), 7, "the anchor is action 7 of 3 actions"),
        ((*ESTIMATE, "anchor"), -1, "the anchor is action -1 of 3 actions"),
        (
            (*ESTIMATE, "anchor"),
            True,
            "'anchor' of AnchoredValue must be int, but it is True",
        ),
        ((*ESTIMATE, "anchor"), 10**12, "the anchor is action 1000000000000 of 3"),
        ((*ESTIMATE, "discount"), "0.9", "'discount' of AnchoredValue must be float, but"),
        ((*ESTIMATE, "discount"), 1.5, r"`discount` must lie in \[0, 1\), but it is 1.5"),
        (
            (*ESTIMATE, "discount"),
            0.5,
            r"reward_function.*discount is 0.9, and the fit's is 0.5",
        ),
        ((*ESTIMATE, "temperature"), {"float": "nan"}, "`temperature` must be positive"),
        (
            (*ESTIMATE, "temperature"),
            {"float": "x"},
            "temperature is {'float': 'x'}, which is no",
        ),
        (
            (*ESTIMATE, "policy"),
            "logit",
            "'policy' of AnchoredValue must be AbstractPolicy",
        ),
        ((*ESTIMATE, "policy"), None, "must be AbstractPolicy, but it is a NoneType"),
        (
            (*ESTIMATE, "policy"),
            {"array": "x"},
            "asks for the array 'x', which is not there",
        ),
        (
            (*ESTIMATE, "policy"),
            {"function": 3},
            "policy is {'function': 3}, which is no value",
        ),
        (
            (*ESTIMATE, "policy"),
            {"class": "LogitPolicy"},
            r"fit\.estimate\.policy has no fields",
        ),
        ((*ESTIMATE, "other"), 1, r"fit\.estimate: AnchoredValue has no 'other'"),
        ((*POLICY, "coefficient"), [1, 2], r"coefficient is \[1, 2\], which is no value"),
        (
            (*POLICY, "degree"),
            None,
            "'degree' of LogitPolicy must be int, but it is a NoneType",
        ),
        (
            ("fit", "fields", "actions"),
            {"tuple": [0, 1]},
            r"shape \(500, 3\) where \(500, 2\) is ex",
        ),
        (
            ("fit", "fields", "actions"),
            [0, 1, 2],
            r"fit\.actions is \[0, 1, 2\], which is no",
        ),
        (("fit", "fields"), {}, "the 'estimate' of Fit is missing"),
        (("fit", "fields"), "x", "fit has no fields"),
        (("fit",), 3, "holds no fit, but a int"),
        (("fit",), {"class": ["Fit"]}, "fit is {'class': .*}, which is no value of a fit"),
        (("fit",), {}, "fit is {}, which is no value of a fit"),
        (("sha256",), ["x"], '"sha256" is no table of checksums'),
        (("sha256",), {}, r'"sha256" does not name arrays\.safetensors'),
        (("sha256", "arrays.safetensors"), 5, '"sha256" is no table of checksums'),
        (("scikit-learn",), 1.5, 'or not the version of "scikit-learn"'),
        (("version",), "5", "has format version 5, and this deeppqr"),
        (("version",), [5], r"has format version \[5\], and this deeppqr"),
    ],
)
def test_a_changed_tree_is_refused_when_it_is_read(path, value, message, copied):
    folder = copied("linear")
    header = json.loads((folder / "model.json").read_text())
    replace(header, path, value)
    digests = header["sha256"]
    header["sha256"] = {} if digests is value else digests
    reseal(folder, {**header, "sha256": digests} if digests is not value else header)
    if path[0] == "sha256":  # resealing has put the right ones in their place
        from deeppqr._storage import sealed

        replace(header, path, value)
        (folder / "model.json").write_text(json.dumps(sealed(header)))
    with pytest.raises(StorageError, match=message):
        deeppqr.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NaN", "it holds NaN, which is no number of JSON"),
        ("Infinity", "it holds Infinity, which is no number"),
        ("1e999", "it holds 1e999, which is no number"),
        ("9" * 5_000, "it holds a whole number of 5000 digits"),
        ("[" * 100_000, "its lists are nested too deeply"),
        ("[" * 700 + "]" * 700, "changed by hand"),
        ("nul", "it is no JSON"),
    ],
    ids=["NaN", "infinity", "1e999", "digits", "deep", "rather deep", "cut"],
)
def test_what_is_no_standard_json(text, message, copied):
    path = copied("table") / "model.json"
    whole = path.read_text()
    path.write_text(whole.replace('"discount": 0.9', f'"discount": {text}', 1))
    with pytest.raises(StorageError, match=f"{message}.*Copy or save the fit again"):
        deeppqr.load(path.parent)


def test_a_tree_that_is_nested_too_deeply(copied):
    folder, deep = copied("table"), 1
    for _ in range(200):
        deep = {"tuple": [deep]}
    change(folder, ("fit", "fields", "actions"), deep)
    with pytest.raises(
        StorageError, match="nested too deeply|prediction has shape|num_actions is 3"
    ):
        deeppqr.load(folder)


def test_text_that_is_no_unicode(copied):
    folder = copied("table")
    (folder / "model.json").write_bytes(b'{"format": "\xff"}')
    with pytest.raises(StorageError, match="byte 12 is no text in UTF-8"):
        deeppqr.load(folder)


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("fit.estimate.policy.table", lambda a: a[:, :2], "action'.*but it is"),
        ("fit.estimate.policy.table", lambda a: a[:2], "'table' has 2 rows for 5 cells"),
        ("fit.estimate.policy.table", lambda a: a.ravel(), "must be Float.*with shape"),
        (
            "fit.estimate.policy.table",
            lambda a: a.astype(int),
            "an array of int64 with shape",
        ),
        (
            "fit.reward_function.policy_part.continuation",
            lambda a: a[:3],
            "'continuation' has 3 rows for 5 cells",
        ),
        ("fit.seen.state", lambda a: a[:0], r"must be|not \(rows"),
        ("fit.seen.state", lambda a: a * np.nan, "must hold finite states"),
        ("fit.seen.scale", lambda a: 0 * a, "positive scales"),
    ],
)
def test_arrays_of_the_wrong_shape(name, make, message, copied):
    folder = copied("table")
    assert name in load_file(folder / "arrays.safetensors")
    change_array(folder, name, make)
    with pytest.raises(StorageError, match=message):
        deeppqr.load(folder)


def test_every_field_of_a_fit_is_checked(copied):
    """Text in place of any part of the fit is found, wherever it stands.

    Only notes are texts themselves, and categories and labels may be.
    """
    folder = copied("table")
    header = json.loads((folder / "model.json").read_text())
    taken = []
    for path in list(places(header["fit"])):
        changed = json.loads(json.dumps(header))
        replace(changed["fit"], path, "text")
        reseal(folder, changed)
        try:
            deeppqr.load(folder)
        except StorageError:
            continue
        taken.append(path)
    notes = {"stages", "provenance", "name", "meaning", "actions"}
    assert [path for path in taken if not notes & set(path)] == []


def bomb(path, size):
    """An archive of a few kilobytes that holds an array of `size` zeros."""
    header = {"descr": "<f8", "fortran_order": False, "shape": (size // 8,)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("1.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for _ in range(size // 2**20):
                file.write(bytes(2**20))
        archive.writestr("schema.json", json.dumps({"file": "1.npy"}))


def test_a_compressed_bomb_is_not_inflated(copied):
    folder = copied("sklearn")
    bomb(folder / "part0.skops", 2**28)
    assert (folder / "part0.skops").stat().st_size < 2**19
    reseal(folder, json.loads((folder / "model.json").read_text()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        StorageError, match=r"part0\.skops was refused: 1\.npy in it is comp"
    ):
        deeppqr.load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**15  # 32 MB


def rewritten(path, **changes):
    """The archive with some entries changed or added, uncompressed as skops writes it."""
    with zipfile.ZipFile(path) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**inside, **changes}.items():
            archive.writestr(name, data)


def test_what_an_archive_claims_is_checked(saved, tmp_path):
    part = tmp_path / "part.skops"

    def refused(message):
        with pytest.raises(ValueError, match=message):
            check_archive(part)
        shutil.copy(saved / "sklearn/part0.skops", part)

    shutil.copy(saved / "sklearn/part0.skops", part)
    check_archive(part)
    import io

    claim = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(claim, shape)
    rewritten(part, **{"0.npy": claim.getvalue()})
    refused(r"0\.npy in it claims 8,000,000,000,000 bytes and has 128")
    rewritten(part, **{"odd.bin": claim.getvalue()})
    refused(r"odd\.bin in it claims 8,000,000,000,000 bytes")
    bomb(tmp_path / "inner", 2**24)
    rewritten(part, **{"0.npz": (tmp_path / "inner").read_bytes()})
    refused(r"what is in it would take 16,777,\d+ bytes or more")
    again = {"content": [{"file": "0.npy"}] * 1_000}
    data = io.BytesIO()
    np.save(data, np.zeros(1_000))
    rewritten(part, **{"0.npy": data.getvalue(), "schema.json": json.dumps(again)})
    refused(r"it asks for 8,128,000 bytes of arrays, but the file has")
    part.write_bytes(b"PK")
    refused("it is no archive that can be read")


def test_a_tree_of_unreasonable_size(tmp_path, monkeypatch):
    monkeypatch.setattr("deeppqr._untrusted.MAX_JSON", 10)
    (tmp_path / "a.json").write_text("[1, 2, 3, 4]")
    with pytest.raises(ValueError, match="it has 12 bytes, and at most 10 are read"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("name", ["model.json", "arrays.safetensors"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "device"])
def test_what_is_no_file(name, kind, copied):
    folder = copied("table")
    (folder / name).unlink()
    if kind == "folder":
        (folder / name).mkdir()
    elif kind == "pipe":
        import os

        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("nowhere" if kind == "link" else "/dev/zero")
    with pytest.raises(StorageError, match="it has no model.json|lacks arrays.safetensors"):
        deeppqr.load(folder)


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("n" * 300, "There is no folder nnn"),
        ("a/" + "n" * 300 + "/b", "There is no folder b in"),
        ("table/model.json/x", "There is no folder x in"),
        ("a\0b", r"`folder` must be a path, such as .*, but it is 'a\\x00b'"),
        ("", "`folder` must be a path, such as .*, but it is ''"),
    ],
)
def test_folders_that_cannot_be(folder, message, saved, monkeypatch):
    monkeypatch.chdir(saved)
    with pytest.raises(StorageError, match=message):
        deeppqr.load(folder)


def test_a_part_that_describes_nothing(copied):
    folder = copied("sklearn")
    rewritten(folder / "part0.skops", **{"schema.json": "[]"})
    reseal(folder, json.loads((folder / "model.json").read_text()))
    with pytest.raises(
        StorageError, match=r"was refused: schema\.json in it is no descript"
    ):
        deeppqr.load(folder)


def test_a_model_cannot_be_smuggled_in(copied):
    """What a fit was made with is not stored: refitting would run it."""
    folder = copied("linear")
    change(folder, ("fit", "fields", "model"), "x")
    with pytest.raises(StorageError, match="fit: Fit has no 'model'"):
        deeppqr.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["models", "panels", "studies"])
def test_damaged_at_random(kind):
    """A minute of damage, always the same: one sentence, or the same numbers."""
    script = Path(__file__).parent / "fuzzing.py"
    words = [sys.executable, str(script), kind, "--seconds", "60", "--rounds", "4000"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout[-5_000:] + run.stderr[-5_000:]

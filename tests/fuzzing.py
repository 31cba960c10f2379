"""Damages what deeppqr reads from disk, and checks what becomes of it.

Outside pytest, whose hook that checks annotations would catch what a user's Python does
not: `python tests/fuzzing.py KIND --seed 0 --seconds 60`. Every reading must end in the
same numbers or in an error of ours that is a sentence; other numbers are allowed only where
somebody changed the contents together with their checksums. Exits with 1 otherwise.
"""

import argparse
import collections
import hashlib
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from pathlib import Path
from types import MappingProxyType

import numpy as np
import polars as pl
from safetensors.numpy import load_file, save_file
from sklearn.linear_model import LogisticRegression, Ridge

import deeppqr
import deeppqr_studies
from deeppqr._storage import sealed

MEMORY = 2**31  # bytes that a reading may add: many times what the files of the test need
STATES = np.arange(5.0)[:, None]
ODD = [
    *(None, True, False, -1, 0, 1, 2, 10**6, 10**12, 2**62, 0.5, -1e308, 1e308),
    *("", "x", "fit", [], {}, [[]], {"float": "nan"}, {"float": "x"}, {"float": "inf"}),
    *({"tuple": []}, {"tuple": [1, "x"]}, {"dict": {}}, {"array": "nowhere"}, {"array": 3}),
    *({"class": "Fit", "fields": {}}, {"class": "Popen", "fields": {"args": "ls"}}),
    *({"skops": "part0.skops"}, {"skops": "../x"}, {"function": "policy"}, {"odd": 1}),
]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=100_000)
    arguments = parser.parse_args()
    random_ = random.Random(arguments.seed)
    outcomes, wrong = collections.Counter(), []
    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = KINDS[arguments.kind](Path(home))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        end = time.monotonic() + arguments.seconds
        for number in range(arguments.rounds):
            if time.monotonic() > end:
                break
            what, outcome = one_round(case, random_, Path(home) / "copy")
            outcomes[outcome.split(":")[0]] += 1
            if outcome.startswith("WRONG"):
                wrong.append(f"round {number}: {what}: {outcome}")
    print(dict(outcomes), *wrong, sep="\n")
    return 1 if wrong else 0


def one_round(case, random_: random.Random, copy: Path) -> tuple[str, str]:
    """What was done to a copy, and what came of reading it."""
    shutil.rmtree(copy, ignore_errors=True)
    base = random_.choice(sorted(case.bases))
    shutil.copytree(case.bases[base], copy)
    damage = random_.choice([*DAMAGES, *case.damages])
    if damage in getattr(case, "spared", {}).get(base, ()):
        return base, "skipped"
    try:
        what = f"{base}: {damage(copy, random_)}"
    except IndexError:  # nothing of the kind is there to be damaged
        return base, "skipped"
    begun = time.monotonic()
    try:
        found = case.read(copy, base)
    except deeppqr.DeepPQRError as problem:
        text = str(problem)
        good = len(text) > 30 and "Traceback" not in text
        return what, "refused" if good else f"WRONG: unclear: {text}"
    # Everything else is what must not happen, panics of other libraries included.
    except BaseException:
        return what, f"WRONG: {traceback.format_exc(limit=-4)}"
    if time.monotonic() - begun > 20:
        return what, "WRONG: it took more than 20 seconds"
    if found == case.expected[base]:
        return what, "same"
    allowed = damage in case.may_differ
    return what, "other" if allowed else "WRONG: other numbers without a word"


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flip_bits(folder: Path, random_) -> str:
    file = random_.choice([each for each in files(folder) if each.stat().st_size])
    data = bytearray(file.read_bytes())
    for _ in range(random_.choice([1, 1, 1, 8])):
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    file.write_bytes(bytes(data))
    return f"bits flipped in {file.name}"


def cut_short(folder: Path, random_) -> str:
    file = random_.choice(files(folder))
    size = random_.randrange(file.stat().st_size + 1)
    os.truncate(file, size)
    return f"{file.name} cut to {size}"


def append(folder: Path, random_) -> str:
    file = random_.choice(files(folder))
    with file.open("ab") as end:
        end.write(random_.randbytes(random_.choice([1, 100])))
    return f"bytes added to {file.name}"


def delete(folder: Path, random_) -> str:
    file = random_.choice(files(folder))
    file.unlink()
    return f"{file.name} deleted"


def link(folder: Path, random_) -> str:
    file = random_.choice(files(folder))
    target = random_.choice(["nowhere", "/dev/null", "/dev/zero", str(folder), file.name])
    file.unlink()
    file.symlink_to(target)
    return f"{file.name} linked to {target}"


def pipe(folder: Path, random_) -> str:
    file = random_.choice(files(folder))
    file.unlink()
    os.mkfifo(file)
    return f"{file.name} made a pipe"


def exchange(folder: Path, random_) -> str:
    one, other = random_.choice(files(folder)), random_.choice(files(folder))
    data = other.read_bytes()
    one.write_bytes(data)
    return f"{one.name} filled with {other.name}"


DAMAGES = [flip_bits, cut_short, append, delete, link, pipe, exchange]


def places(tree, path=()):
    """Where the values of a JSON tree stand."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def replace(tree, path, value) -> None:
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


def reseal(folder: Path, header: dict) -> None:
    """Write a header with checksums that are right, as somebody would who means harm."""
    for name in header["sha256"] if isinstance(header.get("sha256"), dict) else ():
        if (folder / str(name)).is_file():
            data = (folder / name).read_bytes()
            header["sha256"][name] = hashlib.sha256(data).hexdigest()
    (folder / "model.json").write_text(json.dumps(sealed(header)))


def swap_value(folder: Path, random_) -> str:
    header = json.loads((folder / "model.json").read_text())
    path = random_.choice(list(places(header)))
    value = random_.choice(ODD)
    replace(header, path, value)
    reseal(folder, header)
    return f"{path} is {value!r}, resealed"


def swap_values(folder: Path, random_) -> str:
    """Two parts of a tree change places."""
    header = json.loads((folder / "model.json").read_text())
    one, other = random_.choices(list(places(header["fit"])), k=2)
    values = []
    for path in (one, other):
        node = header["fit"]
        for key in path:
            node = node[key]
        values.append(json.loads(json.dumps(node)))
    replace(header["fit"], one, values[1])
    reseal(folder, header)
    return f"{one} is that of {other}, resealed"


def swap_array(folder: Path, random_) -> str:
    file = folder / "arrays.safetensors"
    arrays = load_file(file)
    name = random_.choice(sorted(arrays))
    array = arrays[name]
    changes = {
        "flat": lambda: array.reshape(-1),
        "empty": lambda: array[:0],
        "longer": lambda: np.concatenate([array, array]) if array.ndim else array,
        "deeper": lambda: array[None],
        "float32": lambda: array.astype(np.float32),
        "integer": lambda: np.zeros(array.shape, np.int64),
        "NaN": lambda: np.full(array.shape, np.nan),
        "large": lambda: np.full(array.shape, 2**40).astype(array.dtype),
        "negative": lambda: np.full(array.shape, -7).astype(array.dtype),
    }
    change = random_.choice(sorted(changes))
    arrays[name] = np.ascontiguousarray(changes[change]())
    save_file(arrays, file)
    reseal(folder, json.loads((folder / "model.json").read_text()))
    return f"{name} {change}, resealed"


def not_json(folder: Path, random_) -> str:
    file = random_.choice([each for each in files(folder) if each.suffix == ".json"])
    text = file.read_text()
    odd = random_.choice(["NaN", "Infinity", "1e999", "9" * 5000, "[" * 100_000, "-"])
    numbers = [i for i, sign in enumerate(text) if sign == ":"]
    place = random_.choice(numbers) + 1
    file.write_text(f"{text[:place]} {odd}, {text[place:]}")
    return f"{odd[:10]} in {file.name}"


def damage_part(folder: Path, random_) -> str:
    """A scikit-learn part is changed, with its checksum."""
    part = random_.choice(sorted(folder.glob("*.skops")))
    how = random_.choice(["bits", "compressed", "schema"])
    if how == "bits":
        data = bytearray(part.read_bytes())
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        part.write_bytes(bytes(data))
    else:
        with zipfile.ZipFile(part) as archive:
            inside = {name: archive.read(name) for name in archive.namelist()}
        if how == "schema":
            schema = json.loads(inside["schema.json"])
            replace(schema, random_.choice(list(places(schema))), random_.choice(ODD))
            inside["schema.json"] = json.dumps(schema).encode()
        kind = zipfile.ZIP_DEFLATED if how == "compressed" else zipfile.ZIP_STORED
        with zipfile.ZipFile(part, "w", kind) as archive:
            for name, data in inside.items():
                archive.writestr(name, data)
    reseal(folder, json.loads((folder / "model.json").read_text()))
    return f"{part.name}: {how}, resealed"


class Models:
    """Saved fits of several kinds."""

    damages = (swap_value, swap_value, swap_values, swap_array, not_json, damage_part)
    may_differ = (swap_value, swap_values, swap_array, damage_part)

    def __init__(self, home: Path):
        world = deeppqr.worlds.random_tabular(5, 3, seed=1)
        panel = world.simulate(steps=1_000, units=20)
        stages = {
            "table": {"policy": "frequency", "reward": "table"},
            "linear": {"policy": "logit", "anchor_value": "linear", "reward": "linear"},
            "averager": {"policy": "logit", "anchor_value": "averager", "reward": "linear"},
            "joint": {},
            "boosted": {"policy": deeppqr.policy.Boosted(members=1, max_iter=5)},
            "scikit-learn": {
                "policy": LogisticRegression(),
                "anchor_value": Ridge(),
                "reward": Ridge(),
            },
        }
        self.bases, self.expected = {}, {}
        for name, chosen in stages.items():
            fit = deeppqr.PQR(discount=0.9, anchor=0, **chosen).fit(panel)
            self.bases[name] = fit.save(home / name)
            self.expected[name] = self.read(home / name, name)

    def read(self, folder: Path, base: str) -> str:
        fit = deeppqr.load(folder)
        return f"{fit.predict(STATES).to_dicts()} {fit.reward(STATES)} {fit.actions}"


def swap_cell(folder: Path, random_) -> str:
    file = random_.choice(sorted(folder.glob("*.csv")))
    lines = [line.split(",") for line in file.read_text().splitlines()]
    row = random_.choice(lines)
    column = random_.randrange(len(row))
    odd = ["", "x", "NaN", "1e400", "-1", '"', "a,b", "9" * 18, "1,5", "\x00", "é", "#"]
    row[column] = random_.choice(odd)
    file.write_text("\n".join(map(",".join, lines)))
    return f"a cell of column {column} is {row[column]!r}"


class Panels:
    """Tables of decisions, which have no checksum: other numbers may be read from them."""

    damages = (swap_cell, swap_cell)
    # Polars ends the whole process on about one in ten thousand such files: it asks for
    # more memory than there is.
    spared = MappingProxyType({"parquet": (flip_bits,)})
    may_differ = (*DAMAGES, swap_cell)

    def __init__(self, home: Path):
        world = deeppqr.worlds.random_tabular(5, 3, seed=1)
        frame = world.simulate(steps=200, units=10).to_frame()
        self.bases, self.expected = {}, {}
        for name in ("csv", "parquet"):
            self.bases[name] = home / name
            self.bases[name].mkdir()
            getattr(frame, f"write_{name}")(self.bases[name] / f"d.{name}")
            self.expected[name] = self.read(self.bases[name], name)

    def read(self, folder: Path, base: str) -> str:
        panel = deeppqr.Panel.from_file(
            folder / f"d.{base}", state=["s"], action="action", unit="unit", time="time"
        )
        return f"{panel.state.tolist()} {panel.action.tolist()}"


class Squares(deeppqr_studies.Study):
    """A study that takes no time."""

    name = "squares"
    title = "squares of numbers"

    def tasks(self, settings):
        return [deeppqr_studies.Task(f"n={n}", {"n": n}) for n in settings["seeds"]]

    def run(self, task):
        return [{"n": task.parameters["n"], "square": task.parameters["n"] ** 2}]

    def report(self, frame, folder):
        (folder / "summary.md").write_text("# Squares\n")
        return f"The squares add up to {frame['square'].sum()}."


def swap_record(folder: Path, random_) -> str:
    file = random_.choice(sorted(folder.rglob("*.json")))
    values = json.loads(file.read_text())
    path = random_.choice(list(places(values)))
    # Without its checksum a record is one of an earlier version, and believed.
    if path == ("checksum",):
        raise IndexError
    before = json.dumps(values)
    replace(values, path, random_.choice([odd for odd in ODD if odd != {}]))
    if json.dumps(values) == before:
        raise IndexError
    file.write_text(json.dumps(values))
    return f"{path} changed in {file.name}"


class Studies:
    """Folders of studies that have run, and are run again."""

    damages = (swap_record, swap_record, not_json)
    may_differ = ()

    def __init__(self, home: Path):
        self.bases = {"squares": home / "squares"}
        self.expected = {"squares": self.read(home / "squares", "squares")}

    def read(self, folder: Path, base: str) -> bytes:
        deeppqr_studies.run_study(Squares(), folder, {"seeds": [1, 2, 3]})
        return (folder / "table.csv").read_bytes()


KINDS = {"models": Models, "panels": Panels, "studies": Studies}

if __name__ == "__main__":
    pl.Config.set_tbl_rows(5)
    sys.exit(main())

"""What counts as other code: all that results come from, and nothing of the report."""

import importlib
import sys
from typing import Any

import pytest

from deeppqr_studies import STUDIES, find_study
from deeppqr_studies._digest import (
    CodeVersion,
    code_version,
    list_differences,
    results_source,
    study_digest,
)

STUDY = """
from deeppqr_studies import Study, Task

from . import middle
from .captions import CAPTION
from .middle import TABLE


class Example(Study):
    name, title = "example", "an example"

    def tasks(self, settings):
        return [Task("one", {"seed": 1})]

    def run(self, task):
        return self.rows(task.parameters["seed"])

    def rows(self, seed):
        return [{"square": middle.square(seed), "other": TABLE["other"](seed)}]

    def report(self, frame, folder):
        return CAPTION + legend()


def legend():
    return "a legend"
"""
MIDDLE = """
import math
from .far import POWER


def square(number):
    # A comment.
    from .far import helper

    return helper(number**POWER)


def cube(number):
    return number**3


def unused(number):
    return number


TABLE = {}
TABLE["other"] = cube
"""
FAR = """
POWER = 2


def helper(number):
    "A docstring."
    return number
"""
CAPTIONS = """
CAPTION = "a caption"
"""
FILES = {"study": STUDY, "middle": MIDDLE, "far": FAR, "captions": CAPTIONS}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a study; returns a function that edits it and computes its digest."""
    folder = tmp_path / "example_studies"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    study = importlib.import_module("example_studies.study").Example

    def digest(module="study", old="", new=""):
        assert old in FILES[module]
        (folder / f"{module}.py").write_text(FILES[module].replace(old, new))
        try:
            return study_digest(study)
        finally:
            (folder / f"{module}.py").write_text(FILES[module])

    yield digest
    for name in [name for name in sys.modules if name.startswith("example_studies")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("captions", "a caption", "another caption"),
        ("study", "CAPTION + legend()", "legend() + CAPTION"),
        ("study", "a legend", "another legend"),
        ("study", "an example", "a better title"),
        ("middle", "# A comment.", "# Another comment."),
        ("far", "A docstring.", "Another docstring."),
        (
            "middle",
            "def unused(number):\n    return number",
            "def unused(n):\n    return 0",
        ),
    ],
)
def test_what_results_do_not_depend_on_leaves_the_digest(package, module, old, new):
    assert package(module, old, new) == package()


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("study", '{"seed": 1}', '{"seed": 2}'),
        ("study", "middle.square(seed)", "middle.square(seed + 1)"),
        ("middle", "number**POWER", "number**POWER + 1"),
        ("middle", "number**3", "number**4"),
        ("middle", "= cube", "= square"),
        ("far", "    return number", "    return -number"),
        ("far", "POWER = 2", "POWER = 4"),
    ],
)
def test_what_results_depend_on_changes_the_digest(package, module, old, new):
    assert package(module, old, new) != package()


def test_a_study_without_a_file_has_the_digest_of_deeppqr():
    """As in an interactive session."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("class Typed:\n    def run(self, task): return []", space)
    assert results_source(space["Typed"]) == []
    assert len(study_digest(space["Typed"])) == 12


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_followed_to_its_fits_and_not_to_its_figures(name):
    source = "\n".join(results_source(type(find_study(name))))
    assert "deeppqr" in source
    for words in ("def report(", "def open_figure(", "class Claims", "NOTES =", "ABOUT ="):
        assert words not in source


def test_all_methods_count_where_a_study_chooses_among_them():
    source = "\n".join(results_source(type(find_study("reward-recovery"))))
    for name in ("def maxent(", "def fit_paper(", "def make_problem(", "MAX_SCORED ="):
        assert name in source
    assert "DESCRIPTIONS" not in source


def test_differences_between_runs_are_listed():
    one = CodeVersion({"deeppqr": "1", "jax": "0.1"}, "abc")
    assert list_differences([]) == list_differences([one, one]) == []
    unknown = CodeVersion({"deeppqr": "1"}, "")
    assert list_differences([one, unknown]) == []
    edited = CodeVersion(one.versions, "def")
    message = "files of deeppqr or of the study abc and def"
    assert list_differences([one, edited]) == [message]
    newer = CodeVersion({"deeppqr": "2", "jax": "0.2"}, "def")
    assert list_differences([one, newer]) == ["deeppqr 1 and 2", "jax 0.1 and 0.2"]


def test_studies_have_digests_of_their_own():
    digests = {code_version(study).digest for study in STUDIES.values()}
    assert len(digests) == len(STUDIES)

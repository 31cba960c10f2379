"""The studies use deeppqr as anybody can: by its public names alone."""

import ast
from operator import attrgetter
from pathlib import Path

import pytest

import deeppqr
import deeppqr_studies

HOME = Path(str(deeppqr_studies.__file__)).parent
FILES = sorted(HOME.rglob("*.py"))


def used_names(text):
    """Every name of deeppqr in a file, imported or reached from the package, with dots."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(dotted(node))
    return {name for name in found if name.split(".")[0] == "deeppqr"}


def dotted(node):
    """`a.b.c` as it is written, and nothing for an attribute of something computed."""
    if isinstance(node, ast.Name):
        return node.id
    before = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if before else ""


def private(names):
    return sorted(name for name in names if any(p.startswith("_") for p in name.split(".")))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(HOME)))
def test_only_public_names_of_deeppqr_are_used(file):
    names = used_names(file.read_text(encoding="utf-8"))
    assert private(names) == []
    for name in names - {"deeppqr"}:
        attrgetter(name.removeprefix("deeppqr."))(deeppqr)  # it exists


@pytest.mark.parametrize(
    "line",
    [
        "from deeppqr._errors import DataError",
        "import deeppqr._pqr",
        "from deeppqr.datasets._airline import link",
        "from deeppqr.inference import _bands",
        "import deeppqr; deeppqr._pqr.PQR",
    ],
)
def test_private_names_are_found(line):
    assert private(used_names(line))

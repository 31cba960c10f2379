"""Every example in the documentation runs and prints what the page says."""

import ast
import importlib.util
import re
from importlib import import_module
from pathlib import Path

import pytest

from doc_examples import PAGES, ROOT, differences

REFERENCE = [page for page in PAGES if page.parent.name == "reference"]
HOUSE = ROOT / "benchmarks/house.py"
CODE = re.compile(r"^```py(?:thon)?\n(.*?)^```$", re.M | re.S)
# `::: path`, and the names in `members: [...]` of its options where it has them.
ENTRY = re.compile(r"^::: (\S+)\n((?: {4}.*\n)*)", re.M)
# Pages whose examples take more than five seconds, most of it compiling for one fit each.
LONG = {
    "docs/baselines.md",
    "docs/continuous-actions.md",
    "docs/reference/estimation.md",
    "docs/weekly.md",
}
MEMBERS = re.compile(r"members: \[(.*?)\]", re.S)


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page_id(page) in LONG else page
        for page in PAGES
    ],
    ids=page_id,
)
def test_examples_print_what_is_shown(page):
    assert differences(page.read_text(encoding="utf-8")) == []


@pytest.mark.skipif(
    not HOUSE.exists(), reason="benchmarks/ is in the repository, not in the sdist"
)
def test_reference_has_an_example_of_every_public_name():
    used = set().union(*(used_names(page.read_text("utf-8")) for page in REFERENCE))
    assert [name for name in public_names() if f"deeppqr.{name}" not in used] == []


@pytest.mark.skipif(
    not HOUSE.exists(), reason="benchmarks/ is in the repository, not in the sdist"
)
def test_reference_documents_every_public_name():
    listed = set().union(*(documented(page.read_text("utf-8")) for page in REFERENCE))
    names = {f"deeppqr.{name}" for name in public_names() if name != "cli.main"}
    assert sorted(names - listed) == []


@pytest.mark.parametrize("page", REFERENCE, ids=page_id)
def test_reference_lists_only_names_that_exist(page):
    for name in documented(page.read_text("utf-8")):
        room, _, last = name.rpartition(".")
        assert not last.startswith("_")
        assert hasattr(import_module(room), last), name


def public_names() -> list[str]:
    spec = importlib.util.spec_from_file_location("house", HOUSE)
    assert spec is not None
    assert spec.loader is not None
    house = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(house)
    return house.exported(ROOT / "src/deeppqr")


def documented(text: str) -> set[str]:
    """Full names that a page has a mkdocstrings entry for."""
    found = set()
    for path, options in ENTRY.findall(text):
        members = MEMBERS.search(options)
        if members is None:
            found.add(path)
        else:
            found |= {f"{path}.{name.strip()}" for name in members[1].split(",")}
    return found


def used_names(text: str) -> set[str]:
    """Full names that a page's code uses; an import alone is no use."""
    imported: dict[str, str] = {}
    used = set()
    for block in CODE.findall(text):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                imported |= {
                    a.asname or a.name: f"{node.module}.{a.name}" for a in node.names
                }
            elif isinstance(node, (ast.Name, ast.Attribute)):
                first, dot, rest = ast.unparse(node).partition(".")
                used.add((first, dot + rest))
    return {imported.get(first, first) + rest for first, rest in used}

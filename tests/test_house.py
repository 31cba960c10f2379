"""The house rules that can be counted: sizes, exported names, who imports whom, start-up."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "deeppqr"
sys.path.insert(0, str(ROOT / "benchmarks"))

import house  # noqa: E402  # pyright: ignore[reportMissingImports]

ORDER = (
    *(
        "_errors",
        "_shapes",
        "_stored",
        "_messages",
        "_random",
        "_files",
        "_untrusted",
        "_stage_names",
    ),
    *("progress", "provenance", "metrics", "report"),
    *(
        "actions",
        "panel",
        "learners",
        "mdp",
        "worlds",
        "datasets",
        "policy",
        "law",
        "anchor",
    ),
    *(
        "_exact",
        "_exact_density",
        "reward",
        "_uncertainty",
        "continuous",
        "baselines",
        "_paper",
        "diagnostics",
        "prediction",
        "_fit",
        "_pqr",
        "_storage",
    ),
    *(
        "cluster",
        "inference",
        "counterfactual",
        "plots",
        "page",
        "explore",
        "cli",
        "__main__",
    ),
)
"""What may be imported when a module is loaded: names to the left of its own."""


@pytest.fixture(scope="module")
def sizes():
    return house.measure(PACKAGE)


@pytest.mark.parametrize(
    ("figure", "limit"),
    [
        ("lines", 43_500),
        ("exported names", 150),
        ("imports in functions", 120),
        ("largest folder", 20),
        ("longest file", 460),
    ],
)
def test_sizes_stay_within_their_limits(sizes, figure, limit):
    assert sizes[figure] <= limit


def test_imports_point_one_way():
    """Imports inside functions and for type checkers only may point back."""
    wrong = [
        f"{file.relative_to(PACKAGE)} imports {room}"
        for file in PACKAGE.rglob("*.py")
        for room in imported_rooms(file)
        if file.parent != PACKAGE or file.name != "__init__.py"
        if ORDER.index(room) > ORDER.index(room_of(file))
    ]
    assert wrong == []


def room_of(file: Path) -> str:
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(file: Path) -> set[str]:
    """Rooms and top-level files of the package that a file imports when it is loaded."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    later = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for inner in ast.walk(node)
    }
    depth, found = len(file.relative_to(PACKAGE).parts), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == depth and node not in later:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {name.split(".")[0] for name in names}
    return found


LIGHT = """
import sys
{code}
loaded = {{name.split(".")[0] for name in sys.modules}}
inside = {{".".join(name.split(".")[:2]) for name in sys.modules}}
heavy = loaded & {{"jax", "numpy", "polars", "sklearn", "ray", "deeppqr_studies"}}
assert not heavy, heavy
assert not inside & {{"deeppqr.cluster", "deeppqr.inference", "deeppqr.policy"}}, inside
"""


@pytest.mark.parametrize(
    "code",
    [
        "import deeppqr",
        "from deeppqr.cli import main\ntry:\n    main(['fit', '--help'])\nexcept SystemExit:\n    pass",
    ],
    ids=["import deeppqr", "deeppqr fit --help"],
)
def test_starting_loads_nothing_heavy(code):
    subprocess.run([sys.executable, "-c", LIGHT.format(code=code)], check=True)


LATER = """
import sys
import deeppqr
deeppqr.PQR
assert not [name for name in sys.modules if name.startswith("deeppqr.cluster")]
import deeppqr.inference, deeppqr.mdp
assert not {"formulaic", "gymnasium", "minari"} & set(sys.modules)
"""


def test_what_is_used_seldom_is_loaded_late():
    """A fit starts no process supervisor, formulas and environments are for who uses them."""
    subprocess.run([sys.executable, "-c", LATER], check=True)


def test_the_names_for_type_checkers_are_the_names():
    """`__init__` says its names twice: for itself and for editors."""
    source = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    seen = {
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    import deeppqr

    assert seen == {*deeppqr._LAZY, *deeppqr._ROOMS}
    assert all(hasattr(deeppqr, name) for name in dir(deeppqr))

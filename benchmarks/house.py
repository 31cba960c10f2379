"""Sizes of a source tree, counted the same way for every package.

    python benchmarks/house.py src/deeppqr studies/deeppqr_studies [OTHER/PACKAGE ...]

Lines are all lines of Python files. A comment line holds a `#` comment, alone or behind
code. Exported names are those that a package's `__init__` files import from within it and
that do not start with an underscore. Imports inside functions are `import` statements
anywhere below a `def`.
"""

import ast
import io
import statistics
import sys
import tokenize
from pathlib import Path


def measure(root: Path) -> dict[str, float]:
    """The figures of one package."""
    files = sorted(root.rglob("*.py"))
    sources = {file: file.read_text(encoding="utf-8") for file in files}
    lines = {file: source.count("\n") for file, source in sources.items()}
    total = sum(lines.values())
    folders = [sum(1 for _ in folder.glob("*.py")) for folder in [root, *root.rglob("*/")]]
    return {
        "files": len(files),
        "lines": total,
        "median file": statistics.median(n for n in lines.values() if n > 1),
        "longest file": max(lines.values()),
        "largest folder": max(folders),
        "comment lines %": 100 * sum(map(comment_lines, sources.values())) / total,
        "imports in functions": sum(map(inner_imports, sources.values())),
        "exported names": len(exported(root)),
    }


def comment_lines(source: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


def inner_imports(source: str) -> int:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {
        inner
        for node in ast.walk(ast.parse(source))
        if isinstance(node, functions)
        for inner in ast.walk(node)
        if isinstance(inner, (ast.Import, ast.ImportFrom))
    }
    return len(found)


def exported(root: Path) -> list[str]:
    """`room.name` of every public name; names of the package itself have no room."""
    found = set()
    for init in sorted(root.rglob("__init__.py")):
        room = ".".join(init.parent.relative_to(root).parts)
        if any(part.startswith("_") for part in room.split(".")):
            continue
        for node in ast.walk(ast.parse(init.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (
                node.level or str(node.module).split(".")[0] == root.name
            ):
                names = (alias.asname or alias.name for alias in node.names)
                inner = {path.stem for path in init.parent.iterdir()}
                found |= {
                    f"{room}.{name}".lstrip(".")
                    for name in names
                    if not name.startswith("_") and name not in inner
                }
    for module in root.glob("[a-z]*.py"):  # public modules: what they define
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            name = getattr(node, "name", "_")
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and name[0] != "_":
                found.add(f"{module.stem}.{name}")
    return sorted(found)


if __name__ == "__main__":
    measured = {root: measure(Path(root)) for root in sys.argv[1:]}
    width = max(map(len, measured)) + 2
    print(" " * width + "".join(f"{name:>22}" for name in next(iter(measured.values()))))
    for root, figures in measured.items():
        print(f"{root:<{width}}" + "".join(f"{value:>22.4g}" for value in figures.values()))

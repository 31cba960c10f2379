"""Which code a study's results depend on: versions, and a digest of the source.

The digest covers deeppqr's own files and, of the studies, what the methods `tasks` and
`run` reach: the functions, classes and constants that they name, and what these name in
turn, across modules. Comments, docstrings and whatever only `report` reaches do not
count, so that a new caption does not make finished tasks look like those of other code.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import TYPE_CHECKING

from deeppqr import provenance

if TYPE_CHECKING:
    from ._study import Study

RESULTS = ("tasks", "run")
"""The methods of a study that its results come from."""


@dataclass(frozen=True)
class CodeVersion:
    """The code that a task ran under."""

    versions: dict[str, str]
    """Of Python, deeppqr and the packages that its numbers depend on."""
    digest: str
    """Of the source of deeppqr and of the study, which changes between releases."""


def code_version(study: Study) -> CodeVersion:
    """The code that a study would run under in this process."""
    return CodeVersion(provenance.versions(), _cached_digest(type(study)))


def list_differences(installations: Iterable[CodeVersion]) -> list[str]:
    """What is not the same in all of them, as in "jax 0.10.0 and 0.10.1".

    An empty or missing version is unknown and counts as no difference.
    """
    found = list(installations)
    names = dict.fromkeys(name for each in found for name in each.versions)
    values = {name: _distinct(each.versions.get(name) for each in found) for name in names}
    differences = [
        f"{name} {' and '.join(each)}" for name, each in values.items() if len(each) > 1
    ]
    digests = _distinct(each.digest for each in found)
    # Another release has other files: that is said already.
    if len(digests) > 1 and len(values.get("deeppqr", [])) < 2:
        differences.append(f"files of deeppqr or of the study {' and '.join(digests)}")
    return differences


def _distinct(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


@lru_cache(maxsize=64)
def _cached_digest(study: type) -> str:
    return study_digest(study)


def study_digest(study: type) -> str:
    """A digest of deeppqr's files and of the source behind a study's `tasks` and `run`."""
    text = "\n".join([provenance.code_digest(), *results_source(study)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def results_source(study: type) -> list[str]:
    """The source that a study's `tasks` and `run` reach, normalised and sorted.

    Modules are read from their files. A class without one, as in an interactive session,
    has no source, and its digest is that of deeppqr alone.
    """
    packages = {__name__.partition(".")[0], study.__module__.partition(".")[0]}
    source = _Source(frozenset(packages))
    for name in RESULTS:
        source.add_method(study, name)
    return sorted(source.texts)


@dataclass(frozen=True)
class _Module:
    """A parsed module: its definitions by name, and what its names are imported from."""

    name: str
    package: str
    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str | None]]


@dataclass
class _Source:
    """The definitions that were reached so far, in the modules of some packages."""

    packages: frozenset[str]
    texts: set[str] = field(default_factory=set)
    _modules: dict[str, _Module | None] = field(default_factory=dict)
    _reached: set[tuple[str, str]] = field(default_factory=set)

    def add_method(self, study: type, name: str) -> None:
        """Add a method of a study, as it or the first base that has it defines it."""
        for kind in study.__mro__:
            module = self._module(kind.__module__)
            found = module and _members(module, kind.__name__).get(name)
            if module and found:
                if (kind.__module__, f"{kind.__name__}.{name}") not in self._reached:
                    self._reached.add((kind.__module__, f"{kind.__name__}.{name}"))
                    self._add(module, found, study)
                return

    def _add(self, module: _Module, node: ast.stmt, study: type | None = None) -> None:
        """Add a definition's text, and all that it names."""
        self.texts.add(ast.unparse(_WithoutDocstrings().visit(deepcopy(node))))
        names = {**module.imports, **_imports([node], module.package)}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                self._reach(module, names, inner.id)
            elif isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                if study is not None and inner.value.id in ("self", "cls"):
                    self.add_method(study, inner.attr)
                elif inner.value.id in names:
                    self._reach_imported(*names[inner.value.id], inner.attr)

    def _reach(self, module: _Module, names, name: str) -> None:
        if name in module.definitions:
            if (module.name, name) not in self._reached:
                self._reached.add((module.name, name))
                for node in module.definitions[name]:
                    self._add(module, node)
        elif name in names:
            self._reach_imported(*names[name])

    def _reach_imported(self, module: str, name: str | None, attribute: str | None = None):
        """Follow `from module import name`, where `name` may be a module itself."""
        if name is not None and self._module(f"{module}.{name}") is not None:
            module, name = f"{module}.{name}", None
        name = name or attribute
        found = self._module(module)
        if found is None:
            # Another package's: which one is part of the code, its source is not ours.
            self.texts.add(f"from {module} import {name}" if name else f"import {module}")
        elif name is not None:
            self._reach(found, found.imports, name)

    def _module(self, name: str) -> _Module | None:
        """A module of these packages; None if it is another's or has no file."""
        if name.partition(".")[0] not in self.packages:
            return None
        if name not in self._modules:
            self._modules[name] = _parse(name)
        return self._modules[name]


def _parse(name: str) -> _Module | None:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    is_package = spec.submodule_search_locations is not None
    package = name if is_package else name.rpartition(".")[0]
    definitions = defaultdict(list)
    for node in tree.body:
        for defined in _defined_names(node):
            definitions[defined].append(node)
    return _Module(name, package, dict(definitions), _imports(tree.body, package))


def _defined_names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement at module level defines or changes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    for target in filter(None, targets):
        # In `TABLE["x"] = f` and `a, b = 1, 2` the names are further down.
        yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _imports(body: Iterable[ast.stmt], package: str) -> dict[str, tuple[str, str | None]]:
    """By name: the module, and what of it, that imports anywhere in these bind it to."""
    found: dict[str, tuple[str, str | None]] = {}
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or whole] = (whole, None)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                module = resolve_name("." * node.level + module, package)
            for alias in node.names:
                found[alias.asname or alias.name] = (module, alias.name)
    return found


def _members(module: _Module, name: str) -> dict[str, ast.stmt]:
    """The statements in a class's body, by what they define."""
    for node in module.definitions.get(name, []):
        if isinstance(node, ast.ClassDef):
            return {each: inner for inner in node.body for each in _defined_names(inner)}
    return {}


class _WithoutDocstrings(ast.NodeTransformer):
    """Removes strings that stand alone, and imports of ours, which are followed instead."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        alone = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if alone else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.level else node

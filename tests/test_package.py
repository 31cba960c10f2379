"""The package can be published: it builds, twine agrees, and its metadata are consistent."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks/package.py"


def metadata(path):
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]


def test_versions_agree():
    """The studies, the citation and the package are published together."""
    yaml = pytest.importorskip("yaml")
    version = metadata("pyproject.toml")["version"]
    assert metadata("studies/pyproject.toml")["version"] == version
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == version
    assert cited["license"] == metadata("pyproject.toml")["license"]
    paper = cited["preferred-citation"]
    bib = (ROOT / "docs/references.bib").read_text(encoding="utf-8")
    assert paper["title"].replace("PQR", "{PQR}") in bib
    for author in paper["authors"]:
        assert f"{author['family-names']}, {author['given-names']}" in bib


@pytest.mark.slow
def test_it_builds_and_twine_agrees(tmp_path):
    for module in ("build", "twine", "hatchling"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}: pip install '.[dev]'")
    spec = importlib.util.spec_from_file_location("package", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    made = package.build(tmp_path / "dist")
    package.check(made)
    version = metadata("pyproject.toml")["version"]
    assert {path.name for path in made} == {
        f"deeppqr-{version}-py3-none-any.whl",
        f"deeppqr-{version}.tar.gz",
    }

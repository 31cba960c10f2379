"""Versions and a digest of the code, recorded with results."""

import hashlib
import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# Packages whose version can change the digits of a result.
PACKAGES = ("deeppqr", "jax", "jaxlib", "numpy", "scipy", "scikit-learn")
# Folders left out of the digest: they print and draw results, and compute none.
PRESENTATION = ("cli", "report")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of Python, of deeppqr and of the packages that its numbers depend on."""
    return {
        **{name: _version(name) for name in PACKAGES},
        "Python": platform.python_version(),
    }


@lru_cache(maxsize=1)
def code_digest() -> str:
    """A digest of deeppqr's source files, without those of `PRESENTATION`.

    The version number stays the same while the code is being worked on; this does not.
    """
    home = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(home.rglob("*.py")):
        place = file.relative_to(home)
        if place.parts[0] not in PRESENTATION:
            # With the path, so that moving a file changes the digest too.
            digest.update(str(place).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"

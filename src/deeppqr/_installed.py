"""What results depend on besides data and settings: the code that computes them."""

import hashlib
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("deeppqr", "jax", "jaxlib", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Installed:
    """Versions by package, and a digest of deeppqr's files, which change between them."""

    versions: dict[str, str]
    digest: str

    def differences(self, other: "Installed") -> list[str]:
        """What `other` has where this one has something else."""
        found = [
            f"{name} {other.versions.get(name)} where this one has {mine}"
            for name, mine in self.versions.items()
            if other.versions.get(name) != mine
        ]
        if not found and other.digest != self.digest:
            found.append(
                f"other files of deeppqr {self.versions['deeppqr']} ({other.digest} and "
                f"not {self.digest})"
            )
        return found


def mixture(installations: Iterable[Installed]) -> list[str]:
    """What is not the same in all of them, as in "jax 0.10.0 and 0.10.1".

    What an installation does not tell, it does not differ in.
    """
    found = list(installations)
    names = dict.fromkeys(name for each in found for name in each.versions)
    values = {name: _distinct(each.versions.get(name) for each in found) for name in names}
    mixed = [
        f"{name} {' and '.join(each)}" for name, each in values.items() if len(each) > 1
    ]
    digests = _distinct(each.digest for each in found)
    if len(digests) > 1 and len(values.get("deeppqr", [])) < 2:
        mixed.append(f"deeppqr's files {' and '.join(digests)}")
    return mixed


def _distinct(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


@lru_cache(maxsize=1)
def installed() -> Installed:
    """What this process has."""
    versions = {name: _version(name) for name in PACKAGES}
    return Installed({**versions, "Python": platform.python_version()}, _digest())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _digest() -> str:
    """Of the names and contents of the package's files of Python."""
    home = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(home.rglob("*.py")):
        digest.update(str(file.relative_to(home)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]

"""What results depend on besides their items: the code that computes them."""

import hashlib
import platform
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
    home = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for file in sorted(home.rglob("*.py")):
        digest.update(str(file.relative_to(home)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]

"""Public files: found in a local folder or downloaded once, their checksums verified."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from .._errors import DataError

# Names a folder whose files are taken instead of a download.
VARIABLE = "DEEPPQR_DATA"


@dataclass(frozen=True)
class Source:
    """A published file: where it is, and what its bytes must be."""

    folder: str
    """The dataset it belongs to."""
    name: str
    url: str
    sha256: str

    def path(self) -> Path:
        """The file on this machine, its checksum verified.

        The folder that `DEEPPQR_DATA` names comes first, the file lying in it or in its
        subfolder named after the dataset. Otherwise the file is downloaded once and
        kept in the user's cache.
        """
        # A local copy first, so that machines without a network can work.
        return self._beside() or self._cached()

    def _beside(self) -> Path | None:
        root = os.environ.get(VARIABLE)
        if not root:
            return None
        for place in (Path(root) / self.folder / self.name, Path(root) / self.name):
            if place.is_file():
                self._check(place)
                return place
        return None

    def _check(self, place: Path) -> None:
        found = hashlib.sha256(place.read_bytes()).hexdigest()
        if found != self.sha256:
            raise DataError(
                f"{place} must be the published file with SHA-256 {self.sha256}, but its "
                f"checksum is {found}. Replace it by the one at {self.url}, or unset "
                f"{VARIABLE} to have it downloaded."
            )

    def _cached(self) -> Path:
        try:
            import pooch  # pyright: ignore[reportMissingImports]
        except ModuleNotFoundError as problem:
            raise DataError(
                f"{self.name} is not in the folder that {VARIABLE} names and must be "
                "downloaded, which needs pooch: pip install pooch."
            ) from problem
        pooch.get_logger().setLevel("WARNING")  # it logs every download to stderr
        try:
            found = pooch.retrieve(
                self.url,
                known_hash=f"sha256:{self.sha256}",
                fname=self.name,
                path=pooch.os_cache("deeppqr") / self.folder,
            )
        except ValueError as problem:  # pooch raises this for a wrong checksum
            raise DataError(
                f"What {self.url} serves is not the published {self.name}: its SHA-256 "
                f"must be {self.sha256} ({problem}). Nothing was kept."
            ) from problem
        except OSError as problem:  # includes those of requests
            raise DataError(
                f"{self.name} could not be downloaded from {self.url} "
                f"({type(problem).__name__}: {problem}). Without a network, put the file "
                f"into a folder and name that folder in {VARIABLE}."
            ) from problem
        return Path(found)

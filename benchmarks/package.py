"""Builds the package, checks it and installs it in an empty environment.

    python benchmarks/package.py [--offline]

It builds the wheel and the source distribution, has twine check them, looks that the wheel
has what it needs and nothing else, installs it in a new virtual environment without extras,
and imports it there. Seconds are printed. `--offline` stops before the installation, which
downloads the dependencies. Needs the development dependencies.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Files that are no modules, which a wheel loses first.
NEEDED = (
    "deeppqr/py.typed",
    "deeppqr/datasets/cards.toml",
    "deeppqr/explore/static/index.html",
    "deeppqr/explore/static/app.js",
    "deeppqr/explore/static/charts.js",
    "deeppqr/explore/static/style.css",
)
# What a user does first, without any extra.
FIRST = """
import deeppqr
world = deeppqr.worlds.random_tabular(seed=1)
fit = deeppqr.PQR(discount=0.9, anchor=0).fit(world.simulate(steps=2_000))
assert fit.reward([[0.0]]).shape == (1, 3)
"""


def build(folder: Path) -> list[Path]:
    """The wheel and the source distribution, built without the network."""
    run("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return sorted(folder.iterdir())


def check(made: list[Path]) -> None:
    """Raise if twine finds fault, or the wheel lacks or has what it should not."""
    run("-m", "twine", "check", "--strict", *map(str, made))
    (wheel,) = (path for path in made if path.suffix == ".whl")
    names = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in NEEDED if name not in names]
    homes = ("deeppqr/", wheel.name.split("-py3")[0] + ".dist-info/")
    foreign = [name for name in names if not name.startswith(homes)]
    if missing or foreign:
        raise SystemExit(f"{wheel.name} lacks {missing}, and has {foreign} beside it.")


def install(wheel: Path, folder: Path) -> float:
    """Install in a new environment and use it there; the seconds it took to install."""
    begun = time.perf_counter()
    run("-m", "venv", str(folder / "venv"))
    scripts = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    quiet = ("--quiet", "--disable-pip-version-check")
    run("-m", "pip", "install", *quiet, str(wheel), python=scripts / "python")
    seconds = time.perf_counter() - begun
    run("-W", "error", "-c", FIRST, python=scripts / "python")
    subprocess.run([scripts / "deeppqr", "--version"], check=True)
    return seconds


def run(*words: str, python: str | Path = sys.executable) -> None:
    found = subprocess.run([python, *words], capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"{' '.join(words[:3])} failed:\n{found.stdout}{found.stderr}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="do not install")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = build(place / "dist")
        check(made)
        for path in made:
            print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, twine finds no fault")
        if not arguments.offline:
            (wheel,) = (path for path in made if path.suffix == ".whl")
            print(
                f"installed and used in an empty environment: {install(wheel, place):.0f} s"
            )

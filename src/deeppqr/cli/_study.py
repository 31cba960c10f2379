"""`deeppqr study`: runs a command of the package deeppqr-studies, if installed."""

from collections.abc import Sequence
from importlib.metadata import entry_points

from .._errors import DeepPQRError

# Entry points that add subcommands: functions of the arguments after their name.
GROUP = "deeppqr.commands"


def register(jobs) -> None:
    """List the subcommand in `deeppqr --help`; its arguments are parsed elsewhere."""
    jobs.add_parser("study", help="a figure or table of the benchmark", add_help=False)


def run(words: Sequence[str]) -> None:
    """Run the studies' command on the words after `deeppqr study`."""
    found = entry_points(group=GROUP, name="study")
    if not found:
        raise DeepPQRError(
            "`deeppqr study` needs the package deeppqr-studies, which is not installed. "
            "From a clone of the repository: pip install ./studies."
        )
    next(iter(found)).load()(words)

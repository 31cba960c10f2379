"""`deeppqr explore`: a local web page on which a saved fit answers questions."""

import argparse
import webbrowser
from pathlib import Path

import deeppqr

from ._common import add_job, add_quiet

EXAMPLES = """\
  deeppqr explore run/                              # opens the browser
  deeppqr explore run/ --port 8100 --no-browser     # prints the address alone
"""


def register(jobs) -> None:
    about = "a local web page: move the state, ask what if, download"
    parser = add_job(jobs, "explore", about, EXAMPLES)
    parser.add_argument("fit", type=Path, help="folder written by `deeppqr fit`")
    parser.add_argument(
        "--port", type=int, default=0, help="of this machine (default: one that is free)"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="do not open it, print its address"
    )
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    from ..explore import serve

    fit = deeppqr.load(arguments.fit)

    def started(address: str) -> None:
        # Printed even if told to be quiet: nobody could find the page without it.
        print(f"Exploring {arguments.fit} at {address}", flush=True)
        if not arguments.quiet:
            print("Only this machine can open it. Ctrl-C ends it.", flush=True)
        if not arguments.no_browser:
            webbrowser.open(address)

    try:
        serve(fit, name=arguments.fit.absolute().name, port=arguments.port, started=started)
    except KeyboardInterrupt:
        pass  # the way to end it, and nothing was left undone

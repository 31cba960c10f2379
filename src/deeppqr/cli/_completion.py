"""`deeppqr completion`: a script that completes the command in bash or zsh."""

import argparse

from .._errors import DeepPQRError
from ._common import add_job

EXAMPLES = """\
  deeppqr completion bash > ~/.local/share/bash-completion/completions/deeppqr
  deeppqr completion zsh > ~/.zfunc/_deeppqr     # a folder of your $fpath
"""


def register(jobs) -> None:
    about = "a script that completes this command in bash or zsh"
    parser = add_job(jobs, "completion", about, EXAMPLES)
    parser.add_argument("shell", choices=("bash", "zsh"))
    parser.set_defaults(run=run, quiet=True)


def run(arguments: argparse.Namespace) -> None:
    from ._main import build_parser

    try:
        import shtab  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DeepPQRError(
            "`deeppqr completion` needs the package shtab: pip install "
            "'deeppqr[completion]'."
        ) from None
    print(shtab.complete(build_parser()[0], arguments.shell))

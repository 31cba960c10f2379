"""The command `deeppqr`."""

from ._main import main as main

"""Standard output that may go away: a closed pipe or a full disk ends no work."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any


class _Output(io.TextIOBase):
    """Passes text on until the reader has gone; what is printed after that is lost."""

    def __init__(self, stream: Any):
        self._stream = stream

    @property
    def encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        # A terminal or a file may not know every character; a mark is better than nothing.
        known = text.encode(self.encoding, "replace").decode(self.encoding)
        self._try("write", known)
        return len(text)

    def flush(self) -> None:
        self._try("flush")

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()  # pyright: ignore[reportOptionalMemberAccess]

    def _try(self, action: str, *arguments: str) -> None:
        if self._stream is None:
            return
        try:
            getattr(self._stream, action)(*arguments)
        except OSError as problem:
            lost, self._stream = self._stream, None
            # Python flushes the stream once more when it exits, and would complain then.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), lost.fileno())
            # `deeppqr ... | head` is no error; a full disk is worth a word.
            if not isinstance(problem, BrokenPipeError):
                complain(f"the rest could not be printed: {problem.strerror}.")


@contextmanager
def lasting_output() -> Iterator[None]:
    """Print to standard output in this block, for as long as somebody reads it."""
    output = _Output(sys.stdout)
    with redirect_stdout(output):
        try:
            yield
        finally:
            output.flush()


def complain(text: str) -> None:
    """Print a message on standard error, if there is one."""
    with suppress(OSError):
        print(f"deeppqr: {text}", file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether progress can be shown: somebody watches standard error."""
    return sys.stderr is not None and sys.stderr.isatty()

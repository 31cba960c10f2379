"""Progress bars and lines that say what was chosen, both off by default.

They appear only inside `show()`, which the command line turns on, and only once the work
has lasted two seconds: library calls in notebooks and tests print nothing. All of it goes
to standard error, so that standard output can be piped.
"""

import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

DELAY = 2.0  # seconds without a bar, so that quick steps do not make the terminal flicker
# A context variable, not a global: threads and tests can differ.
_shown: ContextVar[bool] = ContextVar("deeppqr_progress", default=False)
_told: ContextVar["_Lines | None"] = ContextVar("deeppqr_lines", default=None)
WIDTH = 78  # of lines, which fit a terminal of 80 columns


@dataclass
class _Lines:
    """Lines that wait until the work has lasted long enough to be worth them."""

    delay: float
    started: float = field(default_factory=time.monotonic)
    waiting: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        self.waiting.append(line)
        if time.monotonic() - self.started >= self.delay:
            # Above an open bar, which takes what is printed while it is drawn.
            print("\n".join(self.waiting), file=sys.stderr, flush=True)
            self.waiting.clear()


@dataclass
class _Progress:
    """One running task."""

    label: str
    total: int
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    _bar: object | None = None
    _task: object | None = None

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        self.done += steps
        if not _shown.get() or time.monotonic() - self.started < DELAY:
            return
        if self._bar is None:
            self._open()
        self._bar.update(self._task, completed=self.done, note=note)  # type: ignore

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()  # type: ignore

    def _open(self) -> None:
        from rich import progress as rich
        from rich.console import Console

        columns = (
            rich.TextColumn("{task.description}"),
            rich.BarColumn(bar_width=30),
            rich.TaskProgressColumn(),
            rich.TimeRemainingColumn(),
            rich.TextColumn("{task.fields[note]}"),
        )
        # On stderr, so that stdout can be piped; transient, so that nothing stays.
        bar = rich.Progress(*columns, console=Console(stderr=True), transient=True)
        bar.start()
        self._bar = bar
        self._task = bar.add_task(self.label, total=self.total, note="")


@contextmanager
def track(label: str, total: int) -> Iterator[_Progress]:
    """A task of `total` steps; the bar goes away when the block ends."""
    progress = _Progress(label, total)
    try:
        yield progress
    finally:
        progress.close()


def tell(what: str, text: str) -> None:
    """Say what was chosen, in a line of its own, where lines are shown."""
    lines = _told.get()
    if lines is not None:
        indent = " " * 4
        lines.add(textwrap.fill(f"{what}: {text}", WIDTH, subsequent_indent=indent))


@contextmanager
def show(visible: bool = True, *, lines: bool = False) -> Iterator[None]:
    """Draw progress bars inside this block, and print lines beside them.

    With `lines` they are printed without bars too, and at once: for a log.
    """
    bars = _shown.set(visible)
    delay = 0.0 if lines else DELAY
    told = _told.set(_Lines(delay) if visible or lines else None)
    try:
        yield
    finally:
        _told.reset(told)
        _shown.reset(bars)

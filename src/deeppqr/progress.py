"""Progress bars, which are off by default.

A bar is drawn only inside `show()`, which the command line turns on, and only once the work
has lasted two seconds: library calls in notebooks and tests print nothing.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

DELAY = 2.0  # seconds without a bar, so that quick steps do not make the terminal flicker
# A context variable, not a global: threads and tests can differ.
_shown: ContextVar[bool] = ContextVar("deeppqr_progress", default=False)


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


@contextmanager
def show(visible: bool = True) -> Iterator[None]:
    """Draw progress bars inside this block."""
    token = _shown.set(visible)
    try:
        yield
    finally:
        _shown.reset(token)

"""Progress bars on a terminal and in notebooks, for commands and for functions of the Python interface."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from batfill.base.errors import visible
from batfill.base.words import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

SOON_S = 0.5  # before a command shows a bar
PATIENCE_S = 2.0  # before a function of the Python interface does
REDRAW_S = 0.2
told: Callable[[str, float, float | None], None] | None = None  # gets label, steps done, their number, if set: a page
bars: WeakSet[Any] = WeakSet()  # a closed one is cleared without effect


def on_terminal() -> bool:
    """Whether standard error is a terminal on which a line can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def new_bar(label: str, total: float | None = None, **how: Any) -> Any:
    """A bar of tqdm on standard error that vanishes when it is closed; `how` goes to tqdm."""
    import warnings

    with warnings.catch_warnings(action="ignore"):  # of notebooks without ipywidgets, where a line of text is redrawn
        from tqdm.autonotebook import tqdm
    terminal = getattr(sys.stderr, "obeyed", sys.stderr)
    look = {"leave": False, "file": terminal, "mininterval": REDRAW_S, "ncols": columns(terminal) - 1, "nrows": 20}
    bars.add(bar := tqdm(desc=label, total=total, **look, **how))
    return bar


@contextmanager
def progress(label: str, total: float | None = None, after_s: float = SOON_S) -> Iterator[Callable[[float], None]]:
    """A function that advances a bar by this many steps; without `total` the bar shows only the steps done.

    It appears after `after_s`, even if no step is done by then, and vanishes at the block's end.
    """
    bar: Any = None
    done: float = 0

    def appear() -> None:
        nonlocal bar
        bar = new_bar(label, total, initial=done)

    def advance(steps: float) -> None:
        nonlocal done
        done += steps
        if told is not None:
            told(label, done, total)
        elif bar is not None:
            bar.update(steps)

    if told is not None or not (on_terminal() or "ipykernel.zmqshell" in sys.modules):
        advance(0)
        yield advance
        return
    timer = Timer(after_s, appear)
    timer.daemon = True
    timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        if bar is not None:
            bar.close()


def patient_progress(label: str, total: float | None = None) -> AbstractContextManager[Callable[[float], None]]:
    """As `progress`, for functions of the Python interface: the bar appears after `PATIENCE_S`."""
    return progress(label, total, PATIENCE_S)


class harmless:  # noqa: N801 - used as a function
    """A stream that shows control characters, which a log's header or a path may hold, so that no terminal obeys them.

    `obeyed` is the stream without this. The errors of a stream with a name have it as their file. Once its reader has
    gone, as that of `batfill policies | head -1`, what is written is lost: that is no error, and ends no work.
    What is written appears above the bars.
    """

    def __init__(self, stream: Any, name: str | None = None) -> None:
        self.obeyed, self.name_in_errors = stream, name

    def write(self, text: str) -> int:
        for bar in list(bars):
            bar.clear()
        with self.named():
            self.obeyed.write(visible(text))
        return len(text)

    def flush(self) -> None:
        with self.named():
            self.obeyed.flush()

    @contextmanager
    def named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.obeyed.fileno())
                return
            error.filename = self.name_in_errors or error.filename
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.obeyed, name)

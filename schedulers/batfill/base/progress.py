"""Progress bars on a terminal and in notebooks, for commands and for functions of the Python interface."""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import contextmanager, suppress
from threading import Timer
from typing import TYPE_CHECKING, Any

from batfill.base.errors import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

SOON_S = 0.5  # before a command shows a bar
PATIENCE_S = 2.0  # before a function of the Python interface does
LINE_EVERY_S = 5.0
told: Callable[[str, float, float | None], None] | None = None  # gets label, steps done, their number, if set: a page
REDRAW_S = 0.2  # between two states of a bar
BAR = 30  # characters


def in_notebook() -> bool:
    """Whether the program runs in a notebook's kernel."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and kernel.IPKernelApp.initialized()


def on_terminal() -> bool:
    """Whether standard error is a terminal on which a line can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def progress(
    label: str, total: float | None = None, after_s: float = SOON_S, *, lines: bool = False
) -> Iterator[Callable[[float], None]]:
    """A function that advances a bar by this many steps; without `total` the bar shows only the steps done.

    Args:
        label: what the steps are.
        total: their number.
        after_s: seconds before the bar appears, even if no step is done by then. It vanishes at the block's end.
        lines: print a line every `LINE_EVERY_S` where standard error is no terminal, such as a pipe.
    """
    if told is not None:
        yield counted(told, label, total)
        return
    begin = notebook_bar if in_notebook() else terminal_bar if on_terminal() else line_printer if lines else None
    if begin is None:
        yield lambda _: None
        return
    bar: Any = None
    done = 0.0

    def appear() -> None:
        nonlocal bar
        bar = begin(label, total)
        bar.show(done)

    def advance(steps: float) -> None:
        nonlocal done
        done += steps
        if bar is not None:
            bar.show(done)

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


def counted(
    tell: Callable[[str, float, float | None], None], label: str, total: float | None
) -> Callable[[float], None]:
    """A function that advances a count by this many steps, and tells it."""
    done = 0.0

    def advance(steps: float) -> None:
        nonlocal done
        done += steps
        tell(label, done, total)

    advance(0)
    return advance


def patient_progress(label: str, total: float | None = None) -> AbstractContextManager[Callable[[float], None]]:
    """As `progress`, for functions of the Python interface: the bar appears after `PATIENCE_S`."""
    return progress(label, total, PATIENCE_S)


def steps_text(done: float, total: float | None) -> str:
    """The steps done, and of how many if that is known; dots while nothing is."""
    return f"{done:,.0f} of {total:,.0f}" if total is not None else f"{done:,.0f}" if done else "..."


class terminal_bar:  # noqa: N801 - used as a function
    """A line at the bottom of the terminal, redrawn in place; what is printed meanwhile appears above it."""

    def __init__(
        self, label: str, total: float | None, figures: Callable[[float, float | None], str] = steps_text
    ) -> None:
        self.label, self.total, self.figures = label, total, figures
        self.began, self.drawn_at, self.drawn = time.monotonic(), -math.inf, False
        self.streams = sys.stdout, sys.stderr
        self.terminal = getattr(sys.stderr, "obeyed", sys.stderr)
        sys.stdout, sys.stderr = (above(stream, self.erase) for stream in self.streams)

    def show(self, done: float) -> None:
        """Draw the steps done, a few times a second."""
        now = time.monotonic()
        if now - self.drawn_at < REDRAW_S:
            return
        self.drawn_at, text = now, f"{self.label} {self.figures(done, self.total)}"
        if self.total and 0 < done <= self.total:
            full = int(BAR * done / self.total)
            minutes, seconds = divmod(round((now - self.began) * (self.total / done - 1)), 60)
            text = f"{text} [{'#' * full}{'-' * (BAR - full)}] {minutes}:{seconds:02} left"
        with suppress(OSError):
            text = text[: (os.get_terminal_size(self.terminal.fileno()).columns or 80) - 1]
        self.terminal.write(f"\r{text}\033[K")
        self.terminal.flush()
        self.drawn = True

    def erase(self) -> None:
        """Clear the line, if something is on it."""
        if self.drawn:
            self.drawn = False
            self.terminal.write("\r\033[K")
            self.terminal.flush()

    def close(self) -> None:
        """Remove the bar."""
        self.erase()
        sys.stdout, sys.stderr = self.streams


class above:  # noqa: N801 - used as a function
    """A stream before whose output `erase` is called."""

    def __init__(self, stream: Any, erase: Callable[[], None]) -> None:
        self.stream, self.erase = stream, erase

    def write(self, text: str) -> None:
        """Write the text where the bar was."""
        self.erase()
        self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class harmless:  # noqa: N801 - used as a function
    """A stream that shows control characters, which a log's header or a path may hold, so that no terminal obeys them.

    `obeyed` is the stream without this. The errors of a stream with a name have it as their file. Once its reader has
    gone, as that of `batfill policies | head -1`, what is written is lost: that is no error, and ends no work.
    """

    def __init__(self, stream: Any, name: str | None = None) -> None:
        self.obeyed, self.name_in_errors = stream, name

    def write(self, text: str) -> int:
        """Write the text, see `visible`."""
        with self.named():
            self.obeyed.write(visible(text))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with self.named():
            self.obeyed.flush()

    @contextmanager
    def named(self) -> Iterator[None]:
        """Enter the stream's name into the error that it raises."""
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


class line_printer:  # noqa: N801 - used as a function
    """Lines on standard error."""

    def __init__(self, label: str, total: float | None) -> None:
        self.label, self.total, self.printed_at = label, total, time.monotonic()

    def show(self, done: float) -> None:
        """Print the steps done, if the last line is old and more are to come."""
        if done != self.total and time.monotonic() - self.printed_at >= LINE_EVERY_S:
            self.printed_at = time.monotonic()
            print(f"{self.label}: {steps_text(done, self.total)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing to remove."""


class notebook_bar:  # noqa: N801 - used as a function
    """A bar below a notebook's cell."""

    def __init__(self, label: str, total: float | None) -> None:
        from IPython.display import display  # type: ignore[import-not-found]  # there is one in a notebook

        self.label, self.total, self.done, self.shown_at = label, total, 0.0, 0.0
        self.handle = display(self, display_id=True)

    def _repr_html_(self) -> str:
        value = "" if self.total is None else f' value="{self.done:g}" max="{self.total:g}"'
        return f"<label>{self.label} <progress{value}></progress> {steps_text(self.done, self.total)}</label>"

    def __repr__(self) -> str:
        return f"{self.label}: {steps_text(self.done, self.total)}"

    def show(self, done: float) -> None:
        """Set the steps done; the page is changed a few times a second."""
        self.done = done
        if time.monotonic() - self.shown_at >= REDRAW_S:
            self.shown_at = time.monotonic()
            self.handle.update(self)

    def close(self) -> None:
        """Empty the bar's place: a page cannot take it back."""
        from IPython.display import HTML

        self.handle.update(HTML(""))

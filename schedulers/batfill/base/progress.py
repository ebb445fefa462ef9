"""Progress bars on a terminal and in notebooks, for commands and for functions of the Python interface."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

PATIENCE_S = 2.0  # before a function of the Python interface shows a bar
LINE_EVERY_S = 5.0
REDRAW_S = 0.2  # between two states of a notebook's bar


def in_notebook() -> bool:
    """Whether the program runs in a notebook's kernel."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and kernel.IPKernelApp.initialized()


@contextmanager
def progress(
    label: str, total: float | None = None, after_s: float = 0.0, *, lines: bool = False
) -> Iterator[Callable[[float], None]]:
    """A function that advances a bar by this many steps; without `total` the bar shows only the steps done.

    Args:
        label: what the steps are.
        total: their number.
        after_s: seconds before the bar appears, at the first step thereafter. It vanishes at the block's end.
        lines: print a line every `LINE_EVERY_S` where standard error is no terminal, such as a pipe.
    """
    begin = notebook_bar if in_notebook() else terminal_bar if sys.stderr.isatty() else line_printer if lines else None
    if begin is None:
        yield lambda _: None
        return
    began, done = time.monotonic(), 0.0
    bar: Any = None if after_s else begin(label, total)

    def advance(steps: float) -> None:
        nonlocal bar, done
        done += steps
        if bar is None and time.monotonic() - began >= after_s:
            bar = begin(label, total)
        if bar is not None:
            bar.show(done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.close()


def patient_progress(label: str, total: float | None = None) -> AbstractContextManager[Callable[[float], None]]:
    """As `progress`, for functions of the Python interface: the bar appears after `PATIENCE_S`."""
    return progress(label, total, PATIENCE_S)


def steps_text(done: float, total: float | None) -> str:
    """The steps done, and of how many if that is known."""
    return f"{done:,.0f}" + ("" if total is None else f" of {total:,.0f}")


class terminal_bar:  # noqa: N801 - used as a function
    """A bar on standard error."""

    def __init__(self, label: str, total: float | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(label, total=total)
        self.bar.start()

    def show(self, done: float) -> None:
        """Set the steps done."""
        self.bar.update(self.task, completed=done)

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()


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

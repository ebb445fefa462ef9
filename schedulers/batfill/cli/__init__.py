"""The command line: each command parses, calls the library, and prints; `app` maps commands to files."""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from batfill.base.errors import STOPPING, BatfillError, Interrupted, RunFailed, as_typed, library_version, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Sized
    from pathlib import Path

__all__ = ["main"]

ROBIN_INTERRUPTED = 3  # `batfill run` stands in for robin, whose status this is
AGAIN_S = 0.2  # seconds until a lost interrupt is raised again
BATSCHED = "batsched"  # a link of this name to the program, for what executes batsched
BUG = 70  # sysexits.h: an internal software error
STANDARD_OUTPUT = "standard output"
NO_MEMORY = ("failed to map segment", "annot allocate memory", "MemoryError")  # in the message of an ImportError


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 2 a user's mistake (one line on stderr), 1 the run failed.

    An interrupt exits with 128 plus the signal's number (130 for Ctrl-C), a bug in batfill with 70.
    """
    words = typed() if arguments is None else arguments
    if arguments is None and words[:1] != ["run"]:  # which starts programs of the user's
        # With numpy OpenBLAS starts a thread per processor, which costs half of loading it and serves no command.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    hook, streams = sys.unraisablehook, (sys.stdout, sys.stderr)
    before: dict[signal.Signals, Any] = {}
    try:
        heed_signals(before)  # first: the imports below take long enough to be interrupted
        status = exit_status(words)
    except Interrupted as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        status = say(interruption(error), ROBIN_INTERRUPTED if words[:1] == ["run"] else 128 + error.number)
        if arguments is None:  # does not wait for threads; unfinished files are removed by now
            with suppress(OSError):
                sys.stdout.flush()
            atexit._run_exitfuncs()  # multiprocessing releases what campaigns share
            os._exit(status)
    finally:
        if arguments is not None:  # our own process answers interrupts in one line until it ends
            sys.unraisablehook, (sys.stdout, sys.stderr) = hook, streams
            for number, handler in before.items():
                signal.signal(number, handler)
    sys.exit(status)


def typed() -> list[str]:
    program, *words = sys.argv
    return ["batsched", *words] if os.path.basename(program) == BATSCHED else words  # noqa: PTH119 - loads nothing


def command_line() -> str:
    """This process's command line, as it may be typed again."""
    import shlex

    return shlex.join(["batfill", *typed()])


def exit_status(words: list[str]) -> int:
    """Run the command line and report what went wrong; returns the exit status."""
    try:
        writable_streams()
        status = run_command(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BatfillError as error:
        return say(as_typed(error.on_command_line), 2)
    except RunFailed as error:
        return say(str(error), 1)
    except BrokenPipeError:  # of another stream than these two, see `harmless`
        discard(sys.stdout, sys.stderr)
        return 1
    except MemoryError as error:
        return say(no_memory(str(error)), 1)
    except OSError as error:
        return say(reason, 1) if (reason := unwritten(error)) else report_bug(error, words)
    except Exception as error:
        if isinstance(error, ImportError) and any(words in str(error) for words in NO_MEMORY):
            return say(no_memory("a library cannot be loaded"), 1)
        if isinstance(error.__cause__, Interrupted):  # Python wraps what interrupts a class definition on import
            raise error.__cause__ from None
        return report_bug(error, words)
    return status


def no_memory(what: str) -> str:
    return f"not enough memory ({what or 'no more'}); use a machine with more, or a smaller input"


def unwritten(error: OSError) -> str:
    """The line for what could not be written, beside what `batfill.base.files` writes; "" for other errors."""
    import tempfile

    from batfill.base.files import FULL

    if error.filename == STANDARD_OUTPUT:
        discard(sys.stdout)
        return f"{STANDARD_OUTPUT} cannot be written ({error.strerror}); free space, or redirect it"
    if error.errno in FULL:
        place = error.filename or f"a file in {tempfile.gettempdir()}"
        return f"{place}: cannot be written ({error.strerror}); free space there, or set TMPDIR to another folder"
    if error.errno == errno.ENOENT and "temporary directory" in str(error.strerror):
        return f"no folder for temporary files can be written ({error.strerror}); free space, or set TMPDIR"
    return ""


def run_command(words: list[str]) -> int:
    import click

    from batfill.cli.app import app, reworded

    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    try:
        status = app(args=words, prog_name="batfill", standalone_mode=False)
    except click.ClickException as error:  # click itself would print several lines
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        raise BatfillError(f"{reworded(error)}{hint}") from None
    return status if isinstance(status, int) else 0


def say(message: str, status: int) -> int:
    """Print one line on standard error, if possible, and return `status`."""
    try:
        note(one_line(message))
    except OSError:
        discard(sys.stderr)
    return status


def aside(text: str) -> None:
    """Print a line beside the result, on standard error; on a terminal it is broken to fit."""
    if sys.stderr.isatty():
        from batfill.base.words import columns, wrapped

        text = wrapped(text, "  ", columns(sys.stderr))
    print(text, file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Print a line of the program's own beside the result."""
    aside(f"batfill: {text}")


def warn(warnings: Sequence[str]) -> None:
    """Print reasons to doubt the figures (`Jobs.warnings`), one line each, on standard error."""
    for warning in warnings:
        note(f"warning: {warning}")


def offer(page: object) -> None:
    """Name a page that was written to whoever can open it."""
    from batfill.base.host import IN_BROWSER

    if not IN_BROWSER:
        note(f"open it in a browser: {page}")


def wrote(out: Path, what: str, as_json: bool, **facts: Any) -> None:
    """Print what a command wrote, on standard error, and on request as one JSON document."""
    from batfill.base.files import shown

    aside(f"{out}: {what}")
    if as_json:
        print_json({"file": shown(out), **facts})


def print_json(value: object) -> None:
    import orjson

    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


# Streams


def writable_streams() -> None:
    """Let standard output and error write any path: its own bytes, and escapes for other characters.

    These are control characters, and those that their encoding lacks.
    """
    import codecs
    import io

    from batfill.base.progress import harmless

    def own_bytes(error: UnicodeError) -> tuple[str | bytes, int]:
        assert isinstance(error, UnicodeEncodeError)
        text = error.object[error.start : error.end]
        if all("\udc80" <= letter <= "\udcff" for letter in text):  # Python's representation of undecodable bytes
            return bytes(ord(letter) - 0xDC00 for letter in text), error.end
        return text.encode("ascii", "backslashreplace"), error.end

    codecs.register_error("batfill", own_bytes)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="batfill")
    if sys.stdout is None:  # closed by the caller: what is printed is lost, which flushing it will report
        os.dup2(os.open(os.devnull, os.O_RDONLY), 1)
        sys.stdout = open(1, "w")  # noqa: SIM115 - open as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - open as long as the process
    sys.stdout, sys.stderr = harmless(sys.stdout, STANDARD_OUTPUT), harmless(sys.stderr)


def discard(*streams: Any) -> None:
    """Discard what these streams still buffer; otherwise Python complains on exit that it cannot write it."""
    for stream in streams:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
        except (AttributeError, OSError, ValueError):  # closed, or a caller's stream that is not a file
            continue


# Interrupts


def heed_signals(before: dict[signal.Signals, Any]) -> None:
    """Raise Interrupted on each signal of STOPPING that the caller does not ignore; `before` gets the old handlers."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        return

    def stop(number: int, _frame: object) -> None:
        for other in before:  # a second one ends the process at once
            signal.signal(other, signal.SIG_DFL)

        def again(*_: object) -> None:
            error = sys.exc_info()[1]
            while error is not None:
                if isinstance(error, Interrupted):  # it is propagating: clean-up is running
                    return
                error = error.__context__
            raise Interrupted(number)

        # A library's bare `except:` around one of its imports may swallow the first.
        signal.signal(signal.SIGALRM, again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S, AGAIN_S)
        raise Interrupted(number)

    usual = sys.unraisablehook

    def lost(unraisable: Any) -> None:
        """Exit on an interrupt that arrived where Python cannot raise."""
        if unraisable.exc_type is Interrupted:
            os._exit(say(interruption(unraisable.exc_value), 128 + unraisable.exc_value.number))
        usual(unraisable)

    for number in STOPPING:
        if (handler := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = handler
    if before:
        sys.unraisablehook = lost
    for number in before:
        signal.signal(number, stop)


def interruption(error: Interrupted) -> str:
    return "; ".join([f"interrupted by {signal.Signals(error.number).name}", *getattr(error, "__notes__", [])])


@contextmanager
def count_on_interrupt(done: Sized, of_what: str) -> Iterator[None]:
    """If the block is interrupted, the command line reports the number done, followed by these words."""
    try:
        yield
    except Interrupted as interrupted:
        interrupted.add_note(f"{len(done)} {of_what}")
        raise


# Bugs


def report_bug(error: Exception, words: list[str]) -> int:
    """Report a bug in batfill, with the traceback in a file; returns the exit status."""
    import platform
    import shlex
    import tempfile
    import traceback

    from batfill.base.version import __version__

    found = {name: library_version(name) for name in ("numpy", "scipy", "scikit-learn", "pyarrow")}
    libraries = ", ".join(f"{name} {number or 'is not installed'}" for name, number in found.items())
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    try:
        handle, path = tempfile.mkstemp(prefix="batfill-bug-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"batfill {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
            file.write(f"{libraries}\ncommand: {shlex.join(['batfill', *words])}\n\n")
            file.write("".join(traceback.format_exception(error)))
    except OSError:  # no writable folder for temporary files
        path = "no file, as none could be written"
    return say(f"this is a bug in batfill ({what}); please report it with its traceback, which is in {path}", BUG)

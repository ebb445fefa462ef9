"""Exceptions for a user's mistakes; the command line prints them as one line and exits with status 2."""

from __future__ import annotations

import re
import signal
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 2000  # characters of a message, which may quote an input
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")  # characters that a terminal obeys; not tabs and line ends
LARGEST = 2**31 - 1  # of processors, seeds and counts: Batsim's largest integer
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the signals that stop a command
# pip's names of libraries that Python imports under another name.
DISTRIBUTIONS = {"batsim": "pybatsim", "dask_jobqueue": "dask-jobqueue", "sklearn": "scikit-learn"}


# Python's arguments by the options' names, of those that are not named by changing hyphens only, or that messages name
# without a mark; `batfill.model.options` enters its table.
ARGUMENT_OF = {"tau": "tau_s", "worker-limit": "worker_limit_s", "period": "period_s"}


def whole_from(least: int, most: int = LARGEST) -> str:
    """The rule for a number of processors, a seed or a count, in the words of every refusal."""
    return f"a whole number from {least} to {most}"


def visible(text: str) -> str:
    r"""The text with an escape such as \u001b, which JSON has, too, for each character that a terminal obeys."""
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(message: str) -> str:
    """The message as one line of at most `LONGEST` characters, of which the last name the remedy."""
    line = visible(message).replace("\n", "\\n")
    return line if len(line) <= LONGEST else f"{line[: LONGEST * 2 // 3]} ... {line[5 - LONGEST // 3 :]}"


class BatfillError(Exception):
    """Unusable input from the user; the message is one line: where, what, and how to fix it.

    It is written with options as commands take them, such as --threshold. `on_command_line` has it so; as text, which
    Python's users see, it names their arguments.
    """

    @property
    def on_command_line(self) -> str:
        """The message with options as commands take them, see `one_line`."""
        return one_line(super().__str__())

    def __str__(self) -> str:
        """The message with options as Python's arguments."""
        return in_python(self.on_command_line)


def on_command_line(error: Exception) -> str:
    """The message of any error as commands print it."""
    return error.on_command_line if isinstance(error, BatfillError) else str(error)


def as_typed(message: str) -> str:
    """The message with the option that it begins with as it is typed.

    >>> as_typed("option tau: 0 is not > 0")
    '--tau: 0 is not > 0'
    """
    return re.sub(r"\Aoption ([a-z-]+): ", r"--\1: ", message)


def in_python(message: str) -> str:
    """The message with options as Python's arguments, except in commands, which stand between backticks.

    >>> import batfill.model.options
    >>> in_python("option threshold: -1 is not >= 0; leave --threshold out, or see `batfill replay --help`")
    'option threshold_s: -1 is not >= 0; leave threshold_s out, or see `batfill replay --help`'
    """

    def argument(found: re.Match[str]) -> str:
        name = found[2].removeprefix("no-")
        return found[1].replace("--", "") + ARGUMENT_OF.get(name, name.replace("-", "_"))

    joined = "|".join(name for name in ARGUMENT_OF if "-" in name)
    option = re.compile(rf"(\B--|\boption |\b(?=(?:{joined})\b))([a-z][a-z0-9-]*)")
    parts = message.split("`")
    parts[::2] = [option.sub(argument, part) for part in parts[::2]]
    return "`".join(parts)


class WorkloadError(BatfillError):
    """A workload file is not what it claims to be."""


class PolicyError(BatfillError):
    """A policy, or one of its weights, is unknown or unusable."""


class PlatformError(BatfillError):
    """A platform description is unusable."""


class MissingExtra(BatfillError, ImportError):  # noqa: N818 - the name says what is wrong
    """A library is missing that an extra of the installation provides."""


class RunFailed(Exception):  # noqa: N818 - a result, not a mistake in the program
    """A run that was started correctly did not succeed; the command line prints the message and exits with status 1."""


class Interrupted(BaseException):
    """A signal stopped the command line. Its notes (`add_note`) say what was finished and kept.

    Neither a KeyboardInterrupt nor an Exception, because libraries catch those and continue, or print text of their
    own.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number  # the signal's


def optional(module: str, extra: str) -> Any:
    """Import and return a module, by its full name, that this extra of the installation provides.

    Examples:
        >>> optional("json", "tables").dumps({"a": 1})
        '{"a": 1}'
        >>> optional("no_such_library.parts", "tables")
        Traceback (most recent call last):
        batfill.base.errors.MissingExtra: needs no_such_library, which is not installed: pip install 'batfill[tables]'
    """
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library:
            raise
        raise missing(library, extra) from None


def require(extra: str, *libraries: str) -> None:
    """Check that libraries are installed before work begins, without importing them, which can take seconds.

    The extras that install them are separated by commas.

    Examples:
        >>> require("tables", "json", "no_such_library")
        Traceback (most recent call last):
        batfill.base.errors.MissingExtra: needs no_such_library, which is not installed: pip install 'batfill[tables]'
    """
    for library in libraries:
        if not installed(library):
            raise missing(library, extra)


def installed(library: str) -> bool:
    """Whether Python finds the library; does not import it."""
    from importlib.util import find_spec

    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):  # ValueError: sys.modules has None in its place
        return False


def library_version(library: str) -> str | None:
    """The version of a library by the name that pip knows; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(library)
    except PackageNotFoundError:
        return None


def missing(library: str, extra: str) -> MissingExtra:
    """The error for a missing library, with the name that pip installs."""
    return MissingExtra(
        f"needs {DISTRIBUTIONS.get(library, library)}, which is not installed: pip install 'batfill[{extra}]'"
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """Text for an error message suggesting the most similar known name; "" if none is similar.

    Examples:
        >>> nearest("safe", ["fcfs", "saf"])
        "; did you mean 'saf'?"
        >>> nearest("sfa", ["fcfs", "saf", "srf"])  # letters in another order are the nearest
        "; did you mean 'saf'?"
    """
    from difflib import get_close_matches

    names = list(known)
    found = [name for name in names if sorted(name) == sorted(word)] or get_close_matches(word, names, 1)
    return f"; did you mean {found[0]!r}?" if found else ""

"""What batfill raises for a user's mistake; the command line prints it as one line and exits with status 2."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class BatfillError(Exception):
    """Something the user gave cannot be used; the message is one line: where, what, and how to mend it."""


class WorkloadError(BatfillError):
    """A workload file cannot be read as what it claims to be."""


class PolicyError(BatfillError):
    """A policy, or one of its weights, is unknown or unusable."""


class PlatformError(BatfillError):
    """A platform description cannot be used."""


class MissingExtra(BatfillError, ImportError):  # noqa: N818 - the name says what is wrong
    """Something needs a library that only an extra of the installation brings."""


class RunFailed(Exception):  # noqa: N818 - it is a result, not a mistake in the program
    """A run that was started correctly did not succeed; the command line prints the message and exits with status 1."""


class Interrupted(BaseException):
    """A signal asked the command line to stop. Its notes (`add_note`) say what was finished and kept.

    No KeyboardInterrupt, and no Exception: libraries catch those and go on, or print something of their own.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number  # the signal's


def optional(module: str, extra: str) -> Any:
    """Import and return a module that an extra of the installation brings.

    Args:
        module: its full name; the message names the library, which is the part before the first dot.
        extra: the extra of batfill that installs it.

    Raises:
        MissingExtra: the library is not installed. A library that is there and broken raises its own error.

    Examples:
        >>> optional("json", "tables").dumps({"a": 1})
        '{"a": 1}'
        >>> optional("no_such_library.parts", "tables")
        Traceback (most recent call last):
        batfill.errors.MissingExtra: needs no_such_library, which is not installed: pip install 'batfill[tables]'
    """
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library:
            raise
        raise MissingExtra(f"needs {library}, which is not installed: pip install 'batfill[{extra}]'") from None

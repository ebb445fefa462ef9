"""What batfill raises for a user's mistake; the command line prints it as one line and exits with status 2."""


class BatfillError(Exception):
    """Something the user gave cannot be used; the message is one line: where, what, and how to mend it."""


class WorkloadError(BatfillError):
    """A workload file cannot be read as what it claims to be."""


class PolicyError(BatfillError):
    """A policy, or one of its weights, is unknown or unusable."""


class PlatformError(BatfillError):
    """A platform description cannot be used."""


class RunFailed(Exception):  # noqa: N818 - it is a result, not a mistake in the program
    """A run that was started correctly did not succeed; the command line prints the message and exits with status 1."""


class Interrupted(BaseException):
    """A signal asked the command line to stop. Its notes (`add_note`) say what was finished and kept.

    No KeyboardInterrupt, and no Exception: libraries catch those and go on, or print something of their own.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number  # the signal's

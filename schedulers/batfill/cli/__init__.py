"""The command line: one file per command, each of which parses, calls one library function, and prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 a user's mistake (one line on stderr), 1 the run failed."""
    import typer

    from batfill.cli.app import app
    from batfill.errors import BatfillError, RunFailed

    # typer raises its own copy of click's exceptions or click's, depending on its version; this is their base.
    usage_mistake: Any = typer.BadParameter.__mro__[2]
    try:
        status = app(args=arguments, prog_name="batfill", standalone_mode=False)
    except usage_mistake as error:  # typer prints a usage mistake as a box of several lines
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        message = " ".join(str(error.format_message()).split())  # typer puts two words before an unknown value
        fail(message.replace("Value error, ", "", 1) + hint, 2)
    except BatfillError as error:
        fail(str(error), 2)
    except RunFailed as error:
        fail(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", 3)
    except BrokenPipeError:  # the reader of our output went away, as `batfill policies | head -1` does
        sys.stderr.close()
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


def warn(warnings: Sequence[str]) -> None:
    """Say what makes the figures doubtful (`Workload.warnings`), one line each on standard error."""
    for warning in warnings:
        print(f"batfill: warning: {warning}", file=sys.stderr)


def fail(message: str, status: int) -> None:
    """Say one line on standard error and exit with `status`."""
    print(f"batfill: {message}", file=sys.stderr)
    sys.exit(status)

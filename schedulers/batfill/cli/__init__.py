"""The command line: one file per command, each of which parses, calls one library function, and prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 a user's mistake (one line on stderr), 1 the run failed."""
    import click

    from batfill.cli.app import app
    from batfill.errors import BatfillError, RunFailed

    try:
        status = app(args=arguments, prog_name="batfill", standalone_mode=False)
    except click.ClickException as error:  # click prints a usage mistake as several lines
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        fail(" ".join(error.format_message().split()) + hint, 2)
    except BatfillError as error:
        fail(str(error), 2)
    except RunFailed as error:
        fail(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
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

"""The program `batfill`, also as `python -m batfill` where it is not on PATH."""

import gc
import os
import signal
import sys


def stop(*_: object) -> None:
    os.write(2, b"batfill: interrupted by SIGINT\n")
    os._exit(3 if sys.argv[1:2] == ["run"] else 130)


def main() -> None:
    """Load the command line, which then answers interrupts, and run it."""
    gc.set_threshold(100_000)  # modules and their classes, which are no garbage
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, stop)
    from batfill.cli import main as run

    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()

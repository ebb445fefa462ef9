"""`python -m batfill` is the command line, where no `batfill` is on PATH."""

from batfill.cli import main

main()

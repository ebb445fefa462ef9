"""`batfill what-if`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def what_if(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="SWF, Parquet or Batsim JSON; see `workload import`.")],
    procs: Annotated[
        int | None, typer.Option(help="The machine's processors; by default what the log says.", min=1)
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the answer as one HTML page.")] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(help="Hours after which waiting jobs come first. Repeatable [default: 6 12 24 48 96]."),
    ] = None,
    small_first: Annotated[
        bool, typer.Option(help="Also try a classifier that puts small jobs first; it takes the longest.")
    ] = True,
    overrun: Annotated[
        Literal["keep", "kill"],
        typer.Option(help="A job that ran longer than it asked for: `keep` its run time, or `kill` it at its limit."),
    ] = "keep",
    tau: Annotated[float, typer.Option(help="The bound of the bounded slowdown, in seconds.")] = 10.0,
    seed: Annotated[int, typer.Option(help="The seed of the bootstrap and the classifier.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What other schedulers would have done to waiting and slowdown on a cluster's own log, and who would lose."""
    import json
    import shlex
    import sys

    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance as engine
    from batfill.report import what_if as library
    from batfill.report import what_if_page as pages
    from batfill.workloads.files import write_text

    announce_compilation(engine)
    thresholds = library.THRESHOLDS_H if threshold is None else threshold
    with progress("choices", len(library.choices(thresholds, small_first, seed))) as advance:
        answer = library.what_if(
            log,
            procs=procs,
            overrun=overrun,
            thresholds_h=thresholds,
            small_first=small_first,
            tau_s=tau,
            seed=seed,
            advance=advance,
        )
    if output is not None:
        write_text(output, pages.as_page(answer, log, shlex.join(sys.argv)))
        print(f"batfill: look at it in a browser: {output}", file=sys.stderr)
    if as_json:  # the text has them beside the advice
        warn(answer.workload.warnings)
    print(json.dumps(answer.as_dict(), indent=1) if as_json else pages.as_text(answer))

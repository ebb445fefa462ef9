"""`batfill fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def fit(
    workload: Annotated[Path, typer.Argument(help="An SWF, Parquet or Batsim JSON log.")],
    procs: Annotated[
        int | None, typer.Option(help="The machine's processors; by default what the log says.", min=1)
    ] = None,
    tuples: Annotated[int, typer.Option(help="Subtraces that are scored.", min=1)] = 441,
    permutations: Annotated[int, typer.Option(help="Orders tried for each of them.", min=1)] = 256_000,
    shuffle: Annotated[
        Literal["fair", "published"],
        typer.Option(help="Every order equally likely, or biased as in the published code."),
    ] = "fair",
    weights: Annotated[
        Literal["pq", "pq2"], typer.Option(help="A squared error counts p q times, or (p q)^2 times as published.")
    ] = "pq",
    seed: Annotated[int, typer.Option(help="Of the subtraces and the orders.", min=0)] = 0,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Also compare the functions with six known policies on windows.")
    ] = False,
    days: Annotated[float | None, typer.Option(help="--evaluate: how long a window is [default: 15].")] = None,
    count: Annotated[int | None, typer.Option(help="--evaluate: only the first so many windows.", min=1)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the policy file, for --policy lin@FILE and its kin: qdr, cub, qua.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn heuristics by regression on the scores of many random schedules, and save them as policies."""
    import sys

    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance as kernel
    from batfill.tuning import heuristics
    from batfill.tuning.results import as_json as text_of
    from batfill.tuning.results import as_table
    from batfill.tuning.weeks import read_periods
    from batfill.workloads import read_workload
    from batfill.workloads.files import write_text

    heuristics.check_asked(evaluate, days=days, count=count)
    log = read_workload(workload, procs=procs)
    warn(log.warnings)
    with progress("tuples", tuples) as advance:
        content, fits = heuristics.fit_heuristics(
            log, seed=seed, tuples=tuples, permutations=permutations, how=shuffle, weights=weights, advance=advance
        )
    if out is not None:
        write_text(out, text_of(content) + "\n")
    evaluation = None
    if evaluate:
        announce_compilation(kernel)
        windows = read_periods(workload, procs=procs, days=days or 15, align="first", boundary="submitted", count=count)
        with progress("windows", 2 * len(windows)) as advance:
            evaluation = heuristics.evaluate(windows, heuristics.policies_of(fits), advance=advance)
    if as_json:
        print(text_of({**content, "evaluation": evaluation} if evaluation else content))
        return
    print(as_table(heuristics.coefficient_rows(fits)))
    if evaluation:
        print()
        print(as_table(heuristics.evaluation_rows(evaluation)))
    for found in fits:
        for warning in found.warnings:
            print(f"batfill: {found.name}: {warning}", file=sys.stderr)

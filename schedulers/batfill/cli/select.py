"""`batfill select`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from batfill.cli import ordering


def select(
    workload: Annotated[Path, typer.Argument(help="An SWF, Parquet or Batsim JSON log.")],
    procs: Annotated[
        int | None, typer.Option(help="The machine's processors; by default what the log says.", min=1)
    ] = None,
    method: Annotated[
        Literal["full", "noisy", "epsilon-greedy", "ucb1", "exp3"],
        typer.Option(help="Replay each past period under all policies, exactly or badly; or learn from what was used."),
    ] = "full",
    policies: Annotated[
        str, typer.Option(help="`ten`, `twelve`, or names separated by commas (by semicolons, if some are mixed).")
    ] = "ten",
    period: Annotated[float, typer.Option(help="Delta: seconds between choices.", min=1)] = 604_800,
    decay: Annotated[
        float | None,
        typer.Option("--lambda", help="full, noisy: what a period counts for each that came later [default: 0.9]."),
    ] = None,
    balance: Annotated[
        float | None,
        typer.Option("--alpha", help="full, noisy: 1 lets periods count by their jobs, 0 all alike [default: 1]."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="epsilon-greedy: the share of random choices [default: 0.1].")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="exp3: the share of random choices [default: 0.1].")] = None,
    noise: Annotated[
        str | None,
        typer.Option(help="noisy: `walltime` replays with requested times [default], a number spreads run times."),
    ] = None,
    backfill: ordering.Backfill = "same",
    threshold: ordering.Threshold = None,
    samples: Annotated[int, typer.Option(help="Resample the log's weeks so often; 0 takes it as it is.", min=0)] = 0,
    weeks: Annotated[int | None, typer.Option(help="Length of a sample [default: the log's].", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the samples, the noise and the choices.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Write all of it to this JSON file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as one JSON object.")] = False,
) -> None:
    """Choose the policy anew after each period by what the past has shown, and compare waits with EASY-FCFS's."""
    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.compiled import announce_compilation
    from batfill.engine import advance as kernel
    from batfill.tuning import select as library
    from batfill.tuning.results import as_json as text_of
    from batfill.tuning.results import as_table
    from batfill.tuning.samples import Samples
    from batfill.tuning.selection import selection_and_rules
    from batfill.workloads.files import write_text

    announce_compilation(kernel)
    given = {"select": method, "policies": policies, "period": period, "select-seed": seed, "noise": noise}
    given |= {"lambda": decay, "alpha": balance, "epsilon": epsilon, "gamma": gamma}
    logs = Samples.of(workload, procs=procs, resampled=samples > 0, weeks=weeks, seed=seed)
    warn(logs.warnings)
    selection, rules = selection_and_rules(given, logs.procs, backfill, threshold)
    with progress("logs", max(samples, 1)) as advance:
        found = library.select(logs.jobs, max(samples, 1), selection, rules, source=logs.provenance(), advance=advance)
    if out is not None:
        write_text(out, text_of(found) + "\n")
    print(text_of(found) if as_json else as_table(library.rows_of(found)))

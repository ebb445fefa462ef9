"""`batfill classify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from batfill.cli import learning


def classify(
    workload: Annotated[Path, typer.Argument(help="An SWF log, Parquet, or a Batsim JSON workload.")],
    regime: learning.Regime = None,
    divider_rule: learning.DividerRule = None,
    cut: learning.Cut = None,
    train: learning.Train = None,
    train_lag: learning.TrainLag = None,
    seed: learning.Seed = None,
    out: Annotated[
        Path | None, typer.Option(help="Write tables (Parquet), figures (SVG) and summary.json into this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Judge every job of a log small or large as an online scheduler could have, and say how good that was."""
    import json

    from batfill.cli import warn
    from batfill.cli.progress import progress
    from batfill.knowledge.choice import Learning
    from batfill.knowledge.study import as_text, read_jobs, study

    given = learning.chosen(
        regime=regime, divider_rule=divider_rule, cut=cut, train=train, train_lag=train_lag, seed=seed
    )
    settings = Learning.of({"knowledge": "classifier", **given}).settings
    jobs = read_jobs(workload)
    warn(jobs.warnings)
    with progress("jobs judged", len(jobs)) as judged:
        done = study(jobs, settings, judged)
    if out is not None:
        from batfill.knowledge.study_files import write_study

        write_study(done, out)
    print(json.dumps({**done.as_dict(), "per_week": done.weeks()}, indent=1) if as_json else as_text(done))

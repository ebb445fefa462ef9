"""Options about a site's own Slurm, which several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from batfill.base.errors import LARGEST, BatfillError
from batfill.cli.app import named
from batfill.cli.parameters import FILE, WORDS, Whole, collecting

SITE: dict[str, dict[str, Any]] = {
    "timezone": {"help": "The cluster's time zone, of dates without one, as Europe/Paris [default: UTC]."},
    "slurm_version": {
        "help": "Its version of Slurm, whose rules and defaults hold [default: 22.05, or the last with its options]."
    },
    "windows": {
        "type": FILE,
        "help": "Nodes that were reserved or down, as CSV: nodes,begin,end and, if known before, announced.",
    },
    "sshare": {"type": FILE, "help": "What `sshare -l` printed when the log begins: the usage before it."},
    "accounts": {
        "type": FILE,
        "multiple": True,
        "help": "Shares and limits: what `sacctmgr dump` and `sacctmgr -P show qos` print. Repeatable.",
    },
    "slurm_conf": {
        "type": FILE,
        "help": "The site's slurm.conf: LOG is what `sacct -P` prints, and Slurm is modelled.",
    },
}


site_options = collecting("site", SITE)
RUNS = click.option("--runs", type=Whole(5, LARGEST), default=20, help="Runs of the model of the site's Slurm.")


def require_one_kind(site: Mapping[str, Any], own: set[str], both: set[str]) -> None:
    """Refuse options of the other kind of question: about one pool, or about a site's Slurm.

    Also refuse both --details and --json, and to write one of the files that slurm.conf leads to. `own`: the command's
    own parameters about a site's Slurm; `both`: those of both kinds, beside these and --out.
    """
    slurm, context = "slurm_conf" in site, click.get_current_context()
    if context.params["details"] and context.params["as_json"]:
        raise BatfillError("option details: --json has all of them; leave one of the two out")
    both = both | {"out", "details", "as_json"}
    given = [param for param in context.command.params if param.name in context.meta[WORDS] and param.name not in both]
    other = [named(param) for param in given if (param.name in {*SITE, *own}) != slurm]
    if other and slurm:
        raise BatfillError(f"{other[0]}: it belongs to one pool, and --slurm-conf has the site's Slurm; leave it out")
    if other:
        raise BatfillError(f"{other[0]}: it belongs to a site's Slurm; give its slurm.conf with --slurm-conf, too")
    if slurm and (out := context.params["out"]) is not None:
        from batfill.base.files import require_other
        from batfill_site.slurm.conf import files_of

        require_other("--out", out, files_of(site["slurm_conf"]))

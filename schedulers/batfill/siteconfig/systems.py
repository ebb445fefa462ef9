"""The batch systems that are known, and the one way to ask for a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batfill.errors import BatfillError
from batfill.options import Options
from batfill.siteconfig.flux import flux
from batfill.siteconfig.oar import oar
from batfill.siteconfig.pbs import pbs
from batfill.siteconfig.slurm import slurm

if TYPE_CHECKING:
    from batfill.siteconfig.verdict import SiteConfig

SYSTEMS = {"slurm": slurm, "oar": oar, "pbs": pbs, "flux": flux}


def site_config(
    system: str, policy: str, *, backfill: str | None = None, threshold_s: float | None = None
) -> SiteConfig:
    """The nearest configuration of the system to a policy.

    Args:
        system: a name of SYSTEMS.
        policy: the queue's order, as `policy_named` takes it.
        backfill: the order of backfilling; None, `same` or the policy itself for the queue's own.
        threshold_s: jobs that have waited longer come first; None for never.

    Raises:
        BatfillError: there is no such system or policy, or the threshold is no number of seconds.
    """
    if system not in SYSTEMS:
        raise BatfillError(f"batch system {system!r} is unknown; known are {', '.join(SYSTEMS)}")
    options = Options.of({"policy": policy, "backfill": backfill, "threshold": threshold_s})
    own = options.backfill is None or options.backfill.name == options.policy.name
    # Under fcfs the oldest job is first anyway: a threshold changes nothing.
    after_s = None if options.policy.name == "fcfs" else threshold_s
    other = None if own or options.backfill is None else options.backfill.name
    return SYSTEMS[system](options.policy.name, backfill=other, threshold_s=after_s)

"""One experiment run as robin runs it, from a descriptor to a summary."""

from batfill.batsim.runner.experiment import Outcome, run

__all__ = ["Outcome", "run"]

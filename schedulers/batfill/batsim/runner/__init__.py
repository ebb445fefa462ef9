"""Runs one experiment as robin does, from a descriptor to a summary."""

from batfill.batsim.runner.experiment import SimulationOutcome, run

__all__ = ["SimulationOutcome", "run"]

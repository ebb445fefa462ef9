"""EASY-backfilling schedulers for the Batsim simulator, and a compiled engine that replays the same decisions."""

__version__ = "0.1.0"

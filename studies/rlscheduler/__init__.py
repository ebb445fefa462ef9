"""The simulator of RLScheduler, as environments."""

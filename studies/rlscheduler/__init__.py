"""The simulator of RLScheduler, as environments, and rollouts of networks and orders in it."""

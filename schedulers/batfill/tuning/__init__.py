"""Policies that are searched (mixed weights), learned (regression) and chosen while the cluster runs (bandits)."""

"""Policies found by search (mixed weights), by regression, or online by bandits."""

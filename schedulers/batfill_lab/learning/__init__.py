"""Heuristics fitted to scores of random schedules."""

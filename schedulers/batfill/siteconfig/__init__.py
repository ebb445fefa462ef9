"""Policies as configurations of real batch systems: the nearest one, and how near it is."""

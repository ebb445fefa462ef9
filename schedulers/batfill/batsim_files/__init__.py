"""Batsim's files: results, schedules, platforms and external events, and the machines that they name."""

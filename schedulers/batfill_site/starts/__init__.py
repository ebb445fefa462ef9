"""When waiting jobs are expected to start, and why they do not start now."""

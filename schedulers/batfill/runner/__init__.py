"""Runs one experiment as robin does, from a descriptor to a summary; `experiment.run` is the whole of it."""

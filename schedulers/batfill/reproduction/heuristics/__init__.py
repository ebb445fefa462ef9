"""The entries of the 2023 study of regression heuristics."""

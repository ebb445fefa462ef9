"""The entries of the 2022 study of small jobs first."""

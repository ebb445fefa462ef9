"""The entries of the 2017 study of online policy selection."""

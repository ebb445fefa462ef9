"""The commands of a researcher."""

"""The commands of an administrator."""

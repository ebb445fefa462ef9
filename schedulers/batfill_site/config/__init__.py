"""A batch system's configuration for a policy."""

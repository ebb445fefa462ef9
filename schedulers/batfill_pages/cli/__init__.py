"""The command that makes pages."""

"""Policies chosen online: what the past periods say of the next."""

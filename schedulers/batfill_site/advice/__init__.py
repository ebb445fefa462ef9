"""What another queue order would do to a cluster's own log, as text and as a page."""

"""The records of batch systems, as logs."""

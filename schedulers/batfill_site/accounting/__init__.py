"""The records of batch systems and of computing centres, as logs."""

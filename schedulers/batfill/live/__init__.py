"""The scheduler under Batsim: a cluster whose jobs arrive and end one message at a time."""

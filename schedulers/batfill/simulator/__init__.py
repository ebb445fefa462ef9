"""The embedded simulator: Batsim 4.2's command line and protocol for jobs that do not communicate, without SimGrid."""

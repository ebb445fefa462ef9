"""The embedded simulator: Batsim 4.2's command line and protocol for workloads of delays, without SimGrid."""

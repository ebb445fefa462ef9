"""The embedded Batsim: Batsim 4.2's command line and protocol for delay workloads, without SimGrid."""

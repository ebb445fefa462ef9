"""For an administrator: a cluster's own log, what another queue order would do to it, and how to configure that.

Start with `advice.what_if`, which replays a log under the orders that a batch system can be given and says who would
pay. `accounting` reads the records of Slurm, OAR and PBS; `fidelity` says how far the simulated waits are from those in
the log; `starts` when waiting jobs will start, and why they do not start now; `config` writes a batch system's files.
`slurm` is a model of a site's own Slurm, in which `slurm.what_if` tries changes of slurm.conf. `cli` has the commands.

This house uses the core and the pages; neither knows it but by `batfill.base.doors` and the table of commands.
"""

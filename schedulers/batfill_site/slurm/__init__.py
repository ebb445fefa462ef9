"""A model of Slurm: a site's configuration and jobs in, the start and the nodes of every job out."""

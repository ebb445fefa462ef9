"""For a researcher: grids of replays, learned policies, and an environment for agents.

Start with `campaigns`, which runs a grid of replays from a file and resumes it. `learning` fits heuristics to a log;
`online` chooses policies again after each period; `env` has the environments for reinforcement learning. `cli` has the
commands.

This house uses the core and the pages; neither knows it but by `batfill.base.doors` and the table of commands.
"""

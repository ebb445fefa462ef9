"""The compiled engine: the waiting jobs, the running jobs, and the scheduling decision. It reads no files.

Read in this order: `records` (the data), `blocks` (the waiting jobs, sorted), `ends` (the running jobs, sorted),
`running` (the reservation and the rule of backfilling), `keys` (orders that move with time), `waiting` (joining and
leaving the queue), `plan` (any number of reservations), `easy` (the decision), `arrivals` (a shortcut for jobs
submitted alone), `loop` (the replay's event loop). `motion` and `candidates` serve keys and passes,
`violations` checks a finished run.
"""

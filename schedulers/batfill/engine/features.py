"""What agents and networks see of the waiting jobs and of the cluster: names and formulas; `picks.py` computes them."""

# Of a visible job, in this order. w: its wait, p~: its expected run time, at least a second; q: its processors; m: the
# machine's. The logarithms are binary.
FEATURES_OF_JOB = {
    "wait": "log(1 + w / 1 min) / 16",
    "long_wait": "log(1 + w / 10 h) / 8",
    "expansion": "w / (w + p~)",
    "request": "log(p~) / 20",
    "procs": "log(q) / log(m), 0 on a machine of one processor",
    "share": "q / m",
    "request_x_share": "log(p~) / 20 x q / m",
    "fits": "1 if q processors are idle",
    "safe": "1 if its start would not delay the first job of the queue",
}
# Of the cluster. The first job is that of the queue's order: s its shadow time, or now if it fits.
FEATURES_OF_CLUSTER = {
    "free": "idle processors / m",
    "free_1h": "processors expected to be idle within 1 h / m, if nothing starts",
    "free_8h": "the same within 8 h",
    "waiting": "n / (n + the most visible jobs), for n waiting jobs",
    "work": "A / (A + m x 24 h), where A is the sum of p~ q over the visible jobs",
    "shadow": "(s - now) / (s - now + 1 h)",
    "extra": "processors spare at s, besides the first job / m",
}
OF_JOB, OF_CLUSTER = len(FEATURES_OF_JOB), len(FEATURES_OF_CLUSTER)
FEATURES = OF_JOB + OF_CLUSTER

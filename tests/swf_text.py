"""SWF text for tests, written by hand rather than by the code under test."""

from __future__ import annotations


def row(
    job: object,
    submit: object,
    runtime: object,
    *,
    procs: object = -1,
    req_procs: object = 1,
    req_time: object = -1,
    status: object = 1,
    user: object = 1,
    group: object = 1,
    executable: object = -1,
    queue: object = -1,
    partition: object = -1,
    wait: object = 0,
) -> str:
    """One SWF line of 18 fields."""
    asked = (req_procs, req_time, -1, status)
    fields = (job, submit, wait, runtime, procs, -1, -1, *asked, user, group, executable, queue, partition)
    return " ".join(map(str, (*fields, -1, -1))) + "\n"

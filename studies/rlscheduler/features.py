"""What an agent sees in RLScheduler's simulator (`schedgym.py`): the features that batfill's own engine offers.

The formulas are those of `FEATURES_OF_JOB` and `FEATURES_OF_CLUSTER`, of a machine of whole nodes: m counts the
processors of all nodes, and a job takes the processors of its nodes, while q is what it asks for (at least 1). The
first job is the one submitted first, and p~ the request. Its shadow time is the simulator's, now if that has passed.

Another job is safe if the simulator would backfill it while the first one waits: it fits, and its request ends strictly
before the shadow time; the processors spare at that time do not count. So only the first is safe while it fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.base.kernels import kernel
from batfill.engine.seeing import HOUR_S, bits, see_cluster, see_job, within_limits
from studies.rlscheduler.schedgym import shadow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from studies.rlscheduler.schedgym import Jobs, Machine, State


@kernel
def see_gym(
    jobs: Jobs, machine: Machine, state: State, i: int, seen: int, of_jobs: NDArray[Any], of_cluster: NDArray[Any]
) -> None:
    """Write the features of copy i's cluster and of the first `seen` jobs of its queue.

    Args:
        jobs: the log's.
        machine: the log's.
        state: read only.
        i: a copy at a decision.
        seen: 1 <= seen <= min(waiting, len(of_jobs)).
        of_jobs: float32 (most visible, OF_JOB), an output; rows from `seen` on stay as they are.
        of_cluster: float32 (>= OF_CLUSTER,), an output.
    """
    at = state.at[i]
    now_s, log_row, each = at["now_s"], at["first"], machine.procs_per_node
    size, free = machine.nodes * each, at["free"] * each
    need = jobs.nodes[log_row + state.queue[i, 0]]
    shadow_s = now_s
    if need > at["free"]:
        shadow_s = shadow(jobs, machine, state, i, state.queue[i, 0])
    free_1h = free_8h = at_shadow = at["free"]
    for k in range(at["running"]):
        running = state.by_request[i, k]
        end_s, nodes = state.expected_end_s[i, running], jobs.nodes[log_row + running]
        free_1h += nodes * (end_s <= now_s + HOUR_S)
        free_8h += nodes * (end_s <= now_s + 8 * HOUR_S)
        at_shadow += nodes * (end_s <= shadow_s and need > at["free"])
    work_proc_s = 0.0
    for place in range(seen):
        row = log_row + state.queue[i, place]
        request_s, procs = jobs.request_s[row], max(jobs.procs[row], 1)
        work_proc_s += within_limits(request_s) * procs
        fits = jobs.nodes[row] <= at["free"]
        safe = fits and (place == 0 or now_s + request_s < shadow_s)
        log_p, log_q = bits(within_limits(request_s)), bits(procs)
        see_job(now_s, jobs.submit_s[row], request_s, procs, log_p, log_q, size, free, safe, of_jobs[place])
    see_cluster(
        now_s,
        size,
        free,
        free_1h * each,
        free_8h * each,
        at["waiting"],
        len(of_jobs),
        work_proc_s,
        max(shadow_s, now_s),
        (at_shadow - need) * each,
        of_cluster,
    )

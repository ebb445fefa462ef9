"""The environment as gymnasium has it, and what an agent is rewarded for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import BatfillError, nearest, optional
from batfill.engine.records import new_records
from batfill.model.jobs import refuse_cancelled
from batfill.model.metrics import TAU_S, bounded_slowdown, span_and_work, utilisation
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay
from batfill.workloads import opened
from batfill_lab.env import deciding, seeing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from batfill.model.jobs import Jobs

gymnasium = optional("gymnasium", "rl")

Observation = dict[str, Any]
# Of jobs that start: (wait_s, runtime_s, procs), each of shape (n_started,), to a value each. A job counts in the step
# in which it starts, and the sum is divided by the episode's jobs: the rewards of an episode add up to the mean value.
Reward = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]]
ACTIONS = ("pick", "backfill")
REWARDS = ("bsld", "wait", "utilisation")
DRAWS = 1000  # of an episode, if none has a decision to take


class SchedulingEnv(gymnasium.Env):  # type: ignore[misc, name-defined] # gymnasium is optional
    """An environment of one episode at a time.

    An episode is some consecutive jobs of a log. At each decision that matters the agent sees the first waiting jobs
    and the cluster, and acts; docs/reference/environments.md gives features, actions and rewards exactly.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        log: Jobs | str | Path,
        *,
        action: str = "pick",
        visible: int = 128,
        base: str = "fcfs",
        jobs: int = 256,
        warm: int = 0,
        firsts: Sequence[int] | NDArray[np.integer[Any]] | None = None,
        reward: str | Reward = "bsld",
        tau_s: float = TAU_S,
    ) -> None:
        """Set up the environment.

        Args:
            log: a workload, or the path of one. Jobs wider than the machine are left out.
            action: what the agent decides: "pick" the next job to start or reserve for, or which to "backfill".
            visible: the most jobs that it sees.
            base: the order in which it sees them, and of backfilling: a policy that does not move.
            jobs: the scored jobs of an episode.
            warm: the jobs before them, which fill the machine.
            firsts: the rows of the log at which episodes may begin; by default all.
            reward: "bsld", "wait" or "utilisation", or a function as `Reward`.
            tau_s: the bound of the bounded slowdown, in seconds.
        """
        if action not in ACTIONS:
            raise BatfillError(f"action: {action!r} is none of {', '.join(ACTIONS)}{nearest(str(action), ACTIONS)}")
        if not callable(reward) and reward not in REWARDS:
            known = f"{', '.join(REWARDS)}, nor a function{nearest(str(reward), REWARDS)}"
            raise BatfillError(f"reward: {reward!r} is none of {known}")
        for name, number, least in (("visible", visible, 2), ("jobs", jobs, 2), ("warm", warm, 0)):
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
                raise BatfillError(f"{name}: {number!r} is not a whole number of at least {least}")
        if not isinstance(tau_s, int | float) or not 0 < tau_s < np.inf:
            raise BatfillError(f"tau_s: {tau_s!r} is not a number of seconds > 0")
        order, workload = policy_named(base), opened(log)[0]
        refuse_cancelled(workload, workload.where, "an environment")
        if order.moves:
            raise BatfillError(
                f"base: the order {order.name} changes while jobs wait; give one that is fixed, as fcfs or saf"
            )
        assert workload.size is not None
        self.size, self.rules = workload.size, Rules(order)
        self.table = workload.jobs.select(workload.jobs.procs <= self.size)
        self.jobs, self.warm, self.length = jobs, warm, warm + jobs
        if len(self.table) < self.length:
            raise BatfillError(
                f"{workload.name}: {len(self.table)} jobs fit the machine, and an episode takes {self.length}; "
                "give fewer jobs"
            )
        self.last = len(self.table) - self.length
        self.firsts = np.arange(self.last + 1) if firsts is None else self.checked(firsts, "firsts")
        self.reward, self.tau_s = reward, tau_s
        self.episode = new_records(1, deciding.EPISODE)
        self.backfills, n_actions = action == "backfill", visible + (action == "backfill")
        self.sight = seeing.Sight(
            rows=np.zeros(visible, np.uint32),
            logs=np.zeros((self.length, 2), np.float32),
            jobs=np.zeros((visible, seeing.OF_JOB), np.float32),
            cluster=np.zeros(seeing.OF_CLUSTER, np.float32),
            mask=np.zeros(n_actions, np.int8),
        )
        spaces = gymnasium.spaces
        self.observation_space = spaces.Dict(
            {
                "jobs": spaces.Box(0, 2, self.sight.jobs.shape, np.float32),
                "cluster": spaces.Box(0, 2, self.sight.cluster.shape, np.float32),
                "action_mask": spaces.MultiBinary(n_actions),
            }
        )
        self.action_space = spaces.Discrete(n_actions)

    def checked(self, firsts: Any, what: str) -> NDArray[np.int64]:
        """These rows, if episodes can begin there."""
        rows = np.atleast_1d(np.asarray(firsts))
        if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.max() > self.last:
            raise BatfillError(f"{what}: not rows of the log from 0 to {self.last}, where episodes can begin")
        return rows.astype(np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; returns the observation, and the row in the log of its first job, "first".

        Args:
            seed: of the random numbers.
            options: {"first": row} begins at this row of the log instead of a random one.
        """
        super().reset(seed=seed)
        if other := [name for name in options or {} if name != "first"]:
            raise BatfillError(f"options: there is no {other[0]!r}; the only one is 'first'")
        given = self.checked(options["first"], "options: first") if options else None
        for _ in range(DRAWS if given is None else 1):
            firsts = self.firsts if given is None else given
            self.first = int(firsts[self.np_random.integers(len(firsts))] if given is None else given[0])
            self.begin()
            if self.episode["seen"][0]:
                return self.observation(), {"first": self.first}
        where = f"{DRAWS} episodes at random" if given is None else f"the episode from row {self.first} on"
        raise BatfillError(f"jobs: no decision to take in {where}; make episodes of more than {self.jobs} jobs")

    def begin(self) -> None:
        """Begin the episode from row `first` of the log on."""
        self.replay = EngineReplay(
            self.table.select(slice(self.first, self.first + self.length)), self.size, self.rules
        )
        self.episode[:] = 0
        self.episode["warm"], self.episode["unscheduled"] = self.warm, self.jobs
        self.episode["backfills"], self.reported = self.backfills, 0
        for array in (self.sight.jobs, self.sight.mask):
            array[:] = 0
        self.owed = self.advance(0, acts=False)  # the reward of jobs that started before the first decision

    def advance(self, action: int, *, acts: bool) -> float:
        """Go on to the next decision; returns what the step is worth."""
        queue, events = self.replay.queue, self.replay.events
        queue.ask(deciding.step, action, acts=acts, seen=(events, self.sight, self.episode))
        rows = self.replay.tries["row"][self.reported :]
        self.reported += len(rows)
        if self.reward == "utilisation":
            return 0.0 if not acts or self.episode["seen"][0] else float(self.figures()["utilisation"])
        rows = rows[rows >= self.warm]
        table, procs = self.replay.table, self.replay.table.procs[rows]
        wait_s = queue.jobs["start_s"][rows] - table.submit_s[rows]
        runtime_s = events.duration_s[rows]
        if callable(self.reward):
            values = np.asarray(self.reward(wait_s, runtime_s, procs))
            if values.shape != rows.shape:
                raise BatfillError(
                    f"reward: the function returned shape {values.shape} for {len(rows)} jobs; one value each"
                )
        else:
            values = -bounded_slowdown(wait_s, runtime_s, self.tau_s) if self.reward == "bsld" else -wait_s / 3600
        return float(np.cumsum(values)[-1]) / self.jobs if len(values) else 0.0

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out an action; at an episode's end the info has its figures."""
        if not self.episode["seen"][0]:
            raise BatfillError("step: the episode is over, or none has begun; call reset first")
        given = np.asarray(action)
        if given.shape != () or given.dtype.kind not in "iu":
            raise BatfillError(f"action: {action!r} is not a whole number, see action_space")
        gained = self.advance(int(given), acts=True) + self.owed
        self.owed, done = 0.0, not self.episode["seen"][0]
        return self.observation(), gained, done, False, self.figures() if done else {}

    def observation(self) -> Observation:
        """What the agent sees, a copy."""
        sight = self.sight
        return {"jobs": sight.jobs.copy(), "cluster": sight.cluster.copy(), "action_mask": sight.mask.copy()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Which jobs can be chosen, (n_actions,)."""
        return np.asarray(self.sight.mask != 0)

    def figures(self) -> dict[str, Any]:
        """The figures of the episode, which is over."""
        table, scored = self.replay.table, slice(self.warm, None)
        start_s, runtime_s = self.replay.start_s[scored], self.replay.events.duration_s[scored]
        submit_s, procs = table.submit_s[scored], table.procs[scored]
        wait_s = start_s - submit_s
        return {
            "mean_bsld": float(bounded_slowdown(wait_s, runtime_s, self.tau_s).mean()),
            "mean_wait_s": float(wait_s.mean()),
            "max_wait_s": float(wait_s.max()),
            "utilisation": float(utilisation(self.size, *span_and_work(submit_s, start_s, runtime_s, procs))),
            "first": self.first,
            "decisions": int(self.episode["decisions"][0]),
            "invalid_actions": int(self.episode["invalid"][0]),
        }

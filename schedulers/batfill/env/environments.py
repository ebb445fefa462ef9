"""The environments as gymnasium has them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from batfill.env.easy import ACTIONS, WEIGHTS, EasyCopies
from batfill.env.rewards import REWARDS, Reward, reward_named
from batfill.errors import BatfillError, nearest, optional
from batfill.jobs import Workload
from batfill.metrics import TAU_S, bounded_slowdown, span_and_work, utilisation
from batfill.policy import policy_named
from batfill.workloads import read_workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

gymnasium = optional("gymnasium", "rl")
vector = optional("gymnasium.vector", "rl")

Observation = dict[str, Any]
SEMANTICS = ("easy", "schedgym")


class Episodes:
    """Copies of a simulation, with the random starts of their episodes, and their rewards."""

    def __init__(
        self,
        log: Workload | str | Path,
        *,
        copies: int,
        action: str = "pick",
        visible: int = 128,
        base: str = "fcfs",
        jobs: int = 256,
        warm: int = 0,
        firsts: Sequence[int] | None = None,
        every: int = 16,
        reward: str | Reward = "bsld",
        tau_s: float = TAU_S,
        threads: int | None = None,
    ) -> None:
        workload = log if isinstance(log, Workload) else read_workload(log)
        for name, number, least in (
            ("num_envs", copies, 1),
            ("visible", visible, 1),
            ("jobs", jobs, 1),
            ("warm", warm, 0),
            ("every", every, 1),
            ("threads", 1 if threads is None else threads, 1),
        ):
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
                raise BatfillError(f"{name}: {number!r} is not a whole number of at least {least}")
        if action not in ACTIONS:
            raise BatfillError(f"action: {action!r} is none of {', '.join(ACTIONS)}{nearest(action, ACTIONS)}")
        if isinstance(reward, str) and reward not in REWARDS:
            raise BatfillError(
                f"reward: {reward!r} is none of {', '.join(REWARDS)}, nor a function{nearest(reward, REWARDS)}"
            )
        self.action, self.visible, self.tau_s = action, visible, tau_s
        self.copies = EasyCopies(
            workload,
            copies=copies,
            action=action,
            visible=visible,
            base=policy_named(base),
            jobs=jobs,
            warm=warm,
            every=every,
            threads=threads or len(os.sched_getaffinity(0)),
        )
        last = self.copies.firsts - 1
        self.firsts = np.arange(last + 1) if firsts is None else np.asarray(firsts, np.int64)
        if self.firsts.ndim != 1 or not len(self.firsts) or self.firsts.min() < 0 or self.firsts.max() > last:
            raise BatfillError(f"firsts: not rows of the log from 0 to {last}, where an episode of {jobs} jobs may begin")
        self.jobs, self.warm = jobs, warm
        self.final = reward == "utilisation"
        self.reward = None if self.final else reward_named(reward, tau_s) if isinstance(reward, str) else reward
        self.first = np.zeros(copies, np.int64)
        self.none = np.zeros(copies, np.int64), np.zeros((copies, max(visible, 6)))

    def begin(self, copies: NDArray[np.intp], firsts: Sequence[int]) -> NDArray[np.uint8]:
        """Note the episodes that begin in these copies at the next step; returns which they are."""
        begins = np.zeros(len(self.first), np.uint8)
        begins[copies] = 1
        self.first[copies] = firsts
        return begins

    def step(self, actions: Any, begins: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Step every copy; returns the rewards, (copies,)."""
        places, values = self.none
        if actions is not None:
            if self.action in ("pick", "backfill"):
                places = np.ascontiguousarray(actions, np.int64)
            else:
                values = self.values_of(np.asarray(actions, np.float64))
        copy, row = self.copies.step(places, values, begins, self.first)
        rewards = np.zeros(len(self.first))
        scored = row >= self.warm
        if self.reward is not None and scored.any():
            copy, row = (copy, row) if self.warm == 0 else (copy[scored], row[scored])
            in_log = self.first[copy] + row
            wait_s = self.copies.starts(copy, row) - self.copies.submit_s[in_log]
            value = self.reward(wait_s, self.copies.runtime_s[in_log], self.copies.procs[in_log])
            rewards = np.bincount(copy, value, len(rewards)) / self.jobs
        elif self.final:
            for each in np.flatnonzero(self.done).tolist():
                rewards[each] = self.summary(each)["utilisation"] if not begins[each] else 0.0
        return rewards

    def values_of(self, actions: NDArray[np.float64]) -> NDArray[np.float64]:
        """The priorities or weights that actions name, (copies, n)."""
        if self.action == "mixed":
            norm = np.abs(actions).sum(axis=1, keepdims=True)
            fcfs = np.array([0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
            return np.where(norm > 0, actions / np.where(norm > 0, norm, 1.0), fcfs)
        if self.action == "aged":
            return np.column_stack([10 ** (4 + 2 * actions[:, 0]), 1 + actions[:, 1], 1 + actions[:, 2]])
        return np.ascontiguousarray(actions)

    @property
    def done(self) -> NDArray[np.bool_]:
        """Whose episodes are over, (copies,)."""
        return self.copies.seen.done.astype(bool)

    def summary(self, copy: int) -> dict[str, float]:
        """The figures of a copy's episode, all of whose scored jobs have started."""
        rows = np.arange(self.warm, self.warm + self.jobs)
        in_log = slice(self.first[copy] + self.warm, self.first[copy] + self.warm + self.jobs)
        submit_s, runtime_s = self.copies.submit_s[in_log], self.copies.runtime_s[in_log]
        start_s = self.copies.starts(np.int64(copy), rows)
        wait_s = start_s - submit_s
        decisions, invalid = self.copies.counts(copy)
        return {
            "mean_bsld": float(bounded_slowdown(wait_s, runtime_s, self.tau_s).mean()),
            "mean_wait_s": float(wait_s.mean()),
            "max_wait_s": float(wait_s.max()),
            "utilisation": utilisation(
                self.copies.size, *span_and_work(submit_s, start_s, runtime_s, self.copies.procs[in_log])
            ),
            "first": int(self.first[copy]),
            "decisions": decisions,
            "invalid_actions": invalid,
        }

    def spaces(self) -> tuple[Any, Any]:
        """The spaces of observations and actions of one copy."""
        spaces, seen = gymnasium.spaces, self.copies.seen
        observation = spaces.Dict(
            {
                "jobs": spaces.Box(0, 2, seen.jobs.shape[1:], np.float32),
                "cluster": spaces.Box(0, 2, seen.cluster.shape[1:], np.float32),
                "action_mask": spaces.MultiBinary(seen.mask.shape[1]),
            }
        )
        if self.action in ("pick", "backfill"):
            return observation, spaces.Discrete(seen.mask.shape[1])
        return observation, spaces.Box(-1, 1, (WEIGHTS.get(self.action, self.visible),), np.float32)


class SchedulingEnv(gymnasium.Env):  # type: ignore[misc] # gymnasium is optional
    """One episode at a time."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, log: Workload | str | Path, **how: Any) -> None:
        """Set up the environment.

        Args:
            log: a workload, or the path of one.
            how: as for `SchedulingVectorEnv`.
        """
        self.episodes = Episodes(log, copies=1, threads=1, **how)
        self.observation_space, self.action_space = self.episodes.spaces()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of the random numbers.
            options: {"first": row} begins at this row of the log instead of a random one.
        """
        super().reset(seed=seed)
        first = first_of(options, self.episodes.firsts, self.np_random, 0)
        self.episodes.step(None, self.episodes.begin(np.zeros(1, np.intp), [first]))
        return self.observation(), {"first": first}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out an action."""
        if self.episodes.done[0]:
            raise BatfillError("step: the episode is over, or none has begun; call reset first")
        rewards = self.episodes.step(np.asarray(action)[None], np.zeros(1, np.uint8))
        done = bool(self.episodes.done[0])
        return self.observation(), float(rewards[0]), done, False, self.episodes.summary(0) if done else {}

    def observation(self) -> Observation:
        """What the agent sees: copies."""
        seen = self.episodes.copies.seen
        return {"jobs": seen.jobs[0].copy(), "cluster": seen.cluster[0].copy(), "action_mask": seen.mask[0].copy()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions name something that can be chosen, (n_actions,)."""
        return self.episodes.copies.seen.mask[0] != 0


class SchedulingVectorEnv(vector.VectorEnv):  # type: ignore[misc] # gymnasium is optional
    """Many episodes at once, stepped in compiled code on all cores."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": vector.AutoresetMode.NEXT_STEP}

    def __init__(self, log: Workload | str | Path, num_envs: int = 64, *, copy: bool = True, **how: Any) -> None:
        self.num_envs, self.copy = num_envs, copy
        self.episodes = Episodes(log, copies=num_envs, **how)
        self.single_observation_space, self.single_action_space = self.episodes.spaces()
        self.observation_space = vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = vector.utils.batch_space(self.single_action_space, num_envs)
        self.randoms: list[np.random.Generator] = []

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every copy.

        Args:
            seed: of the first copy, the next having the next seeds; or one for each copy.
            options: {"first": rows}, one for all copies or one for each, instead of random ones.
        """
        if seed is not None or not self.randoms:
            seeds = [None if seed is None else seed + i for i in range(self.num_envs)] if not np.ndim(seed) else list(seed)  # type: ignore[operator, arg-type]
            self.randoms = [gymnasium.utils.seeding.np_random(each)[0] for each in seeds]
        firsts = [first_of(options, self.episodes.firsts, random, i) for i, random in enumerate(self.randoms)]
        self.episodes.step(None, self.episodes.begin(np.arange(self.num_envs), firsts))
        return self.observation(), {"first": np.array(firsts), "_first": np.ones(self.num_envs, bool)}

    def step(self, actions: Any) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Carry out an action in each copy; where an episode has ended, begin the next instead."""
        over = np.flatnonzero(self.episodes.done)
        begins = self.episodes.begin(over, [first_of(None, self.episodes.firsts, self.randoms[i], 0) for i in over])
        rewards = self.episodes.step(actions, begins)
        done = self.episodes.done
        infos: dict[str, Any] = {}
        for each in np.flatnonzero(done).tolist():
            infos = self._add_info(infos, self.episodes.summary(each), each)
        return self.observation(), rewards, done, np.zeros(self.num_envs, bool), infos

    def observation(self) -> Observation:
        """What the agents see, with one more axis in front."""
        seen = self.episodes.copies.seen
        parts = {"jobs": seen.jobs, "cluster": seen.cluster, "action_mask": seen.mask}
        return {name: array.copy() for name, array in parts.items()} if self.copy else parts

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions name something that can be chosen, (copies, n_actions)."""
        return self.episodes.copies.seen.mask != 0

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self.episodes.copies.close()


def first_of(options: dict[str, Any] | None, firsts: NDArray[np.int64], random: np.random.Generator, copy: int) -> int:
    """Where an episode begins: as the options say, else at random."""
    if options and "first" in options:
        given = np.asarray(options["first"])
        return int(given[copy] if given.ndim else given)
    return int(firsts[random.integers(len(firsts))])

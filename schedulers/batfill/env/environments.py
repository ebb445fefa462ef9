"""The environments as gymnasium has them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from batfill import engine
from batfill.env.easy import ACTIONS, WEIGHTS, EasyCopies
from batfill.env.rewards import REWARDS, Reward, reward_named
from batfill.errors import BatfillError, nearest, optional
from batfill.metrics import TAU_S, bounded_slowdown, span_and_work, utilisation
from batfill.policy import policy_named
from batfill.workloads import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from batfill.jobs import Workload

    from numpy.typing import NDArray

gymnasium = optional("gymnasium", "rl")
vector = optional("gymnasium.vector", "rl")

Observation = dict[str, Any]
SEMANTICS = ("easy", "schedgym")
DRAWS = 1000  # of an episode, if none has a decision to take


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
        workload, _ = opened(log)
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
        everywhere = np.arange(self.copies.firsts)
        self.firsts = everywhere if firsts is None else self.checked(np.asarray(firsts, np.int64), "firsts")
        self.jobs, self.warm = jobs, warm
        self.reward = reward_named(reward, tau_s) if isinstance(reward, str) else reward
        self.first = np.zeros(copies, np.int64)
        self.owed = np.zeros(copies)  # the rewards of jobs that started before an episode's first decision
        self.none = np.zeros(copies, np.int64), np.zeros((copies, max(visible, 6)))

    def checked(self, firsts: NDArray[np.int64], what: str) -> NDArray[np.int64]:
        """These rows, if episodes can begin there."""
        last = self.copies.firsts - 1
        if firsts.ndim != 1 or not len(firsts) or firsts.min() < 0 or firsts.max() > last:
            raise BatfillError(f"{what}: not rows of the log from 0 to {last}, where episodes can begin")
        return firsts

    def draw(self, random: np.random.Generator, given: NDArray[np.int64] | None, copy: int) -> int:
        """Where a copy's episode begins: at the given row, or at random."""
        return int(self.firsts[random.integers(len(self.firsts))] if given is None else given[copy])

    def begin(self, copies: Sequence[int], draw: Callable[[int], int], *, again: bool) -> None:
        """Begin episodes in these copies, the others resting.

        Args:
            copies: which.
            draw: of a copy, the row of the log where its episode begins.
            again: whether to draw again where an episode has no decision to take.

        Raises:
            BatfillError: there is no decision to take.
        """
        tasks = np.full(len(self.first), engine.RESTS, np.uint8)
        self.step(None, tasks, copies, draw, again=again)

    def step(
        self,
        actions: Any,
        tasks: NDArray[np.uint8],
        beginning: Sequence[int],
        draw: Callable[[int], int],
        *,
        again: bool = True,
    ) -> NDArray[np.float64]:
        """Carry out the actions, and begin episodes; returns the rewards of the actions, (copies,).

        Args:
            actions: one for each copy; None if none acts.
            tasks: uint8 (copies,), engine.ACTS or RESTS; changed in place.
            beginning: the copies where episodes begin, as for `begin`.
            draw: as for `begin`.
            again: as for `begin`.
        """
        places, values = self.none
        if actions is not None:
            if self.action in ("pick", "backfill"):
                places = np.ascontiguousarray(actions, np.int64)
            else:
                values = self.values_of(np.asarray(actions, np.float64))
        rewards = np.zeros(len(self.first))
        for _ in range(DRAWS):
            tasks[beginning] = engine.BEGINS
            for copy in beginning:
                self.first[copy] = draw(copy)
            gained = self.advance(places, values, tasks)
            acted = tasks == engine.ACTS
            rewards[acted] = gained[acted] + self.owed[acted]
            self.owed = np.where(acted, 0.0, self.owed)
            self.owed[beginning] = gained[beginning]
            beginning = [copy for copy in beginning if self.copies.seen.done[copy]]
            if not beginning:
                return rewards
            if not again:
                break
            tasks[:] = engine.RESTS
        where = f"{DRAWS} episodes at random" if again else f"the episode from row {self.first[beginning[0]]} on"
        raise BatfillError(f"jobs: no decision to take in {where}; make episodes of more than {self.jobs} jobs")

    def advance(
        self, places: NDArray[np.int64], values: NDArray[np.float64], tasks: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Step the simulation; returns what the step is worth, (copies,).

        That is the sum of the values of the jobs that started, over the number of the episode's jobs.
        """
        copy, row = self.copies.step(places, values, tasks, self.first)
        if self.warm:
            scored = row >= self.warm
            copy, row = copy[scored], row[scored]
        if self.reward is None:
            over = np.flatnonzero(self.done & (tasks == engine.ACTS))
            rewards = np.zeros(len(self.first))
            rewards[over] = self.figures(over)["utilisation"]
            return rewards
        in_log = self.first[copy] + row
        wait_s = self.copies.starts(copy, row) - self.copies.submit_s[in_log]
        value = self.reward(wait_s, self.copies.runtime_s[in_log], self.copies.procs[in_log])
        return np.bincount(copy, value, len(self.first)) / self.jobs

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

    def figures(self, copies: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        """The figures of the episodes of these copies, which are over; each of shape (n,)."""
        in_log = self.first[copies, None] + np.arange(self.warm, self.warm + self.jobs)
        submit_s, runtime_s, procs = (
            column[in_log] for column in (self.copies.submit_s, self.copies.runtime_s, self.copies.procs)
        )
        start_s = self.copies.starts(copies[:, None], np.arange(self.warm, self.warm + self.jobs))
        wait_s = start_s - submit_s
        decisions, invalid = self.copies.counts(copies)
        return {
            "mean_bsld": bounded_slowdown(wait_s, runtime_s, self.tau_s).mean(axis=1),
            "mean_wait_s": wait_s.mean(axis=1),
            "max_wait_s": wait_s.max(axis=1),
            "utilisation": utilisation(self.copies.size, *span_and_work(submit_s, start_s, runtime_s, procs)),
            "first": self.first[copies],
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
        given = given_firsts(options, 1, self.episodes)
        self.episodes.begin([0], lambda copy: self.episodes.draw(self.np_random, given, copy), again=given is None)
        return self.observation(), {"first": int(self.episodes.first[0])}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out an action."""
        if self.episodes.done[0]:
            raise BatfillError("step: the episode is over, or none has begun; call reset first")
        tasks = np.full(1, engine.ACTS, np.uint8)
        rewards = self.episodes.step(np.asarray(action)[None], tasks, [], lambda copy: 0)
        done = bool(self.episodes.done[0])
        figures = self.episodes.figures(np.zeros(1, np.intp)) if done else {}
        info = {name: values[0].item() for name, values in figures.items()}
        return self.observation(), float(rewards[0]), done, False, info

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
        self.begin(range(self.num_envs), given_firsts(options, self.num_envs, self.episodes))
        return self.observation(), {"first": self.episodes.first.copy(), "_first": np.ones(self.num_envs, bool)}

    def begin(self, copies: Sequence[int], given: NDArray[np.int64] | None = None) -> None:
        """Begin episodes in these copies."""
        self.episodes.begin(copies, lambda copy: self.episodes.draw(self.randoms[copy], given, copy), again=given is None)

    def step(self, actions: Any) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Carry out an action in each copy; where an episode has ended, begin the next instead."""
        tasks = np.full(self.num_envs, engine.ACTS, np.uint8)
        over = np.flatnonzero(self.episodes.done).tolist()
        rewards = self.episodes.step(actions, tasks, over, lambda copy: self.episodes.draw(self.randoms[copy], None, copy))
        done, infos = self.episodes.done, {}
        if done.any():
            for name, values in self.episodes.figures(np.flatnonzero(done)).items():
                infos[name] = np.zeros(self.num_envs, values.dtype)
                infos[name][done], infos[f"_{name}"] = values, done.copy()
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


def given_firsts(options: dict[str, Any] | None, copies: int, episodes: Episodes) -> NDArray[np.int64] | None:
    """Where the options have the episodes begin, (copies,); None if they leave it to chance.

    Raises:
        BatfillError: not a row for each copy, or no episode can begin there.
    """
    if not options or "first" not in options:
        return None
    firsts = np.asarray(options["first"])
    if firsts.dtype.kind not in "iu" or firsts.shape not in ((), (copies,)):
        raise BatfillError(f"options: first is not a row of the log, nor one for each of {copies} copies")
    return episodes.checked(np.broadcast_to(firsts, copies).astype(np.int64), "options: first")

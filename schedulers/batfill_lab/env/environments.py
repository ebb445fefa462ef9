"""The environments as gymnasium has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import numpy as np

from batfill.base.errors import BatfillError, nearest, optional
from batfill.base.host import cpu_count
from batfill.model.metrics import TAU_S, bounded_slowdown, span_and_work, utilisation
from batfill.model.policy import policy_named
from batfill.workloads import opened
from batfill_lab.env import copies as stepping
from batfill_lab.env.easy import ACTIONS, WEIGHTS, EasyCopies
from batfill_lab.env.rewards import REWARDS, Reward, reward_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Unpack

    from numpy.typing import NDArray

    from batfill.model.jobs import Workload

gymnasium = optional("gymnasium", "rl")
vector = optional("gymnasium.vector", "rl")

Observation = dict[str, Any]
DRAWS = 1000  # of an episode, if none has a decision to take
PLACES = ("pick", "backfill")  # kinds of action that name a visible job


class How(TypedDict, total=False):
    """The keywords of both environments; `SchedulingEnv` explains them."""

    action: str
    visible: int
    base: str
    jobs: int
    warm: int
    firsts: Sequence[int] | NDArray[np.integer[Any]]
    every: int
    reward: str | Reward
    tau_s: float


DEFAULTS: How = {
    "action": "pick",
    "visible": 128,
    "base": "fcfs",
    "jobs": 256,
    "warm": 0,
    "every": 16,
    "reward": "bsld",
    "tau_s": TAU_S,
}


class Episodes:
    """Copies of a simulation, with the random beginnings of their episodes, and their rewards.

    A subclass may simulate by other rules: it has keywords of its own, and makes other copies.
    """

    keywords = tuple(How.__annotations__)

    def __init__(self, log: Workload | str | Path, *, copies: int, threads: int | None, how: How) -> None:
        """Set up the copies; the arguments are those of the environments."""
        for name in how:
            if name not in self.keywords:
                raise BatfillError(f"{name}: an environment has no such argument{nearest(name, self.keywords)}")
        given = DEFAULTS | how
        self.action, self.visible, self.tau_s = given["action"], given["visible"], given["tau_s"]
        self.jobs, self.warm, reward = given["jobs"], given["warm"], given["reward"]
        check_choice("action", self.action, ACTIONS)
        threads = cpu_count() if threads is None else threads
        check_number("num_envs", copies, 1)
        check_number("threads", threads, 1)
        check_number("visible", self.visible, 1 if self.action in WEIGHTS else 2)
        check_number("jobs", self.jobs, 2)
        check_number("warm", self.warm, 0)
        check_number("every", given["every"], 1)
        if "every" in how and self.action not in WEIGHTS:
            raise BatfillError(
                f"every: does nothing with the action {self.action}, which is asked for at each decision"
            )
        if not isinstance(self.tau_s, int | float) or not 0 < self.tau_s < np.inf:
            raise BatfillError(f"tau_s: {self.tau_s!r} is not a number of seconds > 0")
        if not callable(reward):
            check_choice("reward", reward, REWARDS, ", nor a function")
        self.copies = self.make_copies(log, copies, threads, given)
        everywhere = np.arange(self.copies.firsts)
        self.firsts = self.checked(given["firsts"], "firsts") if "firsts" in given else everywhere
        self.reward = reward if callable(reward) else reward_named(reward, self.tau_s)
        self.first = np.zeros(copies, np.int64)
        self.owed = np.zeros(copies)  # the rewards of jobs that started before an episode's first decision
        self.none = np.zeros(copies, np.int64), np.zeros((copies, self.visible))
        self.copies.seen.done[:] = 1

    def make_copies(self, log: Workload | str | Path, copies: int, threads: int, given: How) -> Any:
        """The copies of the simulation; `given` has every keyword."""
        return EasyCopies(
            opened(log)[0],
            copies=copies,
            action=self.action,
            visible=self.visible,
            base=policy_named(given["base"]),
            jobs=self.jobs,
            warm=self.warm,
            every=given["every"],
            threads=threads,
        )

    def checked(self, firsts: Any, what: str) -> NDArray[np.int64]:
        """These rows, if episodes can begin there."""
        last, rows = self.copies.firsts - 1, np.asarray(firsts)
        if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.max() > last:
            raise BatfillError(f"{what}: not rows of the log from 0 to {last}, where episodes can begin")
        return rows.astype(np.int64)

    def given_firsts(self, options: dict[str, Any] | None) -> NDArray[np.int64] | None:
        """Where the options have the episodes begin, (copies,); None if they leave it to chance."""
        for name in options or {}:
            if name != "first":
                raise BatfillError(f"options: there is no {name!r}; the only one is 'first'")
        if not options:
            return None
        firsts = np.asarray(options["first"])
        if firsts.shape not in ((), self.first.shape):
            raise BatfillError(
                f"options: first is neither a row of the log nor one for each of {len(self.first)} copies"
            )
        return self.checked(np.broadcast_to(firsts, self.first.shape), "options: first")

    def draw(self, random: np.random.Generator, given: NDArray[np.int64] | None, copy: int) -> int:
        """Where a copy's episode begins: at the given row, or at random."""
        return int(self.firsts[random.integers(len(self.firsts))] if given is None else given[copy])

    def step(
        self,
        actions: Any,
        tasks: NDArray[np.uint8],
        beginning: Sequence[int],
        draw: Callable[[int], int],
        *,
        again: bool,
    ) -> NDArray[np.float64]:
        """Carry out the actions, and begin episodes; returns the rewards of the actions, (copies,).

        Args:
            actions: one for each copy; None if none acts.
            tasks: uint8 (copies,), stepping.ACTS or RESTS; changed in place.
            beginning: the copies where episodes begin.
            draw: of a copy, the row of the log where its episode begins.
            again: whether to draw again where an episode has no decision to take.

        Raises:
            BatfillError: the actions have another shape or are not finite, or there is no decision to take.
        """
        places, values = self.none if actions is None else self.actions_of(actions)
        rewards = np.zeros(len(self.first))
        for _ in range(DRAWS):
            tasks[beginning] = stepping.BEGINS
            for copy in beginning:
                self.first[copy] = draw(copy)
            gained = self.advance(places, values, tasks)
            acted = tasks == stepping.ACTS
            rewards[acted] = gained[acted] + self.owed[acted]
            self.owed[acted] = 0.0
            self.owed[beginning] = gained[beginning]
            beginning = [copy for copy in beginning if self.copies.seen.done[copy]]
            if not beginning:
                return rewards
            if not again:
                break
            tasks[:] = stepping.RESTS
        where = f"{DRAWS} episodes at random" if again else f"the episode from row {self.first[beginning[0]]} on"
        raise BatfillError(f"jobs: no decision to take in {where}; make episodes of more than {self.jobs} jobs")

    def actions_of(self, actions: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The actions as the simulation takes them: places (copies,), and values (copies, n)."""
        places, values = self.none
        given = np.asarray(actions)
        shape = self.first.shape if self.action in PLACES else (*self.first.shape, self.width)
        if given.shape != shape or given.dtype.kind not in ("iu" if self.action in PLACES else "iuf"):
            raise BatfillError(
                f"action: of shape {given.shape} and type {given.dtype}; it needs {shape}, see action_space"
            )
        if self.action in PLACES:
            return np.array(given, np.int64, order="C"), values
        if not np.isfinite(given).all():
            raise BatfillError("action: a value is not finite")
        if self.action == "priorities":
            return places, np.array(given, np.float64, order="C")
        weights = np.clip(given, -1, 1).astype(np.float64)
        if self.action == "aged":
            return places, np.column_stack([10 ** (4 + 2 * weights[:, 0]), 1 + weights[:, 1], 1 + weights[:, 2]])
        norm = np.abs(weights).sum(axis=1, keepdims=True)
        fcfs = np.array([0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
        return places, np.ascontiguousarray(np.where(norm > 0, weights / np.where(norm > 0, norm, 1.0), fcfs))

    def advance(
        self, places: NDArray[np.int64], values: NDArray[np.float64], tasks: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Step the simulation; returns what the step is worth, (copies,).

        That is the sum of the values of the jobs that started, over the number of the episode's jobs.
        """
        started = self.copies.step(places, values, tasks, self.first)
        if self.reward is None:
            over = np.flatnonzero(self.done & (tasks == stepping.ACTS))
            rewards = np.zeros(len(self.first))
            rewards[over] = self.figures(over)["utilisation"]
            return rewards
        value = np.asarray(self.reward(started.wait_s, started.runtime_s, started.procs))
        if value.shape != started.copy.shape:
            raise BatfillError(
                f"reward: the function returned shape {value.shape} for {len(started.copy)} jobs; one value each"
            )
        return np.bincount(started.copy, value, len(self.first)) / self.jobs

    @property
    def done(self) -> NDArray[np.bool_]:
        """Whose episodes are over, or have not begun, (copies,)."""
        over: NDArray[np.bool_] = self.copies.seen.done.astype(bool)
        return over

    def figures(self, copies: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        """The figures of the episodes of these copies, which are over; each of shape (n,)."""
        rows = np.arange(self.warm, self.warm + self.jobs)
        in_log = self.first[copies, None] + rows
        submit_s, runtime_s, procs = (
            column[in_log] for column in (self.copies.submit_s, self.copies.runtime_s, self.copies.procs)
        )
        start_s = self.copies.starts(copies[:, None], rows)
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

    @property
    def width(self) -> int:
        """The numbers of an action that is not a place."""
        return WEIGHTS.get(self.action, self.visible)

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
        if self.action in PLACES:
            return observation, spaces.Discrete(seen.mask.shape[1])
        return observation, spaces.Box(-1, 1, (self.width,), np.float32)


class SchedulingEnv(gymnasium.Env):  # type: ignore[misc, name-defined] # gymnasium is optional
    """An environment of one episode at a time.

    An episode is some consecutive jobs of a log. At each decision that matters the agent sees the first waiting jobs
    and the cluster, and acts; docs/reference/environments.md gives features, actions and rewards exactly.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    episodes_of: ClassVar[type[Episodes]] = Episodes

    def __init__(self, log: Workload | str | Path, **how: Unpack[How]) -> None:
        """Set up the environment.

        Args:
            log: a workload, or the path of one.
            how: keywords, all optional:

                - action: what the agent decides: "pick" the next job to start or reserve for (the default), which to
                  "backfill", "priorities" of the visible jobs, or the weights of a "mixed" or an "aged" order.
                - visible: the most jobs that it sees; 128 by default.
                - base: the order in which it sees them, and of backfilling: a policy that does not move; "fcfs" by
                  default.
                - jobs: the scored jobs of an episode; 256 by default.
                - warm: jobs before them, decided in the base order while no scored job has come; 0 by default.
                - firsts: the rows of the log where episodes may begin, shape (n,); by default all.
                - every: for how many submissions weights hold; 16 by default.
                - reward: "bsld" (the default), "wait", "utilisation", or a function of (wait_s, runtime_s, procs),
                  each of shape (n_started,), to a value for each job.
                - tau_s: the bound of the bounded slowdown, in seconds; 10 by default.

        Raises:
            BatfillError: an argument does not hold, or the log cannot be used; gymnasium is not installed.
        """
        self.episodes = self.episodes_of(log, copies=1, threads=1, how=how)
        self.observation_space, self.action_space = self.episodes.spaces()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; returns the observation, and the row in the log of its first job, "first".

        Args:
            seed: of the random numbers.
            options: {"first": row} begins at this row of the log instead of a random one.

        Raises:
            BatfillError: the options name no such row, or there is no decision to take.
        """
        super().reset(seed=seed)
        given, episodes = self.episodes.given_firsts(options), self.episodes
        tasks = np.zeros(1, np.uint8)
        episodes.step(None, tasks, [0], lambda copy: episodes.draw(self.np_random, given, copy), again=given is None)
        return self.observation(), {"first": int(episodes.first[0])}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out an action; at an episode's end the info has its figures.

        Raises:
            BatfillError: there is no episode, or the action does not have the shape of `action_space`.
        """
        if self.episodes.done[0]:
            raise BatfillError("step: the episode is over, or none has begun; call reset first")
        tasks = np.full(1, stepping.ACTS, np.uint8)
        rewards = self.episodes.step(np.asarray(action)[None], tasks, [], int, again=True)
        done = bool(self.episodes.done[0])
        figures = self.episodes.figures(np.zeros(1, np.intp)) if done else {}
        info = {name: values[0].item() for name, values in figures.items()}
        return self.observation(), float(rewards[0]), done, False, info

    def observation(self) -> Observation:
        """What the agent sees, a copy."""
        seen = self.episodes.copies.seen
        return {"jobs": seen.jobs[0].copy(), "cluster": seen.cluster[0].copy(), "action_mask": seen.mask[0].copy()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Which jobs can be chosen, (n_actions,)."""
        return np.asarray(self.episodes.copies.seen.mask[0] != 0)


class SchedulingVectorEnv(vector.VectorEnv):  # type: ignore[misc, name-defined] # gymnasium is optional
    """Many episodes at once, stepped in compiled code on all cores.

    Copy i of an environment that is reset with a seed is a `SchedulingEnv` reset with seed + i. Where an episode has
    ended, the next step begins another and ignores the action (gymnasium's autoreset mode "next step").
    """

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": vector.AutoresetMode.NEXT_STEP}
    episodes_of: ClassVar[type[Episodes]] = Episodes

    def __init__(
        self,
        log: Workload | str | Path,
        num_envs: int = 64,
        *,
        threads: int | None = None,
        copy: bool = True,
        **how: Unpack[How],
    ) -> None:
        """Set up the environment.

        Args:
            log: as for `SchedulingEnv`.
            num_envs: the number of copies.
            threads: how many step them; by default one per processor. Results do not depend on it.
            copy: False returns the same arrays at every step, read-only, overwritten by the next.
            how: as for `SchedulingEnv`.

        Raises:
            BatfillError: as for `SchedulingEnv`.
        """
        self.episodes = self.episodes_of(log, copies=num_envs, threads=threads, how=how)
        self.num_envs, self.copy = num_envs, copy
        seen = self.episodes.copies.seen
        self.views = {"jobs": seen.jobs.view(), "cluster": seen.cluster.view(), "action_mask": seen.mask.view()}
        for view in self.views.values():
            view.flags.writeable = False  # the simulation reads the mask
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

        Raises:
            BatfillError: the options name no such rows, or there is no decision to take.
        """
        if seed is not None or not self.randoms:
            seeds = range(seed, seed + self.num_envs) if isinstance(seed, int) else seed or [None] * self.num_envs
            self.randoms = [gymnasium.utils.seeding.np_random(each)[0] for each in seeds]
        given, episodes = self.episodes.given_firsts(options), self.episodes
        tasks = np.zeros(self.num_envs, np.uint8)
        copies = range(self.num_envs)
        episodes.step(
            None, tasks, copies, lambda copy: episodes.draw(self.randoms[copy], given, copy), again=given is None
        )
        return self.observation(), {"first": episodes.first.copy(), "_first": np.ones(self.num_envs, bool)}

    def step(
        self, actions: Any
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Carry out an action in each copy; where an episode has ended, begin the next instead.

        Raises:
            BatfillError: no episode has begun, or the actions do not have the shape of `action_space`.
        """
        if not self.randoms:
            raise BatfillError("step: no episode has begun; call reset first")
        episodes = self.episodes
        tasks = np.full(self.num_envs, stepping.ACTS, np.uint8)
        over = np.flatnonzero(episodes.done).tolist()
        rewards = episodes.step(
            actions, tasks, over, lambda copy: episodes.draw(self.randoms[copy], None, copy), again=True
        )
        done, infos = episodes.done, {}
        if done.any():
            for name, values in episodes.figures(np.flatnonzero(done)).items():
                infos[name] = np.zeros(self.num_envs, values.dtype)
                infos[name][done], infos[f"_{name}"] = values, done.copy()
        return self.observation(), rewards, done, np.zeros(self.num_envs, bool), infos

    def observation(self) -> Observation:
        """What the agents see, with one more axis in front."""
        parts = self.views
        return {name: array.copy() for name, array in parts.items()} if self.copy else parts

    def action_masks(self) -> NDArray[np.bool_]:
        """Which jobs can be chosen, (copies, n_actions)."""
        return np.asarray(self.episodes.copies.seen.mask != 0)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self.episodes.copies.close()


def check_number(name: str, number: Any, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise BatfillError(f"{name}: {number!r} is not a whole number of at least {least}")


def check_choice(name: str, choice: Any, choices: Any, more: str = "") -> None:
    """Refuse what is none of the choices."""
    if not isinstance(choice, str) or choice not in choices:
        raise BatfillError(f"{name}: {choice!r} is none of {', '.join(choices)}{more}{nearest(str(choice), choices)}")

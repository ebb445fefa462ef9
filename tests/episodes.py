"""Episodes of environments, for the tests of batfill's and of the studies'."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from batfill.base.errors import BatfillError


def at_random(random, space, mask):
    """An action that the mask allows."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return random.choice(np.flatnonzero(mask))
    return random.uniform(-1, 1, space.shape).astype(np.float32)


def play(env, choose, **start):
    """An episode: its decisions (observation, action, reward), and the last info."""
    observation, _ = env.reset(**start)
    decisions, over, info = [], False, {}
    while not over:
        action = choose(env, observation)
        after, reward, over, truncated, info = env.step(action)
        assert not truncated
        decisions.append((observation, action, reward))
        observation = after
    return decisions, info


def assert_takes_the_course_of_single_environments(ours, make, *, steps):
    """The vector `ours`, beside gymnasium's vector of environments by `make`, under the same random actions."""
    singles = SyncVectorEnv([make] * ours.num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)
    random, ends = np.random.default_rng(1), 0
    seen, _ = ours.reset(seed=40)
    np.testing.assert_equal(seen, singles.reset(seed=40)[0])
    for _ in range(steps):
        acts = np.array([at_random(random, ours.single_action_space, mask) for mask in seen["action_mask"]])
        seen, *others, _ = ours.step(acts)
        expected, *values, _ = singles.step(acts)
        np.testing.assert_equal([seen, *others], [expected, *values])
        ends += others[1].sum()
    assert ends > 0, "no episode ended"
    ours.close()


def refused(call):
    """The message of a BatfillError, one line."""
    with pytest.raises(BatfillError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)

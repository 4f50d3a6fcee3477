"""An SB3 user: a callback that looks at progress and stops the run."""

import gymnasium as gym

from aceirl import ActiveIRL

env = gym.make("FrozenLake-v1", is_slippery=False)
seen = []


def stop_after_three(record):
    seen.append(record)
    return len(seen) >= 3


result = ActiveIRL(max_samples=100_000, seed=0).fit(env, lambda obs: 1, callback=stop_after_three)
assert len(seen) == 3

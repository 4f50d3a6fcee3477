"""imitation's maximum causal entropy on tables; run by an interpreter that has imitation, which pins an old Gymnasium.

    python benchmarks/_mce.py IN.npz OUT.npz

`IN` has, for each problem `k`, `transitions_k [S, A, S]`, `initial_k [S]` and `states_k [N, H+1]`, the states of `N`
episodes. `OUT` has `reward_k [S]`. Nothing of this package is used here.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from imitation.algorithms.mce_irl import MCEIRL
from imitation.data.types import Trajectory
from imitation.rewards.reward_nets import BasicRewardNet
from seals.base_envs import TabularModelPOMDP


def reward_of(transitions: np.ndarray, initial: np.ndarray, states: np.ndarray) -> np.ndarray:
    """`[S]`: a reward of states, as imitation infers it with its own settings."""
    import torch

    n_states, horizon = len(initial), states.shape[1] - 1
    seen = np.eye(n_states, dtype=np.float32)
    env = TabularModelPOMDP(
        transition_matrix=transitions,
        observation_matrix=seen,
        reward_matrix=np.zeros(n_states),
        horizon=horizon,
        initial_state_dist=initial,
    )
    torch.manual_seed(0)
    net = BasicRewardNet(
        env.observation_space, env.action_space, hid_sizes=[], use_action=False, use_next_state=False, use_done=False
    )
    walks = [Trajectory(obs=walk, acts=np.zeros(horizon, dtype=int), infos=None, terminal=True) for walk in states]
    MCEIRL(walks, env, net, rng=np.random.default_rng(0), log_interval=None).train()
    with torch.no_grad():
        return np.asarray(net(torch.as_tensor(seen), None, None, None)).ravel()


def main() -> None:
    """All problems of a file."""
    problems = np.load(sys.argv[1])
    count = sum(name.startswith("states_") for name in problems)
    found: dict[str, Any] = {
        f"reward_{k}": reward_of(problems[f"transitions_{k}"], problems[f"initial_{k}"], problems[f"states_{k}"])
        for k in range(count)
    }
    np.savez(sys.argv[2], **found)


if __name__ == "__main__":
    main()

"""
Recordings, and what to record next
===================================

Thirty recorded episodes of an expert who takes any action one time in five, and nobody to ask. `infer` finds a reward,
and says which places it leaves open and what to record next.
"""

import numpy as np

from aceirl import ActiveIRL, make
from aceirl.explain import maps

problem = make("gridworld", seed=0)
rng = np.random.default_rng(0)
best, rows = problem.expert.argmax(axis=2), problem.mdp.transitions.dense()


def episode():
    """Steps `(observation, action, reward, terminated, truncated)` with the next observation after the reward."""
    state, steps = int(rng.choice(9, p=problem.mdp.initial)), []
    for h in range(problem.mdp.horizon):
        action = int(rng.integers(4)) if rng.random() < 0.2 else int(best[h, state])
        after = int(rng.choice(9, p=rows[state, action]))
        steps.append((state, action, 0.0, after, False, h == problem.mdp.horizon - 1))
        state = after
    return steps


result = ActiveIRL().infer([episode() for _ in range(30)], env=problem)
result.show()

# %%
# How many steps were recorded in each place: the recordings follow the expert, so its goal is seen most.

figure = maps.visits(problem.layout, result.turn.counts.visits)

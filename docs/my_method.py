"""A method of your own in the arena: copy this file, change `plan`, and run it beside others."""

# aceirl arena --methods guided,random,my_method.py --tasks gridworld,lock --seeds 5 --out mine

from dataclasses import dataclass

import numpy as np

from aceirl.bench import method
from aceirl.explore import Belief, Plan


@method("my-method", source="you, 2026", claims="policy")
@dataclass(frozen=True)
class MyMethod:
    """Do what the expert does, and now and then anything."""

    wander: float = 0.2

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """Where to go next, from all that is known."""
        horizon, n_states, n_actions = belief.shape
        return Plan(
            policy=np.full(belief.shape, 1 / n_actions),  # how to act where the expert is not followed
            follow=np.full((horizon, n_states), 1 - self.wander),  # how likely its answer is taken instead
        )

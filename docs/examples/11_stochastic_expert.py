"""
A stochastic expert
===================

This expert draws its actions: the better one is, the likelier (Boltzmann, `exp(10·Q)`). It is asked at every visit. It
has no `policy` certificate, because there is no one answer to follow, but the reward can be recovered.
"""

import numpy as np

from aceirl import ActiveIRL, PolicyExpert, Simulator, make
from aceirl.explain import maps
from aceirl.models.tabular.dynamic_programming import optimal_values

problem = make("gridworld", seed=0)
q = optimal_values(problem.mdp, problem.reward)[0]
weights = np.exp(10 * (q - q.max(axis=2, keepdims=True)))
drawn = weights / weights.sum(axis=2, keepdims=True)
print(f"the expert takes its best action {drawn.max(axis=2).mean():.0%} of the time")

expert = PolicyExpert(drawn, problem.mdp.shape)
result = ActiveIRL(seed=0, max_samples=2_000, certify=None).fit(Simulator(problem.mdp), expert)
print(result.in_words(problem.layout.state_names))

# %%
# How often the expert was seen to take its likeliest action, over all steps: light cells are those where it wavers.

figure = maps.policy(problem.layout, result.turn.belief.estimate.expert_policy)

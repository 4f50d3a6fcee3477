"""
An expert who errs
==================

One answer in seven is any action at random. The likelihood weighs such errors, so the reward is still found. The words
name no goal: a wish that leaves more than 3 % of the answers unexplained has not explained the expert.
"""

import numpy as np

from aceirl import ActiveIRL, FunctionExpert, Simulator, make
from aceirl.explain import maps

problem = make("gridworld", seed=0)
best = problem.expert.argmax(axis=2)
errors = np.random.default_rng(1)
wrong = errors.random(best.shape) < 0.15
answers = np.where(wrong, errors.integers(4, size=best.shape), best)

expert = FunctionExpert(lambda step, state: int(answers[step, state]))
result = ActiveIRL(seed=0, max_samples=2000, certify=None).fit(Simulator(problem.mdp), expert)
print(result.in_words(problem.layout.state_names))
changed = (answers != best).sum()
print(f"{changed} of {best.size} answers of this expert are not the best action")

# %%
# What each place pays by the recovered reward. The goal is the right cell of the middle row.

figure = maps.explained(problem.layout, result.explanation.paid, np.zeros(9, dtype=bool))

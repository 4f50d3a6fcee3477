"""
The planner's gap
=================

The strategy `ace` plans each batch by solving a saddle point: the explorer chooses where to go, an adversary which
plausible policy is most uncertain. The planner keeps an upper and a lower bound on the best value, so it can stop with
a certified gap. No convex solver is involved.
"""

import matplotlib.pyplot as plt
import numpy as np

from aceirl import make
from aceirl.models.tabular.planner import Episodes, solve_saddle

mdp = make("four-paths", seed=0).mdp
visits = np.ones((mdp.n_states, mdp.n_actions))  # each row was tried once
left = np.arange(mdp.horizon, 0, -1.0)  # an error early in the episode matters longer
weight = np.broadcast_to(left[:, None, None], mdp.shape)
plan = solve_saddle(mdp, weight, visits, Episodes(50), tolerance=1e-3)
print(f"{plan.status.value} after {plan.iterations} iterations: the gap is {plan.gap:.2%} of the value")

# %%
# The optimum lies between the two curves. `upper` is what this very plan guarantees.

upper, lower = plan.trace.T
figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
ax.fill_between(range(1, len(upper) + 1), lower, upper, color="#b3dbd0", label="where the optimum lies")
ax.semilogx(range(1, len(upper) + 1), upper, color="#d55e00", label="upper bound: the plan")
ax.semilogx(range(1, len(lower) + 1), lower, color="#0072b2", label="lower bound")
ax.set(xlabel="iteration", ylabel="largest remaining error")
legend = ax.legend(frameon=False)

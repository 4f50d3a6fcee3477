"""
FrozenLake: what the answers tell
=================================

The learner sees observations and the expert's answers, and never a reward. It says what the expert wants if the answers
tell that. Eleven answers on slippery ice do not: the reward pays for the flag, and other wishes predict them as well.
"""

import gymnasium

from aceirl import ActiveIRL

left, down, right, up = range(4)
expert = [
    *(left, up, up, up),
    *(left, left, left, left),
    *(up, down, left, left),
    *(left, right, down, left),
]  # what to do in each cell; on ice, the way is best that cannot slip into a hole
result = ActiveIRL(seed=0, epsilon=0.05).fit(gymnasium.make("FrozenLake-v1", render_mode="rgb_array"), expert)
result.show()

# %%
# The map shows what each cell pays by the recovered reward. Hatched cells may be worth as much as the flag: the answers
# do not tell.

figure = result.plot("reward")

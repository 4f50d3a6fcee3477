"""
CliffWalking: an expert in a hurry
==================================

On CliffWalking every step costs one and the goal pays nothing. A reward of places alone cannot say that. *Hurry*, what
each step before the end costs, is one more parameter wherever episodes can end, and it is what the words name.
"""

from aceirl import ActiveIRL

result = ActiveIRL(seed=0).fit("CliffWalking-v1", "optimal", horizon=40)
print(result.in_words())
print(f"hurry: {result.explanation.step_cost:g}")

# %%
# The recovered policy. Cells without a mark were never met: the expert has no reason to go there.

figure = result.plot("policy")

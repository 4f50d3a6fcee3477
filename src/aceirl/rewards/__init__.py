"""Rewards as objects: what was recovered, all that explain the expert, and how they compare."""

from aceirl.rewards.answers import Answer, Membership
from aceirl.rewards.feasible import FeasibleRewardSet, projected
from aceirl.rewards.importance import answer_importance
from aceirl.rewards.recovered import InverseReinforcement, Recovered, action_values

__all__ = [
    "Answer",
    "FeasibleRewardSet",
    "InverseReinforcement",
    "Membership",
    "Recovered",
    "action_values",
    "answer_importance",
    "projected",
]

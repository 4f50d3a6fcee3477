"""What a run gives back: a reward to train on, a policy to act by, datasets, and forms that a person can read."""

from aceirl.learner.outputs.datasets import EpisodeLog, imitation_trajectories, save_minari
from aceirl.learner.outputs.export import (
    save_demonstrations,
    save_named_demonstrations,
    save_named_table,
    save_table,
)
from aceirl.learner.outputs.observed import GreedyPolicy, ObservedReward, RecoveredReward
from aceirl.learner.outputs.simplify import SimpleReward, price_of_actions, shaped, state_only

__all__ = [
    "EpisodeLog",
    "GreedyPolicy",
    "ObservedReward",
    "RecoveredReward",
    "SimpleReward",
    "imitation_trajectories",
    "price_of_actions",
    "save_demonstrations",
    "save_minari",
    "save_named_demonstrations",
    "save_named_table",
    "save_table",
    "shaped",
    "state_only",
]

"""What a run gives back: a reward to train on, a policy to act by, datasets, and forms that a person can read."""

from aceirl.outputs.agents import GreedyPolicy, RecoveredReward
from aceirl.outputs.datasets import EpisodeLog, imitation_trajectories, save_minari
from aceirl.outputs.gym_result import GymResult
from aceirl.outputs.own_result import OwnResult
from aceirl.outputs.simplify import StateReward, price_of_actions, shaped, state_only

__all__ = [
    "EpisodeLog",
    "GreedyPolicy",
    "GymResult",
    "OwnResult",
    "RecoveredReward",
    "StateReward",
    "imitation_trajectories",
    "price_of_actions",
    "save_minari",
    "shaped",
    "state_only",
]

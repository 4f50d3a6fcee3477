"""Rewards as objects: what was recovered, all that explain the expert, and how they compare."""

from aceirl.rewards.conflicts import answer_errors, conflict, estimated_conflict
from aceirl.rewards.distances import dard, epic, largest_regret, starc
from aceirl.rewards.explanation import Explanation
from aceirl.rewards.feasible import Entry, FeasibleRewardSet
from aceirl.rewards.importance import answer_importance
from aceirl.rewards.membership import Membership, compatible, contains, expert_loss
from aceirl.rewards.optimality_criterion import Condition, matched_loss, recall, recall_of
from aceirl.rewards.parameters import error_propagation, from_parameters, matched, to_parameters
from aceirl.rewards.programme import EmptySetError
from aceirl.rewards.queries import (
    Member,
    Norm,
    determined,
    extreme,
    interval,
    intervals,
    largest_parameters,
    least_slack,
    normalised_intervals,
    project,
    projected,
)
from aceirl.rewards.recovered import InverseReinforcement, Recovered, action_values
from aceirl.rewards.samples import sample
from aceirl.rewards.spaces import (
    SPACES,
    AnyReward,
    AutoReward,
    DesignMatrix,
    FeatureFile,
    FeatureReward,
    RewardSpace,
    StateActionReward,
    StateReward,
)

__all__ = [
    "SPACES",
    "AnyReward",
    "AutoReward",
    "Condition",
    "DesignMatrix",
    "EmptySetError",
    "Entry",
    "Explanation",
    "FeasibleRewardSet",
    "FeatureFile",
    "FeatureReward",
    "InverseReinforcement",
    "Member",
    "Membership",
    "Norm",
    "Recovered",
    "RewardSpace",
    "StateActionReward",
    "StateReward",
    "action_values",
    "answer_errors",
    "answer_importance",
    "compatible",
    "conflict",
    "contains",
    "dard",
    "determined",
    "epic",
    "error_propagation",
    "estimated_conflict",
    "expert_loss",
    "extreme",
    "from_parameters",
    "interval",
    "intervals",
    "largest_parameters",
    "largest_regret",
    "least_slack",
    "matched",
    "matched_loss",
    "normalised_intervals",
    "project",
    "projected",
    "recall",
    "recall_of",
    "sample",
    "starc",
    "to_parameters",
]

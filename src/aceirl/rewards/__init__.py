"""Rewards as objects: what was recovered, all that explain the expert, and how they compare."""

from aceirl.rewards.agreement import Condition, matched_loss, precision, recall, recall_of
from aceirl.rewards.conflicts import answer_errors, conflict, estimated_conflict
from aceirl.rewards.distances import dard, epic, largest_regret, starc
from aceirl.rewards.explanation import Explanation
from aceirl.rewards.feasible import Entry, FeasibleRewardSet
from aceirl.rewards.feasible_parameters import FeasibleParameters, MemberParameters, least_excess
from aceirl.rewards.importance import answer_importance
from aceirl.rewards.membership import Membership, compatible, contains, expert_loss
from aceirl.rewards.parameters import error_propagation, from_parameters, matched, to_parameters
from aceirl.rewards.programme import EmptySetError
from aceirl.rewards.queries import Member, Norm, extreme, interval, intervals, least_slack, project, projected
from aceirl.rewards.recovered import InverseReinforcement, Recovered, action_values
from aceirl.rewards.samples import sample
from aceirl.rewards.spaces import (
    SPACES,
    AnyReward,
    AutoReward,
    FeatureFile,
    FeatureReward,
    RewardMap,
    RewardSpace,
    StateActionReward,
    StateReward,
)

__all__ = [
    "SPACES",
    "AnyReward",
    "AutoReward",
    "Condition",
    "EmptySetError",
    "Entry",
    "Explanation",
    "FeasibleParameters",
    "FeasibleRewardSet",
    "FeatureFile",
    "FeatureReward",
    "InverseReinforcement",
    "Member",
    "MemberParameters",
    "Membership",
    "Norm",
    "Recovered",
    "RewardMap",
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
    "epic",
    "error_propagation",
    "estimated_conflict",
    "expert_loss",
    "extreme",
    "from_parameters",
    "interval",
    "intervals",
    "largest_regret",
    "least_excess",
    "least_slack",
    "matched",
    "matched_loss",
    "precision",
    "project",
    "projected",
    "recall",
    "recall_of",
    "sample",
    "starc",
    "to_parameters",
]

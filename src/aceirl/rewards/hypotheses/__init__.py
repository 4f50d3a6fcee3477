"""What the expert may want, as hypotheses: compared with each other, and with habits, by how they predict answers."""

from aceirl.rewards.hypotheses.agreement import Agreement, agreement
from aceirl.rewards.hypotheses.predicates import FieldCondition, Predicate
from aceirl.rewards.hypotheses.search import Claim, Denied, Hypothesis, StationarySearch
from aceirl.rewards.hypotheses.wish import Named, Wish, contested, wish_found, wish_of

__all__ = [
    "Agreement",
    "Claim",
    "Denied",
    "FieldCondition",
    "Hypothesis",
    "Named",
    "Predicate",
    "StationarySearch",
    "Wish",
    "agreement",
    "contested",
    "wish_found",
    "wish_of",
]

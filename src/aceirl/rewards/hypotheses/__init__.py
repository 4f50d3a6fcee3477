"""What the expert may want, as hypotheses: compared with each other, and with habits, by how they predict answers."""

from aceirl.rewards.hypotheses.predicates import FieldCondition, Predicate
from aceirl.rewards.hypotheses.search import Claim, Hypothesis, Told
from aceirl.rewards.hypotheses.wish import Named, Wish, contested, wish_of

__all__ = ["Claim", "FieldCondition", "Hypothesis", "Named", "Predicate", "Told", "Wish", "contested", "wish_of"]

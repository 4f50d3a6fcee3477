"""What the expert may want, as hypotheses: compared with each other, and with habits, by how they predict answers."""

from aceirl.rewards.hypotheses.predicates import Condition, Predicate
from aceirl.rewards.hypotheses.search import Claim, Hypothesis, Told
from aceirl.rewards.hypotheses.wish import Named, Wish, contested, wish_of

__all__ = ["Claim", "Condition", "Hypothesis", "Named", "Predicate", "Told", "Wish", "contested", "wish_of"]

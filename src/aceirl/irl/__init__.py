"""From what is known to a reward: one algorithm a file, any callable of the same form will do."""

from aceirl.errors import unknown_name
from aceirl.irl.answers import Answer, Membership
from aceirl.irl.base import InverseReinforcement, Recovered, action_values
from aceirl.irl.feasible import FeasibleRewardSet, projected
from aceirl.irl.feasible_point import feasible_point, made_feasible
from aceirl.irl.max_causal_entropy import max_causal_entropy
from aceirl.irl.max_margin import max_margin
from aceirl.irl.worth import worth_of_answers

ALGORITHMS: dict[str, InverseReinforcement] = {
    "feasible-point": feasible_point,
    "max-causal-entropy": max_causal_entropy,
    "max-margin": max_margin,
}


def algorithm(name: str) -> InverseReinforcement:
    """The IRL algorithm of that name."""
    if name not in ALGORITHMS:
        raise unknown_name("IRL algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


__all__ = [
    "ALGORITHMS",
    "Answer",
    "FeasibleRewardSet",
    "InverseReinforcement",
    "Membership",
    "Recovered",
    "action_values",
    "algorithm",
    "made_feasible",
    "projected",
    "worth_of_answers",
]

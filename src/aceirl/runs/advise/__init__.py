"""Which settings fit an environment, and what a run with them will cost: looked at, tried out, put into words."""

from aceirl.runs.advise.advised import Choice, Recommendation, advise
from aceirl.runs.advise.facts import Facts, look
from aceirl.runs.advise.trials import Price, Wandering, least_episodes, rehearse, wander

__all__ = [
    "Choice",
    "Facts",
    "Price",
    "Recommendation",
    "Wandering",
    "advise",
    "least_episodes",
    "look",
    "rehearse",
    "wander",
]

"""Which settings fit an environment, and what a run with them will cost: looked at, tried out, put into words."""

from aceirl.choosing.advised import Advice, Choice, Cost, advise
from aceirl.choosing.facts import Facts, look
from aceirl.choosing.trials import Rehearsal, Wandering, least_episodes, rehearse, wander

__all__ = [
    "Advice",
    "Choice",
    "Cost",
    "Facts",
    "Rehearsal",
    "Wandering",
    "advise",
    "least_episodes",
    "look",
    "rehearse",
    "wander",
]

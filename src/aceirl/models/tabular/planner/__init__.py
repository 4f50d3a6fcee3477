"""The exploration problem, solved by dynamic programming alone and with a certified gap."""

from aceirl.models.tabular.planner.constrained import Constrained, ConstrainedStatus, solve_constrained
from aceirl.models.tabular.planner.saddle import (
    Episodes,
    PolicySet,
    SaddlePlan,
    SaddleStart,
    SaddleStatus,
    Samples,
    Separable,
    solve_saddle,
)

__all__ = [
    "Constrained",
    "ConstrainedStatus",
    "Episodes",
    "PolicySet",
    "SaddlePlan",
    "SaddleStart",
    "SaddleStatus",
    "Samples",
    "Separable",
    "solve_constrained",
    "solve_saddle",
]

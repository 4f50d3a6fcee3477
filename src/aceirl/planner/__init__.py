"""The exploration problem, solved by dynamic programming alone and with a certified gap."""

from aceirl.planner.constrained import Constrained, ConstrainedStatus, solve_constrained

__all__ = ["Constrained", "ConstrainedStatus", "solve_constrained"]

"""Who can be asked: a policy table, any function."""

from aceirl.experts.function import FunctionExpert
from aceirl.experts.policy import PolicyExpert

__all__ = ["FunctionExpert", "PolicyExpert"]

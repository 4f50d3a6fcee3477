"""Who can be asked: a policy table, a function, a trained model, a log of demonstrations, a person."""

from aceirl.experts.demonstrations import Demonstration, DemonstrationExpert
from aceirl.experts.function import FunctionExpert, ObservationExpert, PredictExpert
from aceirl.experts.policy import PolicyExpert
from aceirl.experts.recorded import RecordedExpert
from aceirl.experts.terminal import TerminalExpert

__all__ = [
    "Demonstration",
    "DemonstrationExpert",
    "FunctionExpert",
    "ObservationExpert",
    "PolicyExpert",
    "PredictExpert",
    "RecordedExpert",
    "TerminalExpert",
]

"""Active exploration for inverse reinforcement learning: learn why an expert acts as it does."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aceirl.belief import Belief as Belief
    from aceirl.belief import Plan as Plan
    from aceirl.certificates import Certificate as Certificate
    from aceirl.collect import Answers as Answers
    from aceirl.collect import Reply as Reply
    from aceirl.counts import Counts as Counts
    from aceirl.counts import Estimate as Estimate
    from aceirl.counts import ExpertKind as ExpertKind
    from aceirl.engine import Engine as Engine
    from aceirl.envs import Problem as Problem
    from aceirl.envs import make as make
    from aceirl.envs.description import EnvironmentDescription as EnvironmentDescription
    from aceirl.envs.description import MapCell as MapCell
    from aceirl.envs.discretise import Bins as Bins
    from aceirl.envs.gymnasium import GymEnvironment as GymEnvironment
    from aceirl.envs.simulator import Simulator as Simulator
    from aceirl.envs.vector import GymVectorEnvironment as GymVectorEnvironment
    from aceirl.errors import AnswerError as AnswerError
    from aceirl.errors import InputError as InputError
    from aceirl.experts import Demonstration as Demonstration
    from aceirl.experts import FunctionExpert as FunctionExpert
    from aceirl.experts import PolicyExpert as PolicyExpert
    from aceirl.explore import Strategy as Strategy
    from aceirl.learner import ActiveIRL as ActiveIRL
    from aceirl.learner import Result as Result
    from aceirl.learner import load as load
    from aceirl.loop import learn as learn
    from aceirl.mdp import MDP as MDP
    from aceirl.metrics import Truth as Truth
    from aceirl.metrics import samples_to_threshold as samples_to_threshold
    from aceirl.protocols import Question as Question
    from aceirl.rewards import FeasibleRewardSet as FeasibleRewardSet
    from aceirl.rewards import Recovered as Recovered
    from aceirl.runs import Run as Run
    from aceirl.settings import Settings as Settings
    from aceirl.turns import Record as Record
    from aceirl.turns import RunState as RunState
    from aceirl.turns import Turn as Turn

_HOMES = {
    "ActiveIRL": "learner",
    "AnswerError": "errors",
    "Answers": "collect",
    "Belief": "belief",
    "Bins": "envs.discretise",
    "Certificate": "certificates",
    "Counts": "counts",
    "Demonstration": "experts",
    "Engine": "engine",
    "EnvironmentDescription": "envs.description",
    "Estimate": "counts",
    "ExpertKind": "counts",
    "FeasibleRewardSet": "rewards",
    "FunctionExpert": "experts",
    "GymEnvironment": "envs.gymnasium",
    "GymVectorEnvironment": "envs.vector",
    "InputError": "errors",
    "MDP": "mdp",
    "MapCell": "envs.description",
    "Plan": "belief",
    "PolicyExpert": "experts",
    "Problem": "envs",
    "Question": "protocols",
    "Record": "turns",
    "Recovered": "rewards",
    "Reply": "collect",
    "Result": "learner",
    "Run": "runs",
    "RunState": "turns",
    "Settings": "settings",
    "Simulator": "envs.simulator",
    "Strategy": "explore",
    "Truth": "metrics",
    "Turn": "turns",
    "learn": "loop",
    "load": "learner",
    "make": "envs",
    "samples_to_threshold": "metrics",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the names are the keys above


def __getattr__(name: str) -> Any:
    """Load a public name, or a module, when it is first used, so that importing `aceirl` stays quick."""
    if name == "__version__":
        return version("aceirl")
    if name in _HOMES:
        value = getattr(import_module(f"aceirl.{_HOMES[name]}"), name)
    elif not name.startswith("_") and find_spec(f"aceirl.{name}"):
        value = import_module(f"aceirl.{name}")
    else:
        raise AttributeError(f"module 'aceirl' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

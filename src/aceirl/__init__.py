"""Active exploration for inverse reinforcement learning: learn why an expert acts as it does."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aceirl.certificates import Certificate as Certificate
    from aceirl.envs import Problem as Problem
    from aceirl.envs import make as make
    from aceirl.envs.description import EnvironmentDescription as EnvironmentDescription
    from aceirl.envs.description import MapCell as MapCell
    from aceirl.envs.gymnasium import GymEnvironment as GymEnvironment
    from aceirl.envs.simulator import Simulator as Simulator
    from aceirl.envs.vector import GymVectorEnvironment as GymVectorEnvironment
    from aceirl.errors import AnswerError as AnswerError
    from aceirl.errors import InputError as InputError
    from aceirl.experts import Demonstration as Demonstration
    from aceirl.experts import FunctionExpert as FunctionExpert
    from aceirl.experts import PolicyExpert as PolicyExpert
    from aceirl.explore import Strategy as Strategy
    from aceirl.irl.belief import Belief as Belief
    from aceirl.irl.belief import Plan as Plan
    from aceirl.learner.collect import Answers as Answers
    from aceirl.learner.collect import Reply as Reply
    from aceirl.learner.continuous.policy import GatedPolicy as GatedPolicy
    from aceirl.learner.engine import Engine as Engine
    from aceirl.learner.loop import learn as learn
    from aceirl.learner.settings import Settings as Settings
    from aceirl.learner.turns import Record as Record
    from aceirl.learner.turns import RunState as RunState
    from aceirl.learner.turns import Turn as Turn
    from aceirl.models.tabular.bins import Bins as Bins
    from aceirl.models.tabular.counts import Counts as Counts
    from aceirl.models.tabular.estimate import Estimate as Estimate
    from aceirl.models.tabular.estimate import ExpertKind as ExpertKind
    from aceirl.models.tabular.mdp import MDP as MDP
    from aceirl.models.tabular.metrics import Truth as Truth
    from aceirl.models.tabular.metrics import samples_to_threshold as samples_to_threshold
    from aceirl.protocols import Question as Question
    from aceirl.rewards import FeasibleRewardSet as FeasibleRewardSet
    from aceirl.rewards import Recovered as Recovered
    from aceirl.runs import Run as Run
    from aceirl.runs.api import ActiveIRL as ActiveIRL
    from aceirl.runs.continuous import ContinuousResult as ContinuousResult
    from aceirl.runs.estimating import EstimatedReward as EstimatedReward
    from aceirl.runs.estimating import estimate as estimate
    from aceirl.runs.result import Result as Result
    from aceirl.runs.result import load as load

_HOMES = {
    "ActiveIRL": "runs.api",
    "AnswerError": "errors",
    "Answers": "learner.collect",
    "Belief": "irl.belief",
    "Bins": "models.tabular.bins",
    "Certificate": "certificates",
    "ContinuousResult": "runs.continuous",
    "Counts": "models.tabular.counts",
    "Demonstration": "experts",
    "Engine": "learner.engine",
    "EnvironmentDescription": "envs.description",
    "Estimate": "models.tabular.estimate",
    "EstimatedReward": "runs.estimating",
    "ExpertKind": "models.tabular.estimate",
    "FeasibleRewardSet": "rewards",
    "FunctionExpert": "experts",
    "GatedPolicy": "learner.continuous.policy",
    "GymEnvironment": "envs.gymnasium",
    "GymVectorEnvironment": "envs.vector",
    "InputError": "errors",
    "MDP": "models.tabular.mdp",
    "MapCell": "envs.description",
    "Plan": "irl.belief",
    "PolicyExpert": "experts",
    "Problem": "envs",
    "Question": "protocols",
    "Record": "learner.turns",
    "Recovered": "rewards",
    "Reply": "learner.collect",
    "Result": "runs.result",
    "Run": "runs",
    "RunState": "learner.turns",
    "Settings": "learner.settings",
    "Simulator": "envs.simulator",
    "Strategy": "explore",
    "Truth": "models.tabular.metrics",
    "Turn": "learner.turns",
    "estimate": "runs.estimating",
    "learn": "learner.loop",
    "load": "runs.result",
    "make": "envs",
    "samples_to_threshold": "models.tabular.metrics",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the names are the keys above


def __getattr__(name: str) -> Any:
    """Load a public name, or a module, when it is first used, so that importing `aceirl` stays quick."""
    value: Any
    if name == "__version__":
        value = _version()
    elif name in _HOMES:
        value = getattr(import_module(f"aceirl.{_HOMES[name]}"), name)
    elif not name.startswith("_") and find_spec(f"aceirl.{name}"):
        value = import_module(f"aceirl.{name}")
    else:
        raise AttributeError(f"module 'aceirl' has no attribute {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    """The version that is installed; of sources that are not installed, the one in the project file beside them."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("aceirl")
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        project = Path(__file__).parents[2] / "pyproject.toml"
        return str(tomllib.loads(project.read_text())["project"]["version"]) if project.exists() else "unknown"


def __dir__() -> list[str]:
    return list(__all__)

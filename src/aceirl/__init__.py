"""Active exploration for inverse reinforcement learning: learn why an expert acts as it does."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

_HOMES = {
    "ActiveIRL": "learner",
    "AnswerError": "errors",
    "Belief": "explore",
    "Counts": "counts",
    "Estimate": "counts",
    "ExpertKind": "counts",
    "FeasibleRewardSet": "irl",
    "FunctionExpert": "experts",
    "InputError": "errors",
    "MDP": "mdp",
    "Plan": "collect",
    "PolicyExpert": "experts",
    "Problem": "envs",
    "Record": "loop",
    "Recovered": "irl",
    "Result": "learner",
    "Run": "runs",
    "Settings": "settings",
    "Simulator": "envs.simulator",
    "Truth": "metrics",
    "learn": "loop",
    "make": "envs",
    "samples_to_threshold": "metrics",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the names are the keys above


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing `aceirl` stays quick."""
    if name == "__version__":
        return version("aceirl")
    if name not in _HOMES:
        raise AttributeError(f"module 'aceirl' has no attribute {name!r}")
    value = getattr(import_module(f"aceirl.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Where a run's environment and expert come from: named in a few words, opened when they are needed."""

from aceirl.sources.experts import optimal_task
from aceirl.sources.given import given_task
from aceirl.sources.gymnasium import gym_env, rendering_env
from aceirl.sources.opening import open_source, open_task
from aceirl.sources.source import Source, Task
from aceirl.sources.views import action_names, layout, state_names

__all__ = [
    "Source",
    "Task",
    "action_names",
    "given_task",
    "gym_env",
    "layout",
    "open_source",
    "open_task",
    "optimal_task",
    "rendering_env",
    "state_names",
]

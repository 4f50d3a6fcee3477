"""Where a run's environment and expert come from: named in a few words, opened when they are needed."""

from aceirl.sources.experts import optimal_task, own_regret
from aceirl.sources.given import given_task
from aceirl.sources.gymnasium import gym_env, rendering_env
from aceirl.sources.kept import AWAY, Kept, KeptExpert, read_task, write_task
from aceirl.sources.offered import Offered, offer, offered
from aceirl.sources.opening import open_source, open_task
from aceirl.sources.parameters import read_parameters
from aceirl.sources.parts import CODE, part_names, source_parts
from aceirl.sources.recordings import Recording, read_recording, recorded_source, task_to_infer
from aceirl.sources.source import Source, Task
from aceirl.sources.views import action_names, drawing, layout, state_names

__all__ = [
    "AWAY",
    "CODE",
    "Kept",
    "KeptExpert",
    "Offered",
    "Recording",
    "Source",
    "Task",
    "action_names",
    "drawing",
    "given_task",
    "gym_env",
    "layout",
    "offer",
    "offered",
    "open_source",
    "open_task",
    "optimal_task",
    "own_regret",
    "part_names",
    "read_parameters",
    "read_recording",
    "read_task",
    "recorded_source",
    "rendering_env",
    "source_parts",
    "state_names",
    "task_to_infer",
    "write_task",
]

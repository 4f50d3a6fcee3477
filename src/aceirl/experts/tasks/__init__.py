"""Where a run's environment and expert come from: named in a few words, opened when they are needed."""

from aceirl.data.recording import Recording
from aceirl.data.recordings import read_recording
from aceirl.experts.tasks.catalogue import CatalogueEntry, offer, offered
from aceirl.experts.tasks.experts import optimal_task
from aceirl.experts.tasks.fingerprints import CODE, fingerprint, source_fingerprint
from aceirl.experts.tasks.gymnasium import gym_env, rendering_env
from aceirl.experts.tasks.offline import AWAY, OfflineTask, read_task, write_task
from aceirl.experts.tasks.opening import drawing, layout, open_source, open_task, open_world, recorded_task
from aceirl.experts.tasks.source import Source, Task, read_parameters
from aceirl.experts.tasks.world import GymWorld, OwnWorld, World

__all__ = [
    "AWAY",
    "CODE",
    "CatalogueEntry",
    "GymWorld",
    "OfflineTask",
    "OwnWorld",
    "Recording",
    "Source",
    "Task",
    "World",
    "drawing",
    "fingerprint",
    "gym_env",
    "layout",
    "offer",
    "offered",
    "open_source",
    "open_task",
    "open_world",
    "optimal_task",
    "read_parameters",
    "read_recording",
    "read_task",
    "recorded_task",
    "rendering_env",
    "source_fingerprint",
    "write_task",
]

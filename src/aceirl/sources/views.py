"""What people call the states of a run, and where these lie on paper."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from aceirl.envs import ENVIRONMENTS, Layout, make
from aceirl.protocols import Environment
from aceirl.sources.gymnasium import adapted, rendering_env
from aceirl.sources.source import Source, Task

if TYPE_CHECKING:
    from aceirl.envs.observations import StateIndex


def state_names(task: Task, names: tuple[str, ...]) -> tuple[str, ...]:
    """What people call the states of a run; `names` are those it met, in their order."""
    from aceirl.envs.scenery import state_words

    if task.layout is not None:
        return tuple(f"state {name}" for name in task.layout.state_names)
    return () if task.env is None else state_words(task.env, _states_met(task.environment, names))


def layout(source: Source, names: tuple[str, ...]) -> Layout:
    """Where the states of a run lie on paper; `names` are those it met, in their order."""
    if source.environment in ENVIRONMENTS:
        return make(source.environment, source.seed, **source.parameters).layout
    from aceirl.envs.scenery import layout as over_rendering

    with closing(rendering_env(source)) as env:
        environment = adapted(source, env)
        actions = [environment.action(number) for number in range(environment.n_actions)]
        return over_rendering(env, _states_met(environment, names), actions)


def _states_met(environment: Environment, names: tuple[str, ...]) -> StateIndex:
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.envs.observations import StateIndex

    assert isinstance(environment, GymEnvironment)
    return StateIndex(environment.states.space, environment.states.discretise, names)

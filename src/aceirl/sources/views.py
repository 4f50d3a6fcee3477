"""What people call the states of a run, and where these lie on paper."""

from __future__ import annotations

from contextlib import closing

from aceirl.envs import ENVIRONMENTS, Layout, make
from aceirl.sources.gymnasium import adapted, rendering_env
from aceirl.sources.source import Source, Task, is_vector


def state_names(task: Task, names: tuple[str, ...]) -> tuple[str, ...]:
    """What people call the states of a run; `names` are those it met, in their order."""
    if task.words is not None:
        return _kept_words(task.words.states, names)
    if task.layout is not None:
        return tuple(f"state {name}" for name in task.layout.state_names)
    if task.env is None or is_vector(task.env):
        return ()
    from aceirl.envs.described import state_words
    from aceirl.envs.gymnasium import GymAdapter

    assert isinstance(task.environment, GymAdapter)
    return state_words(task.env, task.environment.states.numbered(names))


def action_names(task: Task) -> tuple[str, ...]:
    """What people call the actions of a run."""
    if task.words is not None:
        return task.words.actions
    if task.layout is not None:
        return task.layout.action_names
    if task.env is None or is_vector(task.env):
        return ()
    from aceirl.envs.described import action_names as described
    from aceirl.envs.gymnasium import GymAdapter

    assert isinstance(task.environment, GymAdapter)
    return tuple(described(task.env, task.environment.actions))


def layout(source: Source, names: tuple[str, ...]) -> Layout:
    """Where the states of a run lie on paper; `names` are those it met, in their order."""
    if source.environment in ENVIRONMENTS:
        return make(source.environment, source.seed, **source.parameters).layout
    from aceirl.envs.map_layout import layout as over_rendering

    with closing(rendering_env(source)) as env:
        environment = adapted(source, env)
        return over_rendering(env, environment.states.numbered(names), environment.actions)


def drawing(task: Task, names: tuple[str, ...]) -> Layout | None:
    """Where the states of a run lie on paper; None if nobody can say. `names` are those it met, in their order."""
    if task.layout is not None:
        return task.layout
    if task.source is not None:
        return layout(task.source, names)
    if task.env is None or is_vector(task.env):
        return None
    from aceirl.envs.gymnasium import GymAdapter
    from aceirl.envs.map_layout import layout as over_rendering

    assert isinstance(task.environment, GymAdapter)
    return over_rendering(task.env, task.environment.states.numbered(names), task.environment.actions)


def _kept_words(words: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Kept words and, of states that were met since they were kept, the observations as they are."""
    return words + tuple(f"the observation {name}" for name in names[len(words) :])

"""From what people have, names or objects, to an environment to act in and an expert to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.data.recording import Recording
from aceirl.envs import Layout, Problem
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert, RecordedExpert
from aceirl.experts.tasks.experts import expert_of, interviewed_expert, is_log, optimal_task
from aceirl.experts.tasks.gymnasium import adapted, gym_env, rendering_env, side_by_side, without_reports
from aceirl.experts.tasks.source import Source, Task, named_source
from aceirl.experts.tasks.world import GymWorld, OwnWorld, World, is_vector
from aceirl.models.tabular.discounted import effective_horizon
from aceirl.models.tabular.mdp import MDP
from aceirl.protocols import Expert, NumberedEnvironment

KINDS = (
    "a Gymnasium environment or its id, a vector environment, the name of a built-in one, a Problem, an MDP, or an "
    "object with reset(rng) and step(action)"
)

ONLY_RECORDED = "aceirl.envs.recorded:RecordedEnv"
"""The environment of a recording whose own is not there."""


def open_task(
    given: Any,
    expert: Any = None,
    *,
    horizon: int | None = None,
    discretise: Callable[[Any], Any] | None = None,
    fields: Any = None,
    stochastic_expert: bool = False,
    otherwise: Expert | None = None,
    seed: int = 0,
    discount: float | None = None,
) -> Task:
    """An environment to act in and an expert to ask.

    `given` is a `Source`, which names all of it, or an environment in any form that `ActiveIRL.fit` takes, with an
    expert in any of its forms. `horizon`, `discretise` and `fields` are for Gymnasium environments,
    `stochastic_expert` for functions and models. `otherwise` is asked if no expert is given and the environment has
    none of its own. Returns are discounted by `discount` a step, or as the problem says. Of a source one environment is
    opened, whatever `num_envs` is.
    """
    if isinstance(given, Source):
        world = open_world(given)
        try:
            return _source_task(given, world)
        except Exception:
            world.close()
            raise
    world = _world(given, horizon, discretise, seed, discount, fields)
    asked = otherwise if expert is None and not isinstance(world, OwnWorld) else expert
    if isinstance(asked, str) and asked == "optimal" and isinstance(world, GymWorld):
        task = optimal_task(world)
    elif isinstance(world, OwnWorld):
        task = _own_task(world)
        task = task if asked is None else replace(task, expert=expert_of(asked, world))
    else:
        task = Task(world, expert_of(asked, world, stochastic=stochastic_expert))
    options: dict[str, Any] = {"horizon": horizon, "discretise": discretise, "seed": seed, "discount": world.discount}
    return replace(task, source=named_source(given, asked, stochastic_expert=stochastic_expert, **options))


@contextmanager
def open_source(source: Source) -> Iterator[Task]:
    """The task that a source names, with `num_envs` environments; all are closed when the block ends."""
    if source.num_envs == 1:
        with closing(open_task(source)) as task:
            yield task
        return
    world = open_world(source)
    assert isinstance(world, GymWorld)
    with closing(world), without_reports(), closing(side_by_side(source, world.environment)) as many:
        yield _source_task(source, replace(world, environment=many))


def open_world(source: Source, horizon: int | None = None, *, rendering: bool = False) -> World:
    """The environment that a source names; one that draws itself, if it can, for `rendering`.

    Episodes have `horizon` steps if the source does not say.
    """
    if source.ours:
        _refuse(source, ("horizon", "discretise", "wrap"))
        return OwnWorld.of(source.problem())
    env = rendering_env(source) if rendering else gym_env(source)
    try:
        steps = source.horizon or horizon or _effective(env, source.discount)
        return GymWorld.of(env, adapted(replace(source, horizon=steps), env), source.discount)
    except Exception:
        env.close()
        raise


def drawing(task: Task, met: tuple[str, ...]) -> Layout | None:
    """Where the states of a run lie on paper; None if nobody can say. `met` are those it met, in their order."""
    if task.world.layout is not None or task.source is None:
        return task.world.drawing(met)
    return layout(task.source, met)


def layout(source: Source, met: tuple[str, ...]) -> Layout:
    """Where the states of a run lie on paper; `met` are those it met, in their order."""
    with closing(open_world(source, rendering=True)) as world:
        found = world.drawing(met)
    assert found is not None
    return found


REMAINDER = 0.01
"""An endless episode that is discounted is followed until what is left of it is worth this share of the whole."""


def _effective(env: Any, discount: float) -> int | None:
    """The steps of an episode of an environment without a limit, if returns are discounted; None if they are not."""
    spec = getattr(env, "spec", None)
    if discount == 1 or (spec is not None and spec.max_episode_steps is not None):
        return None
    return effective_horizon(discount, 1 - discount, REMAINDER)


def _world(
    given: Any,
    horizon: int | None,
    discretise: Callable[[Any], Any] | None,
    seed: int,
    discount: float | None,
    fields: Any = None,
) -> World:
    """What is known of an environment in any of the `KINDS`."""
    if discretise is not None and not callable(discretise):
        raise InputError(
            "discretise must be Bins(low, high, bins), with a number for each dimension, or a function of an "
            f"observation; got {discretise!r}"
        )
    if isinstance(given, type):
        raise InputError(f"environment is the class {given.__name__}; give an instance, {given.__name__}(...)")
    if isinstance(given, str):
        source = Source(given, {}, seed, horizon=horizon)
        given = source.problem() if source.ours else gym_env(source)
    if hasattr(given, "action_number"):  # a Gymnasium environment as the learner wants it
        return GymWorld.of(None, given, 1.0 if discount is None else discount)
    if hasattr(given, "action_space"):
        from aceirl.envs.gymnasium import GymEnvironment, check_interface
        from aceirl.envs.vector import GymVectorEnvironment

        check_interface(given)
        made = GymVectorEnvironment if is_vector(given) else GymEnvironment
        factor = 1.0 if discount is None else discount
        steps = horizon or _effective(given, factor)
        return GymWorld.of(given, made(given, horizon=steps, discretise=discretise, fields=fields), factor)
    for name, value in (("horizon", horizon), ("discretise", discretise), ("fields", fields)):
        if value is not None:
            raise InputError(f"{name} is for Gymnasium environments; this one has its own")
    if isinstance(given, Problem):
        return OwnWorld.of(given if discount is None else given.discounted(discount))
    own = given.discount if isinstance(given, MDP) else 1.0
    played: NumberedEnvironment = Simulator(given) if isinstance(given, MDP) else given
    if not callable(getattr(played, "reset", None)) or not hasattr(played, "n_states"):
        raise InputError(f"environment must be {KINDS}; got {given!r}")
    steady = getattr(played, "stationary_dynamics", True)
    return World(played, discount=own if discount is None else discount, stationary_dynamics=steady)


def _source_task(source: Source, world: World) -> Task:
    """The expert that a source names, in its world."""
    name = source.expert
    if isinstance(world, OwnWorld):
        interviewed = name is not None and Path(name).is_dir()
        _refuse(source, ("stochastic_expert",) if interviewed else ("expert", "stochastic_expert"))
        if name is None:
            return _own_task(world, source, stationary=source.stationary_expert)
        # What a person wants is not what the environment's own expert wants: there is no truth to compare with.
        layout = world.problem.layout
        return Task(world, interviewed_expert(name, layout.state_names, layout.n_actions), source=source)
    assert isinstance(world, GymWorld)
    if name is None and source.recordings is None:
        raise InputError(
            f"{source.environment} has no expert of its own; give one: optimal, terminal, package.module:function, "
            "a file of demonstrations (.jsonl, .npz), the folder of an interview, or a model as ppo:model.zip"
        )
    if name and source.stochastic_expert and (name in ("optimal", "terminal") or is_log(name)):
        raise InputError(f"stochastic_expert is for functions and models, not for {name!r}")
    if name == "optimal":
        return replace(optimal_task(world, stationary=source.stationary_expert), source=source)
    expert = RecordedExpert() if name is None else expert_of(name, world, stochastic=source.stochastic_expert)
    return Task(world, expert, source=source)


def _own_task(world: OwnWorld, source: Source | None = None, *, stationary: bool = False) -> Task:
    """One of our own problems with its own expert."""
    problem = world.problem
    return Task(world, PolicyExpert(problem.expert, problem.mdp.shape, stationary=stationary), world.regret(), source)


def _refuse(source: Source, options: tuple[str, ...]) -> None:
    for option in options:
        if getattr(source, option):
            raise InputError(f"{option} is for Gymnasium environments; {source.environment} comes with its own")


def recorded_task(
    recording: Recording,
    given: Any = None,
    *,
    horizon: int | None = None,
    discretise: Callable[[Any], Any] | None = None,
    fields: Any = None,
    seed: int = 0,
    discount: float | None = None,
) -> Task:
    """The environment of a recording, as `recorded_source` and `open_task` find it, and nobody to ask."""
    if given is None or isinstance(given, str):
        given = Source(given or "", {}, seed, horizon=horizon)
    if isinstance(given, Source):
        source = recorded_source(recording, given if discount is None else replace(given, discount=discount))
        if discretise is None and fields is None:
            world = open_world(source, recording.longest)
            timed = source if source.ours else replace(source, horizon=world.environment.horizon)
            # Nothing is promised in units of what the environment pays.
            return Task(replace(world, rmax=1.0, max_return=None), RecordedExpert(), source=timed)
        given, horizon = gym_env(source), source.horizon
    if hasattr(given, "action_space") and not hasattr(given, "action_number"):
        horizon = horizon or recording.longest
    task = open_task(
        given,
        RecordedExpert(),
        horizon=horizon,
        discretise=discretise,
        fields=fields,
        seed=seed,
        discount=discount,
    )
    return replace(task, regret=None)


def recorded_source(recording: Recording, given: Source) -> Source:
    """What a recording is of: as the source says, or the recording, or its observations and actions alone.

    Episodes are as long as the source says, else as the longest that was recorded: the limit of an environment says
    little of the episodes that an expert has ended before, and no episode is longer than a limit that was met.
    """
    from aceirl.envs.recorded import action_space_of, space_of
    from aceirl.envs.written_space import write_space

    if given.environment:
        return given
    timed = replace(given, horizon=given.horizon or recording.longest)
    if recording.environment is not None:
        name, parameters = recording.environment
        named = replace(timed, environment=name, parameters=parameters)
        try:
            gym_env(named).close()
            return named
        except InputError:
            pass  # its spaces are enough
    episodes = recording.episodes
    seen, acted = recording.spaces or (
        space_of([_alike(one) for episode in episodes for one in episode.observations]),
        action_space_of([_alike(one) for episode in episodes for one in episode.actions]),
    )
    spaces = {"observations": write_space(seen), "actions": write_space(acted)}
    return replace(timed, environment=ONLY_RECORDED, parameters=spaces)


def _alike(value: Any) -> Any:
    """A number as Python has it; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value

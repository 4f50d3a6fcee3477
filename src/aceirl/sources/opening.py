"""From a source to an environment to act in and an expert to ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aceirl.envs import ENVIRONMENTS, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert, RecordedExpert
from aceirl.metrics import Truth
from aceirl.protocols import Expert
from aceirl.sources.experts import gym_expert, interviewed_expert, is_log, optimal_task
from aceirl.sources.gymnasium import adapted, gym_env, side_by_side, without_reports
from aceirl.sources.source import Source, Task

if TYPE_CHECKING:
    import gymnasium

    from aceirl.envs.gymnasium import GymAdapter


def open_task(source: Source) -> Task:
    """The environment and the expert that a source names; one environment, whatever `num_envs` is."""
    if source.environment not in ENVIRONMENTS:
        env = gym_env(source)
        try:
            return replace(_gym_task(source, env, adapted(source, env)), source=source)
        except Exception:
            env.close()
            raise
    interviewed = source.expert is not None and Path(source.expert).is_dir()
    for option in ("expert", "horizon", "discretise", "wrap", "stochastic_expert"):
        if getattr(source, option) and not (option == "expert" and interviewed):
            raise InputError(f"{option} is for Gymnasium environments; {source.environment} comes with its own")
    problem = make(source.environment, source.seed, **source.parameters)
    expert: Expert
    if source.expert is None:
        expert = PolicyExpert(problem.expert, problem.mdp.shape, stationary=source.stationary_expert)
    else:
        expert = interviewed_expert(source.expert, problem.layout.state_names, problem.mdp.n_actions)
    return Task(
        environment=Simulator(problem.mdp),
        expert=expert,
        # What a person wants is not what the environment's own expert wants: there is no truth to compare with.
        regret=Truth(problem.mdp, problem.reward).regret if source.expert is None else None,
        stationary_dynamics=problem.mdp.stationary,
        layout=problem.layout,
        source=source,
    )


@contextmanager
def open_source(source: Source) -> Iterator[Task]:
    """The task that a source names, with `num_envs` environments; all are closed when the block ends."""
    if source.num_envs == 1:
        with closing(open_task(source)) as task:
            yield task
        return
    with (
        closing(gym_env(source)) as env,
        without_reports(),
        closing(side_by_side(source, adapted(source, env))) as environment,
    ):
        yield replace(_gym_task(source, env, environment), source=source)


def _gym_task(source: Source, env: gymnasium.Env[Any, Any], environment: GymAdapter) -> Task:
    if source.expert is None and source.recordings is None:
        raise InputError(
            f"{source.environment} has no expert of its own; give one: optimal, terminal, package.module:function, "
            "a file of demonstrations (.jsonl, .npz), the folder of an interview, or a model as ppo:model.zip"
        )
    if (
        source.expert
        and source.stochastic_expert
        and (source.expert in ("optimal", "terminal") or is_log(source.expert))
    ):
        raise InputError(f"stochastic_expert is for functions and models, not for {source.expert!r}")
    if source.expert == "optimal":
        return optimal_task(env, environment, stationary=source.stationary_expert)
    expert: Expert = (
        RecordedExpert()
        if source.expert is None
        else gym_expert(source.expert, environment, deterministic=not source.stochastic_expert)
    )
    from aceirl.envs.pay import pay_of

    rmax, max_return = pay_of(env)
    return Task(environment, expert, rmax=rmax or 1.0, max_return=max_return, env=env)

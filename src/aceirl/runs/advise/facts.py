"""What an environment says of itself, before anything is done in it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from aceirl.errors import InputError
from aceirl.experts.tasks import Source, gym_env
from aceirl.experts.tasks.gymnasium import adapted


@dataclass(frozen=True)
class Facts:
    """What an environment says of itself.

    `states` is how many observations there can be, None if nobody can say; `continuous` are observations that must be
    cut, in words; `binned` that they are; `exact` that the model can be read off it, so that `optimal` can be asked.
    """

    environment: str
    own: bool
    actions: int | None
    horizon: int | None
    states: int | None
    continuous: str | None = None
    binned: bool = False
    exact: bool = False


def look(source: Source) -> Facts:
    """What the environment of a source says of itself; an `InputError` if nothing can be learnt in it."""
    name = source.environment
    if source.ours:
        mdp = source.problem().mdp
        return Facts(name, True, mdp.n_actions, mdp.horizon, mdp.n_states, exact=True)
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.models.tabular.encoder import key_function

    with closing(gym_env(source)) as env:
        limit = None if env.spec is None else env.spec.max_episode_steps
        continuous = None
        if source.discretise is None:
            try:
                key_function(env.observation_space)
            except InputError:
                continuous = _numbers(env.observation_space)
        if continuous is None:
            known: GymEnvironment = adapted(replace(source, horizon=source.horizon or limit or 1), env)
        else:
            known = GymEnvironment(env, horizon=1, discretise=lambda observation: 0)
        possible = None if continuous else known.possible_states
        return Facts(
            name,
            False,
            known.n_actions,
            source.horizon or limit,
            None if possible is None else (possible - 1) // 2,
            continuous,
            source.discretise is not None,
            continuous is None and _has_model(env) and not source.discretise and not source.wrap,
        )


def _numbers(space: Any) -> str:
    """A continuous space in words."""
    shape = getattr(space, "shape", None)
    return "partly continuous" if not shape else f"continuous, {' by '.join(map(str, shape))} numbers"


def _has_model(env: Any) -> bool:
    """Whether the exact model is a table of the environment, or in its rules, and need not be searched for."""
    own = env.unwrapped
    known = hasattr(own, "P") and hasattr(own, "initial_state_distrib")
    return (known and not getattr(own, "fickle_passenger", False)) or type(own).__name__ == "BlackjackEnv"

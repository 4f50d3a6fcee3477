"""What an environment says of itself, before anything is done in it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from aceirl.experts.tasks import Source, gym_env
from aceirl.experts.tasks.gymnasium import adapted


@dataclass(frozen=True)
class Facts:
    """What an environment says of itself.

    `states` is how many observations there can be, None if nobody can say; `actions` is None if they are continuous;
    `continuous` are observations or actions that tables cannot take, in words; `binned` that they are cut; `exact` that
    the model can be read off it, so that `optimal` can be asked.
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
    from aceirl.models.vectors.encoding import Encoding, is_continuous

    with closing(gym_env(source)) as env:
        limit = None if env.spec is None else env.spec.max_episode_steps
        if source.discretise is None and is_continuous(env.observation_space, env.action_space):
            listed = Encoding(env.observation_space, env.action_space).choices
            words = _numbers(env.observation_space)
            return Facts(name, False, None if listed is None else len(listed), source.horizon or limit, None, words)
        known = adapted(replace(source, horizon=source.horizon or limit or 1), env)
        possible = known.states.possible_states
        return Facts(
            name,
            False,
            known.n_actions,
            source.horizon or limit,
            None if possible is None else (possible - 1) // 2,
            binned=source.discretise is not None,
            exact=_has_model(env) and not source.discretise and not source.wrap,
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

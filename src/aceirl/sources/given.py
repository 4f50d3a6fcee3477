"""What people have at hand, an environment and an expert in their usual forms, as a task."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aceirl.envs import ENVIRONMENTS, Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import Demonstration, DemonstrationExpert, FunctionExpert, ObservationExpert, PolicyExpert
from aceirl.mdp import MDP
from aceirl.metrics import Truth
from aceirl.protocols import Environment, Expert
from aceirl.sources.experts import LOGS, gym_expert, optimal_task
from aceirl.sources.gymnasium import gym_env
from aceirl.sources.references import reference_to
from aceirl.sources.source import Source, Task, is_vector

if TYPE_CHECKING:
    from aceirl.envs.gymnasium import GymAdapter

KINDS = (
    "a Gymnasium environment or its id, a vector environment, one of ours by name, a Problem, an MDP, or an object "
    "with reset(rng) and step(action)"
)


def given_task(
    environment: Any,
    expert: Any = None,
    *,
    horizon: int | None = None,
    discretise: Callable[[Any], Any] | None = None,
    stochastic_expert: bool = False,
    seed: int = 0,
) -> Task:
    """An environment to act in and an expert to ask, from what `ActiveIRL.fit` was given.

    `horizon` and `discretise` are for Gymnasium environments, `stochastic_expert` for functions and models.
    """
    options: dict[str, Any] = {
        "horizon": horizon,
        "discretise": discretise,
        "stochastic_expert": stochastic_expert,
        "seed": seed,
    }
    return replace(_task(environment, expert, **options), source=named_source(environment, expert, **options))


def _task(
    environment: Any,
    expert: Any,
    *,
    horizon: int | None,
    discretise: Callable[[Any], Any] | None,
    stochastic_expert: bool,
    seed: int,
) -> Task:
    if discretise is not None and not callable(discretise):
        raise InputError(
            "discretise must be Bins(low, high, bins), with a number for each dimension, or a function of an "
            f"observation; got {discretise!r}"
        )
    if isinstance(environment, str) and environment in ENVIRONMENTS:
        environment = make(environment, seed)
    if isinstance(environment, str):
        environment = gym_env(Source(environment, {}, seed, horizon=horizon))
    adapter = _adapter(environment, horizon, discretise)
    if adapter is not None:
        env = None if adapter is environment else environment
        return _gym_task(env, adapter, expert, stochastic=stochastic_expert)
    for name, value in (("horizon", horizon), ("discretise", discretise)):
        if value is not None:
            raise InputError(f"{name} is for Gymnasium environments; this one has its own")
    if isinstance(environment, Problem):
        problem = environment
        return Task(
            Simulator(problem.mdp),
            PolicyExpert(problem.expert, problem.mdp.shape) if expert is None else _expert(expert, problem.mdp.shape),
            regret=Truth(problem.mdp, problem.reward).regret,
            stationary_dynamics=problem.mdp.stationary,
            layout=problem.layout,
        )
    played: Environment = Simulator(environment) if isinstance(environment, MDP) else environment
    if not callable(getattr(played, "reset", None)) or not hasattr(played, "n_states"):
        raise InputError(f"environment must be {KINDS}; got {environment!r}")
    shape = played.horizon, played.n_states, played.n_actions
    return Task(played, _expert(expert, shape, stochastic=stochastic_expert))


def named_source(
    environment: Any,
    expert: Any = None,
    *,
    horizon: int | None = None,
    discretise: Callable[[Any], Any] | None = None,
    stochastic_expert: bool = False,
    seed: int = 0,
) -> Source | None:
    """The words that name what `fit` was given, so that the command line can open it; None if there are none."""
    made = _spec_of(environment)
    asked = expert if expert is None or isinstance(expert, str) else reference_to(expert)
    asked = str(expert) if isinstance(expert, Path) else asked
    cut = getattr(discretise, "text", None) or reference_to(discretise)
    if made is None or (asked is None) != (expert is None) or (cut is None) != (discretise is None):
        return None
    name, parameters, steps = made
    return Source(
        name,
        parameters,
        seed,
        expert=asked,
        horizon=horizon or steps,
        discretise=cut,
        stochastic_expert=stochastic_expert,
    )


PLAIN_WRAPPERS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")
"""Those that Gymnasium puts around an environment by itself."""


def _spec_of(environment: Any) -> tuple[str, dict[str, Any], int | None] | None:
    """How an environment is made again: its name, parameters and time limit; None if nobody can say."""
    if isinstance(environment, str):
        return environment, {}, None
    spec = getattr(environment, "spec", None)
    if spec is None or is_vector(environment) or spec.additional_wrappers:
        return None
    layer = environment
    while layer is not environment.unwrapped:
        if type(layer).__name__ not in PLAIN_WRAPPERS:
            return None
        layer = layer.env
    parameters = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    try:
        json.dumps(parameters)
    except TypeError:
        return None
    return spec.id, parameters, spec.max_episode_steps


def _adapter(environment: Any, horizon: int | None, discretise: Callable[[Any], Any] | None) -> GymAdapter | None:
    """A Gymnasium environment as the learner wants it; None if it is not one."""
    if hasattr(environment, "action_number"):  # it is one already
        adapter: GymAdapter = environment
        return adapter
    if not hasattr(environment, "action_space"):
        return None
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.envs.vector import GymVectorEnvironment

    made = GymVectorEnvironment if is_vector(environment) else GymEnvironment
    return made(environment, horizon=horizon, discretise=discretise)


def _gym_task(env: Any, environment: GymAdapter, expert: Any, *, stochastic: bool) -> Task:
    if isinstance(expert, str) and expert == "optimal":
        if env is None:
            raise InputError("for the expert 'optimal' give the Gymnasium environment itself")
        return optimal_task(env, environment)
    from aceirl.envs.pay import pay_of

    rmax, max_return = (None, None) if env is None or is_vector(env) else pay_of(env)
    asked = _gym_expert(expert, environment, stochastic=stochastic)
    return Task(environment, asked, rmax=rmax or 1.0, max_return=max_return, env=env)


def _gym_expert(expert: Any, environment: GymAdapter, *, stochastic: bool) -> Expert:
    if isinstance(expert, str | Path):
        return gym_expert(str(expert), environment, deterministic=not stochastic)
    if _is_expert(expert):
        return expert  # type: ignore[no-any-return]
    if hasattr(expert, "predict"):
        from aceirl.experts import PredictExpert

        return PredictExpert(expert, environment, deterministic=not stochastic)
    if callable(expert):
        return ObservationExpert(expert, environment, deterministic=not stochastic)
    if isinstance(expert, Sequence) and expert and all(isinstance(entry, Demonstration) for entry in expert):
        return DemonstrationExpert(expert, environment)
    if isinstance(expert, Sequence) and expert and all(hasattr(entry, "acts") for entry in expert):
        return DemonstrationExpert(_acted(expert), environment)
    table, count = _array(expert), _count(environment)
    if table.dtype.kind not in "iu" or table.ndim != 1 or str(len(table)) != count:
        floats = "" if table.dtype.kind in "iu" else f" of {table.dtype}"
        raise InputError(
            "a policy array for a Gymnasium environment has one action for each observation, "
            f"[{count}] whole numbers; got shape {list(table.shape)}{floats}; for anything else give a function"
        )
    return ObservationExpert(_Table(table), environment)


@dataclass(frozen=True, eq=False)
class _Table:
    """An action for each observation, `table [S]`."""

    table: np.ndarray[Any, Any]

    def __call__(self, observation: Any) -> Any:
        return self.table[observation]


def _acted(trajectories: Sequence[Any]) -> list[Demonstration]:
    """What was done in trajectories as imitation has them, with observations `obs [T+1]` and actions `acts [T]`."""
    return [
        Demonstration(observation, action)
        for trajectory in trajectories
        for observation, action in zip(trajectory.obs[:-1], trajectory.acts, strict=True)
    ]


def _count(environment: GymAdapter) -> str:
    """How many observations there are, where they are numbers from 0."""
    space: Any = environment.states.space
    return str(space.n) if getattr(space, "start", None) == 0 else "S"


def _expert(expert: Any, shape: tuple[int, int, int], *, stochastic: bool = False) -> Expert:
    """An expert of numbered states."""
    if _is_expert(expert):
        return expert  # type: ignore[no-any-return]
    if callable(expert):
        by_state = len(inspect.signature(expert).parameters) < 2
        answer = _of_states(expert) if by_state else expert
        return FunctionExpert(answer, deterministic=not stochastic, stationary=by_state)
    if isinstance(expert, str | Path):
        raise InputError(
            f"expert {str(expert)!r} is for Gymnasium environments; give an array or a function of the state"
        )
    table = _array(expert)
    if table.dtype.kind == "f" and table.shape in (shape[:2], shape[1:2]):
        raise InputError(f"actions are whole numbers; the expert's array {list(table.shape)} is of {table.dtype}")
    return PolicyExpert(table, shape)


def _of_states(expert: Callable[[int], Any]) -> Callable[[int, int], Any]:
    """A function of the state alone, as one of step and state; `part_names` finds the first in `__wrapped__`."""

    def answer(step: int, state: int) -> Any:
        return expert(state)

    answer.__wrapped__ = expert  # type: ignore[attr-defined]
    return answer


def _is_expert(expert: Any) -> bool:
    return callable(getattr(expert, "answer", None))


def _is_episode(entry: Any) -> bool:
    """Whether it is a dictionary, or a sequence of steps `(observation, action, ...)`."""
    if isinstance(entry, dict):
        return True
    return isinstance(entry, Sequence) and not isinstance(entry, str) and any(isinstance(step, tuple) for step in entry)


def _array(expert: Any) -> np.ndarray[Any, Any]:
    if isinstance(expert, Sequence) and any(_is_episode(entry) for entry in expert):
        raise InputError(
            "recorded episodes are no expert; give them as demonstrations: fit(environment, demonstrations=...)"
        )
    try:
        table = np.asarray(expert) if expert is not None else np.zeros(0, dtype=object)
    except ValueError:  # rows of several lengths
        table = np.zeros(0, dtype=object)
    if table.dtype.kind not in "iuf" or not table.ndim:
        raise InputError(
            "expert must be a function of an observation, a model with predict, an array of actions, demonstrations "
            f"({', '.join(LOGS)}), or an object with answer(question); got {expert!r}"
        )
    return table

"""An environment with continuous observations or actions, and an expert to ask there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from aceirl.data.recording import Recording
from aceirl.envs.coordinates import choice_names, coordinate_names
from aceirl.envs.gymnasium import check_interface, checked_horizon, failure
from aceirl.envs.pay import Pay, reward_range
from aceirl.errors import AnswerError, InputError, cause, shown
from aceirl.experts.function import parameters_of, takes_step
from aceirl.experts.tasks.experts import LOGS, saved_model
from aceirl.experts.tasks.fingerprints import expert_parts
from aceirl.experts.tasks.gymnasium import gym_env
from aceirl.experts.tasks.references import is_reference, named_object
from aceirl.experts.tasks.source import Source, named_source
from aceirl.experts.tasks.world import is_vector
from aceirl.models.tabular.mdp import FloatArray
from aceirl.models.vectors.choices import ActionChoices
from aceirl.models.vectors.encoding import Encoding, is_continuous

Ask = Callable[[Any, int], Any]
"""What the expert does at an observation and step."""

FORMS = (
    "a function of an observation, a model with predict, its name as package.module:function or ppo:model.zip, or "
    "recorded episodes as demonstrations"
)


@dataclass(frozen=True, eq=False)
class ContinuousTask:
    """An environment, what its observations and actions are as numbers, and the expert; None if there is none to ask.

    `pay` is how far the rewards of two steps and the returns of two episodes can lie apart, where that is known.
    `parts` name environment and expert, as far as words can tell them from others. `by_step` is whether the expert
    looks at the step.
    """

    env: Any
    encoding: Encoding
    horizon: int
    ask: Ask | None
    fields: tuple[str, ...]
    pay: Pay
    parts: dict[str, str]
    source: Source | None = None
    by_step: bool = False

    def reset(self, seed: int) -> Any:
        """Begin the episode of this seed; its first observation."""
        try:
            return self.env.reset(seed=seed)[0]
        except Exception as error:
            raise failure(f"reset(seed={seed})", error) from error

    def step(self, values: FloatArray) -> tuple[Any, bool, bool]:
        """Take the action of these values `[p]`: the next observation, and whether the episode ended or was cut."""
        action = self.encoding.action(values)
        try:
            observation, _, terminated, truncated, _ = self.env.step(action)
        except Exception as error:
            raise failure(f"a step with action {shown(action)}", error) from error
        return observation, bool(terminated), bool(truncated)

    def answer(self, observation: Any, step: int) -> FloatArray:
        """`[p]`: what the expert does."""
        assert self.ask is not None
        try:
            action = self.ask(observation, step)
        except Exception as error:
            raise AnswerError(f"the expert failed on the observation {shown(observation)}: {cause(error)}") from error
        values = self.encoding.values(action)
        if values is None:
            raise AnswerError(
                f"the expert answered {shown(action)} to the observation {shown(observation)}; actions are "
                f"{self.encoding.actions}"
            )
        return values

    def names(self, choices: ActionChoices) -> tuple[str, ...]:
        """What to call the choices."""
        return choice_names(self.env, choices.values.tolist())

    def close(self) -> None:
        """Free what the environment holds."""
        self.env.close()


def names_continuous(given: Any, horizon: int | None = None) -> bool:
    """Whether what `fit` was given is a Gymnasium environment, or names one, that tables cannot take."""
    if isinstance(given, Source):
        if given.ours or given.discretise is not None:
            return False
        with closing(gym_env(given)) as env:
            return is_continuous(env.observation_space, env.action_space)
    if isinstance(given, str):
        return names_continuous(Source(given, {}, 0, horizon=horizon))
    if isinstance(given, type) or not hasattr(given, "action_space") or hasattr(given, "action_number"):
        return False
    if is_vector(given):
        return is_continuous(given.single_observation_space, given.single_action_space)
    return is_continuous(given.observation_space, given.action_space)


def open_continuous(
    given: Any, expert: Any = None, *, horizon: int | None = None, fields: Any = None, seed: int = 0
) -> ContinuousTask:
    """The task of an environment or a `Source`, and an expert in any of the `FORMS`; without one, nobody is asked."""
    source = given if isinstance(given, Source) else named_source(given, expert, horizon=horizon, seed=seed)
    if isinstance(given, Source):
        expert, horizon = given.expert, given.horizon
        if given.stochastic_expert:
            raise InputError(STOCHASTIC)
        given = gym_env(given)
    elif isinstance(given, str):
        given = gym_env(Source(given, {}, seed, horizon=horizon))
    check_interface(given)
    if is_vector(given):
        given = _one_of(given)
    encoding = Encoding(given.observation_space, given.action_space)
    ask, parts, by_step = _asked(expert)
    spec = getattr(given, "spec", None)
    parts = {"environment": type(given.unwrapped).__qualname__ if spec is None else spec.id} | parts
    steps = checked_horizon(given, horizon)
    parts |= {"horizon": str(steps)}
    names = coordinate_names(given, fields)
    return ContinuousTask(given, encoding, steps, ask, names, reward_range(given), parts, source, by_step)


OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs", "max_episode_steps")
"""Keywords of a vector environment's specification that are not those of one environment."""


def _one_of(vector: Any) -> Any:
    """One environment of a vector of equal ones: continuous observations are learned one episode at a time."""
    inner, spec = vector.unwrapped, vector.spec
    if getattr(inner, "envs", None):
        if any(env.spec != inner.envs[0].spec for env in inner.envs):
            raise InputError("the environments of the vector are not the same; give the one to learn in")
        return inner.envs[0]
    if spec is not None:
        kwargs = {name: value for name, value in spec.kwargs.items() if name not in OF_VECTORS}
        return gymnasium.make(spec.id, max_episode_steps=spec.max_episode_steps, **kwargs)
    makers = getattr(inner, "env_fns", None)
    if makers is None:
        raise InputError("nothing tells how to make one environment of this vector; give one environment")
    return makers[0]()


STOCHASTIC = (
    "with continuous observations the expert must be deterministic: no policy agrees with a stochastic one for long; "
    "give a deterministic one, or put the observations into bins with discretise"
)


def _asked(expert: Any) -> tuple[Ask | None, dict[str, str], bool]:
    """An expert as a function of observation and step, the words that tell it from others, and if it needs the step."""
    if expert is None:
        return None, {}, False
    if isinstance(expert, str | Path):
        name = str(expert)
        if name in ("optimal", "terminal"):
            raise InputError(
                f"expert {name!r} is for numbered states; with continuous observations give {FORMS}; or put them into "
                "bins: discretise=Bins(...) (--discretise)"
            )
        if not name.endswith(".zip") and not is_reference(name):
            raise InputError(f"expert {name!r} is not {FORMS}")
        expert = saved_model(name) if name.endswith(".zip") else named_object(name)
    if isinstance(expert, type):
        raise InputError(f"expert is the class {expert.__name__}; give an instance, {expert.__name__}(...)")
    if hasattr(expert, "predict"):
        return lambda observation, step: expert.predict(observation, deterministic=True)[0], expert_parts(expert), False
    if not callable(expert):
        raise InputError(f"expert must be {FORMS}; got {shown(expert)}")
    if "rng" in parameters_of(expert):
        raise InputError(STOCHASTIC)
    if takes_step(expert):
        return expert, expert_parts(expert), True
    return lambda observation, step: expert(observation), expert_parts(inspect.unwrap(expert)), False


def is_recording(expert: Any) -> bool:
    """Whether what was given as an expert is recorded episodes."""
    if isinstance(expert, str | Path):
        return str(expert).endswith(LOGS)
    library = hasattr(expert, "iterate_episodes") or hasattr(expert, "next_obs")
    return library or isinstance(expert, Recording | list | tuple | dict)

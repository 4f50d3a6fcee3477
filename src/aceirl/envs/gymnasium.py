"""Any discrete Gymnasium environment as the learner wants it, used through `reset` and `step` alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from aceirl.envs.observations import END, Discretise, States, read
from aceirl.errors import InputError

# When a vector environment begins anew in a copy whose episode is over.
NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"


class GymEnvironment:
    """A Gymnasium environment with discrete actions; its states are numbered as they are met.

    When the environment terminates, the episode stays in the state `end` for the steps that are left. Truncation is a
    limit on patience and not part of the dynamics, so it may come only at the horizon: `horizon` is by default the
    environment's own limit of steps, and an environment that truncates earlier is an error. Every episode is seeded
    from the generator that `reset` is given.
    """

    end = END
    initial = None

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, horizon: int | None = None, discretise: Discretise | None = None
    ) -> None:
        self._env = env
        self._over = False
        self._prepare(_horizon(env, horizon), env.action_space, env.observation_space, discretise)

    def _prepare(
        self, horizon: int, acting: gymnasium.Space[Any], seeing: gymnasium.Space[Any], discretise: Discretise | None
    ) -> None:
        self.horizon = horizon
        self._actions = _actions(acting)
        self.n_actions = len(self._actions)
        self.states = States(seeing, discretise)
        self._step: int | None = None

    @property
    def n_states(self) -> int:
        """How many states were met so far, with the end."""
        return len(self.states)

    @property
    def possible_states(self) -> int | None:
        """How many states there can be, with the end; None if nobody can say."""
        return self.states.possible

    @property
    def names(self) -> tuple[str, ...]:
        """The states met so far, as text in their order."""
        return self.states.names

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do, and forget all others."""
        self.states.recall(names)
        self._step = None

    def observation(self, state: int) -> Any:
        """The observation that stands for a state."""
        return self.states.observation(state)

    def key(self, observation: Any) -> Hashable:
        """The same for two observations exactly if they are one state."""
        return self.states.key(observation)

    def read_observation(self, written: Any) -> Any:
        """An observation from its form in JSON."""
        return read(self.states.space, written)

    def action(self, number: int) -> Any:
        """The environment's own action of that number."""
        return self._actions[number]

    def action_number(self, action: Any) -> int | None:
        """The number of one of the environment's own actions; None if it is not one."""
        array = np.asarray(action)
        if array.dtype.kind not in "biu":
            return None
        found = [number for number, known in enumerate(self._actions) if np.array_equal(known, np.squeeze(array))]
        return found[0] if found else None

    def reset(self, rng: np.random.Generator) -> int:
        """Begin an episode and return its state."""
        seed = _seed(rng)
        try:
            observation, _ = self._env.reset(seed=seed)
        except Exception as error:
            raise _failure(f"reset(seed={seed})", error) from error
        self._step, self._over = 0, False
        return self.states.number(observation)

    def step(self, action: int) -> int:
        """Take an action and return the state it led to; the end, once the episode is over."""
        self._count_step()
        if self._over:
            return self.end
        try:
            observation, _, terminated, truncated, _ = self._env.step(self._actions[action])
        except Exception as error:
            raise _failure(f"step {self._step} of an episode, with action {self._actions[action]}", error) from error
        self._over = bool(terminated)
        if terminated:
            return self.end
        self._check_truncation(truncated)
        return self.states.number(observation)

    def _count_step(self) -> None:
        if self._step is None or self._step >= self.horizon:
            raise InputError("step was called outside an episode; call reset first")
        self._step += 1

    def _check_truncation(self, truncated: Any) -> None:
        if truncated and self._step != self.horizon:
            raise InputError(
                f"the environment truncated an episode after {self._step} steps, before the horizon of {self.horizon}; "
                f"choose horizon={self._step}, or lift its limit with max_episode_steps={self.horizon}"
            )


class GymVectorEnvironment(GymEnvironment):
    """A Gymnasium vector environment: as many episodes side by side as it has copies.

    The episodes are played in rounds. Each round begins with a `reset` from seeds of the generator that `begin` is
    given. A copy whose episode is over is stepped with the others, and nobody looks at it until the next round; made
    with `Resting`, it costs nothing by then. Where the vector environment does not tell the limit of steps, `horizon`
    must be given.
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], *, horizon: int | None = None, discretise: Discretise | None = None
    ) -> None:
        self._vector = env
        self._prepare(_horizon(env, horizon), env.single_action_space, env.single_observation_space, discretise)
        self.copies = int(env.num_envs)
        self._autoreset = _autoreset_mode(env)
        # Only these two take a seed for each copy; an environment that is a vector by nature takes one for all.
        self._seeds_each = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        self._forgetful = isinstance(env.unwrapped, AsyncVectorEnv) and not env.unwrapped.shared_memory
        self._over_now = np.zeros(self.copies, dtype=np.bool_)
        self._ended: set[int] = set()
        self._pending = False

    def reset(self, rng: np.random.Generator) -> int:
        """Begin one episode, in the first copy, and return its state."""
        return self.begin(1, rng)[0]

    def step(self, action: int) -> int:
        """Take an action in the first copy and return the state it led to; the end, once the episode is over."""
        return self.advance({0: action})[0]

    def begin(self, episodes: int, rng: np.random.Generator) -> list[int]:
        """Begin that many episodes, at most one a copy, and return their states."""
        seeds: list[int | None] = [_seed(rng) for _ in range(episodes)]
        seed: Any = seeds + [None] * (self.copies - episodes) if self._seeds_each else seeds[0]
        with self._call(f"reset(seed={seed})"):
            if self._forgetful and self._autoreset == NEXT_STEP and self._over_now.any():
                # Its `reset` does not undo that a copy is due to be reset by the next step: Gymnasium 1.0 to 1.4.
                self._vector.step(self._batch({}))
            observations, _ = self._vector.reset(seed=seed)
        self._step = 0
        self._over_now[:] = False
        self._ended = set()
        return [self._number(observations, copy) for copy in range(episodes)]

    def advance(self, actions: Mapping[int, int]) -> dict[int, int]:
        """Take an action in each of these episodes and return the states they led to; the end, once one is over."""
        self._count_step()
        batch = self._batch(actions)
        with self._call(f"step {self._step} of an episode, with actions {batch.tolist()}"):
            if self._autoreset == DISABLED and self._over_now.any():
                self._vector.reset(options={"reset_mask": self._over_now})
            observations, _, terminated, truncated, infos = self._vector.step(batch)
        self._over_now = np.logical_or(terminated, truncated)
        arrived = {}
        for copy in actions:
            if copy in self._ended or terminated[copy]:
                self._ended.add(copy)
                arrived[copy] = self.end
                continue
            self._check_truncation(truncated[copy])
            if truncated[copy] and self._autoreset == SAME_STEP:
                arrived[copy] = self.states.number(_last_observation(infos, copy))
            else:
                arrived[copy] = self._number(observations, copy)
        return arrived

    def close(self) -> None:
        """Close the copies; their processes are killed if one of them no longer answers."""
        workers = getattr(self._vector.unwrapped, "processes", [])
        if not workers or (not self._pending and all(worker.is_alive() for worker in workers)):
            self._vector.close()
            return
        # To close itself, a vector environment waits for the answers to its last call: for ever, if some were read.
        for worker in workers:
            worker.kill()
            worker.join()
        self._vector.unwrapped.closed = True

    @contextmanager
    def _call(self, what: str) -> Iterator[None]:
        self._pending = True
        try:
            yield
        except Exception as error:
            raise _failure(what, error) from error
        self._pending = False

    def _batch(self, actions: Mapping[int, int]) -> np.ndarray[Any, Any]:
        """The environment's own actions; where no action is taken, the first is as good as any."""
        chosen = [self._actions[actions.get(copy, 0)] for copy in range(self.copies)]
        return np.array(chosen, dtype=self._vector.single_action_space.dtype)

    def _number(self, observations: Any, copy: int) -> int:
        return self.states.number(_part(self.states.space, observations, copy))


class Resting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A copy that rests from the end of its episode until it is reset with a seed.

    Without it, a vector environment plays on in copies at which nobody looks, for as long as the others take.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._seen: Any = None
        self._rests = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode if there is a seed, else begin to rest."""
        self._rests = seed is None
        if self._rests and self._seen is not None:
            return self._seen, {}
        self._seen, info = self.env.reset(seed=seed, options=options)
        return self._seen, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action, unless it rests."""
        if self._rests:
            return self._seen, 0.0, False, False, {}
        self._seen, reward, terminated, truncated, info = self.env.step(action)
        return self._seen, reward, terminated, truncated, info


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _failure(where: str, error: Exception) -> InputError:
    said = "its process has died" if isinstance(error, EOFError) and not str(error) else str(error)
    return InputError(f"the environment failed in {where}: {type(error).__name__}: {said}")


def _autoreset_mode(env: VectorEnv[Any, Any, Any]) -> str:
    """What the environment says, or else what its version of Gymnasium does."""
    mode = env.metadata.get("autoreset_mode")
    if mode is None:
        return SAME_STEP if gymnasium.__version__.startswith("0.") else NEXT_STEP
    return str(getattr(mode, "value", mode))


def _last_observation(infos: dict[str, Any], copy: int) -> Any:
    """What was seen last in a copy that was reset in the same step: Gymnasium has had two names for it."""
    last = infos.get("final_obs", infos.get("final_observation"))
    if last is None:
        raise InputError(
            "the vector environment does not say what was observed last in an episode that it truncated; "
            "choose a horizon below its limit of steps"
        )
    return last[copy]


def _part(space: gymnasium.Space[Any], observations: Any, copy: int) -> Any:
    """The observation of one copy, apart from the memory of the others."""
    match space:
        case spaces.Dict():
            return {name: _part(part, observations[name], copy) for name, part in space.spaces.items()}
        case spaces.Tuple():
            return tuple(_part(part, group, copy) for part, group in zip(space.spaces, observations, strict=True))
        case spaces.Discrete():
            return np.asarray(observations)[copy].item()
        case spaces.MultiDiscrete() | spaces.MultiBinary() | spaces.Box():
            return np.array(observations[copy])
        case _:
            return observations[copy]


def _horizon(env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], horizon: int | None) -> int:
    spec = getattr(env, "spec", None)
    limit = spec.max_episode_steps if spec is not None else None
    if horizon is None:
        if limit is None:
            raise InputError("horizon must be given: the environment does not say how many steps an episode has")
        return int(limit)
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise InputError(f"horizon must be a whole number of at least 1, got {horizon!r}")
    if limit is not None and horizon > limit:
        raise InputError(
            f"horizon is {horizon}, but the environment truncates episodes after {limit} steps; "
            f"make it with max_episode_steps={horizon}"
        )
    return int(horizon)


def _actions(space: gymnasium.Space[Any]) -> list[Any]:
    """All actions in order."""
    match space:
        case spaces.Discrete():
            return [int(space.start) + action for action in range(int(space.n))]
        case spaces.MultiDiscrete():
            start = getattr(space, "start", np.zeros_like(space.nvec))
            return [start + np.array(index, dtype=space.dtype) for index in np.ndindex(*space.nvec)]
        case _:
            raise InputError(f"actions must be Discrete or MultiDiscrete, and the environment's are {space}")

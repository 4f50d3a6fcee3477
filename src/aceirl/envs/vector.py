"""Gymnasium's vector environments: episodes played side by side, in one process or in many."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from aceirl.envs.gymnasium import GymAdapter, checked_horizon, failure, seed_from
from aceirl.errors import InputError
from aceirl.models.fields.table import Fields, Given
from aceirl.models.tabular.encoder import Discretise
from aceirl.protocols import Seen

# When a vector environment resets an environment whose episode is over.
NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"

# Where `Resting` tells of the end of an episode.
TERMINATED, TRUNCATED = "resting_terminated", "resting_truncated"


class GymVectorEnvironment(GymAdapter):
    """A Gymnasium vector environment: `num_envs` episodes side by side.

    The episodes are played in rounds. Each round begins with a `reset` from seeds of the generator that `begin` is
    given. An environment whose episode is over is stepped with the others, and nobody looks at it until the next round;
    inside `Resting` it does nothing meanwhile. Where the vector environment does not tell the limit of steps, `horizon`
    must be given.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        *,
        horizon: int | None = None,
        discretise: Discretise | None = None,
        fields: Given | None = None,
    ) -> None:
        limit = checked_horizon(env, horizon)
        super().__init__(limit, env.single_action_space, env.single_observation_space, discretise)
        self._vector = env
        self.fields = None if fields is None else Fields.given(fields)
        self.num_envs = int(env.num_envs)
        self._autoreset = _autoreset_mode(env)
        # Only these two take a seed for each environment; one that is a vector by nature takes one seed for all.
        self._seeds_each = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        # Gymnasium 1.4: the `reset` of such a one does not undo that an environment will be reset by its next step.
        unshared = isinstance(env.unwrapped, AsyncVectorEnv) and not env.unwrapped.shared_memory
        self._resets_again = unshared and self._autoreset == NEXT_STEP
        self._over_now = np.zeros(self.num_envs, dtype=np.bool_)
        self._ended: dict[int, Seen] = {}
        self._pending = False

    def reset(self, rng: np.random.Generator) -> Any:
        """Begin one episode, in the first environment, and return its observation."""
        return self.begin(1, rng)[0]

    def step(self, action: int) -> Seen:
        """Take an action in the first environment; the observation it led to, and whether the episode is over."""
        return self.advance({0: action})[0]

    def begin(self, episodes: int, rng: np.random.Generator) -> list[Any]:
        """Begin that many episodes, at most `num_envs`, and return their observations."""
        if self._resets_again and self._over_now.any():
            raise InputError(
                "an AsyncVectorEnv without shared memory that resets in the next step would skip the first step of an "
                "episode; wrap its environments in aceirl.envs.vector.Resting, or choose another autoreset_mode"
            )
        seeds: list[int | None] = [seed_from(rng) for _ in range(episodes)]
        seed: Any = seeds + [None] * (self.num_envs - episodes) if self._seeds_each else seeds[0]
        with self._call(f"reset(seed={seed})"):
            observations, _ = self._vector.reset(seed=seed)
        self._step = 0
        self._over_now[:] = False
        self._ended = {}
        self.pay_seen.begin(episodes)
        return [_part(self.states.space, observations, index) for index in range(episodes)]

    def advance(self, actions: Mapping[int, int]) -> dict[int, Seen]:
        """Take an action in each of these episodes; the observations they led to, and whether those are the last."""
        self._count_step()
        batch = self._batch(actions)
        with self._call(f"step {self._step} of an episode, with actions {batch.tolist()}"):
            if self._autoreset == DISABLED and self._over_now.any():
                self._vector.reset(options={"reset_mask": self._over_now})
            observations, rewards, terminated, truncated, infos = self._vector.step(batch)
        self._over_now = np.logical_or(terminated, truncated)
        if TERMINATED in infos:
            terminated, truncated = infos[TERMINATED], infos[TRUNCATED]
        arrived: dict[int, Seen] = {}
        for index in actions:
            if index in self._ended:
                arrived[index] = self._ended[index]
                continue
            self.pay_seen.add(rewards[index], index)
            self._check_truncation(truncated[index] and not terminated[index])
            replaced = self._over_now[index] and self._autoreset == SAME_STEP
            last = _last_observation(infos, index) if replaced else _part(self.states.space, observations, index)
            arrived[index] = last, bool(terminated[index])
            if terminated[index]:
                self._ended[index] = arrived[index]
        return arrived

    def close(self) -> None:
        """Close all environments; their processes are killed if one of them no longer answers."""
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
            raise failure(what, error) from error
        self._pending = False

    def _batch(self, actions: Mapping[int, int]) -> np.ndarray[Any, Any]:
        """The environment's own actions; where no action is taken, the first is as good as any."""
        chosen = [self.actions[actions.get(index, 0)] for index in range(self.num_envs)]
        return np.array(chosen, dtype=self._vector.single_action_space.dtype)


class Resting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that rests from the end of its episode until it is reset with a seed.

    It tells of the end in `info`, and of nothing else there: a vector environment that hears of it begins another
    episode in it, at which nobody looks.

    A process that was forked has the random state of its parent, as all its siblings do. So in a process of its own
    this seeds the global generators too, from the seed of each episode: environments that draw from them would
    otherwise play the same episode side by side.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._seen: Any = None
        self._rests = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode if there is a seed, else go on resting."""
        self._rests = seed is None
        if self._rests and self._seen is not None:
            return self._seen, {}
        if seed is not None and multiprocessing.parent_process() is not None:
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 - for environments that use it
        self._seen, _ = self.env.reset(seed=seed, options=options)
        return self._seen, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action, unless it rests."""
        if self._rests:
            return self._seen, 0.0, False, False, {TERMINATED: False, TRUNCATED: False}
        own = action.item() if isinstance(action, np.integer) else action
        self._seen, reward, terminated, truncated, _ = self.env.step(own)
        self._rests = bool(terminated or truncated)
        return self._seen, reward, False, False, {TERMINATED: bool(terminated), TRUNCATED: bool(truncated)}


def _autoreset_mode(env: VectorEnv[Any, Any, Any]) -> str:
    """What the environment says, or else what its version of Gymnasium does."""
    mode = env.metadata.get("autoreset_mode")
    if mode is None:
        return SAME_STEP if gymnasium.__version__.startswith("0.") else NEXT_STEP
    return str(getattr(mode, "value", mode))


def _last_observation(infos: dict[str, Any], index: int) -> Any:
    """What was seen last in an environment that was reset in the same step: Gymnasium has had two names for it."""
    last = infos.get("final_obs", infos.get("final_observation"))
    if last is None:
        raise InputError(
            "the vector environment does not say what was observed last in an episode that it truncated; "
            "choose a horizon below its limit of steps"
        )
    return last[index]


def _part(space: gymnasium.Space[Any], observations: Any, index: int) -> Any:
    """The observation of one environment, apart from the memory of the others."""
    match space:
        case spaces.Dict():
            return {name: _part(part, observations[name], index) for name, part in space.spaces.items()}
        case spaces.Tuple():
            return tuple(_part(part, group, index) for part, group in zip(space.spaces, observations, strict=True))
        case spaces.Discrete():
            return np.asarray(observations)[index].item()
        case spaces.MultiDiscrete() | spaces.MultiBinary() | spaces.Box():
            return np.array(observations[index])
        case _:
            return observations[index]

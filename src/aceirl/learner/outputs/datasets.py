"""Transitions and answers in the forms that other libraries read: Minari datasets and imitation's trajectories."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from aceirl.errors import InputError
from aceirl.learner.outputs.observed import GreedyPolicy


@dataclass
class LoggedEpisode:
    """One episode: an observation more than actions, and whether it ended by itself."""

    observations: list[Any]
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False


class EpisodeLog(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Keeps all that happens in an environment; put it around the environment before a run."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self.episodes: list[LoggedEpisode] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.episodes.append(LoggedEpisode([observation]))
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        episode = self.episodes[-1]
        episode.observations.append(observation)
        episode.actions.append(action)
        episode.rewards.append(float(reward))
        episode.terminated = bool(terminated)
        return observation, reward, terminated, truncated, info


def save_minari(name: str, log: EpisodeLog, policy: GreedyPolicy | None = None, **details: Any) -> Any:
    """A new Minari dataset of that name, say `lake/expert-v0`, with the episodes of a log.

    With `policy`, `infos["expert_action"]` says what the expert is known to do at each step, -1 where it was not asked
    and for an action that is no single number. Further details go to Minari as they are: author, description, ...
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError:
        raise InputError("datasets need Minari: pip install 'aceirl[minari]'") from None
    finished = [episode for episode in log.episodes if episode.actions]
    if not finished:
        raise InputError("the log holds no episode yet; put EpisodeLog around the environment before the run")
    buffers = [
        EpisodeBuffer(
            id=number,
            observations=_columns(episode.observations),
            actions=episode.actions,
            rewards=episode.rewards,
            terminations=_ends(episode, episode.terminated),
            truncations=_ends(episode, not episode.terminated),
            infos=None if policy is None else {"expert_action": _known_answers(episode, policy)},
        )
        for number, episode in enumerate(finished)
    ]
    spaces = {"observation_space": log.observation_space, "action_space": log.action_space}
    known = spaces if log.spec is None else {"env": log.env, "eval_env": log.env}
    with warnings.catch_warnings():
        # Minari would have an environment that is registered; its spaces are enough to read the dataset.
        warnings.filterwarnings("ignore", message="(`eval_env` is set to|env_spec is) None")
        return minari.create_dataset_from_buffers(name, buffers, **known | details)


def imitation_trajectories(log: EpisodeLog) -> list[Any]:
    """The episodes as `TrajectoryWithRew` of imitation. Only observations that are arrays or numbers can be such."""
    try:
        from imitation.data.types import TrajectoryWithRew
    except ImportError:
        raise InputError(
            "trajectories need the package imitation, which pins an old Gymnasium: install it into a virtual "
            "environment of its own"
        ) from None
    return [
        TrajectoryWithRew(
            obs=np.asarray(episode.observations),
            acts=np.asarray(episode.actions),
            infos=None,
            terminal=episode.terminated,
            rews=np.asarray(episode.rewards, dtype=np.float64),
        )
        for episode in log.episodes
        if episode.actions
    ]


def _ends(episode: LoggedEpisode, ended: bool) -> list[bool]:
    """False, but for the last step perhaps."""
    return [False] * (len(episode.actions) - 1) + [ended]


def _columns(observations: list[Any]) -> Any:
    """Observations made of parts, as parts made of columns."""
    first = observations[0]
    if isinstance(first, dict):
        return {name: _columns([observation[name] for observation in observations]) for name in first}
    if isinstance(first, tuple):
        return tuple(_columns(list(column)) for column in zip(*observations, strict=True))
    return observations


def _known_answers(episode: LoggedEpisode, policy: GreedyPolicy) -> list[int]:
    answers = (policy.expert_action(seen, step) for step, seen in enumerate(episode.observations))
    return [-1 if action is None or np.ndim(action) else int(action) for action in answers]

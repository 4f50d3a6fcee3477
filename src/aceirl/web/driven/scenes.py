"""What a person sees of a continuous task: pictures, numbers with bars, and films of episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from aceirl.errors import InputError
from aceirl.experts.tasks import Source, rendering_env
from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.models.vectors.choices import ActionChoices
from aceirl.runs.continuous import ContinuousResult
from aceirl.web.driven.history import Drive
from aceirl.web.environment_view import data_url

# A picture has at most so many pixels each way, and a film so many pictures.
MOST_PIXELS, FILM = 800, 100

# So many numbers of an observation are shown, and a bound above this is taken for none.
MOST_NUMBERS, LARGE = 12, 1e3

BRIEFS = {
    "CartPoleEnv": "A cart with a pole on it. You push the cart to the left or to the right.",
    "MountainCarEnv": "A car in a valley, too weak to drive straight up the hill.",
    "Continuous_MountainCarEnv": "A car in a valley, too weak to drive straight up the hill.",
    "AcrobotEnv": "Two links that hang from a joint. You turn the joint between them.",
    "PendulumEnv": "A pendulum. You turn it at its joint.",
    "LunarLander": "A lander above the ground, with three engines.",
}

Frame = dict[str, Any]


def drawing_env(source: Source) -> Any:
    """The environment, made to draw itself as an array of pixels; an error if it cannot."""
    env = rendering_env(source)
    try:
        if env.render_mode != "rgb_array":
            raise InputError(
                f"{source.environment} does not draw itself (it has no render mode rgb_array), so it cannot be driven "
                "on a page; give a function as the expert: aceirl run --expert"
            )
        env.reset(seed=0)
        picture(env)
    except InputError:
        env.close()
        raise
    except Exception as error:
        env.close()
        raise InputError(f"{source.environment} cannot be drawn: {' '.join(str(error).split())}") from error
    return env


def picture(env: Any) -> str:
    """What the environment draws, as a data URL; large ones are made smaller."""
    pixels = env.render()
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise InputError(f"a picture must be an array [height, width, 3], got {type(pixels).__name__}")
    every = -(-max(pixels.shape[:2]) // MOST_PIXELS)
    return data_url(np.ascontiguousarray(pixels[::every, ::every].astype(np.uint8)))


class NumberBars:
    """The numbers of observations with bars, whose length is the largest so far where there is no bound."""

    def __init__(self, task: ContinuousTask) -> None:
        self.task, space = task, task.encoding.observations
        self.widest = np.full(task.encoding.dimension, 1e-6)
        self.bounds = np.full(task.encoding.dimension, np.inf)
        if isinstance(space, spaces.Box):
            self.bounds = np.maximum(np.abs(space.low), np.abs(space.high)).ravel().astype(np.float64)

    def shown(self, observation: Any) -> list[dict[str, Any]]:
        """Of each number its name, its value, and the share of the bar, from -1 to 1."""
        values = self.task.encoding.vector(observation)
        self.widest = np.maximum(self.widest, np.abs(values))
        shares = np.clip(values / np.where(self.bounds < LARGE, np.maximum(self.bounds, 1e-6), self.widest), -1, 1)
        rows = zip(self.task.fields[:MOST_NUMBERS], values, shares, strict=False)
        return [
            {"name": name, "value": f"{value:.2f}".replace("-0.00", "0.00"), "share": round(float(share), 3)}
            for name, value, share in rows
        ]


class Films:
    """Films of episodes, in an environment of their own; `names` are those of the choices."""

    def __init__(self, task: ContinuousTask, choices: ActionChoices, names: Sequence[str]) -> None:
        self.task, self.choices, self.names = task, choices, names

    def of_drive(self, drive: Drive, seed: int, first: int) -> Iterator[Frame]:
        """The steps of an episode from the `first` on; of many, every so many."""
        every = max(1, -(-(drive.steps - first) // FILM))
        self.task.reset(seed)
        for step in range(drive.steps + 1):
            words = ""
            if step:
                self.task.step(self.choices.values[drive.actions[step - 1]])
                words = ("you: " if drive.own[step - 1] else "") + self.names[drive.actions[step - 1]]
            if step >= first and ((step - first) % every == 0 or step == drive.steps):
                yield self._frame(step, words)

    def of_result(self, result: ContinuousResult, seed: int) -> Iterator[Frame]:
        """An episode of what was learned, and where it would ask, if something is promised."""
        policy, task, every = result.policy, self.task, -(-self.task.horizon // FILM)
        observation, over, step = task.reset(seed), False, 0
        yield self._frame(0, "")
        while not over:
            asks = result.certificate is not None and policy.ask_here(observation)
            values = task.encoding.values(policy.predict(observation)[0])
            assert values is not None
            observation, terminated, truncated = task.step(values)
            step += 1
            over = terminated or truncated or step == task.horizon
            if step % every == 0 or over:
                words = self.names[int(self.choices.numbers(values[None])[0])]
                frame = self._frame(step, f"{words} (it would ask you here)" if asks else words)
                how = "the episode ended" if terminated else "the time was up"
                yield frame | ({"ending": f"After {step:,} steps {how}."} if over else {})

    def _frame(self, step: int, words: str) -> Frame:
        return {"step": step, "words": words, "picture": picture(self.task.env)}

"""The policy of a run with continuous observations: it acts where it is sure, and says where it would ask."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.envs.written_space import read_space, write_space
from aceirl.errors import InputError
from aceirl.models.tabular.mdp import FloatArray
from aceirl.models.vectors.choices import ActionChoices
from aceirl.models.vectors.committee import NetworkCommittee
from aceirl.models.vectors.encoding import Encoding


@dataclass(frozen=True, eq=False)
class GatedPolicy:
    """A committee behind a gate: it asks where its score is below the `threshold`.

    `fields [d]` are what the numbers of an observation are called, `names [K]` what the choices are. It needs neither
    the environment nor the expert, and has the `predict` of a policy of Stable-Baselines3.
    """

    committee: NetworkCommittee
    choices: ActionChoices
    encoding: Encoding
    threshold: float
    fields: tuple[str, ...]
    names: tuple[str, ...]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action for an observation or a batch of them, whether it is sure or not; the second is always None."""
        chosen, _ = self.committee.decide(self._vectors(observation))
        actions = [self.encoding.action(self.choices.values[number]) for number in chosen]
        return (np.array(actions) if self.encoding.is_batch(observation) else actions[0]), None

    def ask_here(self, observation: Any) -> Any:
        """Whether to ask the expert: True or False, or one of them for each observation of a batch."""
        asks = self.sureness(observation) < self.threshold
        return asks if self.encoding.is_batch(observation) else bool(asks)

    def sureness(self, observation: Any) -> Any:
        """How sure the committee is, beside the `threshold`; one number, or one for each observation of a batch."""
        _, scores = self.committee.agree(self._vectors(observation))
        return scores if self.encoding.is_batch(observation) else float(scores[0])

    def rounded(self, action: Any) -> Any:
        """The choice nearest to an action of the expert; where actions are finite, the same."""
        values = self.encoding.values(action)
        if values is None:
            raise InputError(f"{action!r} is not in {self.encoding.actions}")
        return self.encoding.action(self.choices.values[self.choices.numbers(values[None])[0]])

    def _vectors(self, observation: Any) -> FloatArray:
        many = self.encoding.is_batch(observation)
        return self.encoding.vectors(observation if many else [observation])

    def arrays(self) -> dict[str, Any]:
        """What `of_arrays` reads."""
        spaces = [write_space(self.encoding.observations), write_space(self.encoding.actions)]
        words = {"spaces": spaces, "fields": self.fields, "names": self.names}
        parts = {"committee": self.committee.arrays(), "choices": self.choices.arrays()}
        named = {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
        return {**named, "least_margin": np.asarray(self.threshold), "words": np.asarray(json.dumps(words))}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> GatedPolicy:
        """The policy that `arrays` wrote."""

        def part(name: str) -> dict[str, Any]:
            return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

        words = json.loads(str(arrays["words"]))
        return cls(
            NetworkCommittee.of_arrays(part("committee")),
            ActionChoices.of_arrays(part("choices")),
            Encoding(*map(read_space, words["spaces"])),
            float(arrays["least_margin"]),
            tuple(words["fields"]),
            tuple(words["names"]),
        )

    def save(self, path: str | Path) -> Path:
        """Write the policy to a file of arrays (.npz), which `load` reads without pickling."""
        file = io.BytesIO()
        np.savez(file, **self.arrays())
        Path(path).write_bytes(file.getvalue())
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> GatedPolicy:
        """The policy that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls.of_arrays(dict(file))
        except FileNotFoundError:
            raise InputError(f"there is no file {path}") from None
        except (KeyError, ValueError, OSError) as error:
            raise InputError(f"{path} cannot be read as a policy: {error}") from None

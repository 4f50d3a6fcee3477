"""What a run is asked to do, checked before any work starts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aceirl.certificates import KINDS
from aceirl.confidence import FAMILIES
from aceirl.errors import InputError, unknown_name
from aceirl.explore import STRATEGIES
from aceirl.irl import ALGORITHMS

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """The choices that, with environment, expert and seed, determine a run.

    `epsilon` is the accuracy asked of the certificate in units of reward summed over an episode; None stands for a
    tenth of the most an episode can earn, `0.1·H·rmax`. The run stops when the certificate of the kind `certify` is
    that accurate; None stands for no certificate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: str = "guided"
    irl: str = "max-causal-entropy"
    confidence: str = "kl"
    episodes_per_iteration: Annotated[int, Field(ge=1)] = 1
    certify: str | None = "policy"
    epsilon: Positive | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    rmax: Positive = 1.0
    max_samples: Annotated[int, Field(ge=1)] = 100_000
    max_answers: Annotated[int, Field(ge=1)] | None = None
    until_regret: Annotated[float, Field(ge=0, le=1)] | None = None
    stationary_dynamics: bool = True
    least_probability: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                raise unknown_name("setting", name, type(self).model_fields) from None
            raise InputError(f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}, got {first['input']!r}") from None
        choices: tuple[tuple[str, str | None, Collection[str]], ...] = (
            ("strategy", self.strategy, STRATEGIES),
            ("IRL algorithm", self.irl, ALGORITHMS),
            ("confidence family", self.confidence, FAMILIES),
            ("certificate", self.certify, KINDS),
        )
        for kind, choice, known in choices:
            if choice is not None and choice not in known:
                raise unknown_name(kind, choice, known)

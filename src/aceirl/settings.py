"""What a run is asked to do, checked before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError, core_schema

from aceirl.belief import Target
from aceirl.certificates import KINDS, CertificateKind
from aceirl.confidence import FAMILIES, Family
from aceirl.errors import InputError, unknown_name
from aceirl.explore import STRATEGIES, Guided, Strategy
from aceirl.irl import ALGORITHMS, SparseLikelihood
from aceirl.named import read, write
from aceirl.rewards import SPACES, AutoReward, FeatureFile, InverseReinforcement, RewardSpace

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Features = Callable[[Any], Any]
"""Features `[K]` of an observation."""

REWARD_SPACE = "reward space"
SPACE_NAMES = {**SPACES, "features": FeatureFile, "auto": AutoReward}


class _Named:
    """A field that holds a thing of a kind; its text stands for it, going in and coming out."""

    def __init__(self, kind: str, known: Mapping[str, Callable[..., Any]], verb: str = "__call__") -> None:
        self.kind, self.known, self.verb = kind, known, verb

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        written = core_schema.plain_serializer_function_ser_schema(self._text)
        return core_schema.no_info_plain_validator_function(self._thing, serialization=written)

    def _text(self, thing: Any) -> str | None:
        return None if thing is None else write(thing, self.known)

    def _thing(self, value: Any) -> Any:
        if isinstance(value, str):
            return read(value, self.kind, self.known)
        if value is None and self.kind == "certificate":
            return None
        if self.kind == REWARD_SPACE and callable(value) and not isinstance(value, type):
            return value
        if isinstance(value, type) or not callable(getattr(value, self.verb, None)):
            wanted = "something to call" if self.verb == "__call__" else f"an object with a method `{self.verb}`"
            raise InputError(f"{self.kind} must be a name or {wanted}, got {value!r}")
        return value


class Settings(BaseModel):
    """The choices that, with environment, expert and seed, determine a run.

    Strategy, IRL algorithm, reward space, confidence family and certificate are given by name, with parameters as in
    `"ace:tolerance=0.05"`, or as objects of your own; a function of an observation is a reward space too, that of the
    features it returns. The rewards of two steps differ by at most `rmax`, where one after the end of an episode is 0,
    and the returns of two episodes, where that is known, by at most `max_return`. `epsilon` is the accuracy asked of
    the certificate in units of reward summed over an episode; None stands for a tenth of what two episodes can differ
    by. The run stops when the certificate `certify` is that accurate; None stands for no certificate. A deterministic
    expert is asked about a state for which it has answered with the probability `ask_again`; None leaves that to the
    expert. A reward is inferred again when the number of samples has grown by the share `infer_after_growth`; 0 is
    after every iteration.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Annotated[Strategy, _Named("strategy", STRATEGIES, "plan")] = Guided()
    irl: Annotated[InverseReinforcement, _Named("IRL algorithm", ALGORITHMS)] = SparseLikelihood()
    reward: Annotated[RewardSpace | Features, _Named(REWARD_SPACE, SPACE_NAMES, "over")] = AutoReward()
    confidence: Annotated[Family, _Named("confidence family", FAMILIES)] = FAMILIES["kl"]
    episodes_per_iteration: Annotated[int, Field(ge=1)] = 1
    certify: Annotated[CertificateKind | None, _Named("certificate", KINDS, "explain")] = KINDS["policy"]()
    epsilon: Positive | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    rmax: Positive = 1.0
    max_return: Positive | None = None
    max_samples: Annotated[int, Field(ge=1)] = 100_000
    max_answers: Annotated[int, Field(ge=1)] | None = None
    until_regret: Annotated[float, Field(ge=0, le=1)] | None = None
    stationary_dynamics: bool = True
    least_probability: Annotated[float, Field(gt=0, le=1)] | None = None
    ask_again: Annotated[float, Field(ge=0, le=1)] | None = None
    infer_after_growth: Annotated[float, Field(ge=0)] = 0.1
    seed: Annotated[int, Field(ge=0)] = 0

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
                raise cause from None
            if first["type"] == "extra_forbidden":
                raise unknown_name("setting", name, type(self).model_fields) from None
            raise InputError(f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}, got {first['input']!r}") from None

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """As plain values; an `InputError` for an object that cannot be written down."""
        try:
            return super().model_dump(**options)
        except PydanticSerializationError as error:
            if isinstance(error.__cause__, InputError):
                raise error.__cause__ from None
            raise

    def named(self, field: str) -> str | None:
        """The text of a strategy, IRL algorithm, confidence family or certificate."""
        text: str | None = self.model_dump(include={field})[field]
        return text

    def target(self, horizon: int) -> Target:
        """What is asked of a certificate: `epsilon`, or a tenth of what it is about.

        That is what the returns of two episodes can differ by or, of kinds about every step, `H·rmax`.
        """
        target = Target(1.0, self.delta, self.rmax, self.max_return)
        by_steps = self.certify is not None and not getattr(self.certify, "in_returns", True)
        most = horizon * self.rmax if by_steps else target.possible(horizon)
        return replace(target, epsilon=self.epsilon or 0.1 * most)

"""What a run is asked to do, checked before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError, PydanticSerializationError, core_schema

from aceirl.certificates import KINDS, CertificateKind
from aceirl.errors import InputError, unknown_name
from aceirl.explore import STRATEGIES, Guided, Strategy
from aceirl.irl import ALGORITHMS, SparseLikelihood
from aceirl.irl.belief import Target
from aceirl.learner.named import read, write
from aceirl.models.tabular.confidence import FAMILIES, Family
from aceirl.protocols import ExactPlanning
from aceirl.rewards import SPACES, AutoReward, FeatureFile, InverseReinforcement, RewardSpace


def _in_range(value: float) -> float:
    """What can be multiplied and divided by, whatever else there is."""
    if not 1e-100 <= value <= 1e100:
        raise PydanticCustomError("range", "Input should lie between 1e-100 and 1e100")
    return value


InRange = AfterValidator(_in_range)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), InRange]

LEAST_SHARE = 1e-15
"""The least accuracy that can be asked for, as a share of what it is about."""

Features = Callable[[Any], Any]
"""Features `[K]` of an observation."""

REWARD_SPACE = "reward space"
OPTIONAL = ("certificate", "IRL algorithm")
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
        none = value is None or (isinstance(value, str) and value.lower() == "none")
        if none and self.kind in OPTIONAL:
            return None
        if isinstance(value, str):
            return read(value, self.kind, self.known)
        if self.kind == REWARD_SPACE and callable(value) and not isinstance(value, type):
            return value
        if isinstance(value, type) or not callable(getattr(value, self.verb, None)):
            wanted = "something to call" if self.verb == "__call__" else f"an object with a method `{self.verb}`"
            raise InputError(f"{self.kind} must be a name or {wanted}, got {value!r}")
        return value


class Settings(BaseModel):
    """The choices that, with environment, expert and seed, determine a run; `help(ActiveIRL)` lists them.

    Strategy, IRL algorithm, reward space, confidence family and certificate are given by name, with parameters as in
    `"ace:tolerance=0.05"`, or as objects of your own; a function of an observation is a reward space too, that of the
    features it returns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Annotated[Strategy, _Named("strategy", STRATEGIES, "plan")] = Field(
        Guided(),
        description="where to explore: NAME or NAME:key=value; `aceirl strategies` lists them; by default guided, and "
        "telling for the certificate goal",
    )
    irl: Annotated[InverseReinforcement | None, _Named("IRL algorithm", ALGORITHMS)] = Field(
        SparseLikelihood(),
        description="how a reward is inferred: sparse-likelihood, max-causal-entropy, max-margin and others; None for "
        "no reward",
    )
    reward: Annotated[RewardSpace | Features, _Named(REWARD_SPACE, SPACE_NAMES, "design_matrix")] = Field(
        AutoReward(),
        description="what a reward may depend on: state, state-action, any, or auto for the smallest that explains the "
        "answers; for features of your own features:path=FILE.npy, an array, or a function of an observation, "
        "package.module.function",
    )
    confidence: Annotated[Family, _Named("confidence family", FAMILIES)] = Field(
        FAMILIES["adaptive"], description="the family of confidence radii"
    )
    episodes_per_iteration: Annotated[int, Field(ge=1)] = Field(
        1, description="episodes between two plans; by default 1, or as many as a vector environment plays at once"
    )
    certify: Annotated[CertificateKind | None, _Named("certificate", KINDS, "explain")] = Field(
        KINDS["policy"](),
        description="the certificate to stop on: policy, criterion, reward, set, dynamics, goal, or none",
    )
    epsilon: Positive | None = Field(
        None,
        description="the accuracy asked of the certificate, in units of reward summed over an episode; by default "
        "a tenth of what two episodes can differ by",
    )
    delta: Annotated[float, Field(gt=0, lt=1), InRange] = Field(0.1, description="how often a certificate may be wrong")
    rmax: Positive = Field(
        1.0,
        description="by how much the rewards of two steps can differ, where those after the end of an episode are 0; "
        "by default 1, or what the environment declares",
    )
    max_return: Positive | None = Field(
        None,
        description="by how much the returns of two episodes can differ, if that is less than rmax allows; by default "
        "what the environment declares",
    )
    discount: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="the discount factor: what a reward one step later is worth to the expert"
    )
    max_samples: Annotated[int, Field(ge=1)] = Field(
        100_000, description="the budget of environment steps; the last batch is finished"
    )
    max_answers: Annotated[int, Field(ge=1)] | None = Field(
        None, description="the budget of answers; by default no limit"
    )
    calibration_episodes: Annotated[int, Field(ge=1)] = Field(
        400,
        description="continuous observations only: episodes that the expert drives to calibrate where the policy asks",
    )
    until_regret: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="stop when the normalised regret is below this, where the true reward is known"
    )
    stationary_dynamics: bool = Field(True, description="whether the dynamics are the same at every step")
    least_probability: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="a stochastic expert takes every action it uses with at least this probability"
    )
    ask_again: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None,
        description="how often a deterministic expert is asked again about a state; by default a function or a model "
        "always, a person one time in ten, a table never",
    )
    infer_after_growth: Annotated[float, Field(ge=0)] = Field(
        0.1,
        description="a reward is inferred again when the samples have grown by this share (with max-margin, at least "
        "by half, with more than 1,000 states by a third or more); 0: after every iteration",
    )
    seed: Annotated[int, Field(ge=0)] = Field(0, description="seed of the environment and of all randomness of the run")

    def __init__(self, **values: Any) -> None:
        certify = values.get("certify")
        if "strategy" not in values and str(getattr(certify, "name", certify)).startswith("goal"):
            values["strategy"] = STRATEGIES["telling"]()
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

    def needs(self) -> dict[str, tuple[type, ...]]:
        """What strategy, IRL algorithm and certificate need of a model, each by what errors call it.

        One that does not say what it needs is written for tables.
        """
        words = {"strategy": "the strategy", "irl": "the IRL algorithm", "certify": "the certificate"}
        chosen = {field: getattr(self, field) for field in words}
        return {
            f"{words[field]} {_called(one)}": getattr(one, "needs", (ExactPlanning,))
            for field, one in chosen.items()
            if one is not None
        }

    def target(self, horizon: int) -> Target:
        """What is asked of a certificate: `epsilon`, or a tenth of what it is about.

        That is what the returns of two episodes can differ by or, of kinds about every step, `H·rmax`, discounted.
        """
        target = Target(1.0, self.delta, self.rmax, self.max_return, discount=self.discount)
        by_steps = self.certify is not None and not getattr(self.certify, "in_returns", True)
        most = target.steps(horizon) * self.rmax if by_steps else target.possible(horizon)
        if self.epsilon is not None and self.epsilon < LEAST_SHARE * most:
            raise InputError(
                f"epsilon is {self.epsilon:g}, and two episodes can differ by {most:g}; it must be at least "
                f"{LEAST_SHARE:g} of that; for a run without a certificate, certify=None"
            )
        return replace(target, epsilon=self.epsilon or 0.1 * most)


def _called(thing: Any) -> str:
    """The name of a strategy, an algorithm or a certificate."""
    listed = {**STRATEGIES, **ALGORITHMS, **KINDS}
    found = next((name for name, maker in listed.items() if maker in (thing, type(thing))), None)
    return found or str(getattr(thing, "__name__", type(thing).__name__))

"""Experiments as data: which problems, which strategies, how far – and each single run that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from aceirl.errors import InputError, unknown_name
from aceirl.experiments.claims import REWARD_FREE_CLAIMS, TABLE1_CLAIMS, Claim
from aceirl.experiments.published import TABLE1, Published
from aceirl.settings import Settings

# Part of every run's name. Raise it when a change of the software changes what runs with the same settings give.
RESULTS_VERSION = 4

# No run of an experiment ends because something is certain: the curves shall have one length.
UNCERTIFIED: dict[str, Any] = {"certify": None}

# The radii of all results on record; they steer the exploration here and promise nothing.
RADII: dict[str, Any] = {"confidence": "kl"}

# The paper's reward: a table of steps, states and actions, inferred anew in every iteration.
PAPER_REWARD: dict[str, Any] = {"irl": "max-causal-entropy", "reward": "any", "infer_after_growth": 0.0}


Dynamics = Literal["estimated", "known"]
"""What a reward that is taken elsewhere was inferred with."""


class Frozen(BaseModel):
    """A value that cannot change and knows no fields but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other fields, checked; nothing that was worked out from the old ones is kept."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | dict(update or {}))


class Cell(Frozen):
    """One run, with all that determines it. The seed draws the problem, the expert's choice among equals and the run.

    In a `reward_free` run the regret is that of planning with the true reward in the estimated process; the expert
    plays no part. In a `transfer` run the regrets are those of planning elsewhere, with rewards that were inferred in
    the estimated process, or from the same answers in the true one. `source` has the fields of `Source` that are for
    Gymnasium environments: the expert, the horizon and so on.
    """

    environment: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    settings: Settings
    reward_free: bool = False
    transfer: Dynamics | None = None
    source: dict[str, Any] = Field(default_factory=dict)

    @property
    def strategy(self) -> str:
        """The strategy's name, with its parameters."""
        return str(self.settings.named("strategy"))

    @property
    def seed(self) -> int:
        """The seed of problem and run."""
        return self.settings.seed

    @cached_property
    def key(self) -> str:
        """A name that two runs share if, and only if, all that determines them is equal."""
        return key_of(self.model_dump(exclude=set() if self.source else {"source"}))

    @property
    def place(self) -> tuple[str, str]:
        """The row and the column of a table in which the run stands."""
        return f"{self.environment}, N_E = {self.settings.episodes_per_iteration}", self.strategy

    @property
    def compiled(self) -> tuple[object, ...]:
        """What decides which code has to be compiled for the run."""
        settings = self.settings
        return settings.strategy, settings.irl, settings.confidence, settings.stationary_dynamics


def key_of(everything: Mapping[str, Any]) -> str:
    """A name for all that determines a run, the version of the results included."""
    text = json.dumps({"results": RESULTS_VERSION, **everything}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


class Scenario(Frozen):
    """A row of a table or a panel of a figure: a problem and how it is learnt, for any strategy and seed.

    `choices` are fields of `Settings`; those not named have their defaults. Scenarios of one `family` differ in the
    batch size only; without a name there is no family.
    """

    name: str
    title: str
    environment: str
    family: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    choices: dict[str, Any] = Field(default_factory=dict)
    reward_free: bool = False
    transfer: Dynamics | None = None
    source: dict[str, Any] = Field(default_factory=dict)

    @property
    def batch(self) -> int:
        """The episodes between two plans, the paper's N_E."""
        return Settings(**self.choices).episodes_per_iteration

    def cell(self, strategy: str, seed: int) -> Cell:
        """The run of one strategy from one seed."""
        settings = Settings(strategy=strategy, seed=seed, **{**UNCERTIFIED, **self.choices})
        return Cell(
            environment=self.environment,
            parameters=self.parameters,
            settings=settings,
            reward_free=self.reward_free,
            transfer=self.transfer,
            source=self.source,
        )


class Spec(Frozen):
    """A named experiment: every scenario with every strategy, from seeds `0 … seeds-1` unless told otherwise.

    `threshold` is the regret that counts as learnt; `thresholds` are more of them, for a study of their influence.
    `published` are the paper's numbers by scenario and strategy, and `claims` are tested in the report. Where
    `tabulated` is false, another experiment has the table.
    """

    name: str
    title: str
    summary: str
    scenarios: tuple[Scenario, ...]
    strategies: tuple[str, ...]
    seeds: tuple[int, ...] = tuple(range(50))
    threshold: float = 0.4
    thresholds: tuple[float, ...] = ()
    published: dict[str, dict[str, Published]] = Field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    tabulated: bool = True

    def with_seeds(self, number: int) -> Spec:
        """The same experiment from the first `number` seeds."""
        if number < 1:
            raise InputError(f"seeds must be at least 1, got {number}")
        return self.model_copy(update={"seeds": tuple(range(number))})

    def cells(self) -> list[Cell]:
        """All runs, seed by seed: whatever is finished early says something about every scenario."""
        return [cell for _, _, cell in self.placed]

    @cached_property
    def placed(self) -> list[tuple[Scenario, str, Cell]]:
        """The same, each with its scenario and strategy; made once, as the names of the runs take time."""
        return [
            (scenario, strategy, scenario.cell(strategy, seed))
            for seed in self.seeds
            for scenario in self.scenarios
            for strategy in self.strategies
        ]


PAPER_STRATEGIES = ("uniform", "travel", "random", "greedy", "ace")
OUR_STRATEGIES = ("advice", "guided")
TRANSFER_STRATEGIES = ("probe", "guided", "advice", "ace", "random", "uniform")
REWARD_FREE_STRATEGIES = ("uniform", "random", "rf-ucrl", "ace-rf")

# Environment, family, batches N_E and budget of samples of the paper's experiments.
PAPER_PROBLEMS = (
    ("four-paths-released", "Four Paths", (50, 100, 200), 100_000),
    ("double-chain", "Double Chain", (50, 100, 200), 100_000),
    ("random-mdp-released", "Random MDPs", (1,), 3_000),
    ("chain", "Chain", (1,), 10_000),
    ("gridworld-released", "Gridworld", (1,), 3_000),
)


def _paper_scenarios(until_regret: float | None, **choices: Any) -> tuple[Scenario, ...]:
    return tuple(
        Scenario(
            name=f"{environment}-{batch}",
            title=f"{family}, N_E = {batch}",
            environment=environment,
            family=family,
            choices={
                **PAPER_REWARD,
                **RADII,
                "episodes_per_iteration": batch,
                "max_samples": budget,
                "until_regret": until_regret,
                # Every step of these problems has transitions of its own; what is seen at one says nothing of another.
                "stationary_dynamics": environment != "random-mdp-released",
                **choices,
            },
        )
        for environment, family, batches, budget in PAPER_PROBLEMS
        for batch in batches
    )


def _reward_free_scenarios(batches: Iterable[int], **choices: Any) -> tuple[Scenario, ...]:
    return tuple(
        Scenario(
            name=f"reward-free-{batch}",
            title=f"Double Chain, N_E = {batch}",
            environment="double-chain",
            family="Double Chain",
            choices={
                **PAPER_REWARD,
                **RADII,
                "episodes_per_iteration": batch,
                "max_samples": 20 * 20 * batch,
                "irl": "feasible-point",
                **choices,
            },
            reward_free=True,
        )
        for batch in batches
    )


# Environment, family, and the samples after which the reward is taken elsewhere.
TRANSFER_PROBLEMS = (
    ("four-paths", "Four Paths", (300, 1_000)),
    ("double-chain", "Double Chain", (300, 1_000)),
    ("chain", "Chain", (300, 1_000)),
    ("gridworld", "Gridworld", (200, 1_000)),
)
SAMPLES_IF_KNOWN = 60


def _transfer_scenarios() -> tuple[Scenario, ...]:
    def scenario(environment: str, family: str, samples: int, dynamics: Dynamics) -> Scenario:
        return Scenario(
            name=f"transfer-{environment}-{samples}",
            title=f"{family}, {samples:,} samples" + (", dynamics known" if dynamics == "known" else ""),
            environment=environment,
            family=family,
            choices={"max_samples": samples, **RADII},
            transfer=dynamics,
        )

    return tuple(
        one
        for environment, family, budgets in TRANSFER_PROBLEMS
        for one in (
            *(scenario(environment, family, budget, "estimated") for budget in budgets),
            scenario(environment, family, SAMPLES_IF_KNOWN, "known"),
        )
    )


AS_RELEASED: dict[str, Any] = {"stationary_dynamics": False, "confidence": "hoeffding"}


def _catalogue() -> dict[str, Spec]:
    curves = _paper_scenarios(None)
    specs = [
        Spec(
            name="table1",
            title="Samples until the regret is below 0.4",
            summary="the paper's Table 1: nine scenarios, its five strategies and two of ours",
            scenarios=_paper_scenarios(0.4),
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
            published=TABLE1,
            claims=TABLE1_CLAIMS,
        ),
        Spec(
            name="table1-released-style",
            title="Samples until the regret is below 0.4, estimated as in the released code",
            summary="Table 1 with per-step estimates and Hoeffding radii, as the paper's code has them",
            scenarios=_paper_scenarios(0.4, **AS_RELEASED),
            strategies=PAPER_STRATEGIES,
            published=TABLE1,
            claims=TABLE1_CLAIMS,
        ),
        Spec(
            name="figures",
            title="Learning curves",
            summary="the paper's main and appendix figures: regret over samples, to the full budgets",
            scenarios=curves,
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
            tabulated=False,
        ),
        Spec(
            name="reward-free",
            title="Reward-free exploration",
            summary="the paper's last figure: how good is planning with the true reward in the learnt process?",
            scenarios=_reward_free_scenarios((200, 1000, 3000, 5000)),
            strategies=REWARD_FREE_STRATEGIES,
            claims=REWARD_FREE_CLAIMS,
        ),
        Spec(
            name="reward-free-released-style",
            title="Reward-free exploration, estimated as in the released code",
            summary="the same with per-step estimates and Hoeffding radii",
            scenarios=_reward_free_scenarios((200, 1000, 3000, 5000), **AS_RELEASED),
            strategies=REWARD_FREE_STRATEGIES,
            claims=REWARD_FREE_CLAIMS,
        ),
        Spec(
            name="thresholds",
            title="Samples to other thresholds",
            summary="is 0.4 special? samples to regrets 0.1 to 0.5, read off the learning curves",
            scenarios=curves,
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
            thresholds=(0.1, 0.2, 0.3, 0.4, 0.5),
        ),
        Spec(
            name="transfer",
            title="The reward, taken elsewhere",
            summary="not in the paper: what planning with the recovered reward loses from other starts, with other "
            "dynamics, with the obstacle moved",
            scenarios=_transfer_scenarios(),
            strategies=TRANSFER_STRATEGIES,
        ),
    ]
    return {spec.name: spec for spec in specs}


SPECS: Mapping[str, Spec] = MappingProxyType(_catalogue())


def spec(name: str) -> Spec:
    """The experiment of that name."""
    if name not in SPECS:
        raise unknown_name("experiment", name, SPECS)
    return SPECS[name]


def needs_generative_model(strategy: str) -> bool:
    """Whether a strategy has to be able to sample any state; one of your own says so by its `access`."""
    return getattr(Settings(strategy=strategy).strategy, "access", None) == "generative model"

"""Experiments as data: which problems, which strategies, how far – and each single run that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from aceirl.errors import InputError, unknown_name
from aceirl.explore import STRATEGIES
from aceirl.settings import Settings

# Part of every run's name. Raise it when a change of the software changes what runs with the same settings give.
RESULTS_VERSION = 1

# No run of an experiment ends because something is certain: the curves shall have one length.
UNCERTIFIED: dict[str, Any] = {"certify": None}


class Frozen(BaseModel):
    """A value that cannot change and knows no fields but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Frozen):
    """One run, with all that determines it. The seed draws the problem, the expert's choice among equals and the run.

    In a `reward_free` run the regret is that of planning with the true reward in the estimated process; the expert
    plays no part.
    """

    environment: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    settings: Settings
    reward_free: bool = False

    @property
    def strategy(self) -> str:
        """The strategy's name, with its parameters."""
        return str(self.settings.named("strategy"))

    @property
    def seed(self) -> int:
        """The seed of problem and run."""
        return self.settings.seed

    @property
    def key(self) -> str:
        """A name that two runs share if, and only if, all that determines them is equal."""
        everything = {"results": RESULTS_VERSION, **self.model_dump()}
        return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()[:40]


class Setting(Frozen):
    """A row of a table or a panel of a figure: a problem and how it is learnt, for any strategy and seed.

    `choices` are fields of `Settings`; those not named have their defaults.
    """

    name: str
    title: str
    environment: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    choices: dict[str, Any] = Field(default_factory=dict)
    reward_free: bool = False

    def cell(self, strategy: str, seed: int) -> Cell:
        """The run of one strategy from one seed."""
        settings = Settings(strategy=strategy, seed=seed, **{**UNCERTIFIED, **self.choices})
        return Cell(
            environment=self.environment, parameters=self.parameters, settings=settings, reward_free=self.reward_free
        )


class Spec(Frozen):
    """A named experiment: every setting with every strategy, from seeds `0 … seeds-1` unless told otherwise.

    `threshold` is the regret that counts as learnt; `thresholds` are more of them, for a study of their influence.
    """

    name: str
    title: str
    summary: str
    settings: tuple[Setting, ...]
    strategies: tuple[str, ...]
    seeds: tuple[int, ...] = tuple(range(50))
    threshold: float = 0.4
    thresholds: tuple[float, ...] = ()

    def with_seeds(self, number: int) -> Spec:
        """The same experiment from the first `number` seeds."""
        if number < 1:
            raise InputError(f"seeds must be at least 1, got {number}")
        return self.model_copy(update={"seeds": tuple(range(number))})

    def cells(self) -> list[Cell]:
        """All runs, seed by seed: whatever is finished early says something about every setting."""
        return [
            setting.cell(strategy, seed)
            for seed in self.seeds
            for setting in self.settings
            for strategy in self.strategies
        ]


GENERATIVE = tuple(name for name, strategy in STRATEGIES.items() if strategy.access == "generative model")
PAPER_STRATEGIES = ("uniform", "travel", "random", "greedy", "ace")
OUR_STRATEGIES = ("advice", "guided")
REWARD_FREE_STRATEGIES = ("uniform", "random", "rf-ucrl", "ace-rf")

# Environment, title, batches N_E and budget of samples of the paper's experiments.
PAPER_PROBLEMS = (
    ("four-paths-released", "Four Paths", (50, 100, 200), 100_000),
    ("double-chain", "Double Chain", (50, 100, 200), 100_000),
    ("random-mdp-released", "Random MDPs", (1,), 3_000),
    ("chain", "Chain", (1,), 10_000),
    ("gridworld-released", "Gridworld", (1,), 3_000),
)


def _paper_settings(until_regret: float | None, **choices: Any) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            name=f"{environment}-{batch}",
            title=f"{title}, N_E = {batch}",
            environment=environment,
            choices={
                "episodes_per_iteration": batch,
                "max_samples": budget,
                "until_regret": until_regret,
                # Every step of these problems has transitions of its own; what is seen at one says nothing of another.
                "stationary_dynamics": environment != "random-mdp-released",
                **choices,
            },
        )
        for environment, title, batches, budget in PAPER_PROBLEMS
        for batch in batches
    )


def _reward_free_settings(batches: Iterable[int], **choices: Any) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            name=f"reward-free-{batch}",
            title=f"Double Chain, N_E = {batch}",
            environment="double-chain",
            choices={
                "episodes_per_iteration": batch,
                "max_samples": 20 * 20 * batch,
                "irl": "feasible-point",
                **choices,
            },
            reward_free=True,
        )
        for batch in batches
    )


AS_RELEASED: dict[str, Any] = {"stationary_dynamics": False, "confidence": "hoeffding"}


def _catalogue() -> dict[str, Spec]:
    curves = _paper_settings(None)
    specs = [
        Spec(
            name="table1",
            title="Samples until the regret is below 0.4",
            summary="the paper's Table 1: nine settings, its five strategies and two of ours",
            settings=_paper_settings(0.4),
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
        ),
        Spec(
            name="table1-released-style",
            title="Samples until the regret is below 0.4, estimated as in the released code",
            summary="Table 1 with per-step estimates and Hoeffding radii, as the paper's code has them",
            settings=_paper_settings(0.4, **AS_RELEASED),
            strategies=PAPER_STRATEGIES,
        ),
        Spec(
            name="figures",
            title="Learning curves",
            summary="the paper's main and appendix figures: regret over samples, to the full budgets",
            settings=curves,
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
        ),
        Spec(
            name="reward-free",
            title="Reward-free exploration",
            summary="the paper's last figure: how good is planning with the true reward in the learnt process?",
            settings=_reward_free_settings((200, 1000, 3000, 5000)),
            strategies=REWARD_FREE_STRATEGIES,
        ),
        Spec(
            name="reward-free-released-style",
            title="Reward-free exploration, estimated as in the released code",
            summary="the same with per-step estimates and Hoeffding radii",
            settings=_reward_free_settings((200, 1000, 3000, 5000), **AS_RELEASED),
            strategies=REWARD_FREE_STRATEGIES,
        ),
        Spec(
            name="thresholds",
            title="Samples to other thresholds",
            summary="is 0.4 special? samples to regrets 0.1 to 0.5, read off the learning curves",
            settings=curves,
            strategies=PAPER_STRATEGIES + OUR_STRATEGIES,
            thresholds=(0.1, 0.2, 0.3, 0.4, 0.5),
        ),
    ]
    return {spec.name: spec for spec in specs}


SPECS: Mapping[str, Spec] = MappingProxyType(_catalogue())


def spec(name: str) -> Spec:
    """The experiment of that name."""
    if name not in SPECS:
        raise unknown_name("experiment", name, SPECS)
    return SPECS[name]

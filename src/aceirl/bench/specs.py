"""Experiments as data: which problems, which strategies, how far – and each single run that follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from aceirl.bench import work
from aceirl.bench.transfers import Dynamics, transfer_regrets
from aceirl.bench.work import LIST, Frozen, Measured, key_of
from aceirl.envs import ENVIRONMENTS, Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.experts.tasks import Source, open_source
from aceirl.learner.collect import Streams
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.dynamic_programming import greedy_actions
from aceirl.models.tabular.mdp import IntArray
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import action_values
from aceirl.runs.folder import settings_for

# No run of an experiment ends because something is certain: the curves shall have one length.
UNCERTIFIED: dict[str, Any] = {"certify": None}

WHOLE = ("iteration", "samples", "episodes", "answers")
REAL = ("regret", "bound", "infeasibility", "planner_gap")
NUMBERS = (*WHOLE, *REAL, "stopped")
# One row an iteration, or, in a transfer run, one for each plan and target after the last; `visits`, the observations
# in each state, are in the last row only.
SCHEMA = {
    **dict.fromkeys(("run", "environment", "strategy"), "string"),
    **dict.fromkeys(("episodes_per_iteration", "seed", *WHOLE), "int64"),
    **dict.fromkeys(REAL, "float64"),
    **dict.fromkeys(("stopped", "plan", "target"), "string"),
    "visits": LIST,
}


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

    def steps(self) -> Iterator[tuple[Turn, float]]:
        """The turns of the run, each with the regret that this experiment measures."""
        if self.environment not in ENVIRONMENTS:
            yield from self._gym_steps()
            return
        problem = _problem(self.environment, self.seed, **self.parameters).discounted(self.settings.discount)
        environment, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
        truth = Truth(problem.mdp, problem.reward)
        for turn in learn(environment, expert, self.settings, regret=None if self.reward_free else truth.regret):
            yield turn, truth.regret(_planned(turn, truth)) if self.reward_free else _regret(turn)

    def _gym_steps(self) -> Iterator[tuple[Turn, float]]:
        """The same in a Gymnasium environment; the regret is by what it pays itself, whoever the expert is."""
        named = {"expert": "optimal", "discount": self.settings.discount, **self.source}
        source = Source(self.environment, self.parameters, self.seed, **named)
        with open_source(source) as task:
            regret = task.regret or task.world.regret()
            for turn in learn(task.environment, task.expert, settings_for(task, self.settings), regret=regret):
                yield turn, _regret(turn)

    def measured(self) -> Measured:
        """The run, to its end."""
        names = {name: getattr(self, name) for name in ("environment", "strategy", "seed")}
        names["episodes_per_iteration"] = self.settings.episodes_per_iteration
        rows: list[dict[str, Any]] = []
        seconds = {"planning": 0.0, "inferring": 0.0}
        turn = None
        for turn, regret in self.steps():
            record = turn.record
            rows.append({**names, **{name: getattr(record, name) for name in NUMBERS}, "regret": regret})
            seconds["planning"] += record.planning_seconds
            seconds["inferring"] += record.inferring_seconds
        assert turn is not None
        if self.transfer is not None:
            found = transfer_regrets(self.environment, self.parameters, self.transfer, turn)
            rows = [
                {**rows[-1], "regret": regret, "plan": plan, "target": target}
                for (plan, target), regret in found.items()
            ]
        rows[-1]["visits"] = np.asarray(turn.counts.visited.pooled.sum(axis=1)).tolist()
        return Measured(rows, SCHEMA, {"results": work.RESULTS_VERSION}, turn, seconds)


def _problem(environment: str, seed: int, **parameters: Any) -> Problem:
    return make(environment, seed, **parameters) if parameters else _kept(environment, seed)


@lru_cache(maxsize=8)
def _kept(environment: str, seed: int) -> Problem:
    """A problem; the runs of all strategies in it follow each other."""
    return make(environment, seed)


def _regret(turn: Turn) -> float:
    assert turn.regret is not None
    return turn.regret


def _planned(turn: Turn, truth: Truth) -> IntArray:
    """The best policy for the true reward in the process as it is estimated; what is unknown is worth nothing."""
    ties = Streams(turn.settings.seed, turn.iteration).ties
    return greedy_actions(action_values(turn.belief.estimate, truth.reward, unknown_step_reward=0.0), ties)


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
        same = {name: getattr(self, name) for name in Cell.model_fields if name != "settings"}
        return Cell(settings=settings, **same)


@dataclass(frozen=True)
class Published:
    """A printed mean with its standard error; `bold` marks the best without a generative model."""

    mean: int
    error: int
    bold: bool = False


class Term(NamedTuple):
    """The runs of a strategy in the scenario with this role (`here`, `small`, `large`), added or subtracted."""

    sign: int
    scenario: str
    strategy: str


@dataclass(frozen=True)
class Contrast:
    """One way to test a claim: over the seeds, the sum of the signed terms is positive on average.

    `where` and `effect` are templates: `{here.title}` is a field of the scenario with that role, `{size}` the effect.
    """

    terms: tuple[Term, ...]
    where: str
    effect: str

    @classmethod
    def read(cls, terms: str, where: str, effect: str) -> Contrast:
        """With the terms in words, as in `large ace - small ace`."""
        words = ["+", *terms.split()]
        signed = zip(words[::3], words[1::3], words[2::3], strict=True)
        return cls(tuple(Term(1 if sign == "+" else -1, role, name) for sign, role, name in signed), where, effect)


@dataclass(frozen=True)
class PaperClaim:
    """A statement, and the contrasts it stands or falls with.

    It is tested in every scenario, which is then `here`, or over batch sizes: in every family that has several, whose
    smallest is `small` and whose largest is `large`. `families` restricts it to some. Terms are logarithms of samples
    to the threshold, and the size of the effect is a factor; a `reward_free` claim is about reward-free scenarios, its
    terms are mean regrets over the iterations, and the size of the effect is a difference.
    """

    text: str
    contrasts: tuple[Contrast, ...]
    over: Literal["scenarios", "batch sizes"] = "scenarios"
    families: tuple[str, ...] = ()
    reward_free: bool = False


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
    claims: tuple[PaperClaim, ...] = ()
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


def needs_generative_model(strategy: str) -> bool:
    """Whether a strategy has to be able to sample any state; one of your own says so by its `access`."""
    return getattr(Settings(strategy=strategy).strategy, "access", None) == "generative model"

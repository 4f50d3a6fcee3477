"""What is competed in: a problem with its sizes, an expert, a budget, and where the reward is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from pydantic import Field

from aceirl.arena.methods import GENERATIVE, Method
from aceirl.dynamic_programming import optimal_values
from aceirl.envs import ENVIRONMENTS, Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError, unknown_name
from aceirl.experiments.specs import Frozen
from aceirl.experiments.transfers import targets
from aceirl.experts import PolicyExpert
from aceirl.mdp import FloatArray, IntArray
from aceirl.metrics import Truth
from aceirl.protocols import Environment, Expert
from aceirl.sources import Source, open_source
from aceirl.transfer import KnownProcess, process_of_source, same_states

SLIPS = 0.1
"""How often an expert who slips takes any action, each as likely."""

RATIONALITY = 5.0
"""A Boltzmann expert's inverse temperature: `π(a|s) ∝ exp(RATIONALITY·Q*(s, a))`, in units of one step's reward."""

ExpertVariant = Literal["optimal", "slips", "boltzmann"]
EXPERTS: tuple[ExpertVariant, ...] = ("optimal", "slips", "boltzmann")


class Task(Frozen):
    """A problem of a `family`, with its sizes; the expert; the budget of samples; and where the reward is taken.

    An environment of ours is drawn anew from every seed and taken to the targets of `aceirl.experiments.transfers`. Of
    a Gymnasium environment `horizon` is the length of an episode, and `elsewhere` has the targets by name: what is
    changed in its parameters. Every target is entered in every state, each as likely.
    """

    name: str
    family: str
    environment: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    expert: ExpertVariant = "optimal"
    budget: int = 2_000
    batch: int = 1
    horizon: int | None = None
    elsewhere: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        """The task in words."""
        return self.name if self.expert == "optimal" else f"{self.name}, {EXPERT_WORDS[self.expert]}"

    @property
    def key(self) -> str:
        """The name, with the expert's where it is not the optimal one."""
        return self.name if self.expert == "optimal" else f"{self.name}+{self.expert}"

    @property
    def ours(self) -> bool:
        """Whether it is a problem of this package, and not of Gymnasium."""
        return self.environment in ENVIRONMENTS

    def takes(self, method: Method) -> bool:
        """Whether a method can compete; a Gymnasium environment cannot be put into any state."""
        return self.ours or method.access != GENERATIVE

    def given(self) -> dict[str, Any]:
        """The settings that the task gives to every method."""
        return {"max_samples": self.budget, "episodes_per_iteration": self.batch, "infer_after_growth": GROWTH}

    def with_expert(self, expert: ExpertVariant) -> Task:
        """The same task with another expert."""
        return self.model_copy(update={"expert": expert})


EXPERT_WORDS = {"slips": "expert slips", "boltzmann": "Boltzmann expert"}

GROWTH = 0.2
"""A run is measured, and a reward inferred, whenever the samples have grown by this share."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A task as one seed draws it: what a method sees, and the truth, which it does not.

    `home` is the process of the environment with the true reward, and `targets` are those to which the reward is taken,
    each with what a policy loses there. `names` are those of the states, where the environment does not number them
    itself; `known` are settings that follow from the environment.
    """

    environment: Environment
    expert: Expert
    home: KnownProcess
    expert_value: float
    targets: dict[str, KnownProcess]
    names: tuple[str, ...] = ()
    known: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def truth(self) -> Truth:
        """The true process and reward."""
        assert self.home.reward is not None
        return Truth(self.home.mdp, self.home.reward)

    def regret_and_loss(self, policy: IntArray, names: Sequence[str]) -> tuple[float, float]:
        """The normalised regret of `policy [H, S]`, and what it loses against the expert in units of reward.

        `names [S]` are those of its states; in states that it does not know it takes any action.
        """
        numbers = same_states(names, policy.shape[1], self.home)
        known, shape = numbers >= 0, self.home.mdp.shape
        everywhere = np.full(shape, 1.0 / shape[2])
        everywhere[:, known] = np.eye(shape[2])[policy[:, numbers[known]]]
        value = self.truth.value(everywhere)
        return self.truth.regret_of(value), self.expert_value - value


@contextmanager
def drawn(task: Task, seed: int) -> Iterator[Drawn]:
    """The task of a seed, opened."""
    if not task.ours:
        with _gymnasium(task, seed) as found:
            yield found
        return
    problem = make(task.environment, seed, **task.parameters)
    policy = expert_policy(problem, task.expert)
    home = KnownProcess.of(problem)
    yield Drawn(
        Simulator(problem.mdp),
        PolicyExpert(policy, problem.mdp.shape),
        home,
        Truth(problem.mdp, problem.reward).value(policy),
        targets(task.environment, seed, task.parameters),
        problem.layout.state_names,
        {"stationary_dynamics": problem.mdp.stationary},
    )


@contextmanager
def _gymnasium(task: Task, seed: int) -> Iterator[Drawn]:
    """The same of a Gymnasium environment that has an exact model."""
    source = Source(task.environment, task.parameters, seed, expert="optimal", horizon=task.horizon)
    with open_source(source) as opened:
        home = process_of_source(source)
        assert home.reward is not None
        changed = [replace(source, parameters=task.parameters | one) for one in task.elsewhere.values()]
        elsewhere = dict(zip(task.elsewhere, map(process_of_source, changed), strict=True))
        yield Drawn(
            opened.environment,
            opened.expert,
            home,
            Truth(home.mdp, home.reward).best,
            {name: there.starting("uniform") for name, there in {"every start": home, **elsewhere}.items()},
            known={"rmax": opened.rmax, "max_return": opened.max_return},
        )


def expert_policy(problem: Problem, variant: ExpertVariant) -> FloatArray:
    """`[H, S, A]`: how an expert of that kind acts in a problem."""
    if variant == "optimal":
        return problem.expert
    if variant == "slips":
        return (1 - SLIPS) * problem.expert + SLIPS / problem.mdp.n_actions
    q, v = optimal_values(problem.mdp, problem.reward)
    weights = np.exp(RATIONALITY * (q - v[:, :, None]))
    policy: FloatArray = weights / weights.sum(axis=2, keepdims=True)
    return policy


def _tasks() -> dict[str, Task]:
    every = [
        Task(name="four-paths", family="four-paths", environment="four-paths"),
        Task(name="double-chain", family="double-chain", environment="double-chain"),
        Task(name="chain", family="chain", environment="chain"),
        Task(name="gridworld", family="gridworld", environment="gridworld"),
        Task(name="random-mdp", family="random-mdp", environment="random-mdp"),
        Task(name="deep-sea", family="deep-sea", environment="deep-sea"),
        Task(name="lock", family="combination-lock", environment="combination-lock"),
        Task(name="rooms", family="rooms", environment="rooms"),
        Task(name="garnet", family="garnet", environment="garnet"),
        Task(name="taxi", family="small-taxi", environment="small-taxi"),
        Task(
            name="frozen-lake",
            family="FrozenLake",
            environment="FrozenLake-v1",
            parameters={"is_slippery": False},
            horizon=20,
            elsewhere={"slippery": {"is_slippery": True}},
        ),
        Task(
            name="cliff",
            family="CliffWalking",
            environment="CliffWalking-v1",
            horizon=30,
            elsewhere={"slippery": {"is_slippery": True}},
        ),
    ]
    return {task.name: task for task in every}


TASKS: dict[str, Task] = _tasks()
"""The tasks with an optimal expert, by name."""


def scaled(family: str, size: str, values: Sequence[int], **parameters: Any) -> list[Task]:
    """Tasks of one environment that differ in one size."""
    return [
        Task(
            name=f"{family}-{size}{value}",
            family=family,
            environment=family,
            parameters={**parameters, SIZES[size]: value},
        )
        for value in values
    ]


SIZES = {"S": "n_states", "A": "n_actions", "H": "horizon"}
SCALING: dict[str, Task] = {
    task.name: task
    for task in (
        *scaled("garnet", "S", (5, 20, 40)),
        *scaled("garnet", "A", (2, 6, 12)),
        *scaled("garnet", "H", (5, 20, 40)),
    )
}
"""The task `garnet` in other sizes, for curves over states, actions and steps; `--tasks scaling` adds them."""


def tasks_of(texts: str | None, experts: str | None = None) -> list[Task]:
    """The tasks that a list names: names, `name+slips`, `name+boltzmann`, or `scaling`.

    Without a list, those of `TASKS` and `VARIANTS`; `experts` chooses among them.
    """
    if texts is None:
        found = [*TASKS.values(), *(TASKS[name].with_expert(expert) for name, expert in VARIANTS)]
    else:
        found = [task for text in texts.split(",") for task in _named(text.strip())]
    wanted = EXPERTS if experts is None else [_expert(one.strip()) for one in experts.split(",")]
    found = [task for task in found if task.expert in wanted]
    if not found:
        raise InputError("no task is left; choose others with --tasks and --experts")
    return list({task.key: task for task in found}.values())


VARIANTS: tuple[tuple[str, ExpertVariant], ...] = (
    ("gridworld", "slips"),
    ("rooms", "slips"),
    ("gridworld", "boltzmann"),
    ("garnet", "boltzmann"),
)


def without_gymnasium(tasks: Sequence[Task]) -> list[Task]:
    """The tasks that can be carried out here; those of Gymnasium need it installed."""
    return [task for task in tasks if task.ours or find_spec("gymnasium") is not None]


def _named(text: str) -> list[Task]:
    name, _, expert = text.partition("+")
    if name == "scaling":
        return [TASKS["garnet"], *SCALING.values()]
    known = TASKS | SCALING
    if name not in known:
        raise unknown_name("task", name, [*known, "scaling"])
    if not expert:
        return [known[name]]
    if not known[name].ours:
        raise InputError(f"{name} has the optimal expert only, got {text!r}")
    return [known[name].with_expert(_expert(expert))]


def _expert(text: str) -> ExpertVariant:
    for variant in EXPERTS:
        if text == variant:
            return variant
    raise unknown_name("expert", text, EXPERTS)

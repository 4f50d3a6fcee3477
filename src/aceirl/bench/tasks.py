"""What is competed in: a problem with its sizes, an expert, a budget, and where the reward is taken."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from aceirl.bench.transfers import targets
from aceirl.bench.work import Frozen
from aceirl.envs import Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError, unknown_name
from aceirl.experts import PolicyExpert
from aceirl.learner.transfer import KnownProcess
from aceirl.models.tabular.dynamic_programming import boltzmann_policy
from aceirl.models.tabular.mdp import FloatArray
from aceirl.models.tabular.metrics import Truth

SLIPS = 0.1
"""How often an expert who slips takes any action, each as likely."""

RATIONALITY = 5.0
"""A Boltzmann expert's inverse temperature: `π(a|s) ∝ exp(RATIONALITY·Q*(s, a))`, in units of one step's reward."""

ExpertVariant = Literal["optimal", "slips", "boltzmann"]
EXPERTS: tuple[ExpertVariant, ...] = ("optimal", "slips", "boltzmann")


class ArenaTask(Frozen):
    """A problem of a `family`, with its sizes; the expert; the budget of samples, twice that for a certificate.

    Every seed draws the problem anew. The reward is taken to the targets of `aceirl.bench.transfers`: the
    same process and others of its kind, entered in every state, each as likely.
    """

    name: str
    family: str
    environment: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    expert: ExpertVariant = "optimal"
    budget: int = 1_000

    @property
    def key(self) -> str:
        """The name, with the expert's where it is not the optimal one."""
        return self.name if self.expert == "optimal" else f"{self.name}+{self.expert}"

    def given(self, *, claims: bool) -> dict[str, Any]:
        """The settings that the task gives to every method; one that claims something has the larger budget."""
        return {"max_samples": (2 if claims else 1) * self.budget, "infer_after_growth": GROWTH}

    def drawn(self, seed: int) -> DrawnTask:
        """The task of a seed."""
        problem = make(self.environment, seed, **self.parameters)
        policy = expert_policy(problem, self.expert)
        return DrawnTask(
            problem,
            Simulator(problem.mdp),
            PolicyExpert(policy, problem.mdp.shape),
            Truth(problem.mdp, problem.reward),
            policy,
            targets(self.environment, seed, self.parameters),
        )

    def with_expert(self, expert: ExpertVariant) -> ArenaTask:
        """The same task with another expert."""
        return self.model_copy(update={"expert": expert})


GROWTH = 0.2
"""A run is measured, and a reward inferred, whenever the samples have grown by this share."""


@dataclass(frozen=True, eq=False)
class DrawnTask:
    """A task as one seed draws it: what a method sees, and the truth, which it does not.

    `policy [H, S, A]` is the expert's; `targets` are where the reward is taken, by name.
    """

    problem: Problem
    environment: Simulator
    expert: PolicyExpert
    truth: Truth
    policy: FloatArray
    targets: dict[str, KnownProcess]

    @cached_property
    def expert_value(self) -> float:
        """What the expert earns in an episode."""
        return self.truth.value(self.policy)


def expert_policy(problem: Problem, variant: ExpertVariant) -> FloatArray:
    """`[H, S, A]`: how an expert of that kind acts in a problem."""
    if variant == "optimal":
        return problem.expert
    if variant == "slips":
        return (1 - SLIPS) * problem.expert + SLIPS / problem.mdp.n_actions
    return boltzmann_policy(problem.mdp, problem.reward, RATIONALITY)


TASKS: dict[str, ArenaTask] = {
    name: ArenaTask(name=name, family=environment, environment=environment)
    for name, environment in (
        *((name, name) for name in ("four-paths", "double-chain", "chain", "gridworld", "random-mdp", "deep-sea")),
        ("lock", "combination-lock"),
        ("rooms", "rooms"),
        ("garnet", "garnet"),
        ("taxi", "small-taxi"),
        ("frozen-lake", "frozen-lake"),
        ("cliff", "cliff-walking"),
    )
}
"""The tasks with an optimal expert, by name."""

SIZES = {"S": ("n_states", (5, 20, 40)), "A": ("n_actions", (2, 6, 12)), "H": ("horizon", (5, 20, 40))}
SCALING: dict[str, ArenaTask] = {
    f"garnet-{letter}{value}": ArenaTask(
        name=f"garnet-{letter}{value}", family="garnet", environment="garnet", parameters={size: value}
    )
    for letter, (size, values) in SIZES.items()
    for value in values
}
"""The task `garnet` in other sizes, for curves over states, actions and steps; `--tasks scaling` adds them."""


def tasks_of(texts: str | None, experts: str | None = None) -> list[ArenaTask]:
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


def _named(text: str) -> list[ArenaTask]:
    name, _, expert = text.partition("+")
    if name == "scaling":
        return [TASKS["garnet"], *SCALING.values()]
    known = TASKS | SCALING
    if name not in known:
        raise unknown_name("task", name, [*known, "scaling"])
    return [known[name].with_expert(_expert(expert)) if expert else known[name]]


def _expert(text: str) -> ExpertVariant:
    for variant in EXPERTS:
        if text == variant:
            return variant
    raise unknown_name("expert", text, EXPERTS)

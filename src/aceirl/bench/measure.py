"""One run of the arena: learn, and note at growing numbers of samples how good the method is and what it claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property

import numpy as np

from aceirl.bench.methods import NO_CLAIM, Method, entered_by, named_method
from aceirl.bench.tasks import GROWTH, ArenaTask, DrawnTask
from aceirl.bench.transfers import planning_regret
from aceirl.bench.work import Frozen, Measured, key_of
from aceirl.certificates import CertificateKind
from aceirl.errors import InputError
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.estimate import ExpertKind

VERSION = 2
"""Part of every run's name. Raise it when runs of the arena are measured differently."""

REGRET = 0.05
"""The normalised regret that counts as learnt."""


@dataclass(frozen=True)
class Point:
    """How a method stands after so many samples and answers.

    `policy_regret` is that of its policy in the task, `transfer_regret` that of planning with its reward, on average
    over the targets. `claimed` is what its certificate says the policy loses at most, None if it has none; `lost` is
    what the policy really loses against the expert, both in units of reward. `certified` is whether what is claimed is
    as little as was asked for.
    """

    samples: int
    answers: int
    policy_regret: float
    transfer_regret: float
    claimed: float | None
    lost: float
    certified: bool


TYPES = {"int": "int64", "float": "float64", "float | None": "float64", "bool": "bool"}
SCHEMA = {
    **dict.fromkeys(("run", "task", "method"), "string"),
    **dict.fromkeys(("seed", "states", "actions", "horizon"), "int64"),
    **{one.name: TYPES[str(one.type)] for one in fields(Point)},
}


class ArenaCell(Frozen):
    """One run of a method, by name, in a task, from a seed.

    The method is one of the package or, if there is `code`, one that this text of the file `path` enters. The name of
    the run depends on the text, and not on where the file lies.
    """

    task: ArenaTask
    method: str
    seed: int
    path: str = ""
    code: str = ""

    @classmethod
    def of(cls, task: ArenaTask, method: Method, seed: int) -> ArenaCell:
        """The run of a method."""
        return cls(task=task, method=method.name, seed=seed, path=method.path, code=method.code)

    @property
    def entry(self) -> Method:
        """The method, found anew in every process."""
        return entered_by(self.code, self.path)[self.method] if self.code else named_method(self.method)

    @property
    def settings(self) -> Settings:
        """The settings of the run, without what follows from the environment alone."""
        entry = self.entry
        return entry.settings(**self.task.given(claims=entry.claims != NO_CLAIM), seed=self.seed)

    @cached_property
    def key(self) -> str:
        """A name that two runs share if, and only if, all that determines them is equal."""
        choices = {"choices": self.settings.model_dump(exclude={"seed"}), "claims": self.entry.claims}
        own = {"code": self.code} if self.code else choices
        return key_of(
            {"arena": VERSION, "task": self.task.model_dump(), "method": self.method, "seed": self.seed} | own
        )

    @property
    def place(self) -> tuple[str, str]:
        """The row and the column of a table in which the run stands."""
        return self.task.key, self.method

    @property
    def compiled(self) -> tuple[object, ...]:
        """What decides which code has to be compiled for the run."""
        return self.method, self.code, self.task.expert == "optimal"

    def steps(self) -> Iterator[tuple[Point, Turn]]:
        """The measurements of a run, each with its turn.

        It ends when the budget is spent, or both regrets have been at most `REGRET` while the samples doubled; where
        the method has a certificate, not before that holds or twice the budget is spent. Once only the certificate is
        waited for, nothing is measured until it holds.
        """
        task = self.task.drawn(self.seed)
        kind = claim_kind(self.entry, task)
        due, good_since, certified = 0.0, np.inf, kind is None
        for turn in learn(task.environment, task.expert, self.settings):
            if turn.samples < due and not turn.stopped:
                continue
            due = turn.samples * (1 + GROWTH)
            waiting = not certified and turn.samples >= min(2 * good_since, self.task.budget)
            if waiting and not turn.stopped and not holds(claimed_by(kind, turn), turn):
                continue
            point = point_of(turn, task, kind)
            yield point, turn
            good = max(point.policy_regret, point.transfer_regret) <= REGRET
            good_since = min(good_since, turn.samples) if good else np.inf
            certified = certified or point.certified
            if certified and turn.samples >= min(2 * good_since, self.task.budget):
                return

    def measured(self) -> Measured:
        """The run, to its end."""
        found = list(self.steps())
        turn = found[-1][1]
        names = {"task": self.task.key, "method": self.method, "seed": self.seed}
        names |= dict(zip(("horizon", "states", "actions"), turn.counts.shape, strict=True))
        rows = [{**names, **asdict(point)} for point, _ in found]
        return Measured(rows, SCHEMA, {"arena": VERSION}, turn, {})


def claim_kind(method: Method, task: DrawnTask) -> CertificateKind | None:
    """The certificate that a method stops on; None if it claims nothing, or nothing can be certified of this expert."""
    kind = method.certificate
    if kind is not None:
        try:
            kind.check(ExpertKind(task.expert.deterministic, task.expert.stationary))
        except InputError:
            return None
    return kind


def point_of(turn: Turn, task: DrawnTask, kind: CertificateKind | None) -> Point:
    """How good the policy and the reward are that a turn ended with."""
    belief, names, n_states = turn.belief, task.problem.layout.state_names, task.problem.mdp.n_states
    value = task.truth.value(turn.policy)
    elsewhere = [planning_regret(belief.recovered, names, n_states, target) for target in task.targets.values()]
    claimed = claimed_by(kind, turn)
    return Point(
        samples=turn.samples,
        answers=belief.estimate.kind.given(turn.counts),
        policy_regret=task.truth.regret_of(value),
        transfer_regret=sum(elsewhere) / len(elsewhere),
        claimed=claimed,
        lost=task.expert_value - value,
        certified=holds(claimed, turn),
    )


def claimed_by(kind: CertificateKind | None, turn: Turn) -> float | None:
    """What a certificate says the policy loses at most, in units of reward; None without one.

    A kind of the package has gathered its evidence under its name, whatever the run stops on.
    """
    return None if kind is None else float(turn.belief.certificates.get(kind.name, kind).value(turn.belief))


def holds(claimed: float | None, turn: Turn) -> bool:
    """Whether what is claimed is as little as was asked for."""
    return claimed is not None and turn.belief.target.reached(claimed)

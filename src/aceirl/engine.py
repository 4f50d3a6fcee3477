"""The one learner, driven by ask and tell: a program, a person or a recording may give the answers.

A turn goes round once: plan, collect, count, estimate, infer, certify. `ask` walks the environment as far as it can
without an answer; it returns a `Question`, to be answered by `tell`, or the `Turn` that has come to its end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from aceirl.belief import Belief, Inference, Knowledge, Memory, Plan
from aceirl.certificates import KINDS, Certificate, CertificateKind
from aceirl.collect import Answers, Collected, Question, Reply, collect
from aceirl.counts import Counts, Estimate
from aceirl.dynamic_programming import greedy_actions
from aceirl.errors import AnswerError, InputError
from aceirl.mdp import IntArray
from aceirl.protocols import Access, Environment
from aceirl.rewards import Recovered, action_values
from aceirl.settings import Settings

STREAMS = ("strategy", "environment", "ties")


@dataclass(frozen=True)
class Record:
    """One iteration, in numbers. `regret` is None where no truth is known; `stopped` is None while the run goes on.

    `certificates` has the value of the kind that the run shall stop on and, in the last record, of all kinds.
    """

    iteration: int
    samples: int
    episodes: int
    answers: int
    bound: float
    certificates: dict[str, float]
    regret: float | None
    infeasibility: float
    planner_gap: float | None
    planning_seconds: float
    inferring_seconds: float
    seconds: float
    stopped: str | None

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for a line of JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class RunState:
    """All that the next turn depends on, besides environment, expert and settings.

    Randomness is not part of it: iteration `k` draws from streams named by `(seed, k)`, so a run can go on from any
    state. `recovered` and `accuracy` are what was inferred last, when `inferred_at` samples had been seen. `memory` is
    the strategy's, `evidence` that of each kind of certificate. `names` are the states in their order, where the
    environment numbers them as it meets them.
    """

    iteration: int
    counts: Counts
    recovered: Recovered
    accuracy: float
    inferred_at: int = 0
    memory: Memory = field(default_factory=dict)
    evidence: Mapping[str, Memory] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Turn:
    """What a turn came to: the belief it ended with and, worked out when first asked for, all that follows from it.

    `names` are the states in their order, where the environment numbers them. `planner_evidence` is what the
    planner could say of its plan; `began` is when the turn did, by the clock of `time.perf_counter`.
    """

    belief: Belief
    settings: Settings
    names: tuple[str, ...] = ()
    measure: Callable[[IntArray], float] | None = None
    inferred_at: int = 0
    planner_evidence: Mapping[str, float] = field(default_factory=dict)
    planning_seconds: float = 0.0
    began: float = 0.0

    @property
    def iteration(self) -> int:
        """How many turns there were, this one included."""
        return self.belief.iteration

    @property
    def counts(self) -> Counts:
        """Everything observed so far."""
        return self.belief.estimate.counts

    @cached_property
    def policy(self) -> IntArray:
        """`[H, S]`: what the expert is known to do, and elsewhere what is best under the recovered reward."""
        estimate, recovered = self.belief.estimate, self.belief.recovered
        q = action_values(estimate, recovered.reward, recovered.unknown_step_reward)
        allowed = estimate.expert_uses | ~estimate.expert_uses.any(axis=2, keepdims=True)
        ties = random_streams(self.settings.seed, self.iteration - 1)["ties"]
        return greedy_actions(np.where(allowed, q, -np.inf), ties)

    @cached_property
    def regret(self) -> float | None:
        """What the policy loses by the truth; None if no truth is known."""
        return None if self.measure is None else self.measure(self.policy)

    @cached_property
    def stopped(self) -> str | None:
        """Why the run ends here: `certificate`, `regret` or `budget`; None if it goes on."""
        settings, counts = self.settings, self.counts
        if settings.certify is not None and self.belief.certified(settings.certify.name):
            return "certificate"
        if settings.until_regret is not None and self.regret is not None and self.regret < settings.until_regret:
            return "regret"
        if counts.samples >= settings.max_samples or counts.questions >= (settings.max_answers or math.inf):
            return "budget"
        return None

    def certificate(self, kind: str) -> Certificate:
        """The certificate of a kind as it stands, with all that is to be said about it."""
        found = self.belief.certificates[kind]
        assert isinstance(found, CertificateKind)
        return found.explain(self.belief)

    @cached_property
    def record(self) -> Record:
        """The turn in numbers."""
        belief, counts, asked = self.belief, self.counts, self.settings.certify
        kinds = belief.certificates if self.stopped and asked else [asked.name] if asked else []
        certificates = {kind: belief.certificates[kind].value(belief) for kind in kinds}
        return Record(
            iteration=self.iteration,
            samples=counts.samples,
            episodes=self.iteration * self.settings.episodes_per_iteration,
            answers=counts.questions,
            bound=belief.accuracy,
            certificates=certificates,
            regret=self.regret,
            infeasibility=belief.recovered.infeasibility,
            planner_gap=self.planner_evidence.get("gap"),
            planning_seconds=self.planning_seconds,
            inferring_seconds=belief.inference.seconds,
            seconds=time.perf_counter() - self.began,
            stopped=self.stopped,
        )

    @cached_property
    def state(self) -> RunState:
        """What a later turn can go on from."""
        belief = self.belief
        return RunState(
            iteration=self.iteration,
            counts=self.counts,
            recovered=belief.inference.recovered,
            accuracy=belief.accuracy,
            inferred_at=self.inferred_at,
            memory=belief.memory,
            evidence=belief.evidence,
            names=self.names,
        )


class Engine:
    """Learns from an environment and whoever gives the answers, one turn after the other.

    `answers` says of what kind the expert is. `regret` measures a policy `[H, S]` against a truth that the learner does
    not see. Give a `state` to go on from it.
    """

    def __init__(
        self,
        environment: Environment,
        answers: Answers,
        settings: Settings,
        *,
        regret: Callable[[IntArray], float] | None = None,
        state: RunState | None = None,
    ) -> None:
        kind = answers.kind
        if settings.certify is not None:
            settings.certify.check(kind)
        if kind.deterministic and kind.least_probability is not None:
            raise InputError(
                f"least_probability is {kind.least_probability:g}, but this expert always answers alike; leave it out"
            )
        self.settings, self.answers, self.regret = settings, answers, regret
        self.access = Access.to(environment)
        self.access.recall(state.names if state else ())
        self.certificates = {name: make() for name, make in KINDS.items()}
        if settings.certify is not None:
            self.certificates[settings.certify.name] = settings.certify
        self.belief = self._first_belief() if state is None else self._restored_belief(state)
        self._inferred_at = 0 if state is None else state.inferred_at
        self._turn: Generator[Question, int | Reply, Turn] | None = None
        self._question: Question | None = None
        self._reply: int | Reply | None = None

    def ask(self) -> Question | Turn:
        """Go on until an answer is needed, or the turn is over. Asked again before `tell`, it is the same question."""
        if self._turn is None:
            self._turn, self._reply = self._play(), None
        elif self._reply is None:
            assert self._question is not None
            return self._question
        try:
            reply, self._reply = self._reply, None
            self._question = next(self._turn) if reply is None else self._turn.send(reply)
            return self._question
        except StopIteration as over:
            self._turn, self._question = None, None
            turn: Turn = over.value
            return turn

    def tell(self, reply: int | Reply) -> None:
        """Answer the question: an action, that the expert has nothing to say, or that nobody is there."""
        if self._question is None:
            raise InputError("nothing was asked, so there is nothing to tell; call ask first")
        n_actions, question = self.access.environment.n_actions, self._question
        if not isinstance(reply, Reply):
            if isinstance(reply, bool) or not isinstance(reply, int | np.integer) or not 0 <= reply < n_actions:
                raise AnswerError(
                    f"the expert answered {reply!r} in state {question.state} at step {question.step}; "
                    f"actions are 0 to {n_actions - 1}"
                )
            reply = int(reply)
        self._reply = reply

    def _play(self) -> Generator[Question, int | Reply, Turn]:
        """One turn."""
        settings, belief = self.settings, self.belief
        streams = random_streams(settings.seed, belief.iteration)

        began = time.perf_counter()
        plan = settings.strategy.plan(belief, streams["strategy"])
        if settings.certify is not None:
            plan = settings.certify.steer(plan, belief)
        planning = time.perf_counter() - began

        watched = _watched(belief, plan)
        wagers = {name: kind.watch(belief, plan, watched) for name, kind in self.certificates.items()}
        episodes, so_far = settings.episodes_per_iteration, belief.estimate.counts
        seen = yield from collect(self.access, self.answers, plan, episodes, so_far, watched, streams["environment"])
        evidence = {
            name: belief.evidence.get(name, {})
            if (wager := wagers[name]) is None
            else kind.update(belief.evidence.get(name, {}), wager, plan, seen.first_deviations, belief.target)
            for name, kind in self.certificates.items()
        }
        self.belief = self._next_belief(belief, plan, seen, evidence)
        return self._turn_of(plan.evidence, planning, began)

    @property
    def last_turn(self) -> Turn:
        """What the last turn came to; for whoever opens a run again."""
        return self._turn_of({}, 0.0, time.perf_counter())

    def _turn_of(self, planner_evidence: Mapping[str, float], planning: float, began: float) -> Turn:
        return Turn(
            belief=self.belief,
            settings=self.settings,
            names=self.access.names,
            measure=self.regret,
            inferred_at=self._inferred_at,
            planner_evidence=planner_evidence,
            planning_seconds=planning,
            began=began,
        )

    def _next_belief(self, before: Belief, plan: Plan, seen: Collected, evidence: Mapping[str, Memory]) -> Belief:
        counts = before.estimate.counts.grown(seen.counts.shape[1]) + seen.counts
        knowledge, inference = self._knowledge(counts), before.inference
        if before.iteration == 0 or counts.samples >= (1 + self.settings.infer_after_growth) * self._inferred_at:
            inference = Inference(knowledge, self.settings.irl, before.inference if before.iteration else None)
            self._inferred_at = counts.samples
        return self._belief(knowledge, inference, before.iteration + 1, evidence, plan.memory)

    def _knowledge(self, counts: Counts) -> Knowledge:
        """What the counts say, under what the settings assume."""
        settings = self.settings
        estimate = Estimate.of(
            counts,
            kind=self.answers.kind,
            delta=settings.delta / 3,
            initial=self.access.environment.initial,
            end=self.access.end,
            possible_states=self.access.possible_states,
        )
        return Knowledge(estimate, settings.confidence, settings.rmax, settings.delta)

    def _first_belief(self) -> Belief:
        """The belief before anything was observed."""
        counts = Counts.empty(self.access.shape, stationary=self.settings.stationary_dynamics)
        knowledge = self._knowledge(counts)
        nothing = Inference.of(Recovered.nothing(counts.shape), knowledge.bound.value)
        return self._belief(knowledge, nothing, 0, {}, {})

    def _restored_belief(self, state: RunState) -> Belief:
        inference = Inference.of(state.recovered, state.accuracy)
        return self._belief(self._knowledge(state.counts), inference, state.iteration, state.evidence, state.memory)

    def _belief(
        self,
        knowledge: Knowledge,
        inference: Inference,
        iteration: int,
        evidence: Mapping[str, Memory],
        memory: Memory,
    ) -> Belief:
        return Belief(
            knowledge=knowledge,
            inference=inference,
            target=self.settings.target(knowledge.estimate.mdp.horizon),
            episodes=self.settings.episodes_per_iteration,
            iteration=iteration,
            certificates=self.certificates,
            evidence=evidence,
            memory=memory,
        )


def _watched(belief: Belief, plan: Plan) -> IntArray | None:
    """`[H, S]`: the known expert actions from which deviations are counted; an imposed first action counts as known."""
    known = belief.known_actions
    if known is None or plan.first_action is None:
        return known
    watched = known.copy()
    watched[0] = plan.first_action
    return watched


def random_streams(seed: int, iteration: int) -> dict[str, np.random.Generator]:
    """The generators of one iteration, by name: the same for the same seed, wherever the run was interrupted."""
    sequence = np.random.SeedSequence(seed, spawn_key=(iteration,))
    return {
        name: np.random.default_rng(child) for name, child in zip(STREAMS, sequence.spawn(len(STREAMS)), strict=True)
    }

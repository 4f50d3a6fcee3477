"""What a turn of learning came to: in numbers, as a state to go on from, and with the belief it ended with."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from aceirl.certificates import Certificate, CertificateKind, Goal
from aceirl.data.arrays import Move
from aceirl.data.dataset import Trajectory
from aceirl.data.preferences import Preference
from aceirl.errors import InputError
from aceirl.irl import SparseLikelihood
from aceirl.irl.alternatives import Alternatives, alternatives_in
from aceirl.irl.belief import Belief, Memory
from aceirl.irl.comparisons import informative_pair, returns
from aceirl.learner.collect import Streams
from aceirl.learner.settings import Settings
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import greedy_actions, occupancy
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.models.tabular.model import TablePolicy
from aceirl.protocols import Policy
from aceirl.rewards import SPACES, DesignMatrix, Explanation, Recovered, RewardSpace, StateReward, action_values
from aceirl.rewards.hypotheses import Agreement, Claim, Denied, Wish, agreement, contested
from aceirl.rewards.in_fields import FieldReward


@dataclass(frozen=True)
class Record:
    """One iteration, in numbers. `stopped` is None while the run goes on.

    `regret` is None where no truth is known or it was not measured: it is whenever a reward is inferred, at the end,
    and after every iteration of a run that shall stop on it. `certificates` has the value of the kind that the run
    shall stop on and, in the last record, of all kinds.
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
        return {**vars(self), "certificates": dict(self.certificates)}

    def in_words(self) -> str:
        """One line: what was spent, what is certified and, where a truth is known, the regret."""
        certified = "".join(f" · {kind} {value:.3g}" for kind, value in self.certificates.items())
        regret = "" if self.regret is None else f" · regret {self.regret:.3f}"
        return f"{self.samples:,} samples · {self.answers:,} answers{certified}{regret}"


def last_measured(records: Sequence[Record]) -> Record | None:
    """The last record that has a regret; None if no truth is known."""
    return next((record for record in reversed(records) if record.regret is not None), None)


@dataclass(frozen=True, eq=False)
class RunState:
    """All that the next turn depends on, besides environment, expert and settings.

    Randomness is not part of it: iteration `k` draws from streams named by `(seed, k)`, so a run can go on from any
    state. `recovered` and `accuracy` are what was inferred last, when `inferred_at` samples had been seen. `memory` is
    the strategy's, `evidence` that of each kind of certificate. `names` are the states in their order, where the
    environment numbers them as it meets them. `preferences` are those between episodes that were told so far.
    """

    iteration: int
    counts: Counts
    recovered: Recovered
    accuracy: float
    inferred_at: int = 0
    memory: Memory = field(default_factory=dict)
    evidence: Mapping[str, Memory] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    preferences: tuple[Preference, ...] = ()


@dataclass(frozen=True, eq=False)
class PredictedPolicy:
    """The policy of a table which, in a state that was never met, does what is predicted there."""

    known: TablePolicy
    predicted: Callable[[Any], int | None]

    def act(self, observation: Any, step: int, rng: np.random.Generator) -> int:
        """The action of the table, else the predicted one; any, if nothing is predicted."""
        encoder = None if self.known.access is None else self.known.access.encoder
        state = None if encoder is None else encoder.find(observation)
        met = state is not None and state < self.known.table.shape[1]
        action = None if met else self.predicted(observation)
        return self.known.act(observation, step, rng) if action is None else action


@dataclass(frozen=True, eq=False)
class Turn:
    """What a turn came to: the belief it ended with and, worked out when first asked for, all that follows from it.

    `names` are the states in their order, where the environment numbers them; `space` is the one rewards are sought in,
    None if the algorithm chooses; `episodes` are those that were walked step by step. `planner_evidence` is what the
    planner could say of its plan; `began` is when the turn did, by the clock of `time.perf_counter`.
    """

    belief: Belief
    settings: Settings
    names: tuple[str, ...] = ()
    space: RewardSpace | None = None
    measure: Callable[[IntArray], float] | None = None
    episodes: tuple[Trajectory, ...] = ()
    inferred_at: int = 0
    planner_evidence: Mapping[str, float] = field(default_factory=dict)
    planning_seconds: float = 0.0
    began: float = 0.0

    def with_repeats(self, repeats: IntArray) -> Turn:
        """The same turn of an expert who, asked again, said the same or not so often: `repeats [S, 2]` of `Counts`."""
        model = self.belief.table.with_counts(self.counts.with_answers(self.counts.answers, repeats))
        return replace(self, belief=replace(self.belief, model=model))

    @property
    def iteration(self) -> int:
        """How many turns there were, this one included."""
        return self.belief.iteration

    @property
    def samples(self) -> int:
        """How many steps were taken in the environment so far."""
        return self.belief.model.totals.samples

    @property
    def counts(self) -> Counts:
        """Everything observed so far."""
        return self.belief.estimate.counts

    @cached_property
    def policy(self) -> IntArray:
        """`[H, S]`: what the expert is known to do, and elsewhere what is best under the recovered reward.

        Once something was wagered on it, it does what is imputed of the expert elsewhere: the promise rests on that.
        """
        imputed = self.belief.imputed_actions if self.belief.frozen_imputation is not None else None
        if imputed is not None and imputed.min() >= 0:
            return imputed.copy()
        known = self.belief.known_actions
        if getattr(self.settings.strategy, "predicts", False) and known is not None:
            return np.where(known < 0, self.belief.prediction.actions[: known.shape[1]], known)
        estimate, recovered = self.belief.estimate, self.belief.recovered
        q = action_values(estimate, recovered.reward, recovered.unknown_step_reward)
        ties = Streams(self.settings.seed, max(0, self.iteration - 1)).ties
        best = greedy_actions(q, ties, estimate.allowed)
        return best if imputed is None else np.where(imputed < 0, best, imputed)

    @cached_property
    def agent(self) -> Policy:
        """The policy, as something that acts on observations."""
        model = self.belief.tables
        if model is None:
            return self.belief.model.plan(None)
        known = model.policy(self.policy)
        return PredictedPolicy(known, self.predicted_action) if self._predicts else known

    @property
    def _predicts(self) -> bool:
        return getattr(self.settings.strategy, "predicts", False) and self.belief.imagined is not None

    def predicted_action(self, observation: Any) -> int | None:
        """What the expert is predicted to do on an observation that was never met; None if nothing is predicted."""
        state = self.belief.imagined_state(self.belief.shape[1], observation) if self._predicts else None
        return None if state is None else int(self.belief.prediction.actions[state])

    @cached_property
    def field_reward(self) -> FieldReward | None:
        """What the likeliest wish pays in the terms of fields; None if it wants anything else."""
        table, access = self.belief.telling_fields, self.belief.table.access
        if table is None or access is None or access.fields is None:
            return None
        return FieldReward.of(self.wish, table, access.fields)

    @cached_property
    def explanation(self) -> Explanation | None:
        """What the recovered reward says of the expert; None if the IRL algorithm does not say.

        States that were met since it was inferred are worth nothing, unless features say otherwise.
        """
        found, design = self.belief.recovered.explanation, self._map
        if found is None or design is None or len(found.ends) == design.shape[1]:
            return found
        before, ends = len(found.ends), np.zeros(design.shape[1], dtype=np.bool_)
        ends[self.belief.estimate.terminal_states] = True
        ends[:before] = found.ends
        known = design.states < before

        def grown(values: FloatArray) -> FloatArray:
            all_values = np.zeros(design.n_parameters)
            all_values[known] = values
            return all_values

        theta = grown(found.theta)
        return replace(
            found,
            theta=theta,
            map_estimate=grown(found.map_estimate),
            importance=grown(found.importance),
            states=design.states,
            actions=design.actions,
            paid=design.paid(theta),
            ends=ends,
        )

    @cached_property
    def _map(self) -> DesignMatrix | None:
        """The space of the reward, laid over the process; None if the reward only repeats the answers."""
        found, estimate = self.belief.recovered.explanation, self.belief.estimate
        if found is None or found.repeats_answers:
            return None
        space = SPACES[found.space]() if self.space is None else self.space
        return space.design_matrix(estimate.mdp, estimate.terminal_states)

    @property
    def wish(self) -> Wish:
        """What the answers tell of the expert's wish, whatever reward was recovered.

        Of a run that is to end when that is known, it is without what is only predicted, as the certificate is.
        """
        return self.belief.promised_wish if isinstance(self.settings.certify, Goal) else self.belief.wish

    def wish_after(self, denied: Sequence[Denied]) -> Wish:
        """The same with what the expert denied of the wish itself, which the turn does not keep."""
        return self.belief.wish_after(denied) if denied else self.wish

    @property
    def contested(self) -> FloatArray:
        """`[S]`: how much the likeliest wishes differ in what they would do in each state."""
        return contested(self.belief.estimate, self.wish, self.belief.telling_fields)

    def agreement(self, claims: Collection[Claim]) -> Agreement | None:
        """How the answers bear on a wish that the expert states; None if it is not about places."""
        return agreement(self.belief.estimate, claims)

    @cached_property
    def alternatives(self) -> Alternatives | None:
        """Other rewards of the same space that are about as likely; None if the reward only repeats the answers."""
        found, design, seed, fewer = self.explanation, self._map, self.settings.seed, self.belief.table.fewer
        if found is None or design is None:
            return None
        merged = None if fewer is None or not found.about_places else alternatives_in(fewer, design, found, seed)
        return merged or Alternatives(self.belief.estimate, design, found, seed)

    def pair_to_compare(self, walks: Sequence[tuple[Move, ...]]) -> tuple[int, int] | None:
        """Which two of these episodes to show, so that a preference tells most about the reward; None if none can.

        The plausible rewards disagree most about that pair. As long as no reward of places, or of a space that was
        asked for, is likelier than another, it is the one that differs in the most places. Pairs that were compared
        before are left out.
        """
        estimate = self.belief.estimate
        alternatives = self.alternatives or self._of_places
        design = alternatives.design
        known = estimate.preferences or estimate.counts.questions
        thetas = alternatives.samples if known else np.zeros((0, design.n_parameters))
        plausible, times = np.unique(thetas, axis=0, return_counts=True)
        compared = {one.pair for one in estimate.preferences}
        pairs = itertools.combinations(range(len(walks)), 2)
        asked = [(i, j) for i, j in pairs if frozenset((walks[i], walks[j])) in compared] if compared else []
        earned = returns(design, estimate.terminal_states, walks, estimate.mdp.discount)
        return informative_pair(earned, plausible, times / max(1, len(thetas)), asked)

    @cached_property
    def _of_places(self) -> Alternatives:
        """Rewards of places that are about as likely as any, whether they explain much or not."""
        estimate, space = self.belief.estimate, StateReward()
        found = SparseLikelihood()(estimate, 1.0, None, space).explanation
        assert found is not None
        return Alternatives(
            estimate, space.design_matrix(estimate.mdp, estimate.terminal_states), found, self.settings.seed
        )

    @cached_property
    def mean_reward(self) -> FloatArray:
        """`[S]`: what each place is worth, from 0 to 1, by a reward that explains the answers.

        By one that does not: the reward of what the policy does there, averaged as often as it is there; zero where it
        never is.
        """
        mdp, found = self.belief.estimate.mdp, self.explanation
        if found is not None and not found.repeats_answers:
            worth = found.by_state - min(0.0, float(found.by_state.min()))
            return np.asarray(worth / max(1.0, float(worth.max())))
        there = occupancy(mdp, np.eye(mdp.n_actions)[self.policy])
        visits = there.sum(axis=(0, 2))
        earned = (there * self.belief.recovered.reward).sum(axis=(0, 2)) / self.belief.rmax
        return np.asarray(np.divide(earned, visits, out=np.zeros_like(visits), where=visits > 1e-9))

    @cached_property
    def regret(self) -> float | None:
        """What the policy loses by the truth; None if no truth is known."""
        if self.measure is None or self.belief.tables is None:
            return None
        regret = float(self.measure(self.policy))
        if not math.isfinite(regret):
            raise InputError(f"regret returned {regret} after {self.samples:,} samples; it must be a number")
        return regret

    @cached_property
    def stopped(self) -> str | None:
        """Why the run ends here: `certificate`, `regret` or `budget`; None if it goes on."""
        settings, totals = self.settings, self.belief.model.totals
        if settings.certify is not None and self.belief.certified(settings.certify.name):
            return "certificate"
        if settings.until_regret is not None and self.regret is not None and self.regret < settings.until_regret:
            return "regret"
        given = self.belief.kind.given(totals)
        if totals.samples >= settings.max_samples or given >= (settings.max_answers or math.inf):
            return "budget"
        return None

    def certificate(self, kind: str) -> Certificate:
        """The certificate of a kind as it stands, with all that is to be said about it."""
        found = self.belief.certificates[kind]
        assert isinstance(found, CertificateKind)
        return found.explain(self.belief)

    @property
    def _is_measured(self) -> bool:
        """Whether the record has the regret: to work out a policy takes as long as the rest of a short episode."""
        asked = self.settings.until_regret is not None
        return asked or self.stopped is not None or self.inferred_at == self.samples

    @cached_property
    def record(self) -> Record:
        """The turn in numbers."""
        belief, totals, asked = self.belief, self.belief.model.totals, self.settings.certify
        kinds = belief.certificates if self.stopped and asked else [asked.name] if asked else []
        certificates = {kind: belief.certified_value(kind) for kind in kinds}
        return Record(
            iteration=self.iteration,
            samples=totals.samples,
            episodes=totals.episodes or self.iteration * self.settings.episodes_per_iteration,
            answers=belief.kind.given(totals),
            bound=belief.accuracy,
            certificates=certificates,
            regret=self.regret if self._is_measured else None,
            infeasibility=belief.inference.recovered.infeasibility,
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
            preferences=belief.estimate.preferences,
        )

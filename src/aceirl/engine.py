"""The one learner, driven by ask and tell: a program, a person or a recording may give the answers.

A turn goes round once: plan, collect, count, estimate, infer, certify. `ask` walks the environment as far as it can
without an answer; it returns a `Question`, to be answered by `tell`, or the `Turn` that has come to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aceirl.belief import Belief, Inference, Knowledge, Memory, Plan, Target, checked_plan
from aceirl.certificates import KINDS, Wager, Watched, wagered_losses
from aceirl.collect import Answers, Episode, Guess, Reply, Streams, collect, first_deviations
from aceirl.counts import Counts, Estimate
from aceirl.errors import AnswerError, InputError
from aceirl.explore import STRATEGIES
from aceirl.mdp import IntArray
from aceirl.preferences import Preference
from aceirl.protocols import Access, Environment, Question
from aceirl.rewards import AutoReward, FeatureReward, Recovered, RewardSpace, StateReward
from aceirl.settings import Settings
from aceirl.turns import RunState, Turn

NO_DRAWS = np.random.default_rng(0)
"""For those of our strategies that do not draw: to make a generator takes as long as they do."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """An episode that was walked before, and what had been wagered on it, by kind of certificate."""

    episode: Episode
    wagers: Mapping[str, Wager] = field(default_factory=dict)


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
        self.access = Access.to(environment)
        if self.access.binned and kind.deterministic and not kind.asked_everywhere:
            if settings.ask_again is not None:
                raise InputError(
                    f"ask_again is {settings.ask_again:g}, but states are bins, and an answer holds only for the "
                    "observation it was given for; leave ask_again out"
                )
            answers = replace(answers, kind=replace(kind, ask_again=1.0))
        self.settings, self.answers, self.regret = settings, answers, regret
        self._asked: tuple[Settings, Target] | None = None
        self.access.recall(state.names if state else ())
        self.certificates = {name: make() for name, make in KINDS.items()}
        if settings.certify is not None:
            self.certificates[settings.certify.name] = settings.certify
        space = settings.reward
        self._features = None if isinstance(space, RewardSpace) else space
        self._fixed_space = space if isinstance(space, RewardSpace) and not isinstance(space, AutoReward) else None
        self.belief = self._first_belief() if state is None else self._restored_belief(state)
        self._inferred_at = 0 if state is None else state.inferred_at
        self._turn: Generator[Question, int | Guess | Reply, Turn] | None = None
        self._begun: Recorded | None = None
        self._wagers: Mapping[str, Wager] = {}
        self._question: Question | None = None
        self._reply: int | Guess | Reply | None = None

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

    def tell(self, reply: int | Guess | Reply) -> None:
        """Answer the question: an action, what to do without one, that nothing is known, or that nobody is there."""
        if self._question is None:
            raise InputError("nothing was asked, so there is nothing to tell; call ask first")
        n_actions, question = self.access.environment.n_actions, self._question
        if not isinstance(reply, Reply):
            action = reply.action if isinstance(reply, Guess) else reply
            if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < n_actions:
                raise AnswerError(
                    f"the expert answered {action!r} in state {question.state} at step {question.step}; "
                    f"actions are 0 to {n_actions - 1}"
                )
            reply = reply if isinstance(reply, Guess) else int(action)
        self._reply = reply

    @property
    def under_way(self) -> bool:
        """Whether a turn has begun and is not over."""
        return self._turn is not None

    @property
    def wagers(self) -> Mapping[str, Wager]:
        """What each kind of certificate has wagered on the turn that is under way."""
        return self._wagers

    def take(self, recorded: Iterable[Recorded], names: tuple[str, ...] = ()) -> None:
        """Learn from episodes that were walked before, a turn each: a recording, or a run that is opened again.

        `names` are the states in their order, where the environment numbers them.
        """
        self.access.recall(names)
        horizon, n_states, _ = self.access.shape
        waiting: list[Episode] = []
        iteration, evidence = self.belief.iteration, dict(self.belief.evidence)
        samples, watched = self.belief.estimate.counts.samples, self.belief.known_actions
        watched = None if watched is None else _with_columns(watched, n_states)
        for one in recorded:
            seen = _watched(self.belief, watched, first_deviations(watched, [one.episode], horizon))
            evidence = self._updated(evidence, one.wagers, Plan(), seen)
            if watched is not None:
                _learn_answers(watched, one.episode, stationary=self.answers.kind.stationary)
            waiting.append(one.episode)
            samples, iteration = samples + len(one.episode.walk), iteration + 1
            if self._is_time_to_infer(samples):
                self._conclude(iteration, self._counted(waiting), evidence)
                waiting = []
        if waiting:
            self._conclude(iteration, self._counted(waiting), evidence)

    def take_recording(
        self, episodes: Sequence[Episode], repeats: IntArray | None = None, names: tuple[str, ...] = ()
    ) -> None:
        """Learn from a recording, all of it in one turn, on which nothing was wagered.

        `repeats [S, 2]` is how often the expert did again what it had done in a state, and how often it did not.
        """
        if self.belief.iteration:
            raise InputError("a recording comes before all other turns")
        self.access.recall(names)
        counts = self._counted(episodes)
        self._conclude(1, counts.with_answers(counts.answers, repeats), self.belief.evidence)

    def note(self, answers: Sequence[tuple[int, int, int]]) -> None:
        """Take in answers `(step, state, action)` that were given apart from a question, about any state.

        An episode that is under way began without them, so it is not evidence about them.
        """
        new = self._counted([Episode(0, answers=tuple(answers))])
        new = replace(new, starts=np.zeros_like(new.starts))
        self._conclude(self.belief.iteration, new, self.belief.evidence)

    def take_up(self, begun: Recorded) -> None:
        """Go on with an episode that had begun, from where it was, at the next `ask`."""
        if self._turn is not None:
            raise InputError("an episode is under way already; take_up comes before ask")
        self._begun = begun

    def prefer(self, *preferences: Preference) -> None:
        """Take in which of two episodes the expert likes better, once or several times; the reward is inferred anew.

        Of the IRL algorithms, `sparse-likelihood` goes by preferences, with answers or without any. A preference tells
        of the reward, never of an answer, so nothing else changes: no turn, no sample, no answer, and no evidence for a
        promise. A certificate about the recovered reward is about the new one from now on.
        """
        before, shape = self.belief, self.access.shape
        for preference in preferences:
            preference.require(shape)
        counts = before.estimate.counts.grown(shape[1])
        knowledge = self._knowledge(counts, before.estimate.preferences + preferences)
        _ = before.inference.recovered  # what is left to be worked out never becomes a long chain
        self._infer(replace(before, knowledge=knowledge))

    def glance(self, begun: Episode) -> Turn:
        """What the turn under way would come to if its episode ended here; nothing is changed by it."""
        before = self.belief
        counts = before.estimate.counts.grown(self.access.shape[1]) + self._counted([begun])
        knowledge = self._knowledge(counts, before.estimate.preferences, before.estimate)
        inference = self._inference(knowledge, before.inference if before.iteration else None)
        belief = self._belief(knowledge, inference, before.iteration + 1, before.evidence, before.memory)
        return replace(self.last_turn, belief=belief)

    def _play(self) -> Generator[Question, int | Guess | Reply, Turn]:
        """One turn."""
        settings, belief = self.settings, self.belief
        streams = Streams.of(settings.seed, belief.iteration)
        begun, self._begun = self._begun, None

        began = time.perf_counter()
        ours = type(settings.strategy) in STRATEGIES.values()
        draws = not ours or getattr(settings.strategy, "draws", True)
        plan = settings.strategy.plan(belief, streams.strategy if draws else NO_DRAWS)
        if not ours:
            plan = checked_plan(plan, belief.shape, type(settings.strategy).__name__)
        if settings.certify is not None:
            plan = settings.certify.steer(plan, belief)
        planning = time.perf_counter() - began

        known, watched = (_with_first(actions, plan) for actions in (belief.known_actions, belief.presumed_actions))
        self._wagers = self._made_wagers(belief, plan, watched) if begun is None else begun.wagers
        episodes, so_far = settings.episodes_per_iteration, belief.estimate.counts
        seen = yield from collect(
            self.access, self.answers, plan, episodes, so_far, watched, streams, begun.episode if begun else None
        )
        presumed = belief.presumed if self.answers.kind.presumed else None
        # Whoever notes an answer meanwhile changes the engine's belief, and not what this batch began with.
        batch = _watched(belief, known, seen.first_deviations, presumed)
        evidence = self._updated(belief.evidence, self._wagers, plan, batch)
        self._conclude(belief.iteration + 1, seen.counts, evidence, plan.memory)
        turn = self._turn_of(plan.evidence, planning, began, seen.episodes)
        if turn.stopped is None or self._inferred_at == self.belief.estimate.counts.samples:
            return turn
        # A run does not end on a reward that was inferred before its last samples.
        self._infer(self.belief)
        return self._turn_of(plan.evidence, planning, began, seen.episodes)

    def _made_wagers(self, belief: Belief, plan: Plan, watched: IntArray | None) -> dict[str, Wager]:
        made = {name: kind.watch(belief, plan, watched) for name, kind in self.certificates.items()}
        return {name: wager for name, wager in made.items() if wager is not None}

    def _updated(
        self, evidence: Mapping[str, Memory], wagers: Mapping[str, Wager], plan: Plan, seen: Watched
    ) -> dict[str, Memory]:
        """What each kind of certificate makes of a batch."""
        target, after = self.belief.target, dict(evidence)
        for name, wager in wagers.items():
            after[name] = self.certificates[name].update(after.get(name, {}), wager, plan, seen, target)
        return after

    def _counted(self, episodes: Sequence[Episode]) -> Counts:
        shape = self.access.shape
        answers = np.zeros(shape, dtype=np.int64)
        given = [answer for episode in episodes for answer in episode.answers]
        np.add.at(answers, tuple(np.array(given, dtype=np.int64).reshape(-1, 3).T), 1)
        starts, walks = [episode.start for episode in episodes], [episode.walk for episode in episodes]
        counts = Counts.of_walks(starts, walks, shape, stationary=self.settings.stationary_dynamics)
        return counts.with_answers(answers)

    def _is_time_to_infer(self, samples: int) -> bool:
        """After the first turn, and whenever the samples have grown by the share that the settings name.

        An algorithm whose programmes are large may ask for a larger share, its `least_growth`; 0 means every time.
        """
        growth = self.settings.infer_after_growth
        growth = max(growth, getattr(self.settings.irl, "least_growth", 0.0)) if growth else 0.0
        return not self._inferred_at or samples >= (1 + growth) * self._inferred_at

    def _conclude(
        self, iteration: int, new: Counts, evidence: Mapping[str, Memory], memory: Memory | None = None
    ) -> None:
        """Add what was observed to the belief."""
        before = self.belief
        counts = before.estimate.counts.grown(new.shape[1]) + new
        kept = before.memory if memory is None else memory
        knowledge = self._knowledge(counts, before.estimate.preferences, before.estimate)
        belief = self._belief(knowledge, before.inference, iteration, evidence, kept)
        if self._is_time_to_infer(counts.samples):
            self._infer(belief)
        else:
            self.belief = belief

    def _infer(self, belief: Belief) -> None:
        """Take up a belief, with a reward inferred from all that it knows."""
        before = belief.inference if self._inferred_at else None
        self.belief = replace(belief, inference=self._inference(belief.knowledge, before))
        self._inferred_at = belief.estimate.counts.samples

    def reconsidered(self) -> Turn:
        """The last turn as these settings see it, with a reward inferred anew if the state has none of theirs."""
        if not self._inferred_at:
            self._infer(self.belief)
        return self.last_turn

    @property
    def last_turn(self) -> Turn:
        """What the last turn came to; for whoever opens a run again."""
        return self._turn_of({}, 0.0, time.perf_counter())

    def _turn_of(
        self,
        planner_evidence: Mapping[str, float],
        planning: float,
        began: float,
        episodes: tuple[Episode, ...] = (),
    ) -> Turn:
        return Turn(
            belief=self.belief,
            settings=self.settings,
            names=self.access.names,
            space=self._space,
            measure=self.regret,
            episodes=episodes,
            inferred_at=self._inferred_at,
            planner_evidence=planner_evidence,
            planning_seconds=planning,
            began=began,
        )

    def _inference(self, knowledge: Knowledge, before: Inference | None) -> Inference:
        return Inference(knowledge, self.settings.irl, self._space, before)

    @property
    def _space(self) -> RewardSpace | None:
        """The space that rewards are sought in; None if the algorithm is to choose."""
        if self._features is not None:  # asked for again as states are met
            return features_of(self.access.environment, self._features)
        return self._fixed_space

    def _knowledge(
        self, counts: Counts, preferences: tuple[Preference, ...] = (), before: Estimate | None = None
    ) -> Knowledge:
        """What the counts and preferences say, under what the settings assume; `before` is what fewer of them said."""
        settings = self.settings
        estimate = Estimate.of(
            counts,
            kind=self.answers.kind,
            delta=settings.delta / 3,
            initial=self.access.environment.initial,
            terminal=self.access.terminal,
            possible_states=self.access.possible_states,
            preferences=preferences,
        )
        if before is not None:
            estimate = estimate.continued(before)
        return Knowledge(estimate, settings.confidence, settings.rmax, settings.delta)

    def _first_belief(self) -> Belief:
        """The belief before anything was observed."""
        counts = Counts.empty(self.access.shape, stationary=self.settings.stationary_dynamics)
        knowledge = self._knowledge(counts)
        nothing = Inference.of(Recovered.nothing(counts.shape), knowledge.bound.value)
        return self._belief(knowledge, nothing, 0, {}, {})

    def _restored_belief(self, state: RunState) -> Belief:
        inference = Inference.of(state.recovered, state.accuracy)
        knowledge = self._knowledge(state.counts, state.preferences)
        evidence = state.evidence
        if not self.answers.kind.presumed:  # a wager on what was presumed is about another policy
            evidence = {name: memory for name, memory in evidence.items() if "presumed" not in memory}
        return self._belief(knowledge, inference, state.iteration, evidence, state.memory)

    @property
    def _target(self) -> Target:
        """What is asked. Steps pay by state if the reward is said to; where episodes can end, the end is paid on
        arrival."""
        settings = self.settings
        if self._asked is None or self._asked[0] is not settings:
            by_state = isinstance(settings.reward, StateReward) and self.access.ending is None
            self._asked = settings, replace(settings.target(self.access.shape[0]), by_state=by_state)
        return self._asked[1]

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
            target=self._target,
            episodes=self.settings.episodes_per_iteration,
            iteration=iteration,
            certificates=self.certificates,
            evidence=evidence,
            memory=memory,
        )


def _watched(belief: Belief, known: IntArray | None, first: IntArray, presumed: IntArray | None = None) -> Watched:
    """How a batch fared that began with this belief, when the actions `known [H, S]` were known for certain.

    `presumed [S+1]` are those that were taken for the expert's elsewhere, if any were.
    """
    if known is None:
        return Watched(first, belief.target.losses(len(first) - 1), presumed)
    return Watched(first, wagered_losses(belief.target, belief.estimate, known), presumed)


def _with_first(actions: IntArray | None, plan: Plan) -> IntArray | None:
    """`[H, S]`: actions of the expert from which deviations are counted; an imposed first action counts as known."""
    if actions is None or plan.first_action is None:
        return actions
    watched = actions.copy()
    watched[0] = plan.first_action
    return watched


def _with_columns(watched: IntArray, n_states: int) -> IntArray:
    """`[H, S]`: the same actions where more states are known."""
    horizon, before = watched.shape
    return np.concatenate((watched, np.full((horizon, n_states - before), -1)), axis=1)


def _learn_answers(watched: IntArray, episode: Episode, *, stationary: bool) -> None:
    """Enter the answers of an episode where there were none."""
    for step, state, action in episode.answers:
        entries = watched[:, state] if stationary else watched[step : step + 1, state]
        entries[entries < 0] = action


def features_of(environment: Environment, features: Callable[[Any], Any]) -> FeatureReward:
    """The features of all states met so far, by a function of their observations."""
    observation = getattr(environment, "observation", None)
    if observation is None:
        raise InputError("features are a function of observations, and this environment has none; give an array")
    seen = [observation(state) for state in range(environment.n_states)]
    rows = [None if one is None else np.atleast_1d(np.asarray(features(one), dtype=np.float64)) for one in seen]
    width = next((len(row) for row in rows if row is not None), 1)
    return FeatureReward(np.array([np.zeros(width) if row is None else row for row in rows]))

"""The one learner, driven by ask and tell: a program, a person or a recording may give the answers.

A turn goes round once: plan, collect, count, estimate, infer, certify. `ask` walks the environment as far as it can
without an answer; it returns a `Question`, to be answered by `tell`, or the `Turn` that has come to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aceirl.certificates import KINDS, BatchOutcome, Budget, Goal, Wager, given_up, wagered_losses
from aceirl.certificates.budget import ROWS
from aceirl.certificates.e_process import with_new_states
from aceirl.data.answers import AnswerMemory
from aceirl.data.dataset import Answer, Dataset, Trajectory
from aceirl.data.preferences import Preference
from aceirl.errors import AnswerError, InputError
from aceirl.explore import STRATEGIES
from aceirl.irl.belief import Belief, Inference, Memory, Plan, Target, checked_plan
from aceirl.irl.sparse_likelihood import reward_of_wish
from aceirl.learner.collect import Answers, Guess, Reference, Reply, Streams, collect, first_deviations
from aceirl.learner.settings import Settings
from aceirl.learner.turns import RunState, Turn
from aceirl.models.tabular.confidence import hoeffding
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import IntArray, check_horizon
from aceirl.models.tabular.model import TabularModel
from aceirl.protocols import Capabilities, Environment, Model, Question, offers, require_capabilities
from aceirl.rewards import FeatureReward, Recovered, RewardSpace
from aceirl.rewards.spaces import described_by, pays_by_state

LARGE, DOUBLING = 1_000, 3_000
"""In a world of more states than the first a reward is inferred less often; of so many as the second, when the samples
have doubled."""

FEW_STATES, MANY_SAMPLES = 100, 10_000
"""In a world of more states than the first, after so many samples a reward is inferred when they have doubled: each
inference takes as long as thousands of steps by then."""

Recorded = tuple[Trajectory, Mapping[str, Wager]]
"""An episode that was walked before, and what had been wagered on it, by kind of certificate."""


class Engine:
    """Learns from an environment and whoever gives the answers, one turn after the other.

    `answers` says of what kind the expert is. `regret` measures a policy `[H, S]` against a truth that the learner does
    not see. Give a `state` to go on from it, or the `budget` of what is learned from again. The `model` is a table
    unless another one is given, before any data.
    """

    def __init__(
        self,
        environment: Environment,
        answers: Answers,
        settings: Settings,
        *,
        regret: Callable[[IntArray], float] | None = None,
        state: RunState | None = None,
        budget: Budget | None = None,
        model: Model | None = None,
    ) -> None:
        kind = answers.kind
        if model is not None:
            for what, needs in settings.needs().items():
                require_capabilities(model, needs, what)
        if settings.certify is not None:
            settings.certify.check(kind)
        if kind.deterministic and kind.least_probability is not None:
            raise InputError(
                f"least_probability is {kind.least_probability:g}, but this expert always gives the same answer; "
                "leave it out"
            )
        self.access = Capabilities.of(environment, numbered=model is None)
        check_horizon(self.access.shape[0])
        encoder = self.access.encoder
        if (encoder is None or encoder.binned) and kind.deterministic and not kind.asked_everywhere:
            if settings.ask_again is not None:
                why = "the model is not a table" if encoder is None else "states are bins"
                raise InputError(
                    f"ask_again is {settings.ask_again:g}, but {why}, and an answer holds only for the observation it "
                    "was given for; leave ask_again out"
                )
            answers = replace(answers, kind=replace(kind, ask_again=1.0))
        self.settings, self.answers, self.regret = settings, answers, regret
        self._asked: tuple[Settings, Target] | None = None
        self.access.recall(state.names if state else ())
        always = [kind for kind in KINDS.values() if not kind.on_request]
        kinds = [kind for kind in always if model is None or offers(model, kind.needs)]
        self.certificates = {kind.name: kind() for kind in kinds}
        if settings.certify is not None:
            self.certificates[settings.certify.name] = settings.certify
        space = settings.reward
        self._features = None if isinstance(space, RewardSpace) else space
        self._fixed_space = space if isinstance(space, RewardSpace) and space.fixed else None
        if state is not None:
            budget = Budget.of(state.evidence)
        self._budget = budget or Budget.begun(None if settings.certify is None else settings.certify.event)
        self.belief = self._first_belief(model) if state is None else self._restored_belief(state)
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

    def replay(self, recorded: Iterable[Recorded], names: tuple[str, ...] = ()) -> None:
        """Learn from episodes that were walked before, a turn each: a recording, or a run that is opened again.

        `names` are the states in their order, where the environment numbers them.
        """
        self.access.recall(names)
        horizon, n_states, _ = self.access.shape
        waiting: list[Trajectory] = []
        iteration, evidence = self.belief.iteration, dict(self.belief.evidence)
        samples, reference = self.belief.model.totals.samples, self.belief.known_actions
        reference = None if reference is None else _with_columns(reference, n_states)
        memory = self._memory()
        for episode, wagers in recorded:
            deviated = first_deviations(reference, [episode], horizon)
            evidence = self._updated(evidence, wagers, Plan(), _batch_outcome(self.belief, reference, deviated))
            if reference is not None:
                _learn_answers(reference, memory, episode.answers)
            waiting.append(episode)
            samples, iteration = samples + len(episode.walk), iteration + 1
            if self._is_time_to_infer(samples):
                self._conclude(iteration, self.belief.model.update(Dataset(tuple(waiting))), evidence)
                waiting = []
        if waiting:
            self._conclude(iteration, self.belief.model.update(Dataset(tuple(waiting))), evidence)

    def _memory(self) -> AnswerMemory:
        """What the expert has said so far."""
        kind, model = self.answers.kind, self.belief.tables
        before = None if model is None else model.said
        return AnswerMemory(deterministic=kind.deterministic, stationary=kind.stationary, before=before)

    def take_recording(self, recording: Dataset, names: tuple[str, ...] = ()) -> None:
        """Learn from a recording, all of it in one turn, on which nothing was wagered."""
        if self.belief.iteration:
            raise InputError("a recording must be added before the first turn")
        self.access.recall(names)
        self._conclude(1, self.belief.model.update(recording), self.belief.evidence)

    def add_answers(self, answers: Sequence[Answer]) -> None:
        """Take in answers `(step, state, action)` that were given apart from a question, about any state.

        An episode that is under way began without them, so it is not evidence about them.
        """
        model = self.belief.model.update(Dataset(answers=tuple(answers)))
        self._conclude(self.belief.iteration, model, self.belief.evidence)

    def resume_episode(self, begun: Trajectory, wagers: Mapping[str, Wager]) -> None:
        """Go on with an episode that had begun, from where it was, at the next `ask`; `wagers` were made on it."""
        if self._turn is not None:
            raise InputError("an episode has begun already; call resume_episode before ask")
        self._begun = begun, wagers

    def prefer(self, *preferences: Preference) -> None:
        """Take in which of two episodes the expert likes better, once or several times; the reward is inferred anew.

        Of the IRL algorithms, `sparse-likelihood` goes by preferences, with answers or without any. A preference tells
        of the reward, never of an answer, so nothing else changes: no turn, no sample, no answer, and no evidence for a
        promise. A certificate about the recovered reward is about the new one from now on.
        """
        before, shape = self.belief, self.access.shape
        for preference in preferences:
            preference.require(shape)
        model = before.model.update(Dataset(preferences=preferences))
        _ = before.inference.recovered  # what is left to be worked out never becomes a long chain
        self._infer(replace(before, model=model))

    def preview(self, begun: Trajectory) -> Turn:
        """What the turn under way would come to if its episode ended here; nothing is changed by it."""
        before = self.belief
        model = before.model.update(Dataset((begun,)))
        inference = self._inference(model, before.inference if before.iteration else None)
        belief = self._belief(model, inference, before.iteration + 1, before.evidence, before.memory)
        return replace(self.last_turn, belief=belief)

    def _play(self) -> Generator[Question, int | Guess | Reply, Turn]:
        """One turn."""
        settings, belief = self.settings, self.belief
        streams = Streams(settings.seed, belief.iteration)
        begun, wagers = self._begun or (None, None)
        self._begun = None

        began = time.perf_counter()
        plan = settings.strategy.plan(belief, streams.strategy)
        if type(settings.strategy) not in STRATEGIES.values():
            plan = checked_plan(plan, self.access.shape, type(settings.strategy).__name__)
        if settings.certify is not None:
            plan = settings.certify.steer(plan, belief)
        planning = time.perf_counter() - began

        known, reference = (_with_first(actions, plan) for actions in (belief.known_actions, belief.imputed_actions))
        self._wagers = self._made_wagers(belief, plan, reference) if wagers is None else wagers
        held: IntArray | Reference | None = reference if belief.tables else _of_model(belief.model)
        episodes = settings.episodes_per_iteration
        seen = yield from collect(self.access, self.answers, plan, episodes, belief.model, held, streams, begun)
        imputed = belief.imputed if self.answers.kind.imputed and belief.tables else None
        # Whoever notes an answer meanwhile changes the engine's belief, and not what this batch began with.
        batch = _batch_outcome(belief, known, seen.first_deviations, imputed)
        evidence = self._updated(belief.evidence, self._wagers, plan, batch)
        self._conclude(belief.iteration + 1, seen.added_to(self.belief.model), evidence, plan.memory)
        turn = self._turn_of(plan.evidence, planning, began, seen.data.trajectories)
        if turn.stopped is None:
            return turn
        if self._inferred_at != self.belief.model.totals.samples:
            # A run does not end on a reward that was inferred before its last samples.
            self._infer(self.belief)
        if self._pays_the_wish:
            recovered = reward_of_wish(self.belief.estimate, turn.wish, settings.rmax, self.belief.telling_fields)
            if recovered is not None:  # what a run ends with pays what it stopped on
                self.belief = replace(self.belief, inference=Inference.of(recovered, self.belief.accuracy))
        return self._turn_of(plan.evidence, planning, began, seen.data.trajectories)

    @property
    def _pays_the_wish(self) -> bool:
        """Whether the run ends with the reward of the wish, because it was for that."""
        by_state = self._space is None or self._space.by_state
        is_for_it = isinstance(self.settings.certify, Goal) and self.settings.irl is not None
        return is_for_it and by_state and self.belief.promised_wish.kind == "bold"

    def _made_wagers(self, belief: Belief, plan: Plan, reference: IntArray | None) -> dict[str, Wager]:
        made = {name: kind.watch(belief, plan, reference) for name, kind in self.certificates.items()}
        return {name: wager for name, wager in made.items() if wager is not None}

    def _updated(
        self, evidence: Mapping[str, Memory], wagers: Mapping[str, Wager], plan: Plan, seen: BatchOutcome
    ) -> dict[str, Memory]:
        """What each kind of certificate makes of a batch."""
        target, after = self.belief.target, dict(evidence)
        for name, wager in wagers.items():
            after[name] = self.certificates[name].update(after.get(name, {}), wager, plan, seen, target)
        return after

    def _is_time_to_infer(self, samples: int) -> bool:
        """After the first turn, and whenever the samples have grown by the share that the settings name.

        An algorithm whose programmes are large may ask for a larger share, its `least_growth`; 0 means every time. In a
        large world each inference takes long, and the share grows with the states: at most the samples are doubled. And
        there is none that the last one, when the budget is spent, would follow before they have doubled again.
        """
        growth, n_states = self.settings.infer_after_growth, self.access.shape[1]
        if not self._inferred_at or not growth:
            return True
        of_world = min(1.0, n_states / DOUBLING) if n_states > LARGE else 0.0
        if n_states > FEW_STATES and samples > MANY_SAMPLES:
            of_world = 1.0
        growth = max(growth, of_world, getattr(self.settings.irl, "least_growth", 0.0))
        if of_world and self._inferred_at < self.settings.max_samples < (1 + of_world) * samples:
            return samples >= self.settings.max_samples
        return samples >= (1 + growth) * self._inferred_at

    def _conclude(
        self, iteration: int, model: Model, evidence: Mapping[str, Memory], memory: Memory | None = None
    ) -> None:
        """Take up a model that has learned."""
        before = self.belief
        kept = before.memory if memory is None else memory
        if isinstance(model, TabularModel):
            given = model.counts.given
            evidence = {name: with_new_states(one, given) for name, one in evidence.items()}
        belief = self._belief(model, before.inference, iteration, evidence, kept)
        if self._is_time_to_infer(model.totals.samples):
            self._infer(belief)
        else:
            self.belief = belief

    def _infer(self, belief: Belief) -> None:
        """Take up a belief, with a reward inferred from all that it knows."""
        before = belief.inference if self._inferred_at else None
        self.belief = replace(belief, inference=self._inference(belief.model, before))
        self._inferred_at = belief.model.totals.samples

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
        episodes: tuple[Trajectory, ...] = (),
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

    def _inference(self, model: Model, before: Inference | None) -> Inference:
        """The reward that explains what the model knows; none is sought without an algorithm."""
        if self.settings.irl is None:
            return self.belief.inference
        assert isinstance(model, TabularModel)
        return Inference(model, self.settings.irl, self._space, before)

    @property
    def _space(self) -> RewardSpace | None:
        """The space that rewards are sought in; None if the algorithm is to choose."""
        if self._features is not None:  # asked for again as states are met
            return features_of(self.access, self._features)
        return self._fixed_space

    def _table(self, counts: Counts, preferences: tuple[Preference, ...] = ()) -> TabularModel:
        """What the counts and preferences say, under what the settings assume."""
        settings, access = self.settings, self.access
        # A run for a promise about rows explores with the radii that it promises by. The paper's promise nothing.
        share = self._budget.share(ROWS) if settings.confidence is not hoeffding else 1.0
        delta = settings.delta * (share if share > 0.5 else 1.0)
        estimate = Estimate.of(
            counts,
            kind=self.answers.kind,
            delta=delta / 3,
            initial=access.initial,
            terminal=access.terminal,
            possible_states=access.possible_states,
            preferences=preferences,
            discount=settings.discount,
        )
        return TabularModel(estimate, settings.confidence, settings.rmax, delta, access)

    def _first_belief(self, model: Model | None) -> Belief:
        """The belief before anything was observed."""
        if model is None:
            model = self._table(Counts.empty(self.access.shape, stationary=self.settings.stationary_dynamics))
        horizon = self.access.shape[0]
        bound = model.bound.value if isinstance(model, TabularModel) else self._target.possible(horizon)
        return self._belief(
            model, Inference.of(Recovered.nothing(self.access.shape), bound), 0, self._budget.evidence, {}
        )

    def _restored_belief(self, state: RunState) -> Belief:
        inference = Inference.of(state.recovered, state.accuracy)
        evidence = state.evidence
        if not self.answers.kind.imputed:  # a wager on what was imputed is about another policy
            evidence = given_up(evidence, [name for name, memory in evidence.items() if "imputed" in memory])
        table = self._table(state.counts, state.preferences)
        return self._belief(table, inference, state.iteration, evidence, state.memory)

    @property
    def _target(self) -> Target:
        """What is asked. Steps pay by state if the reward is said to; where episodes can end, the end is paid on
        arrival."""
        settings = self.settings
        if self._asked is None or self._asked[0] is not settings:
            by_state = pays_by_state(settings.reward) and not self.access.can_end
            self._asked = settings, replace(settings.target(self.access.shape[0]), by_state=by_state)
        return self._asked[1]

    def _belief(
        self,
        model: Model,
        inference: Inference,
        iteration: int,
        evidence: Mapping[str, Memory],
        memory: Memory,
    ) -> Belief:
        return Belief(
            model=model,
            inference=inference,
            target=self._target,
            episodes=self.settings.episodes_per_iteration,
            iteration=iteration,
            certificates=self.certificates,
            evidence=evidence,
            memory=memory,
            horizon=self.access.shape[0],
            max_samples=self.settings.max_samples,
        )


def _of_model(model: Model) -> Reference:
    """The reference policy of a model that is not a table, as it is before an episode: what it knows of the expert."""
    return lambda step, state: int(model.expert([state], step).actions[0])


def _batch_outcome(
    belief: Belief, known: IntArray | None, first: IntArray, imputed: IntArray | None = None
) -> BatchOutcome:
    """How a batch fared that began with this belief, when the actions `known [H, S]` were known for certain.

    `imputed [S+1]` are those that were taken for the expert's elsewhere, if any were.
    """
    if known is None:
        return BatchOutcome(first, belief.target.losses(len(first) - 1), imputed, habits=belief.tables is None)
    return BatchOutcome(first, wagered_losses(belief.target, belief.estimate, known), imputed)


def _with_first(actions: IntArray | None, plan: Plan) -> IntArray | None:
    """`[H, S]`: actions of the expert from which deviations are counted; an imposed first action counts as known."""
    if actions is None or plan.first_action is None:
        return actions
    reference = actions.copy()
    reference[0] = plan.first_action
    return reference


def _with_columns(reference: IntArray, n_states: int) -> IntArray:
    """`[H, S]`: the same actions where more states are known."""
    horizon, before = reference.shape
    return np.concatenate((reference, np.full((horizon, n_states - before), -1)), axis=1)


def _learn_answers(reference: IntArray, memory: AnswerMemory, answers: Sequence[Answer]) -> None:
    """Enter the answers of an episode where there were none that count."""
    for step, state, action in answers:
        if memory.said(step, state) is None:
            memory.add(step, state, action)
            entries = reference[:, state] if memory.stationary else reference[step : step + 1, state]
            entries[entries < 0] = action


def features_of(access: Capabilities, features: Callable[[Any], Any]) -> FeatureReward:
    """The features of all states met so far, by a function of their observations."""
    encoder = access.growing
    if encoder is None:
        raise InputError("features are a function of observations, and this environment has none; give an array")
    seen = [encoder.observation(state) for state in range(encoder.n_states)]
    rows = [None if one is None else described_by(features, one) for one in seen]
    names, first = next((row for row in rows if row is not None), ((), np.zeros(1)))
    values = [np.zeros(len(first)) if row is None else row[1] for row in rows]
    return FeatureReward(np.array(values), names)

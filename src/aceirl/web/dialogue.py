"""What the person is asked next, what the agent does without asking, and what an answer means as an event.

All of it follows from the history, the engine's questions and what was learnt; nothing is written or driven here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from aceirl.errors import InputError
from aceirl.learner.collect import Guess, Reply
from aceirl.learner.turns import Turn
from aceirl.protocols import Capabilities, Question
from aceirl.runs.files import Event
from aceirl.web.environment_view import EnvironmentView
from aceirl.web.episode_mode import MOST_GUESSES, guess, is_worth_showing, next_mode, wants_repeat
from aceirl.web.history import EpisodeMode, History, LoggedTrajectory, Reviewed, SaidRule, Scope, reviewed

# Where the person is not asked, the agent can be interrupted after so many steps.
PAUSE = 20

# Streams of randomness: when a question comes twice, and what the agent does when nobody tells it.
REPEAT, WANDER = 2, 4

# How often the agent does what it thinks best where episodes are to be compared; else it does anything.
AT_ITS_BEST = 0.5


def generator(seed: int, *name: int) -> np.random.Generator:
    """A stream of randomness of that name; the same whenever it is asked for."""
    return np.random.default_rng(np.random.SeedSequence([seed, *name]))


class Dialogue:
    """Questions and replies after a history. `learned` is what was inferred last; None if nothing was.

    `question` is the engine's question that waits for the person, `needed` a state that they shall speak of because
    others have, or because they asked for more questions, whether or not the agent is there, and `pair` the two
    episodes that they shall compare.
    `guessed` are the guesses in the episode under way, one for each state.
    """

    def __init__(self, history: History, view: EnvironmentView, seed: int, learned: Turn | None) -> None:
        self.history, self.view, self.seed, self.learned = history, view, seed, learned
        self.access = Capabilities.of(view.environment)
        self.question: Question | None = None
        self.needed: int | None = next(iter(history.pending), None)
        self.pair: tuple[int, int] | None = None
        self.episode_mode: EpisodeMode = "asked"
        self.guessed: dict[int, Reviewed] = {}
        self._moved: tuple[int, int, int] | None = None
        walk, last = history.trajectory, history.last_event
        if walk is not None and history.under_way(view.environment.horizon):
            self.episode_mode, self.guessed = walk.mode, {one[1]: one for one in walk.guessed}
            if last is not None and last["event"] == "answer" and last["step"] == walk.step:
                self._moved = walk.number, walk.step, last["action"]

    @property
    def asked(self) -> Question | LoggedTrajectory | tuple[int, int] | None:
        """What the person is asked now: about a situation, about an episode that they are shown, or about a pair of
        episodes, by their numbers. What was taken back comes before all others."""
        again, history = self.history.reopened, self.history
        if again is not None:
            match again["event"]:
                case "review":
                    return history.trajectories[again["episode"]]
                case "prefer":
                    first, second = again["pair"]
                    return first, second
                case _:
                    return Question(again["step"], again["state"], (), np.random.default_rng(0))
        if history.to_review is not None:
            return history.to_review
        if history.mode == "compare":
            return self.pair
        return self.question if self.needed is None else Question(0, self.needed, (), np.random.default_rng(0))

    # What the agent does without the person

    def begin_episode(self) -> None:
        """Choose how the next episode is walked."""
        can_guess = self.learned is not None and self.learned.explanation is not None
        self.episode_mode, self.guessed = next_mode(self.history, can_guess=can_guess), {}

    def wanted(self, step: int, state: int, answered: bool) -> bool:
        """Whether the engine may ask about a state, perhaps once more."""
        pause = step % PAUSE == PAUSE - 1  # where the agent can be interrupted
        if self.history.mode == "compare":
            return True
        if self.episode_mode == "alone":
            return not answered and pause
        return pause or self._asks_again(state) if answered else self.history.may_ask(state)

    def reply(self, question: Question) -> int | Guess | Reply | SaidRule | None:
        """What answers a question of the engine: what follows from what was said, or a guess; None: the person does."""
        history, state, step = self.history, question.state, question.step
        if self.episode_mode == "alone" and history.mode != "compare":
            return Reply.SKIP
        walk = history.trajectory
        if walk is not None and self._moved is not None and self._moved[:2] == (walk.number, step) and not walk.over:
            return Guess(self._moved[2])  # the person moved, and then the engine was built again
        standing = history.standing(state)
        if standing is not None and not question.again:
            return Guess(standing)
        if history.mode == "compare":
            return Guess(self._wander(question))
        if standing is not None:
            return None if self._asks_again(state) else Reply.SKIP
        rule = self.rule(state)
        if rule is not None or self.episode_mode != "shown":
            return rule
        found = self.guessed[state][2] if state in self.guessed else guess(self.learned, state)
        if found is not None and len(self.guessed) < MOST_GUESSES:
            self.guessed.setdefault(state, (step, state, found))
        return None if found is None else Guess(found)

    def rule(self, state: int) -> SaidRule | None:
        """The first answer for many situations that holds for this one too; None if there is none."""
        rules = self.history.rules
        features = self.view.features(state) if rules else {}
        return next((rule for rule in rules if rule.scope.covers(features)), None)

    @property
    def offers_review(self) -> bool:
        """Whether the person shall see the episode that has just come to its end."""
        return self.episode_mode == "shown" and is_worth_showing(self.history, len(self.guessed))

    def _asks_again(self, state: int) -> bool:
        """Whether the person is asked once more about a state that they have answered."""
        if self.history.mode == "play":
            return True
        repeats = partial(generator, self.seed, REPEAT)
        return self.episode_mode == "asked" and wants_repeat(self.history, state, repeats)

    def _wander(self, question: Question) -> int:
        """What the agent thinks best, or anything: episodes to compare should differ."""
        history = self.history
        rng = generator(self.seed, WANDER, history.samples + len(question.walk), history.episodes)
        best, anything = guess(self.learned, question.state), int(rng.integers(self.view.environment.n_actions))
        return best if best is not None and rng.random() < AT_ITS_BEST else anything

    # What the person says, as events

    def answer(
        self, question: Question, action: int, like: Mapping[str, str] | None, also: Sequence[int] | None = None
    ) -> Event:
        """What the person would do in a situation and, if `like` says how others relate to it, in all like it; or in
        those that they name, `also`."""
        state = question.state
        self._check_action(action)
        event: Event = {"event": "answer", "state": state, "step": question.step, "action": action}
        if not question.again and self.history.reopened is None:
            event["guess"] = guess(self.learned, state)
        event |= self._because_needed
        if like is not None and also is not None:
            raise InputError("give either like or also, not both")
        if also is not None:
            event["also"] = self._painted(also, state)
        if like is not None:
            scope = Scope.like(self.view.features(state), like)
            also = self.covered(scope, state)
            event |= {"scope": [list(one) for one in scope.conditions], "also": also, "turn": self.history.turn}
        return event | self.named(state, action)

    def _painted(self, also: Sequence[int], here: int) -> list[int]:
        """The states that somebody named, but for those they have spoken about before."""
        free = set(range(self.view.environment.n_states)) - self.access.terminal
        if not set(also) <= free:
            raise InputError(f"also has {sorted(set(also) - free)}, which are not states to act in")
        return sorted(set(also) - self.history.known().keys() - {here})

    def covered(self, scope: Scope, here: int, *, known: bool = False) -> list[int]:
        """The states met so far, but for this one, that a scope covers: those with an answer, or those without."""
        spoken, others = (
            self.history.known(),
            set(range(self.view.environment.n_states)) - self.access.terminal - {here},
        )
        return [s for s in sorted(others) if (s in spoken) == known and scope.covers(self.view.features(s))]

    def skip(self, question: Question) -> Event:
        """The person does not know."""
        event: Event = {"event": "skip", "state": question.state, "step": question.step}
        return event | self._because_needed | self.named(question.state)

    @property
    def wondered(self) -> bool:
        """Whether the question came because the person asked for more."""
        return bool(self.history.pending) and self.history.reopened is None

    @property
    def _because_needed(self) -> Event:
        others = self.needed is not None and not self.wondered
        return {"needed": True} if others and self.history.reopened is None else {}

    def review(self, walk: LoggedTrajectory, step: int | None, action: int | None) -> Event:
        """The episode did as well as the person would have, up to a step where they would do something else; to its
        end, if they name none."""
        if step is None or action is None:
            return self.reviewed(walk, walk.guessed, None)
        self._check_action(action)
        found = next((one for one in walk.guessed if one[0] == step), None)
        if found is None:
            raise InputError(f"step {step} was not a guess; the guesses were at {[one[0] for one in walk.guessed]}")
        if found[2] == action:
            raise InputError(f"that is what the agent did at step {step}")
        return self.reviewed(walk, [one for one in walk.guessed if one[0] < step], (step, found[1], action))

    def reviewed(self, walk: LoggedTrajectory, approved: list[Reviewed], instead: Reviewed | None) -> Event:
        """The guesses in an episode that are right, and what the person would do instead at the first that is wrong."""
        event: Event = {
            "event": "review",
            "episode": walk.number,
            "approved": [list(one) for one in approved],
            "instead": None if instead is None else list(instead),
        }
        return event | {"names": [self.named(state, action) for _, state, action in self.news(event)]}

    def news(self, review: Event) -> list[Reviewed]:
        """What a review says about states that have no answer yet."""
        last = self.view.environment.horizon - 1  # the episode may have been longer
        said = ((min(step, last), state, action) for step, state, action in reviewed(review))
        return [one for one in said if self.history.standing(one[1]) is None]

    def correct(self, state: int, action: int) -> Event:
        """What the person really would do in a state that has an answer."""
        self._check_action(action)
        if self.history.standing(state) is None:
            raise InputError(f"state {state} was never answered, so there is nothing to change")
        return {"event": "correct", "state": state, "action": action} | self.named(state, action) | {"seconds": None}

    def named(self, state: int, action: int | None = None) -> Event:
        """A state and an action in words."""
        named = {"state_name": self.view.name(state)}
        return named if action is None else named | {"action_name": self.view.actions[action].name}

    def _check_action(self, action: int) -> None:
        n_actions = self.view.environment.n_actions
        if not 0 <= action < n_actions:
            raise InputError(f"action {action} is not one of 0 to {n_actions - 1}")

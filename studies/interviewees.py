"""People to interview who know what they want: how many answers they have to give, and what the policy then loses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np

from aceirl.envs import ENVIRONMENTS, make
from aceirl.envs.described import features
from aceirl.envs.description import Features
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.envs.truth import exact_model, stationary_policy
from aceirl.experts.tasks import Source, gym_env
from aceirl.models.tabular.dynamic_programming import evaluate
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, check_policy
from aceirl.protocols import Question
from aceirl.web import dialogue
from aceirl.web.driver import Interview
from aceirl.web.history import Accuracy, LoggedTrajectory, Scope

# A reward is inferred again after this share more answers; a page does so whenever there is time for it.
GROWTH = 0.1


@dataclass(frozen=True)
class Moment:
    """What an interview has come to after so many answers, which speak for so many situations."""

    answers: int
    situations: int
    regret: float
    certified: bool


class Interviewee:
    """Somebody who does what is best by the environment's own reward, and says so.

    They take anything that is as good for what they would do. If they may `declare`, they say in how many situations an
    answer holds: in as many as they find by widening it feature by feature, beside those they have spoken about.
    """

    def __init__(self, interview: Interview, *, declare: bool) -> None:
        self.interview, self.declare = interview, declare
        self.mdp, reward, self.features, self.number = _truth(interview)
        self.reward = reward
        self.does = stationary_policy(self.mdp, reward)
        q, v = evaluate(self.mdp, reward, check_policy(self.does, self.mdp.shape))
        self.best = float(self.mdp.initial @ v[0])
        self.as_good = q[0] >= v[0][:, None] - 1e-9 * np.abs(q).max()
        self.spoken: set[int] = set()

    def reply(self) -> None:
        """Say something to the current question."""
        interview, asked = self.interview, self.interview.asked
        if isinstance(asked, LoggedTrajectory):
            wrong = next((one for one in asked.guessed if not self.as_good[self.number(one[1]), one[2]]), None)
            interview.review(interview.turn, *(() if wrong is None else (wrong[0], self._action(wrong[1]))))
            self.spoken |= {self.number(one[1]) for one in asked.guessed if wrong is None or one[0] <= wrong[0]}
            return
        assert isinstance(asked, Question)
        action, relations = self._action(asked.state), None
        said = interview.history.standing(asked.state)
        if said is not None and self.as_good[self.number(asked.state), said]:
            action = said
        if self.declare and not asked.again:
            action, relations = self._widest(self.number(asked.state))
        self.spoken.add(self.number(asked.state))
        interview.answer(interview.turn, action, relations)

    def regret(self, policy: IntArray) -> float:
        """What a policy `[H, S]` of the interview's states loses; elsewhere it does anything."""
        here = np.full(self.mdp.shape, 1.0 / self.mdp.n_actions)
        for state in range(policy.shape[1]):
            if self.number(state) in self.features:
                here[:, self.number(state)] = np.eye(self.mdp.n_actions)[policy[:, state]]
        return self.best - float(self.mdp.initial @ evaluate(self.mdp, self.reward, here)[1][0])

    def _action(self, state: int) -> int:
        return int(self.does[self.number(state)])

    def _widest(self, here: int) -> tuple[int, dict[str, str] | None]:
        """An action that is as good as any, and how others relate to this situation in which it is too."""
        own = self.features[here]
        found: tuple[int, int, dict[str, str]] = (0, int(self.does[here]), {})
        for action in sorted(np.flatnonzero(self.as_good[here]).tolist(), key=lambda a: a != self.does[here]):
            relations, covered = dict.fromkeys(own, "same"), 0
            while True:
                tried = [(self._covered(own, other, action), other) for other in _wider(own, relations)]
                most = max(tried, key=lambda one: (one[0], sorted(one[1].items())), default=(0, relations))
                if most[0] <= max(covered, 1):
                    break
                covered, relations = most
            if covered > found[0]:
                found = covered, action, relations
        covered, action, relations = found
        if covered <= 1:
            return action, None
        scope = Scope.like(own, relations)
        self.spoken |= {state for state, other in self.features.items() if scope.covers(other)}
        return action, relations

    def _covered(self, own: Features, relations: dict[str, str], action: int) -> int:
        """In how many situations not spoken about an answer would hold; none, if it would be wrong in one."""
        scope = Scope.like(own, relations)
        states = [s for s, other in self.features.items() if s not in self.spoken and scope.covers(other)]
        return len(states) if self.as_good[states, action].all() else 0


def _wider(own: Features, relations: dict[str, str]) -> Iterator[dict[str, str]]:
    """One feature may be more than it may now."""
    for name, relation in relations.items():
        yield {other: how for other, how in relations.items() if other != name}
        if relation == "same" and not isinstance(own[name], str):
            yield relations | {name: "at most"}
            yield relations | {name: "at least"}


def _truth(interview: Interview) -> tuple[MDP, FloatArray, dict[int, Features], Callable[[int], int]]:
    """The exact process and reward, the features of its states, and the number there of a state of the interview."""
    source, environment = interview.source, interview.environment
    if source.environment in ENVIRONMENTS:
        problem = make(source.environment, source.seed, **source.parameters)
        own = {state: interview.view.features(state) for state in range(problem.mdp.n_states)}
        return problem.mdp, problem.reward, own, lambda state: state
    assert isinstance(environment, GymEnvironment)
    env, states = gym_env(source), environment.states
    model = exact_model(env, environment.horizon, environment.n_actions)
    acting = set(range(1, len(model.states))) - model.states.terminal

    def number(state: int) -> int:
        terminal = state in states.terminal
        found = model.states.find(states.observation(state), terminal=terminal) if state else 0
        return -1 if found is None else found

    return model.mdp, model.reward, {s: features(env, model.states.observation(s)) for s in sorted(acting)}, number


def interviewed(source: Source, *, one_by_one: bool = False, most: int = 1_000) -> Iterator[Moment]:
    """The moments of an interview, whenever a reward is inferred, with the last one at its end.

    `one_by_one`: nothing is declared, nothing is shown, and the agent does not look around on its own.
    """
    with ExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory())
        if one_by_one:
            opened.enter_context(patch.object(dialogue, "next_mode", lambda history, can_guess: "asked"))
        interview = opened.enter_context(closing(Interview.open(Path(folder), source, Accuracy())))
        person, inferred = Interviewee(interview, declare=not one_by_one), 0
        while True:
            interview.walk_on(np.inf)
            answers, over = interview.history.answers, interview.phase == "done"
            last = over or answers >= most
            if last or (not one_by_one and answers > (1 + GROWTH) * inferred):
                turn, inferred = interview.preview(), answers
                interview.adopt(turn, interview.version)
                yield Moment(
                    answers, len(interview.history.known()), person.regret(turn.policy), certified=interview.certified
                )
            if last:
                return
            if interview.phase == "asking":
                person.reply()

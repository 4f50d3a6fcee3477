"""How the next episode is walked, what is shown, asked again or compared: functions of what was said so far."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aceirl.learner.turns import Turn
from aceirl.web.history import EpisodeMode, History

# The first question that comes twice comes after so many answers, and the next ones after some number in the range.
FIRST_REPEAT, LATER_REPEATS = 6, (9, 15)

# A question is not repeated before so many others were answered. It comes a third time if two answers differ.
REST, MAX_VOTES = 4, 3

# What was said of many states at once is asked about in this share of them, the first time that one is met. The stream
# of randomness from which they are drawn, beside those of other repeats.
DECLARED_SHARE, DECLARED = 0.1, 1_000_000

# So many guesses in a row have to be right before the person is shown an episode that is walked on guesses, and there
# are at most so many in it.
RIGHT_GUESSES, MOST_GUESSES = 2, 20

# So many episodes are passed over before one is shown, if it has the most guesses of them, and at most so many.
PASSED_OVER, MOST_PASSED_OVER = 6, 15

# Before the first question, and after an episode in which the person said something, the agent looks around on its own:
# for so many steps at most, and episodes, and steps in all; and only as long as this share of the last episodes' steps
# tries something that was hardly tried before.
FIRST_STEPS, LOOKING_STEPS, LOOKING_EPISODES, ALL_LOOKING_STEPS = 4_000, 15_000, 100, 40_000
NEWS, NEWS_EPISODES = 0.1, 3

# Whoever asks for more questions waits until the agent has looked around in so many episodes, or for so many steps; the
# first times only.
WONDERING_EPISODES, WONDERING_STEPS, WONDERING_TIMES = 100, 5_000, 3

# So many comparisons are asked for at most, and of so many of the last episodes. There are at least so many episodes.
MOST_PAIRS, PAIRED_EPISODES, FIRST_EPISODES = 30, 60, 12


def next_mode(history: History, *, can_guess: bool) -> EpisodeMode:
    """How the next episode is walked."""
    if history.mode == "compare":
        return "alone"
    if looks_around(history):
        return "alone"
    if history.mode == "play":
        return "asked"
    if _shall_look_around(history):
        return "alone"
    return "shown" if can_guess and history.right_guesses >= RIGHT_GUESSES else "asked"


def looks_around(history: History) -> bool:
    """Whether the agent finds out what actions lead to, before the questions come that the person has asked for."""
    since, left = history.wondered_since, history.pending
    if since is None or not left or len(left) < len(history.wondered) or history.times_wondered > WONDERING_TIMES:
        return False
    walks = [walk for walk in history.trajectories[since:] if walk.over]
    return len(walks) < WONDERING_EPISODES and sum(walk.step for walk in walks) < WONDERING_STEPS


def _shall_look_around(history: History) -> bool:
    """Whether the agent should find out what actions lead to, without the person.

    Guesses need that: what a person wants says what they would do only where it is known what that leads to.
    """
    lately = 0
    while lately < len(history.trajectories) and history.trajectories[-1 - lately].mode == "alone":
        lately += 1
    if history.episodes_since_user_action > 1 or lately >= LOOKING_EPISODES:
        return False
    looking = history.trajectories[len(history.trajectories) - lately :]
    most = LOOKING_STEPS if history.said else FIRST_STEPS
    if sum(walk.step for walk in looking) >= most or history.alone_steps >= ALL_LOOKING_STEPS:
        return False
    last = looking[-NEWS_EPISODES:]
    return len(last) < NEWS_EPISODES or sum(w.news for w in last) > NEWS * sum(w.step for w in last)


def is_worth_showing(history: History, guesses: int) -> bool:
    """Whether an episode with so many guesses is one to show: of those since the last one, it has the most.

    The person says the same to one guess as to many, so a few episodes are passed over in the hope of a better one.
    """
    passed: list[int] = []
    for walk in reversed(history.trajectories):
        if walk.offered or len(passed) >= MOST_PASSED_OVER:
            break
        if walk.mode == "shown" and walk.over:
            passed.append(len(walk.guessed))
    if guesses == 0:
        return False
    return len(passed) >= MOST_PASSED_OVER or (len(passed) >= PASSED_OVER and guesses >= max(passed))


def wants_repeat(history: History, state: int, generator: Callable[[int], np.random.Generator]) -> bool:
    """Whether the person shall be asked once more about a state that they have answered, to see how often they err."""
    votes = history.votes[state]
    if votes.declared and len(votes.votes) == 1 and not votes.settled:
        return generator(DECLARED + state).random() < DECLARED_SHARE
    if votes.settled or len(votes.votes) >= MAX_VOTES or history.answers - votes.last_answer < REST:
        return False
    if len(votes.votes) > 1:
        return votes.tied
    low, high = LATER_REPEATS
    number = history.repeats
    gap = FIRST_REPEAT if number == 0 else int(generator(number).integers(low, high + 1))
    return history.answers - history.last_repeat >= gap


def guess(learned: Turn | None, state: int) -> int | None:
    """What the person would probably do in a state, by a reward that explains what they said; None if nobody knows.

    Only where it was tried what that leads to.
    """
    if learned is None or learned.explanation is None or learned.explanation.repeats_answers:
        return None
    if state >= learned.policy.shape[1]:
        return None
    action = int(learned.policy[0, state])
    return action if learned.belief.estimate.mdp.known[0, state, action] else None


def enough_episodes(history: History) -> bool:
    """Whether there are episodes to compare, and a new one since the last comparison."""
    return history.episodes >= FIRST_EPISODES + len(history.compared)


def next_pair(history: History, learned: Turn) -> tuple[int, int] | None:
    """The numbers of two episodes whose comparison tells most about what the person wants; None if none would."""
    if len(history.compared) >= MOST_PAIRS:
        return None
    n_states = learned.counts.shape[1]
    walks = [walk for walk in history.trajectories if walk.over and walk.moves and max(walk.states) < n_states]
    walks = walks[-PAIRED_EPISODES:]
    found = learned.pair_to_compare([tuple(walk.moves) for walk in walks])
    return None if found is None else (walks[found[0]].number, walks[found[1]].number)

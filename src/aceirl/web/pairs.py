"""Which two episodes a person is asked to compare."""

from __future__ import annotations

from aceirl.turns import Turn
from aceirl.web.history import History

# So many comparisons are asked for at most, and of so many of the last episodes. There are at least so many episodes.
MOST_PAIRS, LAST_EPISODES, FIRST_EPISODES = 30, 60, 12


def enough_episodes(history: History) -> bool:
    """Whether there are episodes to compare, and a new one since the last comparison."""
    return history.episodes >= FIRST_EPISODES + len(history.compared)


def next_pair(history: History, learned: Turn) -> tuple[int, int] | None:
    """The numbers of two episodes whose comparison tells most about what the person wants; None if none would."""
    if len(history.compared) >= MOST_PAIRS:
        return None
    n_states = learned.counts.shape[1]
    walks = [walk for walk in history.walks if walk.over and walk.moves and max(walk.states) < n_states]
    walks = walks[-LAST_EPISODES:]
    found = learned.pair_to_compare([tuple(walk.moves) for walk in walks])
    return None if found is None else (walks[found[0]].number, walks[found[1]].number)

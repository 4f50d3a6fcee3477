"""What an interview has come to, in words: what the agent does, in groups, and what the person seems to want."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from aceirl.envs.description import Features
from aceirl.explain.goal import GoalWords, explained_answers, goal_as_told, goal_of
from aceirl.explain.listing import YOU, listed
from aceirl.explain.wish import SaidWish, Statement, answers_needed, said_wish
from aceirl.learner.turns import Turn
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.mdp import BoolArray, IntArray
from aceirl.web.history import Relation, Scope

# A place that the agent is at less often than this in an episode is not named as what the person wants.
REACHED = 0.05

# More answers than this are not said to be about as many as would tell.
MOST_NEEDED = 30

# So many questions more can be asked for at once, when it is over.
MORE = 5

# What the agent does is told in so many groups at most; each has so many situations at least, and a share of those in
# which it does something else.
GROUPS, LEAST_IN_GROUP, OTHERWISE = 6, 2, 0.1


@dataclass(frozen=True)
class Group:
    """Situations in words in which the agent does the same; in `otherwise` of the `count` it does something else."""

    action: str
    words: str
    count: int
    otherwise: int = 0


@dataclass(frozen=True)
class Ending:
    """What was learnt: what the agent `does`, the `wish` that speaks from it, and which answers nothing explains.

    `needed` is about how many more answers would tell what is wanted, None if nobody can say; those in the `telling`
    states would tell most, of those that can be asked about. `explained` says of states with an answer whether the
    recovered reward explains it.
    """

    does: tuple[Group, ...]
    wish: SaidWish
    goal: GoalWords | None
    needed: int | None
    explained: Mapping[int, bool]
    telling: tuple[int, ...] = ()


@dataclass(frozen=True)
class NamedStates:
    """What people call the states and actions, what was `said` of states, and what those consist of."""

    names: Sequence[str]
    actions: Sequence[str]
    said: Mapping[int, int]
    features: Mapping[int, Features]


def ending_of(turn: Turn, named: NamedStates, told: Sequence[Statement] = (), askable: Sequence[int] = ()) -> Ending:
    """What a turn has come to, with what the person `told` of their wish; they may be asked about `askable` states."""
    wish = said_wish(turn, named.names, named.actions, YOU, told)
    if wish.kind == "bold" and not any(one.right for one in told) and not _is_reached(turn, wish):
        sentence = f"{wish.sentence.removesuffix('.')}, but your answers do not lead there: nothing is sure."
        wish = replace(wish, kind="open", named=[], sentence=sentence)
    needed = answers_needed(turn) if wish.kind == "open" else None
    found = turn.explanation
    if told and found is not None:
        goal: GoalWords | None = goal_as_told(wish, found, YOU, told)
    else:
        goal = goal_of(turn, named.names, named.actions, YOU)
    return Ending(
        tuple(grouped(named.said, named)),
        wish,
        goal,
        needed if needed is not None and needed <= MOST_NEEDED else None,
        explained_answers(turn),
        _telling(turn, askable) if wish.kind == "open" else (),
    )


def _telling(turn: Turn, askable: Sequence[int]) -> tuple[int, ...]:
    """The askable states in which the likeliest wishes differ most in what they would do, if more than one thing was
    tried there; `MORE` at most."""
    tried = np.asarray(turn.counts.visits).any(axis=0).sum(axis=1)
    states = [state for state in askable if state < len(tried) and tried[state] > 1]
    if len(states) > MORE:
        apart = turn.contested
        states.sort(key=lambda state: (-round(float(apart[state]), 9), state))
    return tuple(states[:MORE])


def _is_reached(turn: Turn, wish: SaidWish) -> bool:
    """Whether the agent gets to one of the places that are said to be wanted; yes, if none is."""
    places = [one["where"] for one in wish.named if one["what"] == "wants"]
    mdp = turn.belief.estimate.mdp
    there = occupancy(mdp, np.eye(mdp.n_actions)[turn.policy]).sum(axis=2)
    return not places or float(there[:, places].sum()) >= REACHED


def grouped(chosen: Mapping[int, int], named: NamedStates) -> Iterator[Group]:
    """What is `chosen` in each state, in a few groups that are alike by what their situations consist of; the rest is
    told state by state for each action."""
    states = np.array(sorted(chosen), dtype=np.int64)
    actions = np.array([chosen[state] for state in states.tolist()], dtype=np.int64)
    left = np.ones(len(states), dtype=np.bool_)
    scopes = _scopes([named.features.get(state, {}) for state in states.tolist()])
    found: list[tuple[int, Group]] = []
    for _ in range(GROUPS):
        largest = _largest(scopes, actions, left)
        if largest is None:
            break
        scope, action, covered = largest
        others = int((actions[covered] != action).sum())
        found.append((action, Group(named.actions[action], scope.words, int(covered.sum()), others)))
        left &= ~covered
    for action in np.unique(actions[left]).tolist():
        rest = [named.names[state] for state in states[left & (actions == action)].tolist()]
        found.append((action, Group(named.actions[action], listed(rest), len(rest))))
    yield from (group for _, group in sorted(found, key=lambda one: one[0]))


def _largest(
    scopes: Sequence[tuple[Scope, BoolArray]], actions: IntArray, left: BoolArray
) -> tuple[Scope, int, BoolArray] | None:
    """The scope that covers most of what is left with one action, and hardly anything with another one, whether or not
    that is left; of those equally good the simplest."""
    best: tuple[float, Scope, int, BoolArray] | None = None
    for scope, covered in scopes:
        if int((covered & left).sum()) < LEAST_IN_GROUP:
            continue
        count = int(covered.sum())
        action, same = Counter(actions[covered].tolist()).most_common(1)[0]
        new = int((covered & left & (actions == action)).sum())
        worth = new - 3 * (count - same) - 0.5 * len(scope.conditions)
        if new >= LEAST_IN_GROUP and count - same <= OTHERWISE * count and (best is None or worth > best[0]):
            best = worth, scope, action, covered
    return None if best is None else best[1:]


def _scopes(features: Sequence[Features]) -> list[tuple[Scope, BoolArray]]:
    """Everywhere, one condition on a feature, and two on different ones, each with the situations it covers."""
    single: list[tuple[str, Scope, BoolArray]] = []
    for name in dict.fromkeys(name for own in features for name in own):
        values = {own[name] for own in features if name in own}
        ordered = not any(isinstance(value, str) for value in values)
        ways: tuple[Relation, ...] = ("same", "at most", "at least") if ordered and len(values) > 2 else ("same",)
        for value in sorted(values, key=str):
            for way in ways:
                scope = Scope(((name, way, value),))
                single.append((name, scope, np.array([scope.covers(own) for own in features], dtype=np.bool_)))
    found = [(Scope(()), np.ones(len(features), dtype=np.bool_))]
    found += [(scope, covers) for _, scope, covers in single]
    for (one, first, covers), (other, second, too) in combinations(single, 2):
        if one != other:
            found.append((Scope(first.conditions + second.conditions), covers & too))
    return found

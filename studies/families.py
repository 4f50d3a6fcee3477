"""Families of tasks, drawn at random, on which what is said of a wish is judged.

Families, sizes and the rule by which a sentence counts as true were fixed before any threshold was chosen. Seeds below
`FRESH` were looked at while the software was built; those from there on were not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from aceirl import ActiveIRL, Result
from aceirl.envs import Problem
from aceirl.envs.garnet import garnet
from aceirl.envs.problem import from_moves
from aceirl.envs.random_mdp import ring_layout
from aceirl.envs.rooms import rooms
from aceirl.explain.wish import SaidWish
from aceirl.models.tabular.dynamic_programming import greedy_actions, optimal_values
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray

FRESH = 10_000

DIRECTIONS = ((-1, 0), (0, 1), (1, 0), (0, -1))
STAY = 4

Draw = np.random.Generator
Move = tuple[int, int, int, float]


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, and what is true of its expert's wish: places wanted or avoided, an action paid or not, a change,
    and whether it is urgent.

    Places in `also` may be named beside one that is wanted, and not alone. Where episodes can end, the learner is given
    an `environment` instead, with a horizon; its places are its observations.
    """

    problem: Problem
    wanted: frozenset[int] = frozenset()
    avoided: frozenset[int] = frozenset()
    also: frozenset[int] = frozenset()
    action: int | None = None
    changes: bool = False
    urgent: bool = False
    environment: gymnasium.Env[Any, Any] | None = None

    def fitted(self, learner: ActiveIRL) -> Result:
        """What a learner finds."""
        if self.environment is None:
            return learner.fit(self.problem)
        actions = self.problem.expert[0].argmax(axis=1)
        return learner.fit(self.environment, lambda place: int(actions[place]), horizon=self.problem.mdp.horizon)

    def claims(self, wish: SaidWish) -> list[tuple[str, int]]:
        """What is named, by the numbers of this case."""
        return [(one["what"], self._place(one)) for one in wish.named]

    def _place(self, claim: Mapping[str, Any]) -> int:
        if claim["where"] is None:
            return -1
        of_observation = self.environment is not None and claim["what"] in ("wants", "avoids")
        return int(claim["name"].split()[-1]) if of_observation else int(claim["where"])

    def is_true(self, what: str, where: int) -> bool:
        """Whether a claim is."""
        match what:
            case "wants":
                return where in self.wanted
            case "avoids":
                return where in self.avoided
            case "action":
                return where == self.action
            case "step":
                return self.changes
            case "hurry":
                return self.urgent
        return False

    def holds(self, kind: str, named: Iterable[tuple[str, int]]) -> bool:
        """Whether a sentence is true: a bold one if all of it is, a set if one of it is."""
        claims = [(self.is_true(*claim), claim) for claim in named]
        right = any(true for true, _ in claims)
        if kind == "bold":
            return right and all(true or (what == "wants" and where in self.also) for true, (what, where) in claims)
        return kind == "open" or right


def case(family: str, seed: int) -> Case:
    """A task of a family; the seed decides all of it."""
    return FAMILIES[family](np.random.default_rng([seed, 77, list(FAMILIES).index(family)]))


def solved(mdp: MDP, reward: FloatArray, rng: Draw) -> Problem:
    """With an expert who does what is best, and breaks ties at random at each step and state."""
    truth = np.broadcast_to(reward, mdp.shape).astype(np.float64)
    actions = greedy_actions(optimal_values(mdp, truth)[0], rng)
    return answered(mdp, actions, truth)


def answered(mdp: MDP, actions: IntArray, reward: FloatArray | None = None) -> Problem:
    """With an expert who does as told, `actions [H, S]`."""
    truth = np.zeros(mdp.shape) if reward is None else reward
    expert = np.eye(mdp.n_actions)[np.broadcast_to(actions, mdp.shape[:2])]
    return Problem("drawn", mdp, truth, expert, ring_layout(mdp.n_states, mdp.n_actions))


def paying(mdp: MDP, worth: Mapping[int, float]) -> FloatArray:
    """`[H, S, A]`: what places pay."""
    reward = np.zeros(mdp.shape)
    for place, value in worth.items():
        reward[:, place] = value
    return reward


def grid(rng: Draw, least: int = 3, most: int = 5, *, stay: bool = False) -> tuple[MDP, int]:
    """A grid, and its width: four directions, with `stay` a fifth action, and a wind of up to 0.3."""
    width, height = (int(n) for n in rng.integers(least, most + 1, size=2))
    wind, n_actions = float(rng.uniform(0, 0.3)), 5 if stay else 4

    def there(place: int, action: int) -> int:
        if action == STAY:
            return place
        x, y = place % width + DIRECTIONS[action][0], place // width + DIRECTIONS[action][1]
        return y * width + x if 0 <= x < width and 0 <= y < height else place

    moves: list[Move] = []
    for place in range(width * height):
        for action in range(n_actions):
            for other in range(4) if action != STAY else (STAY,):
                chance = 1.0 if action == STAY else 1 - wind if other == action else wind / 3
                moves.append((place, action, there(place, other), chance))
    n = width * height
    horizon = int(rng.integers(8, 21))
    start = np.full(n, 1 / n) if rng.random() < 0.5 else np.eye(n)[int(rng.integers(n))]
    return from_moves(moves, n_states=n, n_actions=n_actions, horizon=horizon, initial=start), width


def line(n: int, horizon: int, start: FloatArray, *, back: float = 0.0, rest: float = 0.0) -> MDP:
    """A line with the actions left and right, which go the other way with probability `back`, nowhere with `rest`."""
    moves: list[Move] = []
    for place in range(n):
        for action, step in enumerate((-1, 1)):
            for to, chance in ((place + step, 1 - back - rest), (place - step, back), (place, rest)):
                moves.append((place, action, min(n - 1, max(0, to)), chance))
    return from_moves(moves, n_states=n, n_actions=2, horizon=horizon, initial=start)


def places(rng: Draw, mdp: MDP, n: int) -> list[int]:
    """Some of them, none twice."""
    return [int(place) for place in rng.choice(mdp.n_states, n, replace=False)]


def without_effect(rng: Draw) -> MDP:
    """What happens does not depend on the action."""
    n, n_actions, horizon = int(rng.integers(4, 16)), int(rng.integers(2, 6)), int(rng.integers(5, 20))
    moves: list[Move] = []
    for place in range(n):
        successors = rng.choice(n, int(rng.integers(2, min(5, n) + 1)), replace=False)
        chances = rng.dirichlet(np.ones(len(successors)))
        for action in range(n_actions):
            moves += [(place, action, int(s), float(p)) for s, p in zip(successors, chances, strict=True)]
    return from_moves(moves, n_states=n, n_actions=n_actions, horizon=horizon, initial=np.full(n, 1 / n))


def no_effect_constant(rng: Draw) -> Case:
    mdp = without_effect(rng)
    return Case(answered(mdp, rng.integers(mdp.n_actions, size=(1, 1))))


def no_effect_by_step(rng: Draw) -> Case:
    mdp = without_effect(rng)
    return Case(answered(mdp, rng.integers(mdp.n_actions, size=(mdp.horizon, 1))))


def no_effect_by_state(rng: Draw) -> Case:
    mdp = without_effect(rng)
    return Case(answered(mdp, rng.integers(mdp.n_actions, size=(1, mdp.n_states))))


def nobody_moves(rng: Draw) -> Case:
    n, n_actions, horizon = int(rng.integers(4, 12)), int(rng.integers(2, 6)), int(rng.integers(5, 15))
    stays = [(place, action, place, 1.0) for place in range(n) for action in range(n_actions)]
    mdp = from_moves(stays, n_states=n, n_actions=n_actions, horizon=horizon, initial=np.full(n, 1 / n))
    by_step = rng.random() < 0.5
    return Case(answered(mdp, rng.integers(n_actions, size=(horizon if by_step else 1, n))))


def random_answers(rng: Draw) -> Case:
    mdp, _ = grid(rng)
    return Case(answered(mdp, rng.integers(mdp.n_actions, size=mdp.shape[:2])))


def one_hazard(rng: Draw) -> Case:
    mdp, _ = grid(rng)
    hazard = int(rng.integers(mdp.n_states))
    return Case(solved(mdp, 1 - paying(mdp, {hazard: 1.0}), rng), avoided=frozenset([hazard]))


def penalty_for_one_action(rng: Draw) -> Case:
    mdp, _ = grid(rng)
    action = int(rng.integers(mdp.n_actions))
    reward = np.ones(mdp.shape)
    reward[:, :, action] = 0
    return Case(solved(mdp, reward, rng), action=action)


def stays_anywhere(rng: Draw) -> Case:
    mdp, _ = grid(rng, stay=True)
    reward = np.zeros(mdp.shape)
    reward[:, :, STAY] = 1
    return Case(solved(mdp, reward, rng), action=STAY)


def stays_in_one_place(rng: Draw) -> Case:
    mdp, _ = grid(rng, stay=True)
    goal = int(rng.integers(mdp.n_states))
    reward = np.zeros(mdp.shape)
    reward[:, goal, STAY] = 1
    return Case(solved(mdp, reward, rng), wanted=frozenset([goal]))


def one_goal(rng: Draw) -> Case:
    mdp, _ = grid(rng)
    goal = int(rng.integers(mdp.n_states))
    return Case(solved(mdp, paying(mdp, {goal: 1.0}), rng), wanted=frozenset([goal]))


def two_goals(rng: Draw) -> Case:
    mdp, _ = grid(rng)
    first, second = places(rng, mdp, 2)
    worth = {first: 1.0, second: float(rng.uniform(0.3, 0.9))}
    return Case(solved(mdp, paying(mdp, worth), rng), wanted=frozenset(worth))


def five_goals(rng: Draw) -> Case:
    mdp, _ = grid(rng, 4, 6)
    worth = dict(zip(places(rng, mdp, 5), (1.0, 0.8, 0.6, 0.4, 0.2), strict=True))
    return Case(solved(mdp, paying(mdp, worth), rng), wanted=frozenset(worth))


def changes_half_way(rng: Draw) -> Case:
    mdp, _ = grid(rng)
    first, second = places(rng, mdp, 2)
    reward, half = np.zeros(mdp.shape), mdp.horizon // 2
    reward[:half, first], reward[half:, second] = 1, 1
    return Case(solved(mdp, reward, rng), wanted=frozenset([first, second]), changes=True)


def urgency(rng: Draw) -> Case:
    mdp, _ = grid(rng)
    first, second = places(rng, mdp, 2)
    shrinking = float(rng.uniform(0.6, 0.9)) ** np.arange(mdp.horizon)
    worth = {first: 1.0, second: float(rng.uniform(0.2, 0.7))}
    return Case(solved(mdp, paying(mdp, worth) * shrinking[:, None, None], rng), wanted=frozenset(worth), urgent=True)


def far_prize(rng: Draw) -> Case:
    n, start = int(rng.integers(12, 25)), int(rng.integers(2, 5))
    mdp = line(n, int(rng.integers(6, n // 2 + 2)), np.eye(n)[start], back=float(rng.uniform(0, 0.2)))
    near = int(rng.integers(0, start))
    worth = {n - 1: 1.0, near: float(rng.uniform(0.1, 0.4))}
    return Case(solved(mdp, paying(mdp, worth), rng), wanted=frozenset(worth))


def door_and_key(rng: Draw) -> Case:
    """A corridor with a key at one end and a door at the other; the third action takes the key, or opens the door."""
    width, slip = int(rng.integers(4, 8)), float(rng.uniform(0, 0.15))
    goal, n = 2 * width, 2 * width + 1
    moves: list[Move] = [(goal, action, goal, 1.0) for action in range(3)]
    for place in range(goal):
        has_key, x = divmod(place, width)
        used = goal if has_key and x == width - 1 else place + width if not has_key and x == 0 else place
        moves.append((place, 2, used, 1.0))
        for action, step in enumerate((-1, 1)):
            for to, chance in ((x + step, 1 - slip), (x - step, slip)):
                moves.append((place, action, min(width - 1, max(0, to)) + width * has_key, chance))
    horizon = int(rng.integers(2 * width + 6, 3 * width + 10))
    start = np.eye(n)[int(rng.integers(1, width - 1))]
    mdp = from_moves(moves, n_states=n, n_actions=3, horizon=horizon, initial=start)
    return Case(solved(mdp, paying(mdp, {goal: 1.0}), rng), wanted=frozenset([goal]))


def slope(rng: Draw) -> Case:
    n = int(rng.integers(6, 14))
    mdp = line(n, int(rng.integers(8, 20)), np.full(n, 1 / n), back=float(rng.uniform(0, 0.25)))
    worth = {place: place / (n - 1) for place in range(n)}
    return Case(solved(mdp, paying(mdp, worth), rng), wanted=frozenset(range(n // 2, n)))


def riverswim(rng: Draw) -> Case:
    """Strehl and Littman (2008): against the current to a large reward, or with it to a small one."""
    n = int(rng.integers(5, 9))
    moves: list[Move] = [(place, 0, max(0, place - 1), 1.0) for place in range(n)]
    moves += [(0, 1, 0, 0.4), (0, 1, 1, 0.6), (n - 1, 1, n - 1, 0.6), (n - 1, 1, n - 2, 0.4)]
    for place in range(1, n - 1):
        moves += [(place, 1, place + 1, 0.35), (place, 1, place, 0.6), (place, 1, place - 1, 0.05)]
    start = np.eye(n)[int(rng.integers(0, 2))]
    mdp = from_moves(moves, n_states=n, n_actions=2, horizon=int(rng.integers(15, 30)), initial=start)
    reward = np.zeros(mdp.shape)
    reward[:, 0, 0], reward[:, n - 1, 1] = 0.005, 1
    return Case(solved(mdp, reward, rng), wanted=frozenset([n - 1]), also=frozenset([0]))


def river_with_two_ends(rng: Draw) -> Case:
    n = int(rng.integers(6, 11))
    mdp = line(n, int(rng.integers(10, 20)), np.eye(n)[n // 2], rest=float(rng.uniform(0.1, 0.5)))
    worth = {0: float(rng.uniform(0.2, 0.9)), n - 1: 1.0}
    return Case(solved(mdp, paying(mdp, worth), rng), wanted=frozenset(worth))


def garnets(rng: Draw) -> Case:
    sizes = {"n_states": (6, 16), "n_actions": (2, 5), "branching": (1, 4), "horizon": (6, 15)}
    problem = garnet(rng, **{name: int(rng.integers(*limits)) for name, limits in sizes.items()})
    return Case(problem, wanted=frozenset([problem.mdp.n_states - 1]))


def four_rooms(rng: Draw) -> Case:
    size, horizon = int(rng.integers(1, 3)), int(rng.integers(10, 18))
    problem = rooms(rng, size=size, horizon=horizon, failure=float(rng.uniform(0, 0.2)))
    return Case(problem, wanted=frozenset(np.flatnonzero(problem.reward[0, :, 0]).tolist()))


def cliffs(rng: Draw) -> Case:
    mdp, width = grid(rng, 4, 5)
    edge = range(1, width - 1)
    reward = 0.4 + paying(mdp, {width - 1: 0.6} | dict.fromkeys(edge, -0.4))
    return Case(solved(mdp, reward, rng), wanted=frozenset([width - 1]), avoided=frozenset(edge))


def erring(rate: float) -> Callable[[Draw], Case]:
    """One goal, and an expert who does something else at that share of steps and states, always the same there."""

    def drawn(rng: Draw) -> Case:
        found = one_goal(rng)
        mdp, actions = found.problem.mdp, found.problem.expert.argmax(axis=2)
        wrong = rng.random(actions.shape) < rate
        other = rng.integers(mdp.n_actions, size=actions.shape)
        return Case(answered(mdp, np.where(wrong, other, actions), found.problem.reward), wanted=found.wanted)

    return drawn


class Deliveries(gymnasium.Env[Any, Any]):
    """A process some of whose states end episodes; an episode begins in any of the others."""

    def __init__(self, mdp: MDP, ends: Iterable[int]) -> None:
        self.observation_space = gymnasium.spaces.Discrete(mdp.n_states)
        self.action_space = gymnasium.spaces.Discrete(mdp.n_actions)
        self._chances = mdp.transitions.matrix.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
        self._ends = frozenset(ends)
        self._starts = [place for place in range(mdp.n_states) if place not in self._ends]
        self._place = self._starts[0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = self._starts[int(self.np_random.integers(len(self._starts)))]
        return self._place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self._place = int(self.np_random.choice(self._chances.shape[2], p=self._chances[self._place, action]))
        return self._place, 0.0, self._place in self._ends, False, {}


def deliveries_beside_accidents(rng: Draw) -> Case:
    """Some ends are wanted and others feared; every step costs a little, so that to deliver soon is better."""
    mdp, _ = grid(rng, 4, 6)
    ends = places(rng, mdp, int(rng.integers(3, 6)))
    delivered = int(rng.integers(1, 3))
    worth = np.zeros(mdp.n_states)
    worth[ends[:delivered]], worth[ends[delivered:]] = 1.0, -1.0
    acting = np.ones(mdp.n_states)
    acting[ends] = 0
    chances = mdp.transitions.matrix.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
    values = np.zeros(mdp.n_states)
    for _ in range(500):
        q = chances @ (worth + values) - 0.02
        values = q.max(axis=1) * acting
    near = q >= q.max(axis=1, keepdims=True) - 1e-9
    actions = np.array([[rng.choice(np.flatnonzero(row)) for row in near]])
    return Case(
        answered(replace(mdp, horizon=int(rng.integers(15, 31))), actions),
        wanted=frozenset(ends[:delivered]),
        avoided=frozenset(ends[delivered:]),
        urgent=True,
        environment=Deliveries(mdp, ends),
    )


FAMILIES: Mapping[str, Callable[[Draw], Case]] = {
    "no effect, one action": no_effect_constant,
    "no effect, an action a step": no_effect_by_step,
    "no effect, an action a state": no_effect_by_state,
    "nobody can move": nobody_moves,
    "random answers": random_answers,
    "one hazard": one_hazard,
    "penalty for one action": penalty_for_one_action,
    "likes to stay anywhere": stays_anywhere,
    "likes to stay in one place": stays_in_one_place,
    "one goal": one_goal,
    "two unequal goals": two_goals,
    "five goals": five_goals,
    "wish that changes half-way": changes_half_way,
    "urgency": urgency,
    "far prize, short horizon": far_prize,
    "door and key": door_and_key,
    "slope": slope,
    "RiverSwim": riverswim,
    "river with two ends": river_with_two_ends,
    "GARNET": garnets,
    "rooms": four_rooms,
    "cliffs": cliffs,
    "errs 5 %": erring(0.05),
    "errs 15 %": erring(0.15),
    "ends: deliveries beside accidents": deliveries_beside_accidents,
}

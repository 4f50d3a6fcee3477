"""Tasks whose observations have fields: warehouses and an inventory, with experts who know them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from math import exp, factorial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from aceirl import ActiveIRL
from aceirl.envs.problem import from_moves
from aceirl.experts.tasks import open_task
from aceirl.explain.wish import said_wish
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.dynamic_programming import evaluate, optimal_values
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.rewards.hypotheses import Wish

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))

Seen = dict[str, Any]
Place = tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """A warehouse: its size, its shelves, where the item, the drop-off and the charger are, and the battery."""

    size: int
    shelves: frozenset[Place]
    item: Place
    drop: Place
    charger: Place
    battery: int
    shaft: Place | None = None


def _shelves(size: int, rows: tuple[int, ...], gap: int) -> frozenset[Place]:
    return frozenset((x, y) for y in rows for x in range(1, size - 1) if x % gap)


PLANS = {
    "aisles": Plan(12, _shelves(12, (3, 6, 9), 4), (2, 10), (10, 1), (5, 5), 30),
    "open floor": Plan(12, frozenset(), (9, 9), (1, 5), (6, 2), 26),
    "two halves": Plan(12, _shelves(12, (5,), 6), (3, 2), (8, 10), (6, 7), 34),
    "small battery": Plan(12, _shelves(12, (4, 8), 3), (1, 1), (10, 10), (6, 6), 24),
}


class Warehouse(gymnasium.Env[Any, Any]):
    """Fetch the item and bring it to the drop-off, before the battery is empty; the charger fills it.

    The item is picked up where it lies. An episode ends with the delivery, which pays 1, with an empty battery and, in
    a warehouse that has a shaft, with a fall into it. Each step costs 0.01. Episodes start anywhere, with a full
    battery.
    """

    action_space = spaces.Discrete(4)
    fields: ClassVar = {"carrying": "categorical"}

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.observation_space = spaces.Dict(
            {
                "position": spaces.Box(0, plan.size - 1, (2,), np.int64),
                "carrying": spaces.Discrete(2),
                "battery": spaces.Discrete(plan.battery + 1),
            }
        )

    @property
    def starts(self) -> list[Place]:
        """The floor without the places that mean something."""
        plan = self.plan
        taken = plan.shelves | {plan.item, plan.drop, plan.charger, plan.shaft or plan.item}
        cells = ((x, y) for x in range(plan.size) for y in range(plan.size))
        return [cell for cell in cells if cell not in taken]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Seen, dict[str, Any]]:
        """Begin anywhere, with a full battery."""
        super().reset(seed=seed)
        starts = self.starts
        self.state = (starts[int(self.np_random.integers(len(starts)))], 0, self.plan.battery)
        return self._seen(), {}

    def step(self, action: int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Move."""
        self.state, pay, over = moved(self.plan, self.state, int(action))
        return self._seen(), pay, over, False, {}

    def _seen(self) -> Seen:
        place, carrying, battery = self.state
        return {"position": np.array(place), "carrying": carrying, "battery": battery}


State = tuple[Place, int, int]


def moved(plan: Plan, state: State, action: int) -> tuple[State, float, bool]:
    """Where a move leads, what it pays, and whether it is the last."""
    (x, y), carrying, battery = state
    there = x + MOVES[action][0], y + MOVES[action][1]
    blocked = not (0 <= there[0] < plan.size and 0 <= there[1] < plan.size) or there in plan.shelves
    place = (x, y) if blocked else there
    delivers = bool(carrying) and place == plan.drop
    battery = plan.battery if place == plan.charger else battery - 1
    carrying = int(carrying or place == plan.item)
    over = delivers or battery == 0 or place == plan.shaft
    return (place, carrying, battery), (1.0 if delivers else 0.0) - 0.01, over


class WarehouseExpert:
    """Does what is best in a warehouse; `values` are what each state is worth."""

    def __init__(self, plan: Plan, reward: Any = None, sweeps: int = 60) -> None:
        self.plan, self.reward = plan, reward
        self.values: dict[State, float] = {}
        cells = [(x, y) for x in range(plan.size) for y in range(plan.size) if (x, y) not in plan.shelves]
        self.states = [(c, k, b) for c in cells for k in (0, 1) for b in range(1, plan.battery + 1)]
        for _ in range(sweeps):
            before = dict(self.values)
            for state in self.states:
                self.values[state] = max(self._worth(state, action) for action in range(4))
            if before == self.values:
                break

    def _worth(self, state: State, action: int) -> float:
        after, pay, over = moved(self.plan, state, action)
        if self.reward is not None:
            pay = self.reward(_record(state), action, _record(after), over)
        return pay + (0.0 if over else self.values.get(after, 0.0))

    def __call__(self, seen: Seen) -> int:
        state = (tuple(int(v) for v in seen["position"]), int(seen["carrying"]), int(seen["battery"]))
        return int(np.argmax([round(self._worth(state, action), 9) for action in range(4)]))  # type: ignore[arg-type]


def _record(state: State) -> Seen:
    return {"position": np.array(state[0]), "carrying": state[1], "battery": state[2]}


CHECKS = (5, 10, 15, 20, 30, 40, 60, 80, 100, 125, 150)
"""After how many answers the policy, and the sentence, are looked at."""


@dataclass(frozen=True)
class Fetched:
    """How a run in a warehouse went: after how many `answers` and `samples` the policy earned what the expert earns
    (None: never), after how many it was said for sure what is wanted, the `sentence`, whether that is `right`, and
    which share of episodes ends with a delivery by an agent planned with the reward in a changed warehouse."""

    answers: int | None
    samples: int
    bold: int | None
    sentence: str
    right: bool
    delivered: float | None


def fetched(plan: Plan, seed: int, horizon: int = 60) -> Fetched:
    """A run by the strategy `sparing`, which ends when the expert's return is earned and it is said what is wanted."""
    expert = WarehouseExpert(plan)
    goal = returned(plan, expert)[0]
    task = open_task(Warehouse(plan), expert, horizon=horizon, seed=seed)
    settings = Settings(
        strategy="sparing", irl=None, certify=None, seed=seed, max_samples=60_000, max_answers=CHECKS[-1], ask_again=0.0
    )
    rng, asked, answers, samples, bold = np.random.default_rng(seed), 0, None, 0, None
    for turn in learn(task.environment, task.expert, settings):
        if turn.counts.questions > asked and turn.counts.questions in CHECKS:
            asked = turn.counts.questions
            agent = turn.agent
            if answers is None and returned(plan, lambda seen: agent.act(seen, 0, rng))[0] >= goal - 0.005:  # noqa: B023
                answers, samples = asked, turn.samples
            named = [one for one in turn.wish.named if one.claim.what != "hurry"] if turn.wish.kind == "bold" else []
            bold = asked if answers is not None and named else None
        if bold is not None:
            break
    said = said_wish(turn, turn.names)
    reward = turn.field_reward
    delivered = None
    if reward is not None:
        other = moved_plan(plan)
        there = reward.elsewhere(dict(zip(POSITION, map(float, other.drop), strict=True)))
        delivered = returned(other, WarehouseExpert(other, there))[1]
    bold_and_right = turn.wish.kind == "bold" and is_right(plan, turn.wish, turn.belief.telling_fields)
    return Fetched(answers, samples, bold, said.sentence, bold_and_right, delivered)


POSITION = ("position, entry 1", "position, entry 2")


def moved_plan(plan: Plan) -> Plan:
    """The same warehouse with the drop-off on the other side, and a shaft two steps from it."""
    drop = plan.size - 1 - plan.drop[0], plan.drop[1]
    free = [c for c in Warehouse(plan).starts if c != drop and abs(c[0] - drop[0]) + abs(c[1] - drop[1]) == 2]
    return replace(plan, drop=drop, shaft=free[0], shelves=plan.shelves - {drop})


def is_right(plan: Plan, wish: Wish, table: FieldTable | None) -> bool:
    """Whether all that is named is true: what is wanted are the deliveries, among all ends with some battery left, or
    being at the drop-off with the item; what is avoided are ends without a delivery; and that it is wanted soon."""
    if table is None:
        return False
    ends = [(*plan.drop, 1, battery) for battery in range(1, plan.battery + 1)]
    order = [(*POSITION, "carrying", "battery").index(name) for name in table.names]
    paid = np.array(ends, dtype=np.float64)[:, order]
    wanted = False
    for one in wish.named:
        if one.claim.what == "hurry":
            continue
        if one.predicate is None:
            return False
        holds = np.ones(len(paid), dtype=np.bool_)
        for c in one.predicate.conditions:
            holds &= (paid[:, c.field] >= c.low) & (paid[:, c.field] <= c.high)
        wants = one.claim.fields.startswith("wants")
        of_drop = {c.field: c.low for c in one.predicate.conditions if c.low == c.high}
        named = all(of_drop.get(table.names.index(name)) == at for name, at in zip(POSITION, plan.drop, strict=True))
        delivers = one.predicate.ends or of_drop.get(table.names.index("carrying")) == 1
        if wants and not (holds.all() and named and delivers):
            return False
        if not wants and holds.any():
            return False
        wanted |= wants
    return wanted


def returned(plan: Plan, policy: Any, episodes: int = 100, horizon: int = 60) -> tuple[float, float]:
    """The mean return of a policy of observations, and the share of episodes that end with the delivery."""
    env = Warehouse(plan)
    total, delivered = 0.0, 0
    for seed in range(episodes):
        seen, _ = env.reset(seed=seed)
        for _ in range(horizon):
            seen, pay, over, _, _ = env.step(policy(seen))
            total += pay
            delivered += pay > 0
            if over:
                break
    return total / episodes, delivered / episodes


class KeyDoor(gymnasium.Env[Any, Any]):
    """A house of 7 by 7 fields: a wall, a door in it, and the key in a corner; as in docs/python.md."""

    observation_space = spaces.Dict({"x": spaces.Discrete(7), "y": spaces.Discrete(7), "key": spaces.Discrete(2)})
    action_space, max_return = spaces.Discrete(4), 1.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """In a corner, without the key."""
        self.at = {"x": 0, "y": 0, "key": 0}
        return dict(self.at), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """To the next field, unless there is a wall or the door is shut."""
        x, y = self.at["x"] + (1, -1, 0, 0)[action], self.at["y"] + (0, 0, 1, -1)[action]
        if x in range(7) and y in range(7) and (x != 3 or (y == 3 and self.at["key"])):
            self.at = {"x": x, "y": y, "key": int(self.at["key"] or (x, y) == (0, 6))}
        return dict(self.at), float((x, y) == (6, 6)), (x, y) == (6, 6), False, {}


def key_expert(seen: Any) -> int:
    """To the key, through the door, to the far corner."""
    to = (0, 6) if not seen["key"] else (6, 3 if seen["x"] < 4 else 6)
    return (2 if to[1] > seen["y"] else 3) if to[1] != seen["y"] else (0 if to[0] > seen["x"] else 1)


STOCKS, ORDERS = 31, 10


def inventory(wanted: tuple[int, int], demand: float, horizon: int = 20) -> tuple[MDP, FloatArray]:
    """`(process, reward [H, S, A])`: 31 stocks, up to 9 pieces ordered a day, a Poisson demand; a day pays 1 that
    begins with a stock from the first to the last of those wanted."""
    chances = np.array([exp(-demand) * demand**k / factorial(k) for k in range(13)])
    chances /= chances.sum()
    moves = [
        (stock, order, max(0, min(STOCKS - 1, stock + order) - used), float(chance))
        for stock in range(STOCKS)
        for order in range(ORDERS)
        for used, chance in enumerate(chances)
    ]
    mdp = from_moves(moves, n_states=STOCKS, n_actions=ORDERS, horizon=horizon, initial=np.full(STOCKS, 1 / STOCKS))
    reward = np.zeros(mdp.shape)
    reward[:, wanted[0] : wanted[1] + 1] = 1.0
    return mdp, reward


class Inventory(gymnasium.Env[Any, Any]):
    """The stock of one article, as a number; how it is paid, only the expert knows."""

    fields: tuple[str, ...] = ("stock",)

    def __init__(self, mdp: MDP) -> None:
        self.rows = mdp.transitions.dense()
        self.observation_space, self.action_space = spaces.Discrete(mdp.n_states), spaces.Discrete(mdp.n_actions)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin with any stock."""
        super().reset(seed=seed)
        self.stock = int(self.np_random.integers(len(self.rows)))
        return self.stock, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """A day."""
        self.stock = int(self.np_random.choice(len(self.rows), p=self.rows[self.stock, action]))
        return self.stock, 0.0, False, False, {}


class Tank(Inventory):
    """The level of a tank."""

    fields = ("level",)


TANKS = ("plain", "leak", "barrier")


def drawn_tank(kind: str, seed: int, horizon: int = 20) -> tuple[MDP, FloatArray, tuple[int, int]]:
    """`(process, reward [H, S, A], wanted)`: 14 to 27 levels, pumped by -2 to 2, and by chance one up or down; a step
    pays that begins with a wanted level, a single one in one of four. A "leak" loses more the higher the level is; a
    "barrier" lets the pump do half as much above two thirds."""
    rng = np.random.default_rng([11, seed])
    n, noise, leak = int(rng.integers(14, 28)), rng.dirichlet([2, 4, 2]), rng.uniform(0.05, 0.15)
    if rng.random() < 0.25:
        wanted = (int(rng.integers(1, n - 1)),) * 2
    else:
        low = int(rng.integers(0, n - 3))
        wanted = low, min(n - 1, low + int(rng.integers(1, 7)))
    rows = np.zeros((n, 5, n))
    for level, action, (drift, chance) in product(range(n), range(5), enumerate(noise, start=-1)):
        push = action - 2
        if kind == "barrier" and level >= 2 * n // 3:
            push = int(np.sign(push))
        lost, more = divmod(leak * level if kind == "leak" else 0.0, 1.0)
        for further, share in ((0, 1 - more), (1, more)):
            there = min(n - 1, max(0, level + push + drift - int(lost) - further))
            rows[level, action, there] += chance * share
    moves = [(*at, float(rows[at])) for at in zip(*(axis.tolist() for axis in np.nonzero(rows)), strict=True)]
    mdp = from_moves(moves, n_states=n, n_actions=5, horizon=horizon, initial=np.full(n, 1 / n))
    reward = np.zeros(mdp.shape)
    reward[:, wanted[0] : wanted[1] + 1] = 1.0
    return mdp, reward, wanted


@dataclass(frozen=True)
class Stocked:
    """How a run with an inventory went: the range that is `wanted`, the `kind` of sentence and its words; whether it
    speaks of stocks and all that it speaks of holds the range (`spoken`, `held`); and what a plan with the reward earns
    at another demand, as a share of the best."""

    wanted: tuple[int, int]
    kind: str
    sentence: str
    spoken: bool
    held: bool
    elsewhere: float
    answers: int
    samples: int


def drawn_inventory(seed: int) -> tuple[tuple[int, int], float, float]:
    """`(wanted, demand, other)`: range, demand and another demand, drawn at random."""
    rng = np.random.default_rng([7, seed])
    low = int(rng.integers(3, 13))
    wanted = low, low + int(rng.integers(2, 7))
    demand, other = rng.uniform(2.5, 5.0, 2).tolist()
    return wanted, demand, other


def ordered(wanted: tuple[int, int], demand: float, by_step: bool, horizon: int = 20) -> IntArray:
    """`[H, S]`: the expert takes the first of the best orders, of the step or, if it does not look at it, of the first
    day."""
    policy = best_actions(*inventory(wanted, demand, horizon))
    return policy if by_step else np.broadcast_to(policy[0], policy.shape)


def share_elsewhere(wanted: tuple[int, int], demand: float, recovered: FloatArray, horizon: int = 20) -> float:
    """What a plan with a `recovered` reward, `[S, A]` or `[S, 1]`, earns at a demand, as a share of the best."""
    mdp, worth = inventory(wanted, demand, horizon)
    plan = best_actions(mdp, np.broadcast_to(recovered, mdp.shape).copy())
    return value_of(mdp, worth, plan) / value_of(mdp, worth, best_actions(mdp, worth))


def share_of_all_answers(seed: int, by_step: bool) -> float:
    """The share of the best elsewhere for who knows the dynamics and all answers, and takes any of several best orders
    to be as likely: for a plan with the expected reward of all ranges."""
    wanted, demand, other = drawn_inventory(seed)
    mdp, _ = inventory(wanted, demand)
    answered = ordered(wanted, demand, by_step)[: mdp.horizon if by_step else 1]
    stocks, logs = np.arange(STOCKS), []
    ends = np.array(list(combinations_with_replacement(stocks, 2)))
    ranges = ((ends[:, :1] <= stocks) & (stocks <= ends[:, 1:])).astype(np.float64)
    for paid in ranges:
        q = optimal_values(mdp, np.broadcast_to(paid[:, None], mdp.shape).copy())[0][: len(answered)]
        best = q >= q.max(axis=2, keepdims=True) - 1e-9
        said = np.take_along_axis(best, answered[:, :, None], axis=2)
        logs.append(-np.log(best.sum(axis=2)).sum() if said.all() else -np.inf)
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    return share_elsewhere(wanted, other, (weights @ ranges)[:, None])


def stocked(seed: int, by_step: bool, samples: int | None = None, horizon: int = 20) -> Stocked:
    """A default run, or one of so many samples."""
    wanted, demand, other = drawn_inventory(seed)
    mdp, _ = inventory(wanted, demand, horizon)
    policy = ordered(wanted, demand, by_step, horizon)
    expert = (lambda seen, step: int(policy[step, seen])) if by_step else (lambda seen: int(policy[0, seen]))
    learner = ActiveIRL(seed=seed) if samples is None else ActiveIRL(seed=seed, max_samples=samples, certify=None)
    result = learner.fit(Inventory(mdp), expert, horizon=horizon)
    wish, pays = result.turn.wish, result.field_reward
    spoken, holds = of_range(wish, wanted)
    if pays is not None:
        recovered = np.array([pays(stock, 0, stock, False) for stock in range(STOCKS)])[:, None]
    else:
        recovered = np.zeros((STOCKS, ORDERS))
        for stock in range(STOCKS):
            state = result.task.environment.states.find(stock)  # type: ignore[union-attr]
            if state is not None:
                recovered[stock] = result.reward_table[0, state]
    share = share_elsewhere(wanted, other, recovered, horizon)
    counts = result.turn.counts
    return Stocked(
        wanted,
        wish.kind,
        result.wish.sentence,
        spoken,
        holds,
        share,
        counts.questions,
        result.turn.samples,
    )


def of_range(wish: Wish, wanted: tuple[int, int]) -> tuple[bool, bool]:
    """Whether a wish speaks of ranges, and whether all that it wants, or one of a set, hold the wanted one."""
    ranges = [(one.claim.fields, one.widest.conditions) for one in wish.named if one.widest is not None]
    held = [
        said.startswith("wants") and all(c.low <= wanted[0] and wanted[1] <= c.high for c in conditions)
        for said, conditions in ranges
    ]
    return bool(held), bool(held) and (all(held) if wish.kind == "bold" else any(held))


def levelled(kind: str, seed: int, by_step: bool) -> dict[str, Any]:
    """A default run with a tank, as `Stocked` says it."""
    mdp, reward, wanted = drawn_tank(kind, seed)
    policy = best_actions(mdp, reward)
    expert = (lambda seen, step: int(policy[step, seen])) if by_step else (lambda seen: int(policy[0, seen]))
    result = ActiveIRL(seed=seed, max_samples=20_000).fit(Tank(mdp), expert, horizon=mdp.horizon)
    spoken, holds = of_range(result.turn.wish, wanted)
    said = {"wanted": wanted, "kind": result.turn.wish.kind, "sentence": result.wish.sentence}
    return said | {"spoken": spoken, "held": holds, "answers": result.answers, "samples": result.samples}


def value_of(mdp: MDP, reward: FloatArray, policy: IntArray) -> float:
    """What a policy `[H, S]` earns."""
    v = evaluate(mdp, reward, np.eye(mdp.n_actions)[policy])[1]
    return float(mdp.initial @ v[0])


def best_actions(mdp: MDP, reward: FloatArray) -> IntArray:
    """`[H, S]`: the first of the best actions."""
    q = optimal_values(mdp, reward)[0]
    return np.asarray((q >= q.max(axis=2, keepdims=True) - 1e-9).argmax(axis=2))

"""Processes made to break promises, small enough for thousands of runs.

Each is drawn anew for each run. `share` is what is to be certified, as a share of an episode: what is rare in a process
is a little more likely than that, so that whoever has not met it yet would promise too much.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from aceirl.experts import PolicyExpert
from aceirl.models.tabular.dynamic_programming import greedy_actions, optimal_values
from aceirl.models.tabular.estimate import ExpertKind
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Case:
    """A process and an expert: a deterministic one takes `actions [H, S]`.

    A stochastic one draws from `policy [H, S, A]`, in which `actions` are some of those it uses, each with at least the
    probability `least`. One who does not look at the step may say so: `stationary`; one of whom nothing is assumed is
    `asked_everywhere`. Where the start is hidden it has to be estimated. Where states are `numbered` as they are met,
    the first is there from the beginning, nobody ever gets there, and `terminal` ones end an episode.
    """

    mdp: MDP
    actions: IntArray
    policy: FloatArray | None = None
    least: float | None = None
    stationary: bool = False
    asked_everywhere: bool = False
    hidden_start: bool = False
    numbered: bool = False
    terminal: frozenset[int] = frozenset()

    @property
    def expert(self) -> PolicyExpert:
        actions = self.actions if self.policy is None else self.policy
        return PolicyExpert(actions, self.mdp.shape, stationary=self.stationary)

    @property
    def kind(self) -> ExpertKind:
        again = 1.0 if self.asked_everywhere else 0.0
        return ExpertKind(self.policy is None, self.stationary, self.least, again)

    @cached_property
    def rows(self) -> FloatArray:
        """`[S, A, S]`: the true transitions."""
        return self.mdp.transitions.dense()

    @cached_property
    def used(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert takes; any where an episode is over."""
        used = np.eye(self.mdp.n_actions)[self.actions] > 0 if self.policy is None else self.policy > 0
        used[:, sorted(self.terminal)] = True
        return used

    def renumbered(self, order: IntArray) -> Case:
        """The same with `order[i]` as the state of number `i`."""
        rows = self.rows[order][:, :, order]
        numbers = np.argsort(order)
        return replace(
            self,
            mdp=MDP.from_dense(rows, initial=self.mdp.initial[order], horizon=self.mdp.horizon),
            actions=self.actions[:, order],
            terminal=frozenset(int(numbers[state]) for state in self.terminal),
        )


def random_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """Dense rows; the expert is optimal for some reward, so it depends on the step."""
    mdp = MDP.from_dense(rng.dirichlet(np.ones(5), (5, 2)), initial=rng.dirichlet(np.ones(5)), horizon=5)
    return Case(mdp, greedy_actions(optimal_values(mdp, rng.random(mdp.shape))[0], rng))


def sparse_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """Two successors a row, and a start that has to be estimated."""
    pairs = np.argsort(rng.random((7, 3, 7)), axis=2)[:, :, :2]
    rows = np.zeros((7, 3, 7))
    np.put_along_axis(rows, pairs, rng.dirichlet(np.full(2, 0.5), (7, 3)), axis=2)
    mdp = MDP.from_dense(rows, initial=rng.dirichlet(np.full(7, 0.3)), horizon=5)
    return Case(mdp, greedy_actions(optimal_values(mdp, rng.random(mdp.shape))[0], rng), hidden_start=True)


def near_deterministic_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """One successor has almost all the mass, and some rows have all of it on one."""
    slip = rng.choice([0.0, 0.001, 0.01, 0.05], (5, 2, 1))
    rows = (1 - slip) * np.eye(5)[rng.integers(5, size=(5, 2))] + slip * rng.dirichlet(np.full(5, 0.3), (5, 2))
    mdp = MDP.from_dense(rows, initial=0, horizon=6)
    return Case(mdp, rng.integers(2, size=(6, 5)))


def rare_branch_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """From the start one goes to a branch with a chance just above what is to be certified; all is decided there."""
    chance = share * rng.uniform(1.25, 1.6)
    rows = np.zeros((4, 2, 4))
    rows[0, :] = [0, 1 - chance, chance, 0]
    rows[1, :, 1] = 1
    rows[2:, 0, 2], rows[2:, 1, 3] = 1, 1
    return Case(MDP.from_dense(rows, initial=0, horizon=5), rng.integers(2, size=(5, 4)))


def many_branches_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """Many rare branches: one is always left over."""
    rows = np.zeros((10, 2, 10))
    rows[0, :, 1:9], rows[0, :, 9] = 0.3 * share, 1 - 2.4 * share
    rows[np.arange(1, 10), :, np.arange(1, 10)] = 1
    return Case(MDP.from_dense(rows, initial=0, horizon=4), rng.integers(2, size=(4, 10)))


def rare_successors_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """Any step of the way may lead to one of six states that are hardly ever met, and one stays there."""
    chance = share * rng.uniform(1.0, 2.0) / 2.5
    rows = np.zeros((9, 2, 9))
    rows[:3, :, :] = np.roll(np.eye(9)[:3], 1, axis=0)[:, None] * (1 - chance)
    rows[:3, :, 3:] = chance / 6
    rows[np.arange(3, 9), :, np.arange(3, 9)] = 1
    return Case(MDP.from_dense(rows, initial=0, horizon=6), rng.integers(2, size=(6, 9)))


def lock_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """A combination lock: the right action goes on, unless it slips, and any other falls; nobody gets back up."""
    horizon, slip = 5, share * rng.uniform(1.0, 2.0) / 2
    code = rng.integers(3, size=horizon)
    rows = np.zeros((8, 3, 8))
    rows[:5, :, 7] = 1
    for place, action in enumerate(code):
        rows[place, action] = np.eye(8)[min(place + 1, 4)] * (1 - slip) + np.eye(8)[5 + rng.integers(2)] * slip
    rows[5:7, :, 5:7], rows[7, :, 7] = 0.5, 1
    actions = rng.integers(3, size=(horizon, 8))
    actions[:, :5] = code[:5]
    return Case(MDP.from_dense(rows, initial=0, horizon=horizon), actions)


def upstream_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """A chain against the stream: the expert swims up and mostly stays where it is; the far end is hardly ever met."""
    up, down, n = rng.uniform(0.2, 0.4), 0.05, 6
    rows = np.zeros((n, 2, n))
    for s in range(n):
        rows[s, 0, max(0, s - 1)] = 1
        rows[s, 1] = (
            (1 - up - down) * np.eye(n)[s] + up * np.eye(n)[min(n - 1, s + 1)] + down * np.eye(n)[max(0, s - 1)]
        )
    actions = np.ones((6, n), dtype=np.int64)
    actions[:, -3:] = rng.integers(2, size=(6, 3))
    return Case(MDP.from_dense(rows, initial=0, horizon=6), actions)


def tied_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """All actions do the same, so the expert's choices are arbitrary, and so are anyone else's."""
    rows = np.repeat(rng.dirichlet(np.full(4, 0.5), (4, 1)), 3, axis=1)
    mdp = MDP.from_dense(rows, initial=rng.dirichlet(np.ones(4)), horizon=4)
    return Case(mdp, rng.integers(3, size=(4, 4)))


def hundred_starts_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """A hundred starts that have to be found: five common ones, and the others together just too likely."""
    chance = share * rng.uniform(1.0, 1.5)
    initial = np.append(np.full(5, (1 - chance) / 5), np.full(95, chance / 95))
    rows = np.repeat(np.eye(100)[rng.integers(100, size=100)][:, None], 2, axis=1)
    mdp = MDP.from_dense(rows, initial=initial, horizon=2)
    return Case(mdp, rng.integers(2, size=(2, 100)), hidden_start=True)


def one_step_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """Episodes of one step from two common and six rare starts; told, or to be found."""
    chance = share * rng.uniform(1.0, 1.6)
    initial = np.append(np.full(2, (1 - chance) / 2), np.full(6, chance / 6))
    mdp = MDP.from_dense(rng.dirichlet(np.full(8, 0.3), (8, 3)), initial=initial, horizon=1)
    return Case(mdp, rng.integers(3, size=(1, 8)), hidden_start=bool(rng.integers(2)))


def one_state_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """One state: only the step counts."""
    return Case(MDP.from_dense(np.ones((1, 3, 1)), initial=0, horizon=4), rng.integers(3, size=(4, 1)))


def growing_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """States are numbered as they are met: behind the first one lie two common ones and eight rare ones."""
    chance = share * rng.uniform(1.25, 1.8)
    rows = np.zeros((12, 2, 12))
    rows[0, :, 0] = 1
    rows[1, :, 2:4], rows[1, :, 4:] = (1 - chance) / 2, chance / 8
    rows[np.arange(2, 12), :, np.arange(2, 12)] = 1
    mdp = MDP.from_dense(rows, initial=1, horizon=4)
    actions = rng.integers(2, size=(4, 12))
    return Case(mdp, actions, hidden_start=True, numbered=True, terminal=frozenset({0}))


def ending_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """Most episodes are over after a step or two, in one of two ends; those that go on meet what is hardly ever met."""
    chance, over = share * rng.uniform(1.25, 1.8), rng.uniform(0.3, 0.6)
    rows = np.zeros((9, 2, 9))
    rows[np.arange(3), :, np.arange(3)] = 1
    rows[3, :, 1], rows[3, :, 4], rows[3, :, 5:] = over * (1 - chance), (1 - over) * (1 - chance), chance / 4
    rows[4, 0, 2], rows[4, 1, 3] = 1, 1
    rows[5:, 0, 5:], rows[5:, 1, 2] = 0.25, 1
    mdp = MDP.from_dense(rows, initial=3, horizon=5)
    actions = rng.integers(2, size=(5, 9))
    return Case(mdp, actions, hidden_start=True, numbered=True, terminal=frozenset({0, 1, 2}))


def back_and_forth_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """An episode goes back and forth between two states: common ones, or one of four pairs that are rare. Visits of a
    rare pair are many, and all of one episode."""
    chance = share * rng.uniform(1.25, 1.8)
    rows = np.zeros((12, 2, 12))
    rows[0, :, 0] = 1
    rows[1, :, 2], rows[1, :, 4::2] = 1 - chance, chance / 4
    pairs = np.arange(2, 12)
    rows[pairs, :, pairs ^ 1] = 1
    mdp = MDP.from_dense(rows, initial=1, horizon=6)
    actions = rng.integers(2, size=(6, 12))
    return Case(mdp, actions, hidden_start=True, numbered=True, terminal=frozenset({0}))


def turning_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """A round on which the expert says one thing, and another if it is late: what was heard of a state misleads.

    It is late a little more often than is to be certified.
    """
    chance, n, horizon = share * rng.uniform(1.25, 1.6), 4, 6
    rows = np.zeros((n, 2, n))
    rows[np.arange(n), :, (np.arange(n) + 1) % n] = 1
    rows[0] = (1 - chance) * np.eye(n)[1] + chance * np.eye(n)[0]
    late = np.arange(n) != np.arange(horizon)[:, None] % n
    return Case(MDP.from_dense(rows, initial=0, horizon=horizon), late.astype(np.int64))


def turning_everywhere_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """The same of an expert of whom nothing is assumed."""
    return replace(turning_case(rng, share), asked_everywhere=True)


def stationary_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """Rare branches and a stationary expert who mostly says the same: what it was never asked looks as if known."""
    case = many_branches_case(rng, share)
    actions = np.repeat(rng.random((1, 10)) < rng.choice([0.1, 0.3, 0.5]), 4, axis=0)
    return replace(case, actions=actions.astype(np.int64), stationary=True)


def stochastic_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """A stochastic expert with one, two or three actions, the least likely just as likely as it says."""
    mdp = MDP.from_dense(rng.dirichlet(np.ones(3), (3, 3)), initial=rng.dirichlet(np.ones(3)), horizon=3)
    return _drawing(mdp, 0.2, rng)


def stochastic_branch_case(rng: np.random.Generator, share: float = 0.1) -> Case:
    """A stochastic expert whose rare action alone leads to where anything happens."""
    rows = np.zeros((4, 2, 4))
    rows[:, 0] = rng.dirichlet(np.full(4, 0.2), 4)
    rows[:, 1] = np.eye(4)[rng.permutation(4)]
    return _drawing(MDP.from_dense(rows, initial=0, horizon=3), 0.1, rng)


def _drawing(mdp: MDP, least: float, rng: np.random.Generator) -> Case:
    """An expert who takes one to all of the actions, all but one of them with the probability `least`."""
    ranks = rng.permuted(np.broadcast_to(np.arange(mdp.n_actions), mdp.shape), axis=2)
    width = rng.integers(1, mdp.n_actions + 1, mdp.shape[:2])[:, :, None]
    policy = np.where(ranks < width, least, 0.0) + (ranks == 0) * (1 - least * width)
    return Case(mdp, policy.argmax(axis=2), policy, least)


CASES: dict[str, Callable[[np.random.Generator, float], Case]] = {
    "random": random_case,
    "random sparse": sparse_case,
    "near-deterministic": near_deterministic_case,
    "rare branch": rare_branch_case,
    "many rare branches": many_branches_case,
    "rare successors": rare_successors_case,
    "combination lock": lock_case,
    "against the stream": upstream_case,
    "ties": tied_case,
    "a hundred starts": hundred_starts_case,
    "one step": one_step_case,
    "one state": one_state_case,
    "growing": growing_case,
    "early endings": ending_case,
    "turning answers": turning_case,
    "turning answers, asked everywhere": turning_everywhere_case,
    "a stationary expert": stationary_case,
    "stochastic expert": stochastic_case,
    "stochastic, rare action": stochastic_branch_case,
}


UNMET = {"growing": growing_case, "early endings": ending_case, "back and forth": back_and_forth_case}
"""Those in which nobody knows how many states there are."""


class Numbered:
    """The process of a case, played step by step, whose states are numbered as they are met.

    `order[i]` is the state of number `i`. The first is there before any other is met, as one of the `terminal` ones.
    How many there can be is not said.
    """

    possible_states: int | None = None
    binned = False
    initial: FloatArray | None = None

    def __init__(self, case: Case) -> None:
        self.horizon, _, self.n_actions = case.mdp.shape
        self._ends = case.terminal
        self._start = _law(case.mdp.initial)
        self._laws = [[_law(row) for row in rows] for rows in case.rows]
        self.recall(())

    @property
    def n_states(self) -> int:
        """How many states were met so far."""
        return len(self.order)

    @property
    def names(self) -> tuple[str, ...]:
        """The states met so far."""
        return tuple(str(state) for state in self.order)

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do, and forget all others."""
        self.order: list[int] = []
        self._number: dict[int, int] = {}
        self.terminal: frozenset[int] = frozenset()
        for name in names or ("0",):
            self._enter(int(name))

    def reset(self, rng: np.random.Generator) -> int:
        """Begin an episode and return its state."""
        self._rng = rng
        self._state = self._drawn(self._start)
        return self._state

    def step(self, action: int) -> tuple[int, bool]:
        """Take an action; the state it led to, and whether the episode is over there."""
        self._state = self._drawn(self._laws[self._state][action])
        return self._state, self._state in self._ends

    @property
    def states(self) -> Numbered:
        """The encoder, which this is itself."""
        return self

    def find(self, observation: int) -> int | None:
        """The state's number, None if it was never met."""
        return self._number.get(observation)

    def observation(self, state: int) -> int:
        """The state of a number."""
        return self.order[state]

    def number(self, observation: int, *, terminal: bool = False) -> int:
        """The state's number; a new one if it was never met."""
        return self._enter(observation)

    def _drawn(self, law: Law) -> int:
        cumulative, states = law
        return states[bisect_right(cumulative, self._rng.random(), hi=len(states) - 1)]

    def _enter(self, state: int) -> int:
        """The state's number; a new one if it was never met."""
        if state not in self._number:
            number = self._number[state] = len(self.order)
            self.order.append(state)
            if state in self._ends:
                self.terminal |= {number}
        return self._number[state]


Law = tuple[list[float], list[int]]
"""Cumulative probabilities, and the states that have them."""


def _law(probabilities: FloatArray) -> Law:
    states = np.flatnonzero(probabilities)
    return probabilities[states].cumsum().tolist(), states.tolist()

"""The exploration problem on the GPU: the play of `saddle`, over a `Board`.

With counts pooled over steps and a `Separable` weight nothing has the size `H·S·A`, and the plan is a `Mixture` of the
explorer's answers instead of their average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from aceirl.errors import InputError
from aceirl.gpu import DeviceArray, cuda, grid, occupancy, on_device, to_device
from aceirl.mdp import MDP, FloatArray, IntArray, check_reward
from aceirl.planner.board import OFFSET, REWARDED, WEIGHTED, Answer, Board, Terms
from aceirl.planner.constrained import ROUNDING
from aceirl.planner.passes import TIE
from aceirl.planner.saddle import (
    SEARCH_LIMIT,
    SEARCH_TOLERANCE,
    SOFT_ADVERSARY,
    SOFT_EXPLORER,
    SOFT_POWER,
    Episodes,
    PolicySet,
    SaddlePlan,
    SaddleStart,
    SaddleStatus,
    Samples,
    Separable,
    allocate,
    attainable_floor,
    checked_counts,
    checked_problem,
    completed,
    mixing_share,
    policy_of,
    softness_after,
    softness_of,
    starting_weight,
)

UNIFORM = 1e30
"""A temperature at which all actions are taken alike."""


class Problem(NamedTuple):
    """What stays the same: the weight is `scale [H]` times `weight [1 or H, S, A]`, `counts` are `[1 or H, S, A]`."""

    scale: FloatArray
    weight: FloatArray
    counts: FloatArray
    fixed: FloatArray | None
    reward: FloatArray | None
    floor: float
    slack: float
    number: float
    samples: bool


@cuda.jit
def _set_root(counts, explored, scale, root):  # type: ignore[no-untyped-def]
    """`1/√(n + x)`."""
    i = cuda.grid(1)
    if i < counts.size:
        root[i] = 1.0 / math.sqrt(counts[i] + scale * explored[i])


@cuda.jit
def _set_price(counts, weighted, scale, root, price, parts):  # type: ignore[no-untyped-def]
    """`p = ŵ·z^{-3/2}/2`; the parts `[2, ·]` add up to `⟨ŵ, 1/√z⟩` and `⟨p, n⟩`."""
    first, stride = cuda.grid(1), cuda.gridsize(1)
    value, held = 0.0, 0.0
    for i in range(first, counts.size, stride):
        here = scale * weighted[i] * root[i]
        price[i] = 0.5 * here * root[i] * root[i]
        value += here
        held += price[i] * counts[i]
    parts[0, first] = value
    parts[1, first] = held


@cuda.jit
def _multiply(array, factor):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < array.size:
        array[i] *= factor


class Play:
    """Both players' sums on the GPU: what `saddle` calls a state, and one iteration of its play.

    With `whole`, occupancies `[H, S, A]` are summed as well, for the average policy; without, the explorer's answers
    are kept, each as the `price [S, A]` that it answers and its temperature.
    """

    def __init__(self, mdp: MDP, problem: Problem, softness: float, *, whole: bool) -> None:
        earning = problem.reward is not None or problem.fixed is not None
        self.problem, self.board = problem, Board(mdp, earning=earning, lean=not whole)
        part, nothing = problem.counts.shape, self.board.nothing
        self.counts, weight, scale = (to_device(array) for array in (problem.counts, problem.weight, problem.scale))
        self.explored, self.weighted, self.root, self.price = (on_device(part) for _ in range(4))
        self.explorer: DeviceArray = on_device(mdp.shape) if whole and not problem.samples else None
        self.adversary: DeviceArray = on_device(mdp.shape) if whole else None
        self.prices: list[DeviceArray] = []
        self.temperatures: list[float] = []
        fixed = nothing if problem.fixed is None else to_device(problem.fixed)
        reward = nothing if problem.reward is None else to_device(problem.reward)
        flags = (
            WEIGHTED | (OFFSET if problem.fixed is not None else 0) | (REWARDED if problem.reward is not None else 0)
        )
        self.charged = Terms(flags, scale, weight, self.root, fixed, reward)
        self.paid = Terms(0, self.board.ones, nothing, self.price, nothing, nothing)
        self.explorer_total = self.adversary_total = self.constant = 0.0
        self.lower, self.upper, self.multiplier, self.steps, self.checked = 0.0, 1.0, 0.0, 0, 1.0
        self.softness, self.answered = softness, 0.0
        self.answer: Answer | None = None
        self.pair: list[DeviceArray] = []
        self.rewards = [math.nan, math.nan]
        if problem.reward is not None:
            self.pair = [on_device(mdp.shape[:2], np.int32) for _ in range(3)]
            self.rewards[0] = self.ceiling()

    def ceiling(self) -> float:
        """The best value of the reward, as the forward pass adds it up; its policy is the first of the pair."""
        board = self.board
        only = self.charged._replace(flags=0, scale=board.ones, entries=self.charged.reward)
        board.respond(Answer(only, 0.0, 0.0), self.pair[0])
        return board.push_actions(self.charged, self.pair[0], 0.0, self.weighted)[0]

    def begin(self) -> None:
        """The explorer begins with uniform actions, or with a uniform allocation."""
        if self.problem.samples:
            self.explored.copy_to_device(np.full(self.explored.shape, 1.0 / self.explored.size))
            self.explorer_total = 1.0
            return
        ones = on_device((1, *self.board.shape[1:]))
        ones.copy_to_device(np.ones(ones.shape))
        uniform = Answer(self.paid._replace(entries=ones), 0.0, UNIFORM)
        self.board.respond(uniform)
        self._explore(uniform)

    def begin_from(self, mdp: MDP, start: SaddleStart, tolerance: float) -> None:
        """Both players begin with an earlier plan's policies, followed through this model; see `saddle`."""
        problem = self.problem
        if problem.samples:
            self.begin()
        else:
            mu = occupancy(mdp, completed(start.explorer))
            self.explorer.copy_to_device(mu)
            self._set(self.explored, mu)
            self.explorer_total = 1.0
        mu, share = occupancy(mdp, completed(start.adversary)), 1.0
        if problem.reward is not None and (reward := float(np.vdot(mu, problem.reward))) < problem.floor:
            share = mixing_share(self.rewards[0] - problem.floor, self.rewards[0] - reward, problem.slack)
            mu *= share
        self.adversary.copy_to_device(mu)
        self._set(self.weighted, mu * problem.scale[:, None, None] * problem.weight)
        if share < 1.0:
            self.board.push_actions(self.charged, self.pair[0], 1.0 - share, self.weighted, self.adversary)
        self.adversary_total = 1.0
        if problem.fixed is not None:
            self.constant = float(np.vdot(self.adversary.copy_to_host(), problem.fixed))
        if problem.samples:
            self._fill()
        self._set_root()
        self.upper, self.lower = self._upper_bound(0.0, tolerance), max(0.0, self._lower_bound(0.0))
        self.answer = None  # this was for the bounds alone
        weight = starting_weight(start.weight, self.upper, self.lower)
        scaled = [self.weighted, self.adversary]
        if not problem.samples:
            scaled += [self.explored, self.explorer]
            self.explorer_total *= weight
        for array in scaled:
            _multiply[grid(array.size)](array.reshape(array.size), weight)
        self.adversary_total *= weight
        self.constant *= weight

    def _set(self, sums: DeviceArray, mu: FloatArray) -> None:
        """Let sums `[1 or H, S, A]` be these flows `[H, S, A]`."""
        sums.copy_to_device(np.ascontiguousarray(mu if sums.shape[0] == len(mu) else mu.sum(axis=0, keepdims=True)))

    def iterate(self, tolerance: float) -> bool:
        """One iteration of `saddle`'s play; whether the gap is small enough."""
        samples = self.problem.samples
        gap = max(0.0, self.upper - self.lower) / self.upper if self.upper > 0.0 else 0.0
        heat, lower = self.softness * gap**SOFT_POWER, self.lower
        if samples and self.adversary_total > 0.0:
            self._fill()
        elif not samples and self.answer is not None:
            self._explore(self.answer)
        self._set_root()
        if samples and self.adversary_total > 0.0:
            lower = max(lower, self._lower_bound(0.0))
        self.upper = self._upper_bound(SOFT_ADVERSARY * heat, tolerance)
        self._add_adversary(SOFT_ADVERSARY * heat)
        if not samples:
            lower = max(lower, self._lower_bound(SOFT_EXPLORER * heat))
        self.lower = lower
        self.steps += 1
        if self.upper - lower <= tolerance * self.upper:
            return True
        gap = (self.upper - lower) / self.upper if self.upper > 0.0 else 0.0
        self.softness, self.checked = softness_after(self.softness, self.steps, self.checked, gap)
        return False

    def _explore(self, answer: Answer) -> None:
        """Add the explorer's answer to its sums."""
        if self.explorer is None:
            self.prices.append(cuda.device_array_like(answer.terms.entries))
            self.prices[-1].copy_to_device(answer.terms.entries)
            self.temperatures.append(answer.temperature)
        self.board.push(answer, 1.0, self.explored, self.explorer)
        self.explorer_total += 1.0

    def _set_root(self) -> None:
        scale = self.problem.number / self.explorer_total
        flat = (array.reshape(array.size) for array in (self.counts, self.explored))
        _set_root[grid(self.counts.size)](*flat, scale, self.root.reshape(self.root.size))

    def _upper_bound(self, temperature: float, tolerance: float) -> float:
        """The certificate's upper bound for the averaged explorer; the softened answer is the last one given."""
        if self.problem.reward is None:
            return self.board.respond(Answer(self.charged, 0.0, temperature))
        return self._search(temperature, SEARCH_TOLERANCE * tolerance)

    def _search(self, temperature: float, tolerance: float) -> float:
        """`constrained.search_multiplier`, up to `SEARCH_LIMIT` multipliers."""
        problem, board, rewards = self.problem, self.board, self.rewards
        meets = board.push_actions(self.charged, self.pair[0], 0.0, self.weighted)[2]
        misses = -math.inf
        if math.isfinite(rewards[1]):
            misses = board.push_actions(self.charged, self.pair[1], 0.0, self.weighted)[2]
        bound = math.inf
        for _ in range(SEARCH_LIMIT):
            multiplier = 0.0
            if misses > meets:
                multiplier = (misses - meets) / max(rewards[0] - rewards[1], problem.slack)
            self.answered = multiplier
            dual = (
                board.respond(Answer(self.charged, multiplier, temperature), self.pair[2]) - multiplier * problem.floor
            )
            if dual < bound:
                bound, self.multiplier = dual, multiplier
            crossing = meets + multiplier * (rewards[0] - problem.floor)
            if dual - crossing <= tolerance * abs(dual) + ROUNDING * multiplier * problem.slack:
                break
            reward, _, value = board.push_actions(self.charged, self.pair[2], 0.0, self.weighted)
            place = 0 if reward >= problem.floor - problem.slack else 1
            self.pair[place], self.pair[2] = self.pair[2], self.pair[place]
            rewards[place] = reward
            if place == 1:
                misses = value
            else:
                meets = value
                if multiplier == 0.0:
                    break
        return bound

    def _add_adversary(self, temperature: float) -> None:
        """Add the adversary's answer to its sums, inside the policy set if there is one; see `saddle`."""
        problem, board = self.problem, self.board
        if problem.reward is None:
            fixed = board.push(Answer(self.charged, 0.0, temperature), 1.0, self.weighted, self.adversary)[1]
            self.constant += fixed
            self.adversary_total += 1.0
            return
        answer = Answer(self.charged, self.answered, temperature)
        reward, _ = board.push(answer, 0.0, self.weighted)
        share, other = 1.0, 0
        if reward < problem.floor:
            share = mixing_share(self.rewards[0] - problem.floor, self.rewards[0] - reward, problem.slack)
        elif self.multiplier > 0.0 and self.rewards[1] < problem.floor:
            share, other = (problem.floor - self.rewards[1]) / (reward - self.rewards[1]), 1
        self.constant += share * board.push(answer, share, self.weighted, self.adversary)[1]
        if share < 1.0:
            rest = board.push_actions(self.charged, self.pair[other], 1.0 - share, self.weighted, self.adversary)
            self.constant += (1.0 - share) * rest[1]
        self.adversary_total += 1.0

    def _lower_bound(self, temperature: float) -> float:
        """The certificate's lower bound for both averages; the explorer's answer is the last one given."""
        arrays = (self.counts, self.weighted, self.root, self.price)
        counts, weighted, root, price = (array.reshape(array.size) for array in arrays)
        value, held = self.board.total(
            _set_price, counts.size, counts, weighted, 1.0 / self.adversary_total, root, price
        )
        if self.problem.samples:
            gain = float(price.copy_to_host().max())
        else:
            self.answer = Answer(self.paid, 0.0, temperature)
            gain = self.board.respond(self.answer)
        total = held + self.problem.number * gain
        constant = self.constant / self.adversary_total
        return constant if total <= 0.0 else constant + value * math.sqrt(value / (2.0 * total))

    def _fill(self) -> None:
        """The best allocation, worked out on the processor: it is in closed form, and no larger than the counts."""
        counts, weighted = self.problem.counts, self.weighted.copy_to_host().ravel()
        level, shares = np.empty_like(weighted), np.empty_like(weighted)
        allocate(counts.ravel(), weighted, 1.0 / self.adversary_total, self.problem.number, level, shares)
        self.explored.copy_to_device(shares.reshape(counts.shape))


@dataclass(frozen=True, eq=False)
class SoftPolicy:
    """One answer of the explorer: it earns `price [S, A]` an entry, and is softened by a temperature.

    `values [H+1, S]` are its own.
    """

    mdp: MDP
    price: FloatArray
    temperature: float
    values: FloatArray

    def shares(self, h: int, states: IntArray) -> FloatArray:
        """`[n, A]`: how likely it takes each action in `states [n]` at step `h`."""
        transitions = self.mdp.transitions
        rows = h * transitions.stride + np.asarray(states)[:, None] * self.mdp.n_actions + np.arange(self.mdp.n_actions)
        q = self.price[states] + (transitions.matrix[rows.ravel()] @ self.values[h + 1]).reshape(rows.shape)
        best = q.max(axis=1)
        heat = self.temperature / (self.mdp.horizon - h) * np.abs(best)
        threshold, running = best - heat, np.ones(len(q), dtype=np.bool_)
        active = count = np.full(len(q), q.shape[1])
        while running.any():  # the steps of `passes.respond`, for all states together
            used = q > threshold[:, None]
            active = np.where(running, used.sum(axis=1), active)
            mean = (np.where(used, q, 0.0).sum(axis=1) - heat) / np.maximum(1, active)
            threshold = np.where(running & (active > 1), mean, threshold)
            running &= (active > 1) & (active < count)
            count = np.where(running, active, count)
        shares = np.maximum(0.0, q - threshold[:, None])
        shares[active <= 1] = 0.0
        lonely = shares.sum(axis=1) == 0.0
        nearly_best = q >= (best - TIE * np.abs(best))[:, None]
        shares[lonely, nearly_best[lonely].argmax(axis=1)] = 1.0
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Mixture:
    """A plan as the explorer's answers: for each episode draw one, all alike, and play it to the end.

    `visits [S, A]` is what an episode of the mixture does at all steps together, and `weighted [S, A]` the averaged
    adversary's visits times their weight: the certificate's bounds can be worked out from these two.
    """

    mdp: MDP
    prices: list[DeviceArray]
    temperatures: list[float]
    visits: FloatArray
    weighted: FloatArray

    def __len__(self) -> int:
        return len(self.prices)

    def policy(self, index: int) -> SoftPolicy:
        """One of the answers."""
        board, temperature = Board(self.mdp, lean=True), self.temperatures[index]
        terms = Terms(0, board.ones, board.nothing, self.prices[index], board.nothing, board.nothing)
        board.respond(Answer(terms, 0.0, temperature))
        return SoftPolicy(
            self.mdp, self.prices[index].copy_to_host()[0], temperature, board.values.copy_to_host()[:, :, 1]
        )


def solve_on_gpu(
    mdp: MDP,
    weight: Any,
    counts: Any,
    explorer: Episodes | Samples,
    fixed: Any,
    policies: PolicySet | None,
    tolerance: float,
    max_iterations: int,
    start: SaddleStart | None,
) -> SaddlePlan:
    """`solve_saddle`, on the GPU."""
    lean = isinstance(weight, Separable) and isinstance(explorer, Episodes) and np.ndim(counts) == 2
    lean = lean and fixed is None and policies is None and start is None
    problem = (
        _lean_problem(mdp, weight, counts, explorer)
        if lean
        else _whole_problem(mdp, weight, counts, explorer, fixed, policies)
    )
    play = Play(mdp, problem, softness_of(mdp.shape, tolerance), whole=not lean)
    if policies is not None:
        play.problem = problem._replace(floor=attainable_floor(policies, play.rewards[0], problem.slack))
    if start is None:
        play.begin()
    else:
        play.begin_from(mdp, start, tolerance)
    trace: list[tuple[float, float]] = []
    done = False
    while not done and len(trace) < max_iterations:
        done = play.iterate(tolerance)
        trace.append((play.upper, play.lower))
    return _plan(mdp, play, SaddleStatus.OPTIMAL if done else SaddleStatus.LIMIT, np.array(trace), np.shape(counts))


def _lean_problem(mdp: MDP, weight: Separable, counts: Any, explorer: Episodes | Samples) -> Problem:
    n = checked_counts(mdp, counts, explorer)
    entries = check_reward(weight.entries, (1, *mdp.shape[1:]), "weight.entries")
    steps = np.asarray(weight.steps, dtype=np.float64)
    if steps.shape != mdp.shape[:1] or not (steps >= 0).all() or (entries < 0).any():
        raise InputError(f"a separable weight has {mdp.horizon} steps and entries [S, A], none of them negative")
    return Problem(steps, entries, n, None, None, -math.inf, 0.0, float(explorer.number), False)


def _whole_problem(
    mdp: MDP, weight: Any, counts: Any, explorer: Episodes | Samples, fixed: Any, policies: PolicySet | None
) -> Problem:
    checked = checked_problem(mdp, weight, counts, explorer, fixed, policies)
    return Problem(
        np.ones(mdp.horizon), checked.weight, checked.counts, checked.fixed if checked.fixed.size else None,
        checked.reward if policies is not None else None, checked.floor, checked.slack, checked.number, checked.samples,
    )  # fmt: skip


def _plan(mdp: MDP, play: Play, status: SaddleStatus, trace: FloatArray, shape: tuple[int, ...]) -> SaddlePlan:
    """The averages as policies, or as a mixture; an allocation in the shape of the counts."""
    samples, empty, mixture = play.problem.samples, np.zeros((0, 0, 0)), None
    policy = adversary = empty
    if play.adversary is not None:
        adversary = policy_of(play.adversary.copy_to_host())
    if samples:
        mu = (play.problem.number * play.explored.copy_to_host()).reshape(shape)
    elif play.explorer is not None:
        mu = play.explorer.copy_to_host() / play.explorer_total
        policy = policy_of(mu)
    else:
        mu = play.explored.copy_to_host()[0] / play.explorer_total
        weighted = play.weighted.copy_to_host()[0] / play.adversary_total
        mixture = Mixture(mdp, play.prices, play.temperatures, mu, weighted)
    start = SaddleStart(explorer=mu if samples else policy, adversary=adversary, weight=float(len(trace)))
    for array in (mu, policy, trace, adversary):
        array.flags.writeable = False
    return SaddlePlan(status, policy, mu, play.upper, play.lower, len(trace), play.multiplier, trace, start, mixture)

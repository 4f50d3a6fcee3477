"""The planner where nothing is in general position: one policy, equal rewards, floors met exactly, nothing uncertain.

Instances are so small that all deterministic policies can be listed; a best policy under one constraint mixes two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import from_rows

from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.models.tabular.planner import (
    ConstrainedStatus,
    Episodes,
    PolicySet,
    SaddlePlan,
    SaddleStart,
    SaddleStatus,
    Samples,
    solve_constrained,
    solve_saddle,
)

SHAPES = [(1, 1, 1), (3, 1, 1), (1, 3, 1), (3, 2, 1), (1, 1, 3), (1, 2, 2), (2, 1, 2), (2, 2, 2), (3, 2, 2), (1, 2, 4)]
UNITS = [1.0, 1.0, 1.0, 1e-12, 1e-7, 1e6, 1e12]
FLOOR = 1e-9
"""How far below its floor a policy may be, relative to the largest return, and count as meeting it."""


@cache
def all_policies(shape: tuple[int, int, int]) -> FloatArray:
    """`[N, H, S, A]`: every deterministic policy."""
    horizon, n_states, n_actions = shape
    actions = np.array(list(product(range(n_actions), repeat=horizon * n_states)))
    return np.asarray(np.eye(n_actions)[actions.reshape(-1, horizon, n_states)])


def all_occupancies(mdp: MDP) -> FloatArray:
    """`[N, H·S·A]`: those of all deterministic policies; what enters an unknown row goes no further."""
    policies = all_policies(mdp.shape)
    rows = mdp.transitions.dense().reshape(-1, mdp.n_states * mdp.n_actions, mdp.n_states)
    mu, here = np.empty_like(policies), mdp.initial
    for h in range(mdp.horizon):
        mu[:, h] = here[..., None] * policies[:, h]
        here = mu[:, h].reshape(len(mu), -1) @ rows[min(h, len(rows) - 1)]
    return mu.reshape(len(mu), -1)


def best_mixture(costs: FloatArray, rewards: FloatArray, floor: float) -> float:
    """The largest of the costs `[N]` that a mixture with a reward of at least the floor has; -inf if none does."""
    above = rewards >= floor
    if not above.any():
        return -np.inf
    best = float(costs[above].max())
    if above.all():
        return best
    r, c = rewards[above][:, None], costs[above][:, None]
    share = (floor - rewards[~above]) / (r - rewards[~above])
    return max(best, float((share * c + (1 - share) * costs[~above]).max()))


@dataclass(frozen=True, eq=False)
class Instance:
    """A saddle-point problem; `mu [N, H·S·A]` are the occupancies of all its deterministic policies."""

    mdp: MDP
    mu: FloatArray
    weight: FloatArray
    counts: FloatArray
    fixed: FloatArray
    explorer: Episodes | Samples
    policies: PolicySet | None

    def plan(self, start: SaddleStart | None = None) -> SaddlePlan:
        return solve_saddle(
            self.mdp, self.weight, self.counts, self.explorer,
            fixed=self.fixed, policies=self.policies, start=start, max_iterations=300,
        )  # fmt: skip

    def left(self, added: FloatArray, below: float = 0.0) -> float:
        """What the adversary can get after `added` visits, if policies may be so far `below` their floor."""
        costs = self.mu @ (self.weight / np.sqrt(self.counts + added) + self.fixed).ravel()
        if self.policies is None:
            return float(costs.max())
        rewards = self.mu @ self.policies.reward.ravel()
        floor = min(self.policies.floor - below, float(rewards.max()))
        return best_mixture(costs, rewards, floor)

    def added(self, mixture: FloatArray) -> FloatArray:
        """The visits of a mixture `[N]` of policies, in the shape of the counts; an allocation spreads them at will."""
        if isinstance(self.explorer, Samples):
            return self.explorer.number * np.full(self.counts.shape, 1 / self.counts.size)
        return self.pooled(self.explorer.number * (mixture @ self.mu).reshape(self.mdp.shape))

    def pooled(self, visits: FloatArray) -> FloatArray:
        return visits.sum(axis=0) if visits.ndim > self.counts.ndim else visits


def draw_mdp(rng: np.random.Generator) -> MDP:
    shape = SHAPES[rng.integers(len(SHAPES))]
    stationary = bool(rng.integers(2))
    n_rows = shape[1] * shape[2] * (1 if stationary else shape[0])
    rows = np.eye(shape[1])[rng.integers(shape[1], size=n_rows)]
    if rng.random() < 0.5:
        rows = rng.dirichlet(np.ones(shape[1]), n_rows)
    if rng.random() < 0.3:
        rows[:] = rows[0]
    known = rng.random(n_rows) >= rng.choice([0.0, 0.0, 0.3, 1.0])
    start = np.eye(shape[1])[0] if rng.random() < 0.5 else np.full(shape[1], 1 / shape[1])
    return from_rows(rows, known, shape, start, stationary=stationary)


def draw_table(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Not negative: all alike, of few values, alike for all actions, or nothing special."""
    kind = rng.integers(5)
    if kind == 0:
        table = np.full(shape, rng.choice([0.0, 1.0, 0.1]))
    elif kind == 1:
        table = rng.integers(0, 2, size=shape).astype(float)
    elif kind == 2:
        table = np.broadcast_to(rng.random((*shape[:-1], 1)), shape)
    else:
        table = rng.random(shape)
    return np.asarray(table)


def draw_floor(rng: np.random.Generator, mdp: MDP, mu: FloatArray, reward: FloatArray) -> float:
    """The best or the worst value up to rounding, by one route or another, or something between."""
    values = mu @ reward.ravel()
    best, worst = float(mdp.initial @ optimal_values(mdp, reward)[1][0]), float(values.min())
    return float(
        rng.choice([
            best, float(values.max()), np.nextafter(best, np.inf), np.nextafter(best, 0.0), best * (1 + 1e-15),
            best * (1 - 1e-15), best * (1 - 1e-13), best - 1e-10 * reward.max(), worst, np.nextafter(worst, np.inf),
            0.0, -1.0, (best + worst) / 2, values[rng.integers(len(values))],
        ])
    )  # fmt: skip


def draw_instance(rng: np.random.Generator) -> Instance:
    mdp = draw_mdp(rng)
    mu = all_occupancies(mdp)
    part = mdp.shape[1:] if rng.random() < 0.5 else mdp.shape
    counts = np.ones(part) if rng.random() < 0.3 else 10.0 ** rng.uniform(0, rng.choice([1.0, 8.0, 17.0]), part)
    unit = rng.choice(UNITS)
    weight, fixed = unit * draw_table(rng, mdp.shape), unit * draw_table(rng, mdp.shape) * rng.choice([0.0, 0.0, 1.0])
    number = float(10.0 ** rng.uniform(-2, 4))
    policies = None
    if rng.random() < 0.75:
        reward = rng.choice(UNITS) * draw_table(rng, mdp.shape)
        policies = PolicySet(reward, draw_floor(rng, mdp, mu, reward))
    explorer = Samples(number) if rng.random() < 0.3 else Episodes(number)
    return Instance(mdp, mu, weight, counts, fixed, explorer, policies)


def check_plan(instance: Instance, plan: SaddlePlan, rng: np.random.Generator) -> None:
    """The bounds hold against every policy of the adversary and against some of the explorer's."""
    assert np.isfinite([plan.upper, plan.lower, plan.multiplier]).all()
    assert plan.gap <= 0.01 or plan.status is SaddleStatus.LIMIT
    if isinstance(instance.explorer, Samples):
        assert abs(plan.occupancy.sum() / instance.explorer.number - 1) <= 1e-9
        own = plan.occupancy
    else:
        assert np.abs(plan.policy.sum(axis=-1) - plan.reached).max() <= 1e-12
        own = instance.pooled(instance.explorer.number * plan.occupancy)
    rounding = 1e-9 * return_of(instance.weight + instance.fixed)
    assert plan.upper >= instance.left(own) - rounding
    below = 0.0 if instance.policies is None else FLOOR * return_of(instance.policies.reward)
    for mixture in (None, np.eye(1, len(instance.mu))[0], rng.dirichlet(np.ones(len(instance.mu)))):
        added = own if mixture is None else instance.added(mixture)
        assert plan.lower <= instance.left(added, below) + rounding


def return_of(reward: FloatArray) -> float:
    """The largest return of an episode, if every step could earn what the best entry of its step does."""
    return float(np.abs(reward).max(axis=(1, 2)).sum())


def check_constrained(instance: Instance, rng: np.random.Generator) -> None:
    """The certificate of the constrained problem, for a cost of either sign."""
    reward, floor = (instance.weight, 0.0) if instance.policies is None else vars(instance.policies).values()
    cost = instance.weight - instance.fixed
    answer = solve_constrained(instance.mdp, cost, reward, floor)
    costs, rewards = instance.mu @ cost.ravel(), instance.mu @ reward.ravel()
    size, slack = return_of(cost), FLOOR * max(return_of(reward), abs(floor), 1e-300)
    if floor > rewards.max() + slack:
        assert answer.status is ConstrainedStatus.INFEASIBLE
        return
    assert answer.status not in (ConstrainedStatus.INFEASIBLE, ConstrainedStatus.LIMIT)
    assert answer.bound >= best_mixture(costs, rewards, min(floor, rewards.max())) - 1e-9 * size
    assert answer.value <= best_mixture(costs, rewards, min(floor - slack, rewards.max())) + 1e-9 * size
    assert answer.value <= answer.bound + 1e-9 * size
    assert (answer.occupancy * reward).sum() >= floor - slack
    assert abs((answer.occupancy * cost).sum() - answer.value) <= 1e-9 * size


def check(seed: int | list[int]) -> None:
    """One instance: a cold plan, one started from it, one started from it where nothing is uncertain."""
    rng = np.random.default_rng(seed)
    instance = draw_instance(rng)
    check_constrained(instance, rng)
    cold = instance.plan()
    check_plan(instance, cold, rng)
    changed = rng.integers(4)
    if changed == 1:
        instance = replace(instance, weight=np.zeros(instance.mdp.shape), fixed=instance.fixed * rng.integers(2))
    elif changed == 2:
        instance = replace(instance, weight=rng.choice(UNITS) * draw_table(rng, instance.mdp.shape))
    elif changed == 3 and instance.policies is not None:
        reward = draw_table(rng, instance.mdp.shape)
        floor = draw_floor(rng, instance.mdp, instance.mu, reward)
        instance = replace(instance, policies=PolicySet(reward, floor))
    check_plan(instance, instance.plan(cold.start), rng)


@pytest.mark.parametrize("half", range(2))
@settings(max_examples=50)
@given(seed=st.integers(0, 2**31 - 1))
def test_no_degenerate_instance_breaks_the_planner_or_its_bounds(half: int, seed: int) -> None:
    """100 examples of 50 seeds of two plans each: ten thousand plans, and five thousand constrained problems."""
    for number in range(50):
        try:
            check([half, seed, number])
        except Exception as error:
            pytest.fail(f"check({[half, seed, number]}): {error!r}")

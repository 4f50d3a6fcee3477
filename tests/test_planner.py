"""The planner against other routes: linear programmes for the constrained problem, a conic one for the saddle point."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from strategies import from_rows

from aceirl.errors import InputError
from aceirl.models.tabular.dynamic_programming import occupancy, optimal_values
from aceirl.models.tabular.kernels import config
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
from aceirl.models.tabular.planner.saddle import softness_of
from aceirl.models.tabular.planner.threads import available
from studies.saddle import best_value, conic_saddle, lower_bound, upper_bound, visits

pytest.importorskip("cvxpy")

TOLERANCE = 0.01
SOLVER = 1e-5
"""What the conic and linear solvers may be off by, relative to the value."""


def random_model(rng: np.random.Generator, shape: tuple[int, int, int], stationary: bool, unknown: float) -> MDP:
    """A sparse model of the given shape; a fraction `unknown` of its rows is empty."""
    horizon, n_states, n_actions = shape
    n_rows = n_states * n_actions * (1 if stationary else horizon)
    rows = rng.dirichlet(np.full(n_states, 0.5), n_rows)
    rows[rows < 0.1] = 0.0
    rows[rng.random(n_rows) < unknown] = 0.0
    sums = rows.sum(axis=1, keepdims=True)
    rows = np.divide(rows, sums, out=np.zeros_like(rows), where=sums > 0)
    start = rng.dirichlet(np.ones(n_states)) if rng.random() < 0.5 else np.eye(n_states)[rng.integers(n_states)]
    return from_rows(rows, rows.any(axis=1), shape, start, stationary=stationary)


def random_shape(rng: np.random.Generator) -> tuple[int, int, int]:
    """Small, and every now and then a single step, state or action."""
    horizon, n_states, n_actions = (int(rng.integers(1, top)) for top in (6, 7, 4))
    return horizon, n_states, n_actions


@dataclass(frozen=True, eq=False)
class Instance:
    """One saddle-point problem; `policies` is none where the adversary is free."""

    mdp: MDP
    weight: FloatArray
    counts: FloatArray
    fixed: FloatArray
    explorer: Episodes | Samples
    policies: PolicySet | None

    def plan(self, **options: object) -> SaddlePlan:
        arguments = {"fixed": self.fixed, "policies": self.policies, "tolerance": TOLERANCE, **options}
        return solve_saddle(self.mdp, self.weight, self.counts, self.explorer, **arguments)  # type: ignore[arg-type]

    def added(self, plan: SaddlePlan) -> FloatArray:
        if isinstance(self.explorer, Samples):
            return plan.occupancy
        return visits(self.explorer.number * plan.occupancy, self.counts)

    @property
    def constraint(self) -> tuple[FloatArray | None, float]:
        return (None, 0.0) if self.policies is None else (self.policies.reward, self.policies.floor)


def random_instance(seed: int) -> Instance:
    """Kinds follow the seed's bits, so that every combination of them occurs equally often."""
    rng = np.random.default_rng(seed)
    constrained, stationary, pooled, samples = ((seed >> bit) & 1 == 1 for bit in range(4))
    mdp = random_model(rng, random_shape(rng), stationary, unknown=rng.choice([0.0, 0.2, 0.6]))
    counts = 10.0 ** rng.uniform(0, rng.choice([1.0, 3.0, 8.0]), mdp.shape[1:] if pooled else mdp.shape)
    weight = rng.uniform(0.1, 10.0, mdp.shape) * (rng.random(mdp.shape) < rng.choice([0.5, 1.0]))
    fixed = rng.random(mdp.shape) * rng.choice([0.0, 0.0, 1.0]) * 0.1
    number = float(10.0 ** rng.uniform(0, 4))
    policies = None
    if constrained:
        reward = rng.random(mdp.shape) * (rng.random(mdp.shape) < 0.5)
        best, worst = (best_value(mdp, sign * reward) for sign in (1.0, -1.0))
        assert best is not None
        assert worst is not None
        policies = PolicySet(reward, best[0] - rng.choice([0.02, 0.3, 0.7]) * (best[0] + worst[0]))
    return Instance(mdp, weight, counts, fixed, Samples(number) if samples else Episodes(number), policies)


@pytest.mark.parametrize("group", range(16))
def test_the_certificate_holds_the_conic_optimum(group: int) -> None:
    """`L ≤ optimum ≤ U`, the gap is what was asked for, and both bounds are confirmed by another route."""
    compared = 0
    for seed in range(group, 256, 16):
        instance = random_instance(seed)
        mdp, weight, counts, fixed = instance.mdp, instance.weight, instance.counts, instance.fixed
        reward, floor = instance.constraint
        samples = isinstance(instance.explorer, Samples)
        plan = instance.plan()
        slack = SOLVER * max(plan.upper, 1e-3)
        assert plan.status is SaddleStatus.OPTIMAL, seed
        assert plan.gap <= TOLERANCE, seed
        conic = conic_saddle(mdp, weight, counts, instance.explorer.number, samples, fixed, reward, floor)
        # The conic objective may lie below what its own point achieves, so its point is evaluated as well.
        achieved = upper_bound(mdp, weight, counts, fixed, conic.added, reward, floor)
        assert plan.lower <= achieved + slack, seed
        if conic.accurate:
            assert plan.lower <= conic.value + slack, seed
            assert conic.value <= plan.upper + slack, seed
            compared += 1
        added = instance.added(plan)
        exact = upper_bound(mdp, weight, counts, fixed, added, reward, floor)
        assert exact <= plan.upper + slack, seed
        assert plan.upper <= exact * (1 + TOLERANCE) + slack, seed
    # How often an interior-point method comes to its full accuracy depends on the processor; most of the time it does.
    assert compared >= 12


@pytest.mark.parametrize("seed", range(0, 64, 3))
def test_the_lower_bound_is_confirmed_by_an_independent_pass(seed: int) -> None:
    """From the adversary returned and the explorer's visits, numpy and HiGHS find a bound as good as the planner's."""
    instance = random_instance(seed)
    plan = instance.plan(tolerance=1e-3)
    adversary = occupancy(instance.mdp, plan.start.adversary)
    reward, floor = instance.constraint
    if reward is not None:
        assert (adversary * reward).sum() >= floor - 1e-8 * max(1.0, abs(floor))
    if isinstance(instance.explorer, Samples):
        return
    bound = lower_bound(
        instance.mdp, instance.weight, instance.counts, instance.fixed, adversary, instance.added(plan),
        instance.explorer.number, False,
    )  # fmt: skip
    last = plan.trace[-1, 1]
    assert bound <= plan.upper * (1 + SOLVER)
    assert bound >= last * (1 - 5e-3) - 1e-9


@pytest.mark.parametrize("seed", range(0, 32, 5))
def test_a_plan_is_a_policy_or_an_allocation(seed: int) -> None:
    instance = random_instance(seed)
    plan = instance.plan()
    if isinstance(instance.explorer, Samples):
        assert plan.occupancy.shape == instance.counts.shape
        np.testing.assert_allclose(plan.occupancy.sum(), instance.explorer.number)
        assert (plan.occupancy >= 0).all()
        return
    np.testing.assert_allclose(plan.policy.sum(axis=-1), plan.reached.astype(float), atol=1e-12)
    np.testing.assert_allclose(occupancy(instance.mdp, plan.policy), plan.occupancy, atol=1e-10)


def test_plans_are_deterministic_and_a_saved_start_gives_the_same_plan(tmp_path: Path) -> None:
    instance = replace(random_instance(4), explorer=Episodes(50.0))
    first, again = instance.plan(), instance.plan()
    assert first.policy.tobytes() == again.policy.tobytes()
    assert first.trace.tobytes() == again.trace.tobytes()
    np.savez(tmp_path / "start.npz", **vars(first.start))
    loaded = np.load(tmp_path / "start.npz")
    start = SaddleStart(loaded["explorer"], loaded["adversary"], float(loaded["weight"]))
    warm, reloaded = instance.plan(start=first.start), instance.plan(start=start)
    assert warm.policy.tobytes() == reloaded.policy.tobytes()
    assert warm.trace.tobytes() == reloaded.trace.tobytes()
    assert warm.iterations <= first.iterations


def test_inputs_stay_as_they_were_and_units_do_not_matter() -> None:
    instance = random_instance(0)
    counts, weight = instance.counts.copy(), instance.weight.copy()
    plan = instance.plan()
    assert (counts == instance.counts).all()
    assert (weight == instance.weight).all()
    assert instance.counts.flags.writeable
    scaled = replace(instance, weight=weight * 1024.0, fixed=instance.fixed * 1024.0).plan()
    assert scaled.iterations == plan.iterations
    np.testing.assert_allclose(scaled.upper, plan.upper * 1024.0, rtol=1e-9)


def test_nothing_uncertain_is_a_plan_with_no_gap() -> None:
    mdp = random_model(np.random.default_rng(0), (3, 2, 2), True, 0.0)
    plan = solve_saddle(mdp, np.zeros(mdp.shape), np.ones(mdp.shape), Episodes(5))
    assert (plan.upper, plan.lower, plan.gap, plan.status) == (0.0, 0.0, 0.0, SaddleStatus.OPTIMAL)


def test_running_out_of_iterations_is_said_and_the_bounds_still_hold() -> None:
    instance = replace(random_instance(6), explorer=Episodes(1000.0))
    short, full = instance.plan(max_iterations=2, tolerance=1e-6), instance.plan(tolerance=1e-4)
    assert short.status is SaddleStatus.LIMIT
    assert short.iterations == 2
    assert short.lower <= full.upper
    assert full.lower <= short.upper
    exact = upper_bound(
        instance.mdp, instance.weight, instance.counts, instance.fixed, instance.added(short), *instance.constraint
    )
    np.testing.assert_allclose(exact, short.upper, rtol=1e-6)


def test_a_naive_explorer_leaves_more_uncertain() -> None:
    """Uniform actions are what the plan starts from; on a chain they do not reach the end, and the plan does."""
    length = 8
    transitions = np.zeros((length, 2, length))
    for s in range(length):
        transitions[s, 0, 0] = 1.0
        transitions[s, 1, min(s + 1, length - 1)] = 1.0
    mdp = MDP.from_dense(transitions, initial=0, horizon=length)
    counts, weight = np.ones((length, 2)), np.ones(mdp.shape)
    plan = solve_saddle(mdp, weight, counts, Episodes(1000))
    uniform = 1000 * occupancy(mdp, np.full(mdp.shape, 0.5)).sum(axis=0)
    naive = upper_bound(mdp, weight, counts, np.zeros(mdp.shape), uniform, None, 0.0)
    assert plan.upper < 0.7 * naive


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": -1.0}, "weight"),
        ({"counts": 0.0}, "counts"),
        ({"number": 0.0}, "number"),
        ({"floor": 99.0}, "policy set is empty"),
    ],
)
def test_wrong_input_is_named(change: dict[str, float], message: str) -> None:
    mdp = random_model(np.random.default_rng(0), (3, 2, 2), True, 0.0)
    weight, counts = np.full(mdp.shape, change.get("weight", 1.0)), np.full(mdp.shape, change.get("counts", 1.0))
    policies = PolicySet(np.ones(mdp.shape), change["floor"]) if "floor" in change else None
    with pytest.raises(InputError, match=message):
        solve_saddle(mdp, weight, counts, Episodes(change.get("number", 1.0)), policies=policies)


@pytest.mark.parametrize("seed", range(120))
def test_constrained_agrees_with_a_linear_programme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_model(rng, random_shape(rng), bool(seed % 2), unknown=0.2)
    cost = rng.normal(size=mdp.shape)
    reward = rng.random(mdp.shape) * (rng.random(mdp.shape) < 0.5)
    best, worst = best_value(mdp, reward), best_value(mdp, -reward)
    assert best is not None
    assert worst is not None
    floor = best[0] - rng.choice([0.1, 0.5, 0.9]) * (best[0] + worst[0])
    answer, exact = solve_constrained(mdp, cost, reward, floor), best_value(mdp, cost, reward, floor)
    assert exact is not None
    assert answer.status in (ConstrainedStatus.OPTIMAL, ConstrainedStatus.SLACK, ConstrainedStatus.DEGENERATE)
    np.testing.assert_allclose(answer.value, exact[0], atol=1e-6)
    assert -1e-9 <= answer.gap <= 1e-8
    assert len(answer.policies) == len(answer.weights) <= 2
    np.testing.assert_allclose((answer.occupancy * cost).sum(), answer.value, atol=1e-9)
    assert (answer.occupancy * reward).sum() >= floor - 1e-8
    slack = best_value(mdp, cost)
    assert slack is not None
    if answer.status is ConstrainedStatus.SLACK:
        np.testing.assert_allclose(answer.value, slack[0], atol=1e-6)
        assert answer.multiplier == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_a_floor_at_the_best_value_is_feasible_and_one_above_it_is_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_model(rng, random_shape(rng), True, unknown=0.2)
    cost, reward = rng.normal(size=mdp.shape), rng.random(mdp.shape)
    ceiling = float(mdp.initial @ optimal_values(mdp, reward)[1][0])
    at = solve_constrained(mdp, cost, reward, ceiling)
    assert at.status in (ConstrainedStatus.DEGENERATE, ConstrainedStatus.SLACK)
    np.testing.assert_allclose((at.occupancy * reward).sum(), ceiling, atol=1e-8)
    above = solve_constrained(mdp, cost, reward, ceiling + 0.25)
    assert above.status is ConstrainedStatus.INFEASIBLE
    np.testing.assert_allclose(above.shortfall, 0.25)
    assert np.isinf(above.bound)


def test_a_floor_at_the_best_value_picks_the_costliest_of_the_best_policies() -> None:
    """Two actions earn the reward, one of them costs more; a third costs most and earns nothing."""
    mdp = MDP.from_dense(np.ones((1, 3, 1)), initial=0, horizon=2)
    reward, cost = np.array([[1.0, 1.0, 0.0]]), np.array([[1.0, 2.0, 9.0]])
    answer = solve_constrained(mdp, cost, reward, 2.0)
    np.testing.assert_allclose(answer.value, 4.0, rtol=1e-9)
    half = solve_constrained(mdp, cost, reward, 1.0)
    assert half.status is ConstrainedStatus.OPTIMAL
    np.testing.assert_allclose(half.value, 11.0)
    np.testing.assert_allclose(half.multiplier, 7.0)


# Large problems are shared by threads; here small ones are, and the plan does not depend on how many threads there are.


def shared_plan(instance: Instance, threads: int, monkeypatch: pytest.MonkeyPatch, **options: object) -> SaddlePlan:
    """A plan whose passes so many threads share, whatever its size."""
    with monkeypatch.context() as patch:
        patch.setattr("aceirl.models.tabular.planner.saddle.SHARED", 0)
        patch.setattr("aceirl.models.tabular.planner.threads.available", lambda: threads)
        return instance.plan(**options)


@pytest.mark.parametrize("seed", range(16))
def test_a_plan_is_the_same_on_one_thread_and_on_many(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free and constrained adversaries, episodes and samples, pooled counts and counts per step."""
    instance = random_instance(seed)
    one, *others = (shared_plan(instance, threads, monkeypatch) for threads in (1, 2, 3, 4))
    for other in others:
        np.testing.assert_array_equal(one.trace, other.trace)
        np.testing.assert_array_equal(one.policy, other.policy)
        np.testing.assert_array_equal(one.occupancy, other.occupancy)
        np.testing.assert_array_equal(one.start.adversary, other.start.adversary)


@pytest.mark.parametrize("seed", range(16))
def test_threads_plan_as_one_compiled_call_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are added in another order, so the first bounds agree but for rounding, and later ones hold each other."""
    instance = random_instance(seed)
    alone = instance.plan(max_iterations=8, tolerance=1e-9)
    shared = shared_plan(instance, 2, monkeypatch, max_iterations=8, tolerance=1e-9)
    np.testing.assert_allclose(shared.trace[0], alone.trace[0], rtol=1e-9, atol=1e-12)
    assert shared.lower <= alone.upper * (1 + 1e-9) + 1e-12
    assert alone.lower <= shared.upper * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(16, 48))
def test_bounds_found_by_threads_are_confirmed_by_another_route(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upper bound is that of a linear programme for the plan returned, cold and from a start."""
    instance = random_instance(seed)
    reward, floor = instance.constraint
    cold = shared_plan(instance, 2, monkeypatch)
    for plan in (cold, shared_plan(instance, 3, monkeypatch, start=cold.start)):
        assert plan.status is SaddleStatus.OPTIMAL
        slack = SOLVER * max(plan.upper, 1e-3)
        added = instance.added(plan)
        exact = upper_bound(instance.mdp, instance.weight, instance.counts, instance.fixed, added, reward, floor)
        assert exact <= plan.upper + slack
        assert plan.lower <= exact + slack


def test_an_error_in_one_thread_ends_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes out, and no thread is left."""
    before = threading.active_count()

    def fails(*arguments: object) -> None:
        if arguments[-2] == 1:
            raise MemoryError("no room")

    monkeypatch.setattr("aceirl.models.tabular.planner.threads._respond_step", fails)
    with pytest.raises(MemoryError, match="no room"):
        shared_plan(random_instance(0), 3, monkeypatch)
    assert threading.active_count() == before


def test_only_large_steps_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long horizon of small steps is not: threads would meet more often than they work."""
    monkeypatch.setitem(sys.modules, "aceirl.models.tabular.planner.threads", None)  # whoever imports it fails
    assert random_instance(0).plan().status is SaddleStatus.OPTIMAL
    monkeypatch.setattr("aceirl.models.tabular.planner.saddle.SHARED", 0)
    with pytest.raises(ImportError):
        random_instance(0).plan()


@pytest.mark.parametrize(
    ("numba_threads", "omp", "expected"), [(8, None, 4), (2, None, 2), (8, "1", 1), (1, "8", 1), (3, "4,2", 3)]
)
def test_threads_are_as_many_as_cores_unless_less_is_asked_for(
    numba_threads: int, omp: str | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes of a sweep are told to use one core each by these variables."""
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", numba_threads)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if omp is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", omp)
    assert available() == expected


def test_answers_begin_softer_in_large_problems_and_the_more_so_the_more_actions_there_are() -> None:
    assert softness_of((20, 50, 4), 0.05) == 1
    few, some, many = (softness_of((20, 10**6, actions), 0.05) for actions in (2, 4, 10))
    assert 1 < few < some < many == softness_of((20, 10**6, 100), 0.05)
    assert softness_of((20, 10**6, 1), 0.05) == 1
    assert softness_of((20, 10**6, 10), 0.01) < many

"""The passes and the planner for a GPU, run by numba's simulator: the same source, without a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from aceirl.errors import InputError
from aceirl.models.tabular import backends, dynamic_programming
from aceirl.models.tabular.kernels import config
from aceirl.models.tabular.mdp import MDP, FloatArray, Transitions
from aceirl.models.tabular.planner import Episodes, PolicySet, SaddlePlan, Samples, Separable, solve_saddle

HORIZON, STATES, ACTIONS = 3, 4, 2
SHAPE = (HORIZON, STATES, ACTIONS)


def random_mdp(rng: np.random.Generator, *, stationary: bool = True, unknown: bool = False) -> MDP:
    """Three successors a row; with `unknown`, one state has a row that nobody has tried."""
    rows = np.zeros((STATES, ACTIONS, STATES) if stationary else (HORIZON, STATES, ACTIONS, STATES))
    for row in np.ndindex(rows.shape[:-1]):
        rows[row][rng.permutation(STATES)[:3]] = rng.dirichlet(np.ones(3))
    if unknown:
        rows[..., 1, 1, :] = 0.0
    sparse = csr_array(rows.reshape(-1, STATES))
    transitions = Transitions(
        STATES, ACTIONS, sparse.indptr, sparse.indices, sparse.data, None if stationary else HORIZON
    )
    return MDP(HORIZON, transitions, np.array([0.7, 0.3, 0.0, 0.0]))


def problem(rng: np.random.Generator) -> tuple[Separable, FloatArray]:
    """A weight and pooled counts."""
    return Separable(np.arange(HORIZON, 0, -1.0), rng.uniform(0.5, 2.0, SHAPE[1:])), rng.integers(
        1, 9, SHAPE[1:]
    ).astype(np.float64)


@pytest.mark.parametrize("discount", [1.0, 0.7])
@pytest.mark.parametrize("stationary", [True, False])
def test_passes_agree_with_those_of_the_processor(stationary: bool, discount: float) -> None:
    from aceirl.models.tabular import gpu

    rng = np.random.default_rng(0)
    mdp = replace(random_mdp(rng, stationary=stationary, unknown=True), discount=discount)
    reward, policy = rng.normal(size=SHAPE), rng.dirichlet(np.ones(ACTIONS), SHAPE[:2])
    unknown = rng.normal(size=HORIZON)
    for soft, on_processor in ((False, dynamic_programming.optimal_values), (True, dynamic_programming.soft_values)):
        for found, expected in zip(
            gpu.sweep(mdp, reward, unknown, soft=soft), on_processor(mdp, reward, unknown), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(gpu.occupancy(mdp, policy), dynamic_programming.occupancy(mdp, policy), atol=1e-15)


def test_the_backend_is_a_choice_of_backward_induction_and_occupancy() -> None:
    rng = np.random.default_rng(1)
    mdp, reward = random_mdp(rng), rng.normal(size=SHAPE)
    for function in (dynamic_programming.optimal_values, dynamic_programming.soft_values):
        for found, expected in zip(function(mdp, reward, backend="gpu"), function(mdp, reward), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    policy = rng.dirichlet(np.ones(ACTIONS), SHAPE[:2])
    expected = dynamic_programming.occupancy(mdp, policy)
    np.testing.assert_allclose(dynamic_programming.occupancy(mdp, policy, backend="gpu"), expected, atol=1e-15)


def planned_twice(rng: np.random.Generator, explorer: Any, **options: Any) -> tuple[SaddlePlan, SaddlePlan]:
    mdp = random_mdp(rng, unknown=True)
    weight, counts = problem(rng)
    if options.pop("per_step", False):
        counts = rng.integers(1, 9, SHAPE).astype(np.float64)
    if options.pop("fixed", False):
        options["fixed"] = rng.uniform(0, 0.2, SHAPE)
    if options.pop("policies", False):
        reward = rng.uniform(size=SHAPE)
        best = float(mdp.initial @ dynamic_programming.optimal_values(mdp, reward)[1][0])
        options["policies"] = PolicySet(reward, 0.95 * best)
    first, second = (
        solve_saddle(mdp, np.asarray(weight), counts, explorer, tolerance=0.05, backend=backend, **options)
        for backend in ("gpu", "cpu")
    )
    return first, second


@pytest.mark.parametrize(
    ("explorer", "options"),
    [
        (Episodes(20.0), {}),
        (Episodes(20.0), {"per_step": True, "fixed": True}),
        (Episodes(20.0), {"policies": True}),
        (Samples(30.0), {}),
    ],
)
def test_plans_are_those_of_the_processor(explorer: Any, options: dict[str, Any]) -> None:
    found, expected = planned_twice(np.random.default_rng(2), explorer, **options)
    assert found.status == expected.status
    assert found.iterations == expected.iterations
    np.testing.assert_allclose(found.trace, expected.trace, rtol=1e-9)
    np.testing.assert_allclose(found.policy, expected.policy, atol=1e-9)
    np.testing.assert_allclose(found.occupancy, expected.occupancy, atol=1e-9)
    assert found.multiplier == pytest.approx(expected.multiplier, abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"policies": True}])
def test_a_plan_can_start_from_an_earlier_one(options: dict[str, Any]) -> None:
    earlier = planned_twice(np.random.default_rng(3), Episodes(20.0), **dict(options))[1].start
    found, expected = planned_twice(np.random.default_rng(3), Episodes(25.0), start=earlier, **options)
    assert found.iterations == expected.iterations
    np.testing.assert_allclose(found.trace, expected.trace, rtol=1e-9)


@pytest.mark.parametrize("cached", [10**6, 0])
def test_a_mixture_is_the_plan_with_nothing_of_its_size(cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With values in single precision too, its bounds are bounds, and its answers are what was counted."""
    from aceirl.models.tabular.planner import gpu

    monkeypatch.setattr(gpu, "CACHED", cached)
    rng = np.random.default_rng(4)
    mdp, number = random_mdp(rng), 20.0
    weight, counts = problem(rng)
    plan = solve_saddle(mdp, weight, counts, Episodes(number), tolerance=0.05, backend="gpu")
    mixture = plan.mixture
    assert mixture is not None
    assert plan.policy.size == plan.start.adversary.size == 0
    whole = np.asarray(weight)
    visits = np.zeros(SHAPE)
    for index in range(len(mixture)):
        answer = mixture.policy(index)
        policy = np.stack([answer.shares(h, np.arange(STATES)) for h in range(HORIZON)])
        visits += dynamic_programming.occupancy(mdp, policy) / len(mixture)
    np.testing.assert_allclose(visits.sum(axis=0), mixture.visits, atol=1e-12)
    np.testing.assert_allclose(plan.occupancy, mixture.visits)
    left = whole / np.sqrt(counts + number * mixture.visits)
    upper = float(mdp.initial @ dynamic_programming.optimal_values(mdp, left)[1][0])
    assert upper * (1 - 1e-12) <= plan.upper <= upper * (1 + 1e-5)
    best = solve_saddle(mdp, whole, counts, Episodes(number), tolerance=0.001, backend="cpu")
    assert plan.lower <= best.upper * (1 + 1e-12)
    assert plan.gap <= 0.05
    if cached:
        same = solve_saddle(mdp, whole, counts, Episodes(number), tolerance=0.05, backend="cpu")
        np.testing.assert_allclose(plan.trace, same.trace, rtol=1e-9)


def test_wrong_backends_and_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    mdp = random_mdp(rng)
    weight, counts = problem(rng)
    with pytest.raises(InputError, match="did you mean 'gpu'"):
        solve_saddle(mdp, weight, counts, Episodes(1.0), backend="gpus")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="3 steps"):
        solve_saddle(mdp, Separable(np.ones(4), weight.entries), counts, Episodes(1.0), backend="gpu")
    with pytest.raises(InputError, match="weight"):
        solve_saddle(mdp, Separable(-np.ones(3), weight.entries), counts, Episodes(1.0), backend="cpu")
    monkeypatch.setattr(backends, "available", lambda: False)
    with pytest.raises(InputError, match="needs an NVIDIA GPU"):
        solve_saddle(mdp, weight, counts, Episodes(1.0), backend="gpu")


def test_a_large_problem_goes_to_a_gpu_but_never_to_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not backends.uses_gpu("auto", 10**9)
    monkeypatch.setattr(config, "ENABLE_CUDASIM", 0)
    monkeypatch.setattr(backends, "available", lambda: True)
    assert backends.uses_gpu("auto", backends.WORTH_IT)
    assert not backends.uses_gpu("auto", backends.WORTH_IT - 1)
    assert not backends.uses_gpu("cpu", 10**9)

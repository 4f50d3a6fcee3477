"""The planner on one GPU: beside the processor, as problems grow, with both bounds confirmed by another pass.

    python benchmarks/gpu.py [--sizes 1e6 1e7 1e8 1e9] [--batch 1.0] [--tolerances 0.05 0.01] [--cpu-up-to 1e7]

A problem has `H·S·A` variables, `H = 100` (or `--horizon`), ten actions, three random successors a row, as many past
visits as rows and a batch of `--batch` of that, with pooled counts and a separable weight. The other pass is written
with arrays alone (CuPy on the GPU if it is there, else NumPy): it works out the upper bound from the plan's visits and
the lower bound from the averaged adversary, and checks that visits are those of an episode.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import _frame as frame
import numpy as np

from aceirl.models.tabular.gpu import DeviceArray
from aceirl.models.tabular.mdp import MDP, FloatArray, Transitions
from aceirl.models.tabular.planner import Episodes, SaddlePlan, Separable, solve_saddle
from aceirl.models.tabular.planner.gpu import on_gpu
from aceirl.models.tabular.planner.passes import NOTHING, SaddleProblem
from aceirl.models.tabular.planner.play import begin

ACTIONS, SUCCESSORS, DELTA = 10, 3, 0.1


@dataclass(frozen=True, eq=False)
class Instance:
    """An exploration problem with pooled counts `[S, A]`, all policies plausible, and nothing of size `H·S·A`."""

    mdp: MDP
    weight: Separable
    counts: FloatArray
    number: float

    def plan(self, tolerance: float, backend: Any) -> tuple[SaddlePlan, float]:
        began = time.perf_counter()
        plan = solve_saddle(
            self.mdp, self.weight, self.counts, Episodes(self.number), tolerance=tolerance, backend=backend
        )
        return plan, time.perf_counter() - began


def instance(size: float, batch: float, horizon: int) -> Instance:
    """About `size` variables."""
    rng = np.random.default_rng(0)
    n_states = round(size / (horizon * ACTIONS))
    rows = n_states * ACTIONS
    probabilities = rng.standard_exponential((rows, SUCCESSORS))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    transitions = Transitions(
        n_states,
        ACTIONS,
        np.arange(0, SUCCESSORS * rows + 1, SUCCESSORS),
        np.sort(rng.integers(0, n_states, (rows, SUCCESSORS), dtype=np.int32), axis=1).ravel(),
        probabilities.ravel(),
    )
    mdp = MDP(horizon, transitions, np.eye(1, n_states)[0])
    episodes = rows / horizon
    counts = np.maximum(1.0, np.floor(episodes * uniform_visits(mdp)))
    entries = 2 * np.sqrt(2 * np.log(24 * counts.size * horizon * counts**2 / DELTA))
    return Instance(mdp, Separable(np.arange(horizon, 0, -1.0), entries), counts, batch * episodes)


def uniform_visits(mdp: MDP) -> FloatArray:
    """`[S, A]`: what an episode of uniform actions does at all steps together."""
    ones = np.ones((1, *mdp.shape[1:]))
    plain = SaddleProblem(ones, ones, NOTHING, NOTHING, -np.inf, 0.0, 0.0, 1.0, False)
    model, problem, state = on_gpu(mdp, plain, np.ones(mdp.horizon))
    begin(model, problem, state)
    explored: DeviceArray = state.explored
    return np.asarray(explored.copy_to_host()[0])


def confirmed(problem: Instance, plan: SaddlePlan) -> tuple[float, float, float]:
    """`(upper, lower, visits of an episode)`, worked out with arrays alone."""
    xp: Any = import_module("cupy") if find_spec("cupy") else np
    assert plan.mixture is not None
    mdp, steps = problem.mdp, problem.weight.steps
    rows = mdp.transitions
    successors = xp.asarray(rows.successors).reshape(*mdp.shape[1:], SUCCESSORS)
    probabilities = xp.asarray(rows.probabilities).reshape(successors.shape)
    counts, visits, weighted = (xp.asarray(a) for a in (problem.counts, plan.mixture.visits, plan.mixture.weighted))
    z = counts + problem.number * visits

    def best(cost: Any, scale: FloatArray) -> float:
        values = xp.zeros(mdp.n_states)
        for h in range(mdp.horizon - 1, -1, -1):
            after = probabilities[..., 0] * values[successors[..., 0]]
            for k in range(1, SUCCESSORS):
                after += probabilities[..., k] * values[successors[..., k]]
            values = (scale[h] * cost + after).max(axis=1)
        return float(values[0])

    upper = best(xp.asarray(problem.weight.entries) / xp.sqrt(z), steps)
    price = weighted / (2 * z**1.5)
    value = float((weighted / xp.sqrt(z)).sum())
    held = float((price * counts).sum()) + problem.number * best(price, np.ones(mdp.horizon))
    return upper, value * np.sqrt(value / (2 * held)), float(visits.sum())


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Every size, to every gap, on the GPU and, up to a size, on the processor too."""
    table = report.table(
        "gpu",
        frame.number("variables", "{:.0e}"),
        frame.number("gap asked for", "{:.0%}"),
        frame.Column("processor"),
        frame.number("seconds", "{:.2f}"),
        frame.number("iterations"),
        frame.number("upper", "{:.3f}"),
        frame.number("… by the other pass", "{:.3f}"),
        frame.number("lower", "{:.3f}"),
        frame.number("… by the other pass", "{:.3f}"),
        frame.number("visits of an episode", "{:.6f}"),
    )
    small = instance(min(1e4, *options.sizes), options.batch, options.horizon)
    for backend in ("gpu", "cpu"):  # compiles
        small.plan(0.5, backend)
    for size in options.sizes:
        problem = instance(size, options.batch, options.horizon)
        for tolerance in options.tolerances:
            plan, seconds = problem.plan(tolerance, "gpu")
            upper, lower, visits = confirmed(problem, plan)
            found = seconds, plan.iterations, plan.upper, upper, plan.lower, lower, visits
            table.add(size, tolerance, "GPU", *found)
            if size <= options.cpu_up_to:
                plan, seconds = problem.plan(tolerance, "cpu")
                table.add(size, tolerance, "CPU", seconds, plan.iterations, plan.upper, None, plan.lower, None, None)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--sizes", type=float, nargs="+", default=[1e6, 1e7, 1e8, 1e9]),
        frame.argument("--tolerances", type=float, nargs="+", default=[0.05, 0.01]),
        frame.argument("--batch", type=float, default=1.0, help="new episodes, as a share of all past ones"),
        frame.argument("--horizon", type=int, default=100),
        frame.argument("--cpu-up-to", type=float, default=1e7, help="the largest size for the processor"),
    )

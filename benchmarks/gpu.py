"""The planner on one GPU: beside the processor, as problems grow, with both bounds confirmed by another pass.

    python benchmarks/gpu.py [--sizes 1e6 1e7 1e8 1e9] [--batch 1.0] [--cpu-up-to 1e7] [--out FILE.json]

A problem has `H·S·A` variables, `H = 100` (or `--horizon`), ten actions, three random successors a row, as many past
visits as rows and a batch of `--batch` of that, with pooled counts and a separable weight. The other pass is written
with arrays alone (CuPy on the GPU if it is there, else NumPy): it works out the upper bound from the plan's visits and
the lower bound from the averaged adversary, and checks that visits are those of an episode.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.gpu import on_device
from aceirl.mdp import MDP, FloatArray, Transitions
from aceirl.planner import Episodes, SaddlePlan, Separable, solve_saddle
from aceirl.planner.board import Answer, Board, Terms
from aceirl.planner.gpu import UNIFORM

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
    board, shape = Board(mdp), (1, *mdp.shape[1:])
    ones, visits = on_device(shape), on_device(shape)
    ones.copy_to_device(np.ones(shape))
    answer = Answer(Terms(0, board.ones, board.nothing, ones, board.nothing, board.nothing), 0.0, UNIFORM)
    board.respond(answer)
    board.push(answer, 1.0, visits)
    return np.asarray(visits.copy_to_host()[0])


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


def measured(size: float, options: argparse.Namespace) -> dict[str, Any]:
    """One size: seconds to both gaps, and the bounds of the other pass."""
    began = time.perf_counter()
    problem = instance(size, options.batch, options.horizon)
    found: dict[str, Any] = {"size": float(np.prod(problem.mdp.shape)), "set_up": time.perf_counter() - began}
    if size == min(options.sizes):
        problem.plan(0.5, "gpu")  # compiles
    for tolerance in (t for t in options.tolerances if t >= options.finest.get(size, 0.0)):
        plan, seconds = problem.plan(tolerance, "gpu")
        upper, lower, visits = confirmed(problem, plan)
        found[f"gpu {tolerance:g}"] = {
            "seconds": seconds, "iterations": plan.iterations, "gap": plan.gap, "upper": plan.upper,
            "lower": plan.lower, "other_upper": upper, "other_lower": lower, "visits": visits,
        }  # fmt: skip
        print(json.dumps({"size": size, f"gpu {tolerance:g}": found[f"gpu {tolerance:g}"]}), flush=True)
        if size <= options.cpu_up_to and (size < 1e8 or tolerance >= 0.05):
            plan, seconds = problem.plan(tolerance, "cpu")
            found[f"cpu {tolerance:g}"] = {"seconds": seconds, "iterations": plan.iterations, "gap": plan.gap}
            print(json.dumps({"size": size, f"cpu {tolerance:g}": found[f"cpu {tolerance:g}"]}), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 1e7, 1e8, 1e9])
    parser.add_argument("--tolerances", type=float, nargs="+", default=[0.05, 0.01])
    parser.add_argument("--batch", type=float, default=1.0)
    parser.add_argument("--horizon", type=int, default=100)
    parser.add_argument("--cpu-up-to", type=float, default=1e7)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.finest = {1e10: 0.05}
    found = [measured(size, options) for size in options.sizes]
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

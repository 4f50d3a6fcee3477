"""How many samples a certificate needs, at ε = 0.1·H·Rmax and δ = 0.1.

    python benchmarks/certificates.py policy [seeds]        follow the expert, N_E = 1; also with a stationary expert
    python benchmarks/certificates.py criterion [seeds]     the same, with the first action forced in turn
    python benchmarks/certificates.py set [seeds]           explore for all policies, batches that grow geometrically
    python benchmarks/certificates.py transfer [runs]       train with the obstacle, promise for the room without it

Prints tables for `docs/certificates.md`.
"""

from __future__ import annotations

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from aceirl import Settings, learn, make
from aceirl.bounds import error_bound
from aceirl.certificates import Terms, transfer_certificate, transfer_policy
from aceirl.certificates.kinds import set_value
from aceirl.collect import collect
from aceirl.confidence import FAMILIES
from aceirl.counts import Counts, Estimate, ExpertKind
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.explore import Belief, strategy
from aceirl.irl import ALGORITHMS, action_values, made_feasible
from aceirl.kernels import evaluate, optimal_values

ENVIRONMENTS = ("random-mdp", "gridworld", "chain", "double-chain", "four-paths")
DELTA = 0.1


def mean_and_error(numbers: list[int]) -> str:
    spread = np.std(numbers, ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return f"{np.mean(numbers):.4g} ± {spread:.2g}"


def samples_until(kind: str, name: str, seed: int, *, stationary: bool = False) -> int:
    """Samples that the loop spends until the certificate of a kind stops it."""
    problem = make(name, seed)
    expert = PolicyExpert(problem.expert, problem.mdp.shape, stationary=stationary)
    settings = Settings(strategy="advice", irl="feasible-point", certify=kind, seed=seed, max_samples=10**6)
    *_, last = learn(Simulator(problem.mdp), expert, settings)
    assert last.record.stopped == "certificate"
    return last.record.samples


def policy_table(seeds: int) -> None:
    print(f"| environment | samples to `policy`, mean ± s.e. of {seeds} | expert declared stationary |")
    print("| --- | --- | --- |")
    for name in ENVIRONMENTS:
        plain = [samples_until("policy", name, seed) for seed in range(seeds)]
        declared = "its expert is not"
        if (make(name, 0).expert == make(name, 0).expert[0]).all() or name != "random-mdp":
            declared = mean_and_error(list(stationary_samples(name, seeds)))
        print(f"| {name} | {mean_and_error(plain)} | {declared} |", flush=True)


def stationary_samples(name: str, seeds: int) -> Iterator[int]:
    """With the expert's first-step answers taken as its answers at every step, which makes it stationary."""
    for seed in range(seeds):
        problem = make(name, seed)
        expert = PolicyExpert(problem.expert[0], problem.mdp.shape, stationary=True)
        settings = Settings(strategy="advice", irl="feasible-point", seed=seed, max_samples=10**6)
        *_, last = learn(Simulator(problem.mdp), expert, settings)
        yield last.record.samples


def criterion_table(seeds: int) -> None:
    print(f"| environment | actions | samples to `criterion`, mean ± s.e. of {seeds} | times `policy` |")
    print("| --- | --- | --- | --- |")
    for name in ENVIRONMENTS:
        literal = [samples_until("criterion", name, seed) for seed in range(seeds)]
        plain = [samples_until("policy", name, seed) for seed in range(seeds)]
        ratio = np.mean(literal) / np.mean(plain)
        print(f"| {name} | {make(name, 0).mdp.n_actions} | {mean_and_error(literal)} | {ratio:.2f} |", flush=True)


GROWTH = 1.15
"""Each batch has this much more episodes than all before it had, less one."""


def samples_to_set(name: str, family: str, explorer: str, seed: int) -> int:
    """Samples until (EB1) certifies, exploring in batches that grow with what was seen."""
    problem = make(name, seed)
    environment, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    horizon = problem.mdp.horizon
    epsilon, episodes, rng = 0.1 * horizon, 50, np.random.default_rng(seed)
    counts, plan_of, memory = Counts.empty(problem.mdp.shape), strategy(explorer), {}
    while True:
        known = Estimate.of(counts, kind=ExpertKind(), delta=DELTA / 3, initial=problem.mdp.initial)
        radii = FAMILIES[family](known, 1.0, DELTA)
        bound = error_bound(known.mdp, radii)
        if set_value(bound, radii) <= epsilon:
            return counts.samples
        nothing = np.zeros(problem.mdp.shape)
        batch = max(episodes, int((GROWTH - 1) * counts.samples / horizon))
        belief = Belief(known, radii, bound, nothing, 0.0, bound.value, 1.0, DELTA, batch, memory)
        plan = plan_of.plan(belief, rng)
        memory = dict(plan.memory)
        counts = counts + collect(environment, expert, replace(plan, ask=True), batch, counts, rng).counts


def set_table(seeds: int) -> None:
    print(f"| environment | paper's SP1, `hoeffding` | `kl` | `adaptive` | times fewer | ({seeds} seeds) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in ENVIRONMENTS:
        runs = {}
        for family, explorer in (("hoeffding", "greedy"), ("kl", "greedy"), ("adaptive", "greedy")):
            runs[family] = [samples_to_set(name, family, explorer, seed) for seed in range(seeds)]
        ratio = np.mean(runs["hoeffding"]) / np.mean(runs["adaptive"])
        cells = " | ".join(mean_and_error(numbers) for numbers in runs.values())
        print(f"| {name} | {cells} | {ratio:.0f} | |", flush=True)


SECTIONS: dict[str, tuple[Callable[[int], None], int]] = {
    "policy": (policy_table, 50),
    "criterion": (criterion_table, 20),
    "set": (set_table, 20),
}


def main() -> None:
    table, default = SECTIONS[sys.argv[1]]
    table(int(sys.argv[2]) if len(sys.argv) > 2 else default)


if __name__ == "__main__":
    main()

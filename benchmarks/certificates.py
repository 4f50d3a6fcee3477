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
from collections.abc import Callable

import numpy as np
from soundness import Case, transfer_regret

from aceirl import Settings, learn, make
from aceirl.bounds import error_bound
from aceirl.certificates import Terms, transfer_certificate
from aceirl.certificates.kinds import set_value
from aceirl.collect import Plan, collect
from aceirl.confidence import FAMILIES
from aceirl.counts import Counts, Estimate, ExpertKind
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.explore import Belief, strategy
from aceirl.irl import made_feasible
from aceirl.irl.max_causal_entropy import max_causal_entropy
from aceirl.mdp import FloatArray

ENVIRONMENTS = ("random-mdp", "gridworld", "chain", "double-chain", "four-paths")
DELTA = 0.1


def mean_and_error(numbers: list[int]) -> str:
    spread = np.std(numbers, ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return f"{np.mean(numbers):.4g} ± {spread:.2g}"


def samples_until(kind: str, name: str, seed: int, *, stationary: bool = False) -> int:
    """Samples that the loop spends until the certificate of a kind stops it."""
    problem = make(name, seed)
    # What the expert would do at the first step, it then does at every step; that makes it stationary.
    actions = problem.expert[0] if stationary else problem.expert
    expert = PolicyExpert(actions, problem.mdp.shape, stationary=stationary)
    settings = Settings(strategy="advice", irl="feasible-point", certify=kind, seed=seed, max_samples=10**6)
    *_, last = learn(Simulator(problem.mdp), expert, settings)
    assert last.record.stopped == "certificate"
    return last.record.samples


def policy_table(seeds: int) -> None:
    print(f"| environment | samples to `policy`, mean ± s.e. of {seeds} | largest | a stationary expert, declared so |")
    print("| --- | --- | --- | --- |")
    for name in ENVIRONMENTS:
        plain = [samples_until("policy", name, seed) for seed in range(seeds)]
        declared = [samples_until("policy", name, seed, stationary=True) for seed in range(seeds)]
        print(f"| {name} | {mean_and_error(plain)} | {max(plain)} | {mean_and_error(declared)} |", flush=True)


def criterion_table(seeds: int) -> None:
    print(f"| environment | actions | samples to `criterion`, mean ± s.e. of {seeds} | times `policy` |")
    print("| --- | --- | --- | --- |")
    for name in ENVIRONMENTS:
        literal = [samples_until("criterion", name, seed) for seed in range(seeds)]
        plain = [samples_until("policy", name, seed) for seed in range(seeds)]
        ratio = np.mean(literal) / np.mean(plain)
        print(f"| {name} | {make(name, 0).mdp.n_actions} | {mean_and_error(literal)} | {ratio:.2f} |", flush=True)


GROWTH = 1.15
"""How much larger all that was seen is after each batch."""


def samples_to_set(name: str, family: str, seed: int, explorer: str = "greedy") -> int:
    """Samples until (EB1) certifies, exploring in batches that grow with what was seen."""
    problem = make(name, seed)
    environment, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    horizon = problem.mdp.horizon
    epsilon, episodes, rng = 0.1 * horizon, 50, np.random.default_rng(seed)
    counts, plan_of = Counts.empty(problem.mdp.shape), strategy(explorer)
    memory: dict[str, FloatArray] = {}
    while True:
        known = Estimate.of(counts, kind=ExpertKind(), delta=DELTA / 3, initial=problem.mdp.initial)
        radii = FAMILIES[family](known, 1.0, DELTA)
        bound = error_bound(known.mdp, radii)
        if set_value(known, radii, bound) <= epsilon:
            return counts.samples
        nothing = np.zeros(problem.mdp.shape)
        batch = max(episodes, int((GROWTH - 1) * counts.samples / horizon))
        belief = Belief(known, radii, bound, nothing, 0.0, bound.value, 1.0, DELTA, batch, memory=memory)
        plan = plan_of.plan(belief, rng)
        memory = dict(plan.memory)
        counts = counts + collect(environment, expert, plan, batch, counts, rng).counts


def set_table(seeds: int) -> None:
    print(f"| environment | paper (`hoeffding`, 4·EB1) | `kl` | `adaptive` | times fewer | mean ± s.e. of {seeds} |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in ENVIRONMENTS:
        families = ("hoeffding", "kl", "adaptive")
        runs = {family: [samples_to_set(name, family, seed) for seed in range(seeds)] for family in families}
        ratio = np.mean(runs["hoeffding"]) / np.mean(runs["adaptive"])
        cells = " | ".join(mean_and_error(numbers) for numbers in runs.values())
        print(f"| {name} | {cells} | {ratio:.0f} | |", flush=True)


def transfer_table(runs: int) -> None:
    """Train in the Gridworld with its obstacle, promise for the one without, and compare with the truth."""
    print("| episodes explored | promised regret (mean) | regret (mean) | largest regret / promise | exceeded |")
    print("| --- | --- | --- | --- | --- |")
    sizes = (100, 10_000, 1_000_000, 100_000_000)
    for episodes in sizes:
        promised, lost = np.array([transfer_run(episodes, seed) for seed in range(runs // len(sizes))]).T
        exceeded = int((lost > promised).sum())
        ratio = (lost / promised).max()
        print(f"| {episodes:.0e} | {promised.mean():.3g} | {lost.mean():.3g} | {ratio:.2g} | {exceeded} |", flush=True)


def transfer_run(episodes: int, seed: int) -> tuple[float, float]:
    """`(promised regret, regret)` of planning with the recovered reward in the room without the obstacle."""
    problem, target = make("gridworld", seed), make("gridworld", seed, obstacle=0.0).mdp
    expert, shape, rng = PolicyExpert(problem.expert, problem.mdp.shape), problem.mdp.shape, np.random.default_rng(seed)
    plan = Plan(policy=np.full(shape, 1 / shape[2]))
    counts = collect(Simulator(problem.mdp), expert, plan, episodes, Counts.empty(shape), rng).counts
    known = Estimate.of(counts, kind=ExpertKind(), delta=DELTA / 3, initial=problem.mdp.initial)
    radii = FAMILIES["adaptive"](known, 1.0, DELTA)
    recovered = made_feasible(known, max_causal_entropy(known, 1.0), 1.0)
    terms = Terms(0.1 * problem.mdp.horizon, DELTA, 1.0, "adaptive")
    case = Case(problem.mdp, problem.expert.argmax(axis=2))
    promise = transfer_certificate(known, radii, recovered, target, terms).value
    return promise, transfer_regret(case, known, recovered, target)


SECTIONS: dict[str, tuple[Callable[[int], None], int]] = {
    "policy": (policy_table, 50),
    "criterion": (criterion_table, 20),
    "set": (set_table, 20),
    "transfer": (transfer_table, 1000),
}


def main() -> None:
    table, default = SECTIONS[sys.argv[1]]
    table(int(sys.argv[2]) if len(sys.argv) > 2 else default)


if __name__ == "__main__":
    main()

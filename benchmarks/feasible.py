"""How long the feasible reward set of Four Paths takes to answer, one question of each kind.

    python benchmarks/feasible.py [--seed N] [--repeat N]

The set is exact (H=20, S=41, A=4: 3280 rewards, 820 values) unless the row says "estimated": then it comes from 200
random episodes, with unknown rows and an expert asked only where they went. "Bounded": the goal is known to be worth
at least 0.5, and everything else at most 0.2. Each row: the median and the slowest of the repeats, a new question each
time, the median of the processor's time (which other work on the machine hardly changes), and the largest violation
that a backward induction found in the answers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from aceirl.counts import Counts, Estimate, ExpertKind
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.irl import FeasibleRewardSet, projected
from aceirl.rewards.agreement import matched_loss, recall, recall_of
from aceirl.irl.feasible_point import made_feasible
from aceirl.irl.max_causal_entropy import max_causal_entropy
from aceirl.irl.max_margin import max_margin


def main() -> None:
    """Ask, time and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    print(f"{'question':<42}{'median':>9}{'slowest':>9}{'processor':>11}   violation")
    for name, question in questions(arguments.seed, rng).items():
        question()
        seconds, processor, violations = [], [], []
        for _ in range(arguments.repeat):
            began, busy = time.perf_counter(), time.process_time()
            violations.append(question())
            seconds.append(time.perf_counter() - began)
            processor.append(time.process_time() - busy)
        clock = f"{np.median(seconds):>8.4f}s{max(seconds):>8.4f}s{np.median(processor):>10.4f}s"
        print(f"{name:<42}{clock}   {max(violations):.1e}", flush=True)


def questions(seed: int, rng: np.random.Generator) -> dict[str, Callable[[], float]]:
    """Each question by name; asking it returns the violation of its answer."""
    problem = make("four-paths", seed)
    shape = problem.mdp.shape
    exact = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, problem.rmax)
    bounded = exact.restricted(lower=0.5 * problem.reward, upper=np.maximum(0.2, problem.reward))
    moves = Simulator(problem.mdp).rollout(np.full(shape, 1 / shape[2]), 200, rng)
    counts = Counts.of_moves(moves, shape)
    asked = counts.visits.sum(axis=2, keepdims=True) > 0
    counts = counts.with_answers(asked * problem.expert.astype(np.int64))
    estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=problem.mdp.initial)
    recovered = FeasibleRewardSet.of_estimate(estimate, problem.rmax)
    entropy = max_causal_entropy(estimate, problem.rmax)
    wrong = np.where(
        rng.random(shape[:2]) < 0.05, rng.integers(shape[2], size=shape[:2]), problem.expert.argmax(axis=2)
    )
    mistaken = FeasibleRewardSet.of_problem(problem.mdp, wrong, problem.rmax)

    def anything() -> np.ndarray:
        return rng.random(shape)

    def samples() -> float:
        return max(exact.contains(reward).violation for reward in exact.sample(rng, 10))

    def interval() -> float:
        low, high = bounded.interval(*(int(rng.integers(size)) for size in shape))
        return max(0.0, low - high)

    def matched() -> float:
        other = exact.matched(recovered, problem.reward)
        return float((np.abs(other - problem.reward) - exact.error_propagation(recovered, problem.reward)).max())

    def compare(loss: float) -> float:
        return max(0.0, -loss)

    def all_intervals() -> float:
        return float(np.abs(exact.intervals(list(np.ndindex(*shape))[:100]) - [0.0, 1.0]).max())

    return {
        "contains": lambda: exact.contains(problem.reward).violation,
        "parameters and match, with error bound": matched,
        "project, l1": lambda: exact.project(anything()).membership.violation,
        "project, linf": lambda: exact.project(anything(), "linf").membership.violation,
        "project, l1, slack 0.5": lambda: exact.with_slack(0.5).project(anything()).membership.violation,
        "project, l1, estimated": lambda: recovered.project(anything()).membership.violation,
        "project, linf, estimated": lambda: recovered.project(anything(), "linf").membership.violation,
        "extreme": lambda: exact.extreme(anything() - 0.5).membership.violation,
        "extreme, estimated": lambda: recovered.extreme(anything() - 0.5).membership.violation,
        "100 intervals": all_intervals,
        "interval, bounded": interval,
        "10 samples": samples,
        "least slack, bounded": lambda: compare(bounded.least_slack()),
        "recall of one reward": lambda: compare(recall_of(exact, mistaken, problem.reward)),
        "loss of one matched pair": lambda: compare(matched_loss(exact, mistaken, problem.reward)),
        "recall, estimated": lambda: compare(recall(exact, recovered).high),
        "recall, 5 % of the answers wrong": lambda: compare(recall(exact, mistaken).high),
        "maximum margin, estimated": lambda: max_margin(estimate, problem.rmax).infeasibility,
        "projected after max. causal entropy": lambda: projected(estimate, entropy, problem.rmax).infeasibility,
        "blended after max. causal entropy": lambda: compare(made_feasible(estimate, entropy, problem.rmax).blend),
    }


if __name__ == "__main__":
    main()

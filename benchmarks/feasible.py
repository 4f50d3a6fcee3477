"""How long the feasible reward set of Four Paths takes to answer, one question of each kind.

    python benchmarks/feasible.py [--rounds N] [--seed N]

The set is exact (H=20, S=41, A=4: 3280 rewards, 820 values) unless the row says "estimated": then it comes from 200
random episodes, with unknown rows and an expert asked only where they went. "Bounded": the goal is known to be worth
at least 0.5, and everything else at most 0.2. Each row: the median and the slowest of the rounds, a new question each
time, the median of the processor's time (which other work on the machine hardly changes), and the largest violation
that a backward induction found in the answers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import _frame as frame
import numpy as np

from aceirl import rewards
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.irl import MaxCausalEntropy, MaxMargin, reproducing_answers
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.rewards import FeasibleRewardSet


@dataclass(frozen=True)
class AtMost:
    """The largest of several figures."""

    seconds: float

    def __str__(self) -> str:
        return f"≤ {self.seconds:.3f}"


QUICK = (
    "contains",
    "parameters and match, with error bound",
    "recall of one reward",
    "loss of one matched pair",
)
SHOWN: dict[str, tuple[str | None, str | None]] = {
    "`project`, l1": ("project, l1", "project, l1, estimated"),
    "`project`, linf": ("project, linf", "project, linf, estimated"),
    "`project`, l1, slack 0.5": ("project, l1, slack 0.5", None),
    "`extreme`": ("extreme", "extreme, estimated"),
    "`interval`, bounded": ("interval, bounded", None),
    "10 samples": ("10 samples", None),
    "`least_slack`": ("least slack, bounded", None),
    "`recall`": ("recall, 5 % of the answers wrong", "recall, estimated"),
    "`MaxMargin`": (None, "maximum margin, estimated"),
    "`projected` after maximum causal entropy": (None, "projected after max. causal entropy"),
}
"""The rows that docs show: what they are called there, and the questions to the exact and to the estimated set."""


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Ask and time, and once more what the docs show of it."""
    rng = np.random.default_rng(options.seed)
    table = report.table(
        "feasible, all figures",
        frame.Column("question"),
        frame.number("median", "{:.4f} s"),
        frame.number("slowest", "{:.4f} s"),
        frame.number("processor", "{:.4f} s"),
        frame.number("violation", "{:.1e}"),
    )
    busy: dict[str, float] = {}
    for name, question in questions(options.seed, rng).items():
        question()
        seconds, processor, violations = [], [], []
        for _ in range(options.rounds):
            began, began_busy = time.perf_counter(), time.process_time()
            violations.append(question())
            seconds.append(time.perf_counter() - began)
            processor.append(time.process_time() - began_busy)
        busy[name] = float(np.median(processor))
        table.add(name, float(np.median(seconds)), max(seconds), busy[name], max(violations))
    shown = report.table(
        "feasible",
        frame.Column("question"),
        frame.Column("exact set", figure),
        frame.Column("estimated set (200 episodes)", figure),
        page="feasible-set.md",
    )
    quick = "`contains`, `matched`, `error_propagation`, `recall_of`, `matched_loss`"
    shown.add(quick, AtMost(max(busy[name] for name in QUICK)), None)
    for row, names in SHOWN.items():
        shown.add(row, *(None if name is None else busy[name] for name in names))


def figure(seconds: float | AtMost) -> str:
    """Seconds as the docs show them."""
    return str(seconds) if isinstance(seconds, AtMost) else f"{seconds:.2f}"


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
    entropy = MaxCausalEntropy(reproduce_answers=False)(estimate, problem.rmax)
    max_margin = MaxMargin(reproduce_answers=False)
    wrong = np.where(
        rng.random(shape[:2]) < 0.05, rng.integers(shape[2], size=shape[:2]), problem.expert.argmax(axis=2)
    )
    mistaken = FeasibleRewardSet.of_problem(problem.mdp, wrong, problem.rmax)

    def anything() -> np.ndarray:
        return rng.random(shape)

    def samples() -> float:
        return max(rewards.contains(exact, reward).violation for reward in rewards.sample(exact, rng, 10))

    def interval() -> float:
        low, high = rewards.interval(bounded, *(int(rng.integers(size)) for size in shape))
        return max(0.0, low - high)

    def matched() -> float:
        other = rewards.matched(exact, recovered, problem.reward)
        bound = rewards.error_propagation(exact, recovered, problem.reward)
        return float((np.abs(other - problem.reward) - bound).max())

    def compare(loss: float) -> float:
        return max(0.0, -loss)

    def blended() -> float:
        return compare(reproducing_answers(estimate, entropy, problem.rmax).blend)

    def all_intervals() -> float:
        return float(np.abs(rewards.intervals(exact, list(np.ndindex(*shape))[:100]) - [0.0, 1.0]).max())

    return {
        "contains": lambda: rewards.contains(exact, problem.reward).violation,
        "parameters and match, with error bound": matched,
        "project, l1": lambda: rewards.project(exact, anything()).membership.violation,
        "project, linf": lambda: rewards.project(exact, anything(), "linf").membership.violation,
        "project, l1, slack 0.5": lambda: rewards.project(exact.with_slack(0.5), anything()).membership.violation,
        "project, l1, estimated": lambda: rewards.project(recovered, anything()).membership.violation,
        "project, linf, estimated": lambda: rewards.project(recovered, anything(), "linf").membership.violation,
        "extreme": lambda: rewards.extreme(exact, anything() - 0.5).membership.violation,
        "extreme, estimated": lambda: rewards.extreme(recovered, anything() - 0.5).membership.violation,
        "100 intervals": all_intervals,
        "interval, bounded": interval,
        "10 samples": samples,
        "least slack, bounded": lambda: compare(rewards.least_slack(bounded)),
        "recall of one reward": lambda: compare(rewards.recall_of(exact, mistaken, problem.reward)),
        "loss of one matched pair": lambda: compare(rewards.matched_loss(exact, mistaken, problem.reward)),
        "recall, estimated": lambda: compare(rewards.recall(exact, recovered).high),
        "recall, 5 % of the answers wrong": lambda: compare(rewards.recall(exact, mistaken).high),
        "maximum margin, estimated": lambda: max_margin(estimate, problem.rmax).infeasibility,
        "projected after max. causal entropy": lambda: rewards.projected(estimate, entropy, problem.rmax).infeasibility,
        "blended after max. causal entropy": blended,
    }


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--rounds", type=int, default=5, help="questions of each kind"),
        frame.argument("--seed", type=int, default=0),
    )

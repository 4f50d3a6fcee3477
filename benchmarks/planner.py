"""How fast the planner is: beside conic solvers on the same instances, in the loop, and as instances grow.

    python benchmarks/planner.py [--rounds N] [--only rivals loop growth cores] [--largest N] [--skip-scs]
    python benchmarks/planner.py --picture                                      only docs/images/planner-gap.png
    python benchmarks/planner.py --against OTHER/src [--only WORD ...]          two versions of the package

Everything runs in one process, in turns, so that other work on the machine hits all sides alike. A gap is verified: the
plan that a solver returns is followed through the model and evaluated by the same exact pass, against one lower bound.
`Clarabel` is the sparse formulation of `studies/saddle.py`; `SCS, dense` is the paper's appendix as its released code
has it, with dense matrices and power atoms, on the same counts and the same `N_E`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import _frame as frame
import numpy as np
from _versions import dense, occupancy, optimal_values, sparse_mdp

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.kernels import config
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.models.tabular.planner import Episodes, SaddlePlan, solve_constrained, solve_saddle

PAGE = "planner.md"
PICTURE = frame.DOCS / "images" / "planner-gap.png"
DELTA = 0.1


@dataclass(frozen=True, eq=False)
class Instance:
    """One exploration problem with pooled counts `[S, A]` and all policies plausible."""

    name: str
    mdp: MDP
    weight: FloatArray
    counts: FloatArray
    number: float

    def plan(self, tolerance: float, **options: Any) -> SaddlePlan:
        return solve_saddle(self.mdp, self.weight, self.counts, Episodes(self.number), tolerance=tolerance, **options)

    def value(self, explored: FloatArray) -> float:
        """What the adversary can still get after `number` episodes of this occupancy `[H, S, A]`, re-followed first."""
        mass = explored.sum(axis=-1, keepdims=True)
        policy: FloatArray = np.divide(
            explored, mass, out=np.full(explored.shape, 1 / self.mdp.n_actions), where=mass > 1e-12
        )
        visits = occupancy(self.mdp, policy).sum(axis=0)
        cost = self.weight / np.sqrt(self.counts + self.number * visits)
        return float(self.mdp.initial @ optimal_values(self.mdp, cost)[1][0])


def radius_weight(counts: FloatArray, horizon: int) -> FloatArray:
    """`(H-h)·2·sqrt(2·log(24·S·A·H·n²/δ))`, the paper's radius times `√n`, without the `min`."""
    width: FloatArray = 2 * np.sqrt(2 * np.log(24 * counts.size * horizon * counts**2 / DELTA))
    return np.arange(horizon, 0, -1.0)[:, None, None] * width


def learned(environment: str, episodes: int, number: float, *, spread: bool = False) -> Instance:
    """The exploration problem after some random episodes; unknown rows are empty, or spread over all states."""
    problem = make(environment, seed=0)
    shape = problem.mdp.shape
    uniform = np.full(shape, 1 / shape[2])
    moves = Simulator(problem.mdp).rollout(uniform, episodes, np.random.default_rng(1))
    kind = ExpertKind()
    estimate = Estimate.of(Counts.of_moves(moves, shape), kind=kind, delta=DELTA, initial=problem.mdp.initial)
    counts = np.maximum(1.0, estimate.counts.visits.sum(axis=0))
    mdp = estimate.mdp
    if spread:
        rows = dense(mdp)
        rows[rows.sum(axis=-1) == 0] = 1 / shape[1]
        mdp = MDP.from_dense(rows, initial=mdp.initial, horizon=shape[0])
    return Instance(environment, mdp, radius_weight(counts, shape[0]), counts, number)


def random_sparse(size: int, per_entry: float, horizon: int = 20, n_actions: int = 4) -> Instance:
    """About `size` variables, three successors a row, as many past visits as rows, a batch of `per_entry` of that."""
    rng = np.random.default_rng(0)
    n_states = size // (horizon * n_actions)
    rows = n_states * n_actions
    mdp = sparse_mdp(
        horizon,
        n_states,
        n_actions,
        indptr=np.arange(0, 3 * rows + 1, 3),
        successors=np.sort(rng.integers(0, n_states, (rows, 3)), axis=1).astype(np.int32).ravel(),
        probabilities=rng.dirichlet(np.ones(3), rows).ravel(),
        initial=np.eye(1, n_states)[0],
    )
    episodes = rows / horizon
    visits = episodes * occupancy(mdp, np.full(mdp.shape, 1 / n_actions)).sum(axis=0)
    counts = np.maximum(1.0, np.floor(visits))
    weight = radius_weight(counts, horizon)
    weight.flags.writeable = False
    return Instance(f"random, {size:.0e}", mdp, weight, counts, per_entry * episodes)


# What two versions are compared by; each prepares, and then measures a round.

NAMES = {"four-paths-released": "Four Paths", "double-chain": "Double Chain"}
IN_THE_LOOP = ("ace", "ace-rf")


def cold_rounds(environment: str, spread: bool) -> frame.Round:
    """A plan from nothing."""
    instance = learned(environment, 200, 50.0, spread=spread)
    return frame.timed(lambda: instance.plan(0.01), 3 if environment == "four-paths-released" else 20)


def growth_rounds(size: int, per_entry: float) -> frame.Round:
    """A plan of a large instance."""
    instance = random_sparse(size, per_entry)
    return frame.timed(lambda: instance.plan(0.05, max_iterations=2000), max(1, 10**5 // size))


def constrained_rounds(environment: str) -> frame.Round:
    """The best cost under a floor on the reward."""
    instance = learned(environment, 200, 50.0)
    cost = instance.weight / np.sqrt(instance.counts)
    reward = make(environment, seed=0).reward
    floor = 0.9 * float(instance.mdp.initial @ optimal_values(instance.mdp, reward)[1][0])
    return frame.timed(lambda: solve_constrained(instance.mdp, cost, reward, floor), 20)


def loop_rounds(environment: str, strategy: str) -> frame.Round:
    """A run of 25 batches, most of which is planning."""
    problem = make(environment, seed=0)
    simulator, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    settings = Settings(
        strategy=strategy, irl="feasible-point", certify=None, episodes_per_iteration=50,
        max_samples=50 * 25 * problem.mdp.horizon,
    )  # fmt: skip
    return frame.timed(lambda: list(learn(simulator, expert, settings)))


MEASUREMENTS: dict[str, Callable[[], frame.Round]] = {
    **{
        f"cold, {name}{', spread' if spread else ''}": partial(cold_rounds, environment, spread)
        for environment, name in NAMES.items()
        for spread in (False, True)
    },
    **{
        f"loop of `{strategy}`, {name}": partial(loop_rounds, environment, strategy)
        for environment, name in NAMES.items()
        for strategy in IN_THE_LOOP
    },
    **{f"constrained, {name}": partial(constrained_rounds, environment) for environment, name in NAMES.items()},
    **{
        f"growth, {size:.0e} variables, batch {per_entry:g}": partial(growth_rounds, size, per_entry)
        for size in (10**4, 10**5, 10**6)
        for per_entry in (0.1, 1.0)
    },
}


# Beside other software, in the loop, and as instances grow.

SECTIONS = ("rivals", "loop", "growth", "cores")


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Compare versions or draw, if that was asked for; else measure the sections."""
    if options.picture:
        picture()
        return
    if frame.compared(options, report, MEASUREMENTS):
        return
    chosen = options.only or SECTIONS
    if "rivals" in chosen:
        rivals(report, options.rounds, options.skip_scs)
    if "loop" in chosen:
        in_the_loop(report)
    if "growth" in chosen:
        growth(report, options.largest)
    if "cores" in chosen:
        cores(report, options.rounds, options.largest)


def rivals(report: frame.Report, rounds: int, skip_scs: bool) -> None:
    """Cold plans after 200 random episodes with N_E = 50: this planner, Clarabel and SCS, in turns.

    Two treatments of rows never visited: empty, as in this package, and spread over all states. The second makes the
    conic problems much larger. SCS takes one turn only.
    """
    table = report.table(
        "planner-rivals",
        frame.Column("instance"),
        frame.Column("solver"),
        frame.Column("median", frame.seconds),
        frame.Column("verified gap", lambda gap: f"{100 * gap:.1f} %"),
        frame.Column("slower by", "{:,.0f} ×"),
        page=PAGE,
    )
    for environment, title in NAMES.items():
        for spread in (False, True):
            instance = learned(environment, 200, 50.0, spread=spread)
            solvers: dict[str, Callable[[Instance], FloatArray]] = {
                "this planner (1 %)": with_ours,
                "Clarabel, sparse": with_clarabel,
            }
            if not (skip_scs or spread):
                solvers["SCS, the released dense formulation"] = with_scs
            lower = instance.plan(1e-3).lower
            times, answers = in_turns(instance, solvers, rounds)
            ours = next(iter(times.values()))
            head: str | None = f"{title}, unknown rows spread over all states" if spread else title
            for name, taken in times.items():
                ratio = None
                if taken is not ours:
                    ratio = statistics.median(a / b for a, b in zip(taken, ours, strict=False))
                value = instance.value(answers[name])
                table.add(head, name, statistics.median(taken), (value - lower) / value, ratio)
                head = None


def in_turns(
    instance: Instance, solvers: dict[str, Callable[[Instance], FloatArray]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, FloatArray]]:
    """Wall-clock times of every solver, one after the other in each round, and their answers."""
    times: dict[str, list[float]] = {name: [] for name in solvers}
    answers: dict[str, FloatArray] = {}
    for turn in range(rounds):
        for name, solve in solvers.items():
            if turn > 0 and solve is with_scs:
                continue
            began = time.perf_counter()
            answers[name] = solve(instance)
            times[name].append(time.perf_counter() - began)
    return times, answers


def with_ours(instance: Instance) -> FloatArray:
    """This planner to a gap of one per cent."""
    return instance.plan(0.01).occupancy


def with_clarabel(instance: Instance) -> FloatArray:
    """The oracle's sparse formulation, at tolerances that are enough for a gap of one per cent."""
    from studies.saddle import conic_saddle

    loose = {"tol_gap_rel": 1e-3, "tol_gap_abs": 1e-3, "tol_feas": 1e-4}
    fixed = np.zeros(instance.mdp.shape)
    answer = conic_saddle(instance.mdp, instance.weight, instance.counts, instance.number, False, fixed, options=loose)
    return answer.occupancy.reshape(instance.mdp.shape)


def with_scs(instance: Instance) -> FloatArray:
    """The paper's appendix: `min bᵀy s.t. Aᵀy ≥ c(x), Ax = b, x ≥ 0`, dense `A`, power atoms, and SCS as it comes."""
    from studies.saddle import flow_matrix

    cp: Any = import_module("cvxpy")
    flow, start = flow_matrix(instance.mdp)
    dense = flow.toarray()
    x, y = cp.Variable(dense.shape[1]), cp.Variable(dense.shape[0])
    pool = np.tile(np.eye(instance.counts.size), instance.mdp.horizon)
    after = instance.counts.ravel() + instance.number * (pool @ x)
    radius = cp.multiply(instance.weight.ravel(), pool.T @ cp.power(after, -0.5))
    problem = cp.Problem(cp.Minimize(start @ y), [dense.T @ y >= radius, dense @ x == start, x >= 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.SCS)
    answer: FloatArray = np.maximum(np.asarray(x.value), 0.0)
    return answer.reshape(instance.mdp.shape)


def in_the_loop(report: frame.Report) -> None:
    """Plans of whole runs, each started from the last: `ace` with its policy set, `ace-rf` with all policies.

    A plan is all that the strategy does, the radius it expects and the policy set included.
    """
    table = report.table(
        "planner-loop",
        frame.Column("in the loop"),
        frame.Column("strategy"),
        frame.number("N_E"),
        frame.number("plans"),
        frame.number("median", frame.seconds),
        frame.number("slowest", frame.seconds),
        frame.number("largest gap", "{:.4f}"),
    )
    for environment, title in NAMES.items():
        for strategy in IN_THE_LOOP:
            times, gaps = planning_times(environment, strategy, episodes=50, iterations=25)
            table.add(title, f"`{strategy}`", 50, len(times), statistics.median(times), max(times), max(gaps))


def planning_times(
    environment: str, strategy: str, *, episodes: int, iterations: int
) -> tuple[list[float], list[float]]:
    """Seconds and gaps of every plan in three runs."""
    times: list[float] = []
    gaps: list[float] = []
    for seed in range(3):
        problem = make(environment, seed)
        settings = Settings(
            strategy=strategy, irl="feasible-point", certify=None, episodes_per_iteration=episodes, seed=seed,
            max_samples=episodes * iterations * problem.mdp.horizon,
        )  # fmt: skip
        for turn in learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings):
            if turn.record.planner_gap is not None:
                times.append(turn.record.planning_seconds)
                gaps.append(turn.record.planner_gap)
    return times, gaps


@dataclass(frozen=True)
class Pair:
    """A figure with a small batch and with a large one."""

    small: float
    large: float

    def __format__(self, spec: str) -> str:
        return f"{self.small:{spec}}, {self.large:{spec}}"


def growth(report: frame.Report, largest: float) -> None:
    """Cold plans to a gap of 5 % as instances grow; memory counts the instance and all that planning allocates."""
    table = report.table(
        "planner-growth",
        frame.Column("variables", power_of_ten),
        frame.Column("iterations", "{:.0f}"),
        frame.Column("seconds", "{:.2g}"),
        frame.Column("ns per variable and iteration", "{:.0f}"),
        frame.Column("memory in arrays of `[H,S,A]`, instance included", "{:.1f}"),
        page=PAGE,
    )
    planned(10**4, 1.0)  # what is compiled is loaded before anything is measured
    for power in range(4, int(np.log10(largest) + 1e-9) + 1):
        found = [planned(10**power, per_entry) for per_entry in (0.1, 1.0)]
        iterations, seconds, each, arrays = (Pair(*figure) for figure in zip(*found, strict=True))
        table.add(power, iterations, seconds, each, max(arrays.small, arrays.large))


def power_of_ten(power: int) -> str:
    """As in 10⁶."""
    return f"10{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(digit)] for digit in str(power))}"


def planned(size: int, per_entry: float) -> tuple[int, float, float, float]:
    """Iterations, seconds, nanoseconds per variable and iteration, and memory of one plan."""
    tracemalloc.start()
    instance = random_sparse(size, per_entry)
    tracemalloc.reset_peak()
    instance.plan(0.05, max_iterations=1)
    arrays = tracemalloc.get_traced_memory()[1] / (8 * instance.weight.size)
    tracemalloc.stop()
    began = time.perf_counter()
    plan = instance.plan(0.05, max_iterations=2000)
    seconds = time.perf_counter() - began
    return plan.iterations, seconds, seconds / plan.iterations / instance.weight.size * 1e9, arrays


def cores(report: frame.Report, rounds: int, largest: float) -> None:
    """Cold plans to a gap of 2 % on one core and on all, in turns, by the clock; the fastest of each.

    `H = 100`, ten actions. What threads do not share is the same call on both sides.
    """
    from aceirl.models.tabular.planner.threads import PARTS  # which other versions need not have

    number = min(PARTS, os.cpu_count() or 1)
    table = report.table(
        "planner-cores",
        frame.Column("variables", power_of_ten),
        frame.Column("iterations"),
        frame.Column("one core", frame.seconds),
        frame.Column(f"{number} cores", frame.seconds),
        frame.Column("faster by", "{:.2f} ×"),
        frame.Column("the same plan"),
        page=PAGE,
    )
    for power in range(4, int(np.log10(largest) + 1e-9) + 1):
        instance = random_sparse(10**power, 1.0, horizon=100, n_actions=10)
        times: dict[int, list[float]] = {1: [], number: []}
        plans: dict[int, SaddlePlan] = {}
        for turn in range(rounds + 1):
            for used, taken in times.items():
                config.NUMBA_NUM_THREADS, os.environ["OMP_NUM_THREADS"] = used, str(used)
                began = time.perf_counter()
                plans[used] = instance.plan(0.02, max_iterations=1 if turn == 0 else 2000)
                if turn > 0:  # the first is for loading what is compiled
                    taken.append(time.perf_counter() - began)
        one, many = (min(taken) for taken in times.values())
        same = np.array_equal(plans[1].policy, plans[number].policy)
        table.add(power, plans[1].iterations, one, many, one / many, "yes" if same else "no")


def plain_play(instance: Instance, step: float, iterations: int) -> FloatArray:
    """Gaps of fictitious play without any softening, step `c/(t+c)`: the baseline."""
    mdp, weight, counts, number = instance.mdp, instance.weight, instance.counts, instance.number
    visits = occupancy(mdp, np.full(mdp.shape, 1 / mdp.n_actions)).sum(axis=0)
    weighted, lower, gaps = np.zeros_like(visits), 0.0, []
    for t in range(iterations):
        z = counts + number * visits
        upper, answer = best_response(mdp, weight / np.sqrt(z))
        weighted += step / (t + step) * ((answer * weight).sum(axis=0) - weighted)
        price = 0.5 * weighted / z**1.5
        gain, direction = best_response(mdp, np.ascontiguousarray(np.broadcast_to(price, mdp.shape)))
        value = float((weighted / np.sqrt(z)).sum())
        lower = max(lower, value * np.sqrt(value / (2 * ((price * counts).sum() + number * gain))))
        gaps.append((upper - lower) / upper)
        visits += step / (t + 1 + step) * (direction.sum(axis=0) - visits)
    return np.array(gaps)


def best_response(mdp: MDP, cost: FloatArray) -> tuple[float, FloatArray]:
    """The best value for a cost and the occupancy of a policy that attains it."""
    q, v = optimal_values(mdp, cost)
    return float(mdp.initial @ v[0]), occupancy(mdp, np.eye(mdp.n_actions)[q.argmax(axis=-1)])


def picture() -> None:
    """Gap against iteration, with and without softening, on Four Paths and on a large random model."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
    instances = (learned("four-paths-released", 200, 50.0), random_sparse(10**5, 1.0))
    titles = ("Four Paths, 200 episodes, $N_E=50$", "random sparse model, $10^5$ variables")
    for axis, instance, title in zip(axes, instances, titles, strict=True):
        for step, style in ((1.5, ":"), (1.0, "--")):
            axis.loglog(
                plain_play(instance, step, 400), style, color="0.45", label=f"plain, step {step:g}/(t+{step:g})"
            )
        upper, lower = instance.plan(1e-3, max_iterations=400).trace.T
        axis.loglog((upper - lower) / upper, color="C0", label="softened (this planner)")
        axis.axhline(0.01, color="0.8", zorder=0)
        axis.set(title=title, xlabel="iteration", ylim=(3e-3, 1.1))
        axis.legend(frameon=False)
    axes[0].set_ylabel("certified relative gap")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=130)
    print(PICTURE)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        *frame.comparing(rounds=5),
        frame.argument("--largest", type=float, default=1e6, help="the most variables in the table of growth"),
        frame.argument("--skip-scs", action="store_true", part=True, help="leave the slowest rival out"),
        frame.argument("--picture", action="store_true", help="draw docs/images/planner-gap.png and do nothing else"),
    )

"""How fast the compiled passes are, beside plain scipy and QuantEcon, measured in turns in one process.

    python benchmarks/kernels.py [--rounds N]
    python benchmarks/kernels.py --against OTHER/src [--only WORD ...] [--rounds N]    two versions of the package

Times are the median and the best over rounds; on a busy machine the best is the one to believe. A ratio is the median
of the ratios within a round, so that other work on the machine hits both sides alike. QuantEcon may be absent:
`uv run --group bench python benchmarks/kernels.py` brings it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import _frame as frame
import numpy as np
from _versions import evaluate, greedy_actions, max_causal_entropy, occupancy, optimal_values, soft_values, sparse_mdp
from scipy.sparse import csr_array, csr_matrix

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.bounds import error_bound
from aceirl.models.tabular.confidence import FAMILIES
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray

EPISODES = 10**9
STEPPED = 10_000


def random_sparse(horizon: int = 20, n_states: int = 12_500, n_actions: int = 4, successors: int = 3) -> MDP:
    """A stationary process whose rows have that many random successors; by default `H·S·A = 10⁶`."""
    rng = np.random.default_rng(0)
    n_rows = n_states * n_actions
    return sparse_mdp(
        horizon,
        n_states,
        n_actions,
        indptr=np.arange(n_rows + 1) * successors,
        successors=rng.integers(n_states, size=n_rows * successors, dtype=np.int32),
        probabilities=rng.dirichlet(np.ones(successors), n_rows).ravel(),
        initial=np.eye(1, n_states)[0],
    )


def estimates(number: int = 100) -> list[Estimate]:
    """What is known of Four Paths after one, two, … episodes of its expert's."""
    problem, rng = make("four-paths", seed=0), np.random.default_rng(0)
    simulator, shape = Simulator(problem.mdp), problem.mdp.shape
    counts, known = Counts.empty(shape), []
    for _ in range(number):
        counts = counts + Counts.of_moves(simulator.rollout(problem.expert, 1, rng), shape)
        asked = counts.visits.any(axis=2, keepdims=True)
        counts = counts.with_answers(np.where(asked, problem.expert, 0).astype(np.int64))
        known.append(Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=problem.mdp.initial))
    return known


def infer(known: list[Estimate]) -> list[Any]:
    """Maximum causal entropy, each time from the last answer."""
    found: list[Any] = []
    for estimate in known:
        found.append(max_causal_entropy(estimate, 1.0, found[-1].parameters if found else None))
    return found


def stepped(simulator: Simulator, policy: FloatArray, episodes: int, rng: np.random.Generator) -> None:
    """Episodes one step at a time."""
    for _ in range(episodes):
        state = simulator.reset(rng)
        for h in range(simulator.horizon):
            state, _ = simulator.step(int(policy[h, state].argmax()))


# What two versions are compared by; each prepares, and then measures a round.


def on(
    prepare: Callable[[], tuple[MDP, FloatArray]], call: Callable[..., Any], calls: int
) -> Callable[[], frame.Round]:
    """Calls of a pass with a process and a reward."""

    def prepared() -> frame.Round:
        mdp, reward = prepare()
        policy = np.full(mdp.shape, 1 / mdp.n_actions)
        return frame.timed(lambda: call(mdp, reward, policy), calls)

    return prepared


def four_paths() -> tuple[MDP, FloatArray]:
    """`H·S·A = 3280`, and its reward."""
    problem = make("four-paths", seed=0)
    return problem.mdp, problem.reward


def large() -> tuple[MDP, FloatArray]:
    """`H·S·A = 10⁶`, and any reward."""
    mdp = random_sparse()
    return mdp, np.random.default_rng(1).random(mdp.shape)


def per_step() -> tuple[MDP, FloatArray]:
    """A process whose rows differ from step to step."""
    problem = make("random-mdp-released", seed=0)
    return problem.mdp, problem.reward


PASSES: dict[str, Callable[..., Any]] = {
    "backward": lambda mdp, reward, policy: optimal_values(mdp, reward),
    "soft backward": lambda mdp, reward, policy: soft_values(mdp, reward),
    "evaluation": evaluate,
    "occupancy": lambda mdp, reward, policy: occupancy(mdp, policy),
    "greedy actions": lambda mdp, reward, policy: greedy_actions(reward, np.random.default_rng(0)),
}
PROCESSES: dict[str, tuple[Callable[[], tuple[MDP, FloatArray]], int]] = {
    "Four Paths": (four_paths, 200),
    "per step, random": (per_step, 1000),
    "H·S·A = 10⁶": (large, 3),
}


def bound_rounds() -> frame.Round:
    """Radii and (EB1) of an estimate."""
    estimate = estimates()[-1]
    return frame.timed(lambda: error_bound(estimate.mdp, FAMILIES["kl"](estimate, 1.0, 0.1)), 100)


def rollout_rounds() -> frame.Round:
    """Many episodes at once."""
    problem, rng = make("double-chain", seed=0), np.random.default_rng(0)
    simulator = Simulator(problem.mdp)
    return frame.timed(lambda: simulator.rollout(problem.expert, EPISODES, rng), 5)


def walked_rounds() -> frame.Round:
    """A few episodes at once, which are walked."""
    problem, rng = make("double-chain", seed=0), np.random.default_rng(0)
    simulator = Simulator(problem.mdp)
    return frame.timed(lambda: simulator.rollout(problem.expert, 100, rng), 50)


def stepped_rounds() -> frame.Round:
    """Episodes one step at a time."""
    problem, rng = make("double-chain", seed=0), np.random.default_rng(0)
    simulator = Simulator(problem.mdp)
    return frame.timed(lambda: stepped(simulator, problem.expert, 100, rng), 3)


def estimate_rounds() -> frame.Round:
    """From counts to an estimate, all parts of it."""
    counts, initial = estimates()[-1].counts, make("four-paths", seed=0).mdp.initial

    def whole() -> tuple[Any, ...]:
        known = Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=initial)
        return known.mdp, known.row_visits, known.step_visits, known.expert_policy, known.expert_known

    return frame.timed(whole, 100)


def inference_rounds() -> frame.Round:
    """A hundred inferences."""
    known = estimates()
    return frame.timed(lambda: infer(known))


def run_rounds(strategy: str, environment: str, iterations: int, certify: str | None) -> Callable[[], frame.Round]:
    """Whole runs, as the loop drives them."""

    def prepared() -> frame.Round:
        problem = make(environment, seed=0)
        simulator, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
        settings = Settings(
            strategy=strategy, certify=certify, epsilon=1e-9, max_samples=iterations * problem.mdp.horizon
        )
        return frame.timed(lambda: list(learn(simulator, expert, settings)))

    return prepared


def start_rounds(*arguments: str) -> Callable[[], frame.Round]:
    """A fresh interpreter."""
    return lambda: frame.timed(
        lambda: subprocess.run([sys.executable, *arguments], capture_output=True, check=True), clock=time.perf_counter
    )


MEASUREMENTS: dict[str, Callable[[], frame.Round]] = {
    **{
        f"{name}, {where}": on(prepare, call, calls)
        for name, call in PASSES.items()
        for where, (prepare, calls) in PROCESSES.items()
    },
    "radii and (EB1), Four Paths": bound_rounds,
    "estimate, Four Paths": estimate_rounds,
    "roll-out of 10⁹ episodes, Double Chain": rollout_rounds,
    "roll-out of 100 episodes, Double Chain": walked_rounds,
    "100 episodes step by step, Double Chain": stepped_rounds,
    "100 inferences, Four Paths": inference_rounds,
    "run of `advice`, Four Paths, certify policy": run_rounds("advice", "four-paths", 100, "policy"),
    "run of `random`, Gridworld, no certificate": run_rounds("random", "gridworld", 100, None),
    "run of `greedy`, Chain, certify set": run_rounds("greedy", "chain", 100, "set"),
    "import aceirl": start_rounds("-c", "import aceirl"),
    "aceirl --help": start_rounds("-m", "aceirl", "--help"),
}


# Beside other software.


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Compare versions if that was asked for, and else with others."""
    if frame.compared(options, report, MEASUREMENTS):
        return
    table = report.table(
        "kernels",
        frame.Column("what"),
        frame.number("median", frame.seconds),
        frame.number("best", frame.seconds),
        frame.number("target", frame.seconds),
        frame.number("ours is faster by", "{:,.1f}×"),
    )
    chain, paths = make("double-chain", seed=0), make("four-paths", seed=0)
    backward_pass(
        table, "Four Paths, H·S·A = 3280", paths.mdp, paths.reward[0], options.rounds, calls=200, target=30e-6
    )
    sparse = random_sparse()
    reward = np.random.default_rng(1).random(sparse.shape[1:])
    backward_pass(table, "random sparse, H·S·A = 10⁶", sparse, reward, options.rounds, calls=3, target=10e-3)
    roll_out(table, chain.mdp, chain.expert, options.rounds)
    inference(table)
    start(table, "import aceirl", ["-c", "import aceirl"], target=1.0)
    start(table, "aceirl --help", ["-m", "aceirl", "--help"], target=0.5)


def backward_pass(
    table: frame.Table, name: str, mdp: MDP, reward: FloatArray, rounds: int, *, calls: int, target: float
) -> None:
    """One backward induction with a stationary reward `[S, A]`, the only kind QuantEcon has."""
    every_step = np.ascontiguousarray(np.broadcast_to(reward, mdp.shape))
    rivals = {"scipy": with_scipy(mdp, reward), "QuantEcon": with_quantecon(mdp, reward)}
    times = in_turns({"ours": lambda: optimal_values(mdp, every_step)[1], **rivals}, calls, rounds)
    row(table, f"backward, {name}", times["ours"], target)
    for rival in rivals:
        row(table, f"– {rival}", times[rival], None, against=times["ours"])


def with_scipy(mdp: MDP, reward: FloatArray) -> Callable[[], Any]:
    """Plain numpy and scipy: one sparse product and one maximum a step."""
    P = csr_array(mdp.transitions.matrix)

    def run() -> FloatArray:
        v = np.zeros((mdp.horizon + 1, mdp.n_states))
        for h in reversed(range(mdp.horizon)):
            v[h] = (reward + (P @ v[h + 1]).reshape(reward.shape)).max(axis=1)
        return v[:-1]

    np.testing.assert_allclose(run(), optimal_values(mdp, np.broadcast_to(reward, mdp.shape).copy())[1])
    return run


def with_quantecon(mdp: MDP, reward: FloatArray) -> Callable[[], Any] | None:
    """QuantEcon's own backward induction over state-action pairs."""
    try:
        from quantecon.markov import DiscreteDP, backward_induction
    except ImportError:
        return None
    P = csr_matrix(mdp.transitions.matrix)
    state, action = np.divmod(np.arange(mdp.transitions.n_rows), mdp.n_actions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that without discounting only finite horizons can be solved
        process = DiscreteDP(reward.ravel(), P, 1.0, state, action)

    def run() -> FloatArray:
        return np.asarray(backward_induction(process, mdp.horizon)[0][:-1])

    np.testing.assert_allclose(run(), optimal_values(mdp, np.broadcast_to(reward, mdp.shape).copy())[1])
    return run


def roll_out(table: frame.Table, mdp: MDP, policy: FloatArray, rounds: int) -> None:
    """10⁹ episodes at once, and 10⁴ of them one step at a time."""
    simulator, rng = Simulator(mdp), np.random.default_rng(0)
    times = in_turns({"at once": lambda: simulator.rollout(policy, EPISODES, rng)}, 3, rounds)
    row(table, "roll-out of 10⁹ episodes, Double Chain", times["at once"], 50e-3)
    began = time.perf_counter()
    stepped(simulator, policy, STEPPED, rng)
    taken = EPISODES / STEPPED * (time.perf_counter() - began)
    row(table, "– step by step, 10⁵ times 10⁴", [taken], None, against=times["at once"])


def inference(table: frame.Table) -> None:
    """Maximum causal entropy along a run on Four Paths, each time from the last answer."""
    known = estimates()
    infer(known[:1])
    seconds, found = [], list[Any]()
    for estimate in known:
        began = time.perf_counter()
        found.append(max_causal_entropy(estimate, 1.0, found[-1].parameters if found else None))
        seconds.append(time.perf_counter() - began)
    worst = max(recovered.residual for recovered in found)
    row(table, f"inference, Four Paths, largest residual {worst:.1e}", seconds[1:], 10e-3)


def start(table: frame.Table, name: str, arguments: list[str], *, target: float) -> None:
    """A fresh interpreter, five times; the first one, which may have to compile, is not counted."""
    begin = start_rounds(*arguments)()
    row(table, name, [begin() for _ in range(6)][1:], target)


def in_turns(runs: dict[str, Callable[[], Any] | None], calls: int, rounds: int) -> dict[str, list[float]]:
    """The seconds a call takes, for each round; every round runs everyone, one after the other."""
    able = {name: run for name, run in runs.items() if run is not None}
    for run in able.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in able.items():
            seconds[name].append(frame.timed(run, calls, time.perf_counter)())
    return seconds


def row(
    table: frame.Table, name: str, times: list[float], target: float | None, against: list[float] | None = None
) -> None:
    """One line: the median time, the target if there is one, and by how much ours is faster."""
    if not times:
        table.add(f"{name} (absent)", None, None, target, None)
        return
    ratio = None
    if against is not None:
        theirs = times if len(times) == len(against) else [times[0]] * len(against)
        ratio = statistics.median(their / our for their, our in zip(theirs, against, strict=True))
    table.add(name, statistics.median(times), min(times), target, ratio)


if __name__ == "__main__":
    frame.start(measure, __doc__, *frame.comparing(rounds=21))

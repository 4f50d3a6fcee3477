"""How fast the compiled passes are, beside plain scipy and QuantEcon, measured in turns in one process.

    uv run --group bench python benchmarks/kernels.py

Times are the median and the best over rounds; on a busy machine the best is the one to believe. A ratio is the median
of the ratios within a round, so that other work on the machine hits both sides alike. QuantEcon may be absent.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # everybody on one core

import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.dynamic_programming import optimal_values
from aceirl.loop import learn
from aceirl.mdp import MDP, FloatArray
from aceirl.settings import Settings


def main() -> None:
    """Measure and print."""
    print(f"{'what':<48}{'median':>10}{'best':>10}{'target':>10}{'ours is faster by':>20}")
    chain, paths = make("double-chain", seed=0), make("four-paths", seed=0)
    backward_pass("Four Paths, H·S·A = 3280", paths.mdp, paths.reward[0], calls=200, target=30e-6)
    large = random_sparse(20, 12_500, 4, successors=3)
    reward = np.random.default_rng(1).random(large.shape[1:])
    backward_pass("random sparse, H·S·A = 10⁶", large, reward, calls=3, target=10e-3)
    roll_out(chain.mdp, chain.expert)
    inference()
    start("import aceirl", ["-c", "import aceirl"], target=1.0)
    start("aceirl --help", ["-m", "aceirl", "--help"], target=0.5)


def backward_pass(name: str, mdp: MDP, reward: FloatArray, *, calls: int, target: float) -> None:
    """One backward induction with a stationary reward `[S, A]`, the only kind QuantEcon has."""
    per_step = np.ascontiguousarray(np.broadcast_to(reward, mdp.shape))
    rivals = {"scipy": with_scipy(mdp, reward), "QuantEcon": with_quantecon(mdp, reward)}
    rounds = in_turns({"ours": lambda: optimal_values(mdp, per_step)[1], **rivals}, calls)
    row(f"backward, {name}", rounds["ours"], target)
    for rival in rivals:
        row(f"  {rival}", rounds[rival], None, against=rounds["ours"])


def with_scipy(mdp: MDP, reward: FloatArray) -> Callable[[], Any]:
    """Plain numpy and scipy: one sparse product and one maximum a step."""
    shape = (mdp.n_rows, mdp.n_states)
    P = csr_array((mdp.probabilities, mdp.successors, mdp.indptr), shape=shape)

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
    P = csr_matrix((mdp.probabilities, mdp.successors, mdp.indptr), shape=(mdp.n_rows, mdp.n_states))
    state, action = np.divmod(np.arange(mdp.n_rows), mdp.n_actions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that without discounting only finite horizons can be solved
        process = DiscreteDP(reward.ravel(), P, 1.0, state, action)

    def run() -> FloatArray:
        return np.asarray(backward_induction(process, mdp.horizon)[0][:-1])

    np.testing.assert_allclose(run(), optimal_values(mdp, np.broadcast_to(reward, mdp.shape).copy())[1])
    return run


def random_sparse(horizon: int, n_states: int, n_actions: int, successors: int) -> MDP:
    """A stationary process whose rows have that many random successors."""
    rng = np.random.default_rng(0)
    n_rows = n_states * n_actions
    return MDP(
        horizon=horizon,
        n_states=n_states,
        n_actions=n_actions,
        indptr=np.arange(n_rows + 1) * successors,
        successors=rng.integers(n_states, size=n_rows * successors, dtype=np.int32),
        probabilities=rng.dirichlet(np.ones(successors), n_rows).ravel(),
        initial=np.eye(1, n_states)[0],
    )


def roll_out(mdp: MDP, policy: FloatArray) -> None:
    """10⁹ episodes at once, and 10⁴ of them one step at a time."""
    simulator, rng = Simulator(mdp), np.random.default_rng(0)

    def stepped(episodes: int) -> None:
        for _ in range(episodes):
            state = simulator.reset(rng)
            for h in range(mdp.horizon):
                state = simulator.step(int(policy[h, state].argmax()))

    rounds = in_turns({"at once": lambda: simulator.rollout(policy, 10**9, rng)}, calls=3)
    row("roll-out of 10⁹ episodes, Double Chain", rounds["at once"], 50e-3)
    began = time.perf_counter()
    stepped(10_000)
    row("  step by step, 10⁵ times 10⁴", [1e5 * (time.perf_counter() - began)], None, against=rounds["at once"])


def inference(iterations: int = 100) -> None:
    """Maximum causal entropy along a run on Four Paths, each time from the last answer."""
    problem = make("four-paths", seed=0)
    settings = Settings(strategy="advice", certify=None, max_samples=iterations * problem.mdp.horizon)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    seconds, residuals = [], []
    for turn in learn(Simulator(problem.mdp), expert, settings):
        assert turn.state.recovered is not None
        seconds.append(turn.record.inferring_seconds)
        residuals.append(turn.state.recovered.residual)
    row(f"inference, Four Paths, largest residual {max(residuals):.1e}", seconds[1:], 10e-3)


def start(name: str, arguments: list[str], *, target: float) -> None:
    """A fresh interpreter, five times; the first one, which may have to compile, is not counted."""
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - began)
        if done.returncode:
            print(f"{name:<48}{'failed':>10}   {done.stderr.strip().splitlines()[-1]}")
            return
    row(name, seconds[1:], target)


def in_turns(runs: dict[str, Callable[[], Any] | None], calls: int, rounds: int = 21) -> dict[str, list[float]]:
    """The seconds a call takes, for each round; every round runs everyone, one after the other."""
    able = {name: run for name, run in runs.items() if run is not None}
    for run in able.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in able.items():
            began = time.perf_counter()
            for _ in range(calls):
                run()
            seconds[name].append((time.perf_counter() - began) / calls)
    return seconds


def row(name: str, seconds: list[float], target: float | None, against: list[float] | None = None) -> None:
    """One line: the median time, the target if there is one, and by how much ours is faster."""
    if not seconds:
        print(f"{name:<48}{'absent':>10}")
        return
    ratio = ""
    if against is not None:
        theirs = seconds if len(seconds) == len(against) else [seconds[0]] * len(against)
        ratio = f"{statistics.median(their / our for their, our in zip(theirs, against, strict=True)):,.1f}×"
    times = f"{written(statistics.median(seconds)):>10}{written(min(seconds)):>10}"
    print(f"{name:<48}{times}{written(target) if target else '':>10}{ratio:>20}")


def written(seconds: float) -> str:
    """Seconds in a unit that reads well."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}" if seconds < 1000 else f"{seconds / 3600:,.0f} h"
    return f"{seconds / 1e-6:.3g} µs"


if __name__ == "__main__":
    main()

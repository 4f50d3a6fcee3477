"""How fast the error bound shrinks in the long run: samples that `guided` and `ace` need for the same bound.

    python benchmarks/long_run.py [--seeds N] [--largest N]

Batches grow geometrically, so that the bound can be followed over many orders of magnitude; the batched roll-outs cost
the same for any number of episodes. The bound is given as a share of the trivial one.
"""

from __future__ import annotations

import argparse

import _frame as frame
import numpy as np

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import RunState

ENVIRONMENTS = {
    "four-paths": "Four Paths",
    "double-chain": "Double Chain",
    "chain": "Chain",
    "gridworld": "Gridworld",
    "random-mdp": "Random MDP",
}
LEVELS = (0.5, 0.2, 0.1)


def bounds(environment: str, strategy: str, seed: int, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Samples and bounds (as a share of the trivial one) of a run whose batches double every second iteration."""
    problem = make(environment, seed)
    simulator, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    state: RunState | None = None
    curve: list[tuple[int, float]] = []
    episodes = 1.0
    while not curve or (curve[-1][0] < largest and curve[-1][1] > min(LEVELS)):
        settings = Settings(
            strategy=strategy,
            irl="feasible-point",
            certify=None,
            episodes_per_iteration=int(episodes),
            max_samples=2**62,
            seed=seed,
        )
        turn = next(learn(simulator, expert, settings, state=state))
        state = turn.state
        curve.append((turn.record.samples, turn.record.bound / problem.mdp.horizon))
        episodes *= 2**0.5 if len(curve) > 60 else 1.0
    samples, shares = np.array(curve).T
    return samples, shares


def samples_to(level: float, samples: np.ndarray, shares: np.ndarray) -> float:
    """Samples at which the bound is at the level, interpolated between the two iterations around it; NaN if never."""
    if shares.min() > level:
        return float("nan")
    k = int(np.argmax(shares <= level))
    if k == 0:
        return float(samples[0])
    return float(np.exp(np.interp(-level, -shares[k - 1 : k + 1], np.log(samples[k - 1 : k + 1]))))


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """All environments at all levels, and once more what the docs show of it."""
    table = report.table(
        "long-run, all levels",
        frame.Column("environment"),
        frame.number("bound", "{:g}"),
        frame.number("`ace`", "{:.3g}"),
        frame.number("`guided`", "{:.3g}"),
        frame.number("`guided` over `ace`", "{:.2f}"),
    )
    last = {}
    for environment, name in ENVIRONMENTS.items():
        runs = {
            strategy: [bounds(environment, strategy, seed, options.largest) for seed in range(options.seeds)]
            for strategy in ("ace", "guided")
        }
        for level in LEVELS:
            ace, guided = (float(np.mean([samples_to(level, *run) for run in runs[s]])) for s in ("ace", "guided"))
            table.add(name, level, ace, guided, guided / ace)
            last[name] = guided / ace
    shown = report.table(
        "long-run",
        *(frame.number(name, "{:.2f}") for name in ENVIRONMENTS.values()),
        page="strategies.md",
    )
    shown.add(*last.values())


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=3),
        frame.argument("--largest", type=float, default=1e12, part=True, help="give up after so many samples"),
    )

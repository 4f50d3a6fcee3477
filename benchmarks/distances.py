"""How long the distances between rewards take, beside a sparse factorisation and a dense one for STARC.

    python benchmarks/distances.py [--rounds N] [--seed N]

Two random rewards, a new pair each round, on Four Paths (H=20, S=41, A=4: 3280 entries), a slippery grid over a long
horizon, and a process of 10⁶ entries with random successors. "Error" is how far the rival's distance is from ours.
Rivals solve the same least-squares problem over potentials: scipy's sparse LU of the normal equations, and numpy's
`lstsq`. They are left out where they take minutes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import _frame as frame
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from aceirl.envs import make
from aceirl.models.tabular.mdp import MDP, FloatArray, Transitions
from aceirl.rewards import dard, epic, largest_regret, starc

TARGET = 10e-3
Solve = Callable[[sparse.csc_array, FloatArray], FloatArray]


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Each distance in each process, and the rivals in those they can manage."""
    table = report.table(
        "distances",
        frame.Column("what"),
        frame.number("median", frame.seconds),
        frame.number("slowest", frame.seconds),
        frame.number("target", frame.seconds),
        frame.number("ours is faster by", "{:,.1f}×"),
        frame.number("error", "{:.0e}"),
        page="distances.md",
    )
    rng = np.random.default_rng(options.seed)
    paths = make("four-paths", options.seed).mdp
    processes: dict[str, tuple[MDP, dict[str, Solve], float | None]] = {
        f"Four Paths, {entries(paths)}": (paths, {"sparse LU": by_factorisation, "dense `lstsq`": by_lstsq}, TARGET),
        f"grid, {entries(grid(12, 40))}": (grid(12, 40), {"sparse LU": by_factorisation}, None),
        f"random successors, {entries(wide(rng))}": (wide(rng), {}, None),
    }
    for where, (mdp, rivals, target) in processes.items():
        rounds = options.rounds if target is not None else 3
        pairs = rng.random((rounds + 1, 2, *mdp.shape))
        ours: dict[str, Callable[[FloatArray, FloatArray], float]] = {
            "EPIC": epic,
            "DARD": partial(dard, mdp),
            "STARC": partial(starc, mdp),
            "largest regret, one target": partial(largest_regret, [mdp]),
        }
        for name, distance in ours.items():
            seconds, found = timed(distance, pairs)
            table.add(
                f"{name}, {where}",
                statistics.median(seconds),
                max(seconds),
                None if name.startswith("largest") else target,
                None,
                None,
            )
            if name == "STARC":
                for rival, solve in rivals.items():
                    theirs, values = timed(partial(by_least_squares, mdp, solve), pairs)
                    ratio = statistics.median(their / our for their, our in zip(theirs, seconds, strict=True))
                    error = max(abs(value - exact) for value, exact in zip(values, found, strict=True))
                    table.add(f"– {rival}", statistics.median(theirs), max(theirs), None, ratio, error)


def entries(mdp: MDP) -> str:
    """How many numbers a reward has."""
    return f"H·S·A = {np.prod(mdp.shape):,}"


def timed(distance: Callable[[FloatArray, FloatArray], float], pairs: FloatArray) -> tuple[list[float], list[float]]:
    """Seconds of processor time and distances of all pairs but the first, which may have to compile."""
    distance(*pairs[0])
    seconds, found = [], []
    for one, two in pairs[1:]:
        began = time.process_time()
        found.append(distance(one, two))
        seconds.append(time.process_time() - began)
    return seconds, found


def by_least_squares(mdp: MDP, solve: Solve, first: FloatArray, second: FloatArray) -> float:
    """STARC with an explicit matrix from potentials to shaping."""
    own = sparse.kron(sparse.eye_array(mdp.horizon * mdp.n_states), np.ones((mdp.n_actions, 1)))
    following = sparse.kron(sparse.eye_array(mdp.horizon, k=1), mdp.transitions.matrix)
    matrix = sparse.csc_array(own - following)
    rewards = np.stack((first.ravel(), second.ravel()), axis=1)
    left = rewards - matrix @ solve(matrix, rewards)
    left /= np.linalg.norm(left, axis=0)
    return float(np.linalg.norm(left[:, 0] - left[:, 1]) / 2)


def by_factorisation(matrix: sparse.csc_array, rewards: FloatArray) -> FloatArray:
    """The normal equations, factorised in the order that fills up least."""
    normal = sparse.csc_array(matrix.T @ matrix)
    symmetric = {"SymmetricMode": True}
    factors = splu(normal, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)
    return np.asarray(factors.solve(matrix.T @ rewards))


def by_lstsq(matrix: sparse.csc_array, rewards: FloatArray) -> FloatArray:
    """A dense singular value decomposition."""
    return np.asarray(np.linalg.lstsq(matrix.toarray(), rewards, rcond=None)[0])


def grid(side: int, horizon: int, slip: float = 0.2) -> MDP:
    """Four directions; one slips into any of them, and stays put at the edge."""
    row, column = np.divmod(np.arange(side * side), side)
    moves = [
        np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
        for down, right in ((0, -1), (-1, 0), (0, 1), (1, 0))
    ]
    dense = np.zeros((side * side, 4, side * side))
    for action in range(4):
        for other, successor in enumerate(moves):
            dense[np.arange(side * side), action, successor] += (1 - slip) * (action == other) + slip / 4
    return MDP.from_dense(dense, initial=0, horizon=horizon)


def wide(rng: np.random.Generator, horizon: int = 20, n_states: int = 12_500, n_actions: int = 4) -> MDP:
    """Three random successors for each state and action."""
    n_rows = n_states * n_actions
    transitions = Transitions(
        n_states=n_states,
        n_actions=n_actions,
        indptr=np.arange(n_rows + 1) * 3,
        successors=rng.integers(n_states, size=n_rows * 3).astype(np.int32),
        probabilities=rng.dirichlet(np.ones(3), n_rows).ravel(),
    )
    return MDP(horizon, transitions, np.eye(1, n_states)[0])


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--rounds", type=int, default=21, help="pairs of rewards on Four Paths; elsewhere three"),
        frame.argument("--seed", type=int, default=0),
    )

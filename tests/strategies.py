"""Random problems. Hypothesis draws the structure and a seed; the numbers come from the seed."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray, Transitions
from aceirl.protocols import Moves

SEEDS = st.integers(0, 2**32 - 1)


def random_mdp(
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    *,
    stationary: bool = True,
    sparsity: float = 0.5,
    stored_zeros: bool = False,
    unknown: float = 0.0,
    start: str = "dirichlet",
) -> MDP:
    """Rows with successors dropped at rate `sparsity` and left out altogether at rate `unknown`.

    The start is "dirichlet", "point" or "unknown". With `stored_zeros` impossible successors are part of the row.
    """
    horizon, n_states, n_actions = shape
    n_rows = n_states * n_actions * (1 if stationary else horizon)
    weights = rng.exponential(size=(n_rows, n_states)) * (rng.random((n_rows, n_states)) >= sparsity)
    weights[np.arange(n_rows), rng.integers(n_states, size=n_rows)] += 1e-2
    rows = weights / weights.sum(axis=1, keepdims=True)
    initial = {
        "dirichlet": rng.dirichlet(np.ones(n_states)),
        "point": np.eye(n_states)[rng.integers(n_states)],
        "unknown": np.zeros(n_states),
    }[start]
    filled = rng.random(n_rows) >= unknown
    return from_rows(rows, filled, shape, initial, stationary=stationary, stored_zeros=stored_zeros)


def from_rows(
    rows: FloatArray,
    filled: BoolArray,
    shape: tuple[int, int, int],
    initial: FloatArray,
    *,
    stationary: bool,
    stored_zeros: bool = False,
) -> MDP:
    """From dense `rows [S·A or H·S·A, S]`, of which those not `filled` are unknown."""
    horizon, n_states, n_actions = shape
    stored = filled[:, None] & ((rows > 0) | stored_zeros)
    transitions = Transitions(
        n_states=n_states,
        n_actions=n_actions,
        indptr=np.concatenate(([0], np.cumsum(stored.sum(axis=1)))),
        successors=np.nonzero(stored)[1].astype(np.int32),
        probabilities=rows[stored],
        steps=None if stationary else horizon,
    )
    return MDP(horizon, transitions, initial)


def shapes(max_horizon: int = 4, max_states: int = 5, max_actions: int = 3) -> st.SearchStrategy[tuple[int, int, int]]:
    """`(H, S, A)`, each from one up."""
    return st.tuples(st.integers(1, max_horizon), st.integers(1, max_states), st.integers(1, max_actions))


@st.composite
def mdps(
    draw: st.DrawFn, *, complete: bool = False, shape: st.SearchStrategy[tuple[int, int, int]] | None = None
) -> MDP:
    """Any process: stationary or not, states that cannot be reached, stored zeros; unknown rows unless `complete`."""
    return random_mdp(
        np.random.default_rng(draw(SEEDS)),
        draw(shapes() if shape is None else shape),
        stationary=draw(st.booleans()),
        sparsity=draw(st.sampled_from([0.0, 0.5, 1.0])),
        stored_zeros=draw(st.booleans()),
        unknown=0.0 if complete else draw(st.sampled_from([0.0, 0.3, 1.0])),
        start=draw(st.sampled_from(["dirichlet", "point"] if complete else ["dirichlet", "point", "unknown"])),
    )


def random_policy(rng: np.random.Generator, shape: tuple[int, int, int], kind: str = "dirichlet") -> FloatArray:
    """A policy `[H, S, A]`: "dirichlet", "uniform", "deterministic", or "sparse" (some actions never taken)."""
    if kind == "uniform":
        return np.full(shape, 1.0 / shape[2])
    if kind == "deterministic":
        return np.asarray(np.eye(shape[2])[rng.integers(shape[2], size=shape[:2])])
    weights = rng.exponential(size=shape)
    if kind == "sparse":
        weights *= rng.random(shape) < 0.5
        weights[:, :, 0] += weights.sum(axis=2) == 0
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


@st.composite
def policies(draw: st.DrawFn, shape: tuple[int, int, int]) -> FloatArray:
    """A policy `[H, S, A]` of any kind."""
    kind = draw(st.sampled_from(["dirichlet", "uniform", "deterministic", "sparse"]))
    return random_policy(np.random.default_rng(draw(SEEDS)), shape, kind)


@st.composite
def rewards(draw: st.DrawFn, shape: tuple[int, int, int]) -> FloatArray:
    """A reward `[H, S, A]` of either sign: any numbers, whole numbers (many ties), zeros, or very large ones."""
    rng = np.random.default_rng(draw(SEEDS))
    kind = draw(st.sampled_from(["real", "whole", "zero", "large"]))
    if kind == "whole":
        return rng.integers(-2, 3, size=shape).astype(np.float64)
    scale = {"real": 1.0, "zero": 0.0, "large": 300.0}[kind]
    return np.asarray(scale * rng.normal(size=shape))


@st.composite
def counts(
    draw: st.DrawFn,
    *,
    shape: tuple[int, int, int] | None = None,
    stationary: bool | None = None,
    answered: str = "any",
) -> Counts:
    """Observations of any places; answers "any", or "consistent" with one deterministic, stationary expert."""
    shape = draw(shapes()) if shape is None else shape
    stationary = draw(st.booleans()) if stationary is None else stationary
    rng = np.random.default_rng(draw(SEEDS))
    length = draw(st.sampled_from([0, 1, 30]))
    moves = random_moves(rng, shape, length)
    answers: IntArray = rng.integers(0, 4, size=shape) * (rng.random(shape) < 0.5)
    if answered == "consistent":
        answers = answers * np.eye(shape[2], dtype=np.int64)[rng.integers(shape[2], size=shape[1])]
    return Counts.of_moves(moves, shape, stationary=stationary).with_answers(answers)


def random_moves(rng: np.random.Generator, shape: tuple[int, int, int], length: int) -> Moves:
    """`length` transitions anywhere, some of them often, some more than once in the list."""
    horizon, n_states, n_actions = shape
    return Moves(
        step=rng.integers(horizon, size=length),
        state=rng.integers(n_states, size=length),
        action=rng.integers(n_actions, size=length),
        successor=rng.integers(n_states, size=length),
        count=rng.integers(1, 10, size=length),
        starts=rng.integers(0, 3, size=n_states),
    )

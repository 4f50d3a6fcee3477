"""Random MDPs: start, transitions and rewards drawn uniformly, then normalised. Paper, appendix."""

from __future__ import annotations

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Problem, check_counts
from aceirl.models.tabular.mdp import MDP, FloatArray


def random_mdp(rng: np.random.Generator, *, n_states: int = 9, n_actions: int = 4, horizon: int = 10) -> Problem:
    """As in the paper's text: one transition matrix `[S, A, S]` for all steps; rewards `U(0, 1)` per `(h, s, a)`."""
    return _build("random-mdp", rng, n_states, n_actions, horizon, matrices=())


def random_mdp_released(
    rng: np.random.Generator, *, n_states: int = 9, n_actions: int = 4, horizon: int = 10
) -> Problem:
    """As in the released code behind the paper's Table 1. Differs: every step has its own matrix, `[H, S, A, S]`."""
    return _build("random-mdp-released", rng, n_states, n_actions, horizon, matrices=(horizon,))


def _build(
    name: str, rng: np.random.Generator, n_states: int, n_actions: int, horizon: int, matrices: tuple[int, ...]
) -> Problem:
    check_counts(n_states=n_states, n_actions=n_actions, horizon=horizon)
    initial = _distributions(rng, (n_states,))
    transitions = _distributions(rng, (*matrices, n_states, n_actions, n_states))
    mdp = MDP.from_dense(transitions, initial=initial, horizon=horizon)
    return Problem.solved(name, mdp, rng.random(mdp.shape), ring_layout(n_states, n_actions), rng)


def _distributions(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Uniform numbers, normalised along the last axis. Drawn from `(0, 1]`, so that no sum is ever zero."""
    weights = 1 - rng.random(shape)
    normalised: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return normalised


def ring_layout(n_states: int, n_actions: int) -> Layout:
    """A ring, clockwise from the top, neighbours one apart: these states have no place of their own."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(n_states) / n_states
    radius = 0.0 if n_states == 1 else 0.5 / np.sin(np.pi / n_states)
    return Layout(
        kind="ring",
        positions=radius * np.column_stack([np.cos(angle), np.sin(angle)]),
        state_names=tuple(f"s{i + 1}" for i in range(n_states)),
        action_names=tuple(f"a{i + 1}" for i in range(n_actions)),
        action_directions=np.zeros((n_actions, 2)),
    )

"""Members of the feasible reward set drawn at random, each the end of a Gibbs chain of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aceirl.errors import InputError
from aceirl.mdp import MDP, FloatArray, IntArray, steps_after, steps_left
from aceirl.rewards.feasible import TOLERANCE, FeasibleRewardSet
from aceirl.rewards.gibbs import gibbs
from aceirl.rewards.polytope import programme, unpacked
from aceirl.rewards.programme import EmptySetError, with_most_room
from aceirl.rewards.queries import emptiness

# Sweeps over all unknowns, for each step of the horizon, before a chain's state is taken as a sample.
SWEEPS_PER_STEP = 20


def sample(feasible: FeasibleRewardSet, rng: np.random.Generator, n: int) -> FloatArray:
    """`[n, H, S, A]`: independent members, drawn about uniformly from the whole set.

    The law that the chains tend to is uniform in `r` where the expert is known to use one action, and wherever it is
    not known; where it uses several, their rewards hang together, and it is uniform in `V` and the others. A set with
    a slack, or with bounds that leave it no inside, is refused.
    """
    if feasible.slack is not None:
        raise InputError("sample draws from the feasible set itself, and this one has a slack")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"n must be a whole number of at least 1, got {n!r}")
    start = _interior(feasible)
    return np.array([_end_of_chain(feasible, start, rng) for _ in range(n)])


def _end_of_chain(feasible: FeasibleRewardSet, start: FloatArray, rng: np.random.Generator) -> FloatArray:
    """`[H, S, A]`: one member, from values `start [H, S]` inside the set, whatever is best where nobody was asked."""
    mdp = feasible.mdp
    reward, guess = feasible.lower.copy(), rng.integers(mdp.n_actions, size=feasible.known.shape)
    values = np.concatenate([start, np.zeros((1, mdp.n_states))])
    gibbs(
        *mdp.transitions.rows,
        *_predecessors(mdp),
        feasible.known,
        feasible.lower,
        feasible.upper,
        feasible.unknown_step_reward * steps_after(mdp.horizon),
        SWEEPS_PER_STEP * mdp.horizon,
        rng,
        feasible.uses | (~feasible.known[:, :, None] & np.eye(mdp.n_actions, dtype=np.bool_)[guess]),
        values,
        reward,
    )
    return reward


def _predecessors(mdp: MDP) -> tuple[IntArray, IntArray, FloatArray]:
    """The transitions by where they lead: `(first, rows, probabilities)`, one block of `S` lists for each kind of step.

    The rows `s·A + a` that lead to state `s` in block `b` are `rows[first[b·S + s]:first[b·S + s + 1]]`.
    """
    per_step, transitions = mdp.n_states * mdp.n_actions, mdp.transitions
    possible = transitions.probabilities > 0  # a row may list successors that never follow
    row = np.repeat(np.arange(transitions.n_rows), np.diff(transitions.indptr))[possible]
    target = row // per_step * mdp.n_states + transitions.successors[possible]
    order = np.argsort(target, kind="stable")
    first = np.searchsorted(target[order], np.arange(transitions.n_rows // mdp.n_actions + 1))
    return first, row[order] % per_step, transitions.probabilities[possible][order]


def _interior(feasible: FeasibleRewardSet) -> FloatArray:
    """`V [H, S]` with room in every constraint, whatever the expert does where it is not known."""
    if (feasible.lower == 0).all() and (feasible.upper == feasible.rmax).all():
        return _interior_without_bounds(feasible)
    any_action = np.full(feasible.mdp.shape, 1.0 / feasible.mdp.n_actions)
    policy = np.where(feasible.known[:, :, None], feasible.expert_policy, any_action)
    cautious = replace(feasible, expert_policy=policy, known=np.ones_like(feasible.known))
    try:
        widest = with_most_room(programme(cautious, np.zeros(feasible.mdp.shape)), feasible.uses.size).solve()
    except EmptySetError:
        raise emptiness(feasible) from None
    if widest.x[-1] <= TOLERANCE * feasible.rmax:
        raise InputError("sample needs bounds with room between them, and these leave the set no inside")
    return unpacked(feasible.mdp, widest.x)[1]


def _interior_without_bounds(feasible: FeasibleRewardSet) -> FloatArray:
    """`V [H, S]` that satisfies every constraint strictly, whatever the expert does, for rewards in `[0, Rmax]`.

    `V_h = unknown_step_reward·(H-h-1) + x_h·Rmax`, with `x` around a half and just so steep that a known row earns
    strictly between `0` and `Rmax` too, even where `unknown_step_reward` is one of them.
    """
    mdp, rmax, after = feasible.mdp, feasible.rmax, feasible.unknown_step_reward
    horizon = mdp.horizon
    if mdp.known.all():
        level = 0.5 * rmax * steps_left(horizon)
    else:
        slope = (0.5 - after / rmax) / horizon
        level = after * steps_after(horizon) + rmax * (0.5 + slope * ((horizon - 1) / 2 - np.arange(horizon)))
    return np.repeat(level[:, None], mdp.n_states, axis=1)

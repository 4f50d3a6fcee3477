"""Members of the feasible reward set drawn at random.

Tables have too many entries for moves that need a programme to begin with, and so much structure that they need none:
each is the end of a Gibbs chain of its own. In a smaller space one chain of slices needs no more than membership.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aceirl.errors import InputError
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.rewards.feasible import TOLERANCE, FeasibleRewardSet
from aceirl.rewards.gibbs import gibbs
from aceirl.rewards.membership import contains
from aceirl.rewards.polytope import programme, unpacked
from aceirl.rewards.programme import EmptySetError, Repeated, with_most_room
from aceirl.rewards.queries import emptiness, extreme, solved

# Sweeps over all unknowns, for each step of the horizon, before a chain's state is taken as a sample.
SWEEPS_PER_STEP = 20


MOVES_PER_PARAMETER = 4
"""Moves of the chain in a smaller space between two samples, for each parameter that is free."""


def sample(feasible: FeasibleRewardSet, rng: np.random.Generator, n: int) -> FloatArray:
    """`[n, H, S, A]` in the space `any`, else `[n, parameters]`: members, drawn about uniformly from the whole set.

    Tables are independent of each other. The law that their chains tend to is uniform in `r` where the expert is known
    to use one action, and wherever it is not known; where it uses several, their rewards hang together, and it is
    uniform in `V` and the others. A set of tables with a slack, or with bounds that leave it no inside, is refused.

    In a smaller space they come from one chain, whose law is uniform over the set. How close to uniform so many moves
    come is not proved.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"n must be a whole number of at least 1, got {n!r}")
    if not feasible.design.free:
        return _of_one_chain(feasible, rng, n)
    if feasible.slack is not None:
        raise InputError("sample needs a feasible set without a slack; leave slack out")
    start = _interior(feasible)
    return np.array([_end_of_chain(feasible, start, rng) for _ in range(n)])


def _of_one_chain(feasible: FeasibleRewardSet, rng: np.random.Generator, n: int) -> FloatArray:
    """`[n, parameters]`: from the middle of extreme members, along random mixtures of what leads to them.

    Each time to a point drawn from the segment within the bounds, which shrinks until the point is a member (Neal 2003,
    "Slice sampling").
    """
    somewhere = extreme(feasible, rng.normal(size=feasible.design.n_parameters)).theta
    ends = _ends(feasible.completed(feasible.best_actions(somewhere)), rng)
    theta, samples = ends.mean(axis=0), np.empty((n, feasible.design.n_parameters))
    for sample in samples:
        for _ in range(MOVES_PER_PARAMETER * len(ends) // 2):
            theta = _moved(feasible, theta, rng.normal(size=len(ends)) @ (ends - ends[0]), rng)
        sample[:] = theta
    return samples


def _ends(feasible: FeasibleRewardSet, rng: np.random.Generator) -> FloatArray:
    """`[2·free, n]`: members whose differences span the set, the furthest in directions not spanned before."""
    base, free = Repeated(programme(feasible)), np.diag((feasible.lower < feasible.upper).astype(np.float64))
    ends, looked = [], np.zeros((0, len(free)))
    for _ in range(max(1, int(free.sum()))):
        way = rng.normal(size=len(free)) @ free
        for _ in range(2):  # the second time for what rounding leaves
            way -= looked.T @ (looked @ way)
        pair = [solved(feasible, base, sign * way) for sign in (1.0, -1.0)]
        found = pair[1] - pair[0]
        # Where the set is flat in a direction, that direction is done with; else what leads across it is.
        across = found - looked.T @ (looked @ found) if way @ found > TOLERANCE * feasible.scale else way
        looked = np.vstack([looked, across / max(float(np.linalg.norm(across)), 1e-300)])
        ends += pair
    return np.array(ends)


def _moved(
    feasible: FeasibleRewardSet, theta: FloatArray, direction: FloatArray, rng: np.random.Generator
) -> FloatArray:
    moving = np.abs(direction) > 1e-12 * feasible.scale
    if not moving.any():
        return theta
    ends = np.stack((feasible.lower - theta, feasible.upper - theta))[:, moving] / direction[moving]
    low, high = min(0.0, float(ends.min(axis=0).max())), max(0.0, float(ends.max(axis=0).min()))
    while high - low > 1e-9:
        length = rng.uniform(low, high)
        moved = np.clip(theta + length * direction, feasible.lower, feasible.upper)
        if contains(feasible, moved, feasible.rounding):
            return moved
        low, high = (length, high) if length < 0 else (low, length)
    return theta


def _end_of_chain(feasible: FeasibleRewardSet, start: FloatArray, rng: np.random.Generator) -> FloatArray:
    """`[H, S, A]`: one member, from values `start [H, S]` inside the set, whatever is best where nobody was asked."""
    mdp = feasible.mdp
    reward, guess = feasible.lower.copy(), rng.integers(mdp.n_actions, size=feasible.known.shape)
    values = np.concatenate([start, np.zeros((1, mdp.n_states))])
    gibbs(
        *mdp.backup.rows,
        mdp.discount,
        *_predecessors(mdp),
        feasible.known,
        feasible.lower,
        feasible.upper,
        feasible.after_unknown_rows,
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
    per_step, transitions = mdp.n_states * mdp.n_actions, mdp.backup  # with the discount
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
    cautious = replace(feasible, known=np.ones_like(feasible.known))  # where it is not known, any action
    try:
        widest = with_most_room(programme(cautious), feasible.uses.size).solve()
    except EmptySetError:
        raise emptiness(feasible) from None
    if widest.x[-1] <= TOLERANCE * feasible.rmax:
        raise InputError("sample needs a feasible set with an interior, and these bounds leave none; widen them")
    return unpacked(feasible.mdp, widest.x)[1]


def _interior_without_bounds(feasible: FeasibleRewardSet) -> FloatArray:
    """`V [H, S]` that satisfies every constraint strictly, whatever the expert does, for rewards in `[0, Rmax]`.

    `V_h = unknown_step_reward·(H-h-1) + x_h·Rmax`, with `x` around a half and just so steep that a known row earns
    strictly between `0` and `Rmax` too, even where `unknown_step_reward` is one of them.
    """
    mdp, rmax, after = feasible.mdp, feasible.rmax, feasible.unknown_step_reward or 0.0
    horizon = mdp.horizon
    if mdp.known.all():
        level = 0.5 * rmax * mdp.steps_left
    else:
        slope = (0.5 - after / rmax) / horizon
        level = after * mdp.steps_after + rmax * (0.5 + slope * ((horizon - 1) / 2 - np.arange(horizon)))
    return np.repeat(level[:, None], mdp.n_states, axis=1)

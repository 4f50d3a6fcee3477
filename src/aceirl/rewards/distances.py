"""How far apart two rewards are: EPIC, DARD and STARC for finite horizons, and the largest regret over targets.

Rewards that differ by a positive factor or by potential shaping order all policies alike. Each distance first brings a
reward into a canonical form `C`, linear in the reward, which takes shaping out; then it divides `C` by its norm, which
takes the factor out; then it measures `½·‖C₁/‖C₁‖ - C₂/‖C₂‖‖`, between 0 and 1, which opposite rewards have. The norm
is the root of a mean square over the transitions that `coverage` weighs. The three differ in `C`.

The same conventions hold for the three:
* A reward is `[H, S, A]`, or `[S, A]` if it is the same at every step. Only `starc` and
  `largest_regret` know a discount, that of the process.
* `coverage [H, S, A]` (or `[S, A]`) says how much each entry matters: any weights that are not negative, such as the
  occupancy of a policy; uniform by default. Entries of weight zero are not compared.
* A reward whose canonical form is zero, such as a constant, prefers no policy. Its distance is 0 from another such
  reward and ½ from any other; it is not divided by its norm. STARC's definition says so, and EPIC's and DARD's, which
  correlate, leave it open. Zero means: at most `ZERO` times the largest entry of the reward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.dynamic_programming import TIE_TOLERANCE, optimal_values, worst_values
from aceirl.models.tabular.kernels import Successors
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, check_reward
from aceirl.rewards.shaping import unshaped

ZERO = 1e-10


def epic(
    first: ArrayLike, second: ArrayLike, *, coverage: ArrayLike | None = None, horizon: int | None = None
) -> float:
    """The distance of Gleave et al., "Quantifying Differences in Reward Functions", 2021. It knows no dynamics.

    With `S`, `A` drawn independently from the states and the actions of the coverage (its marginals over all steps),

        C_h(s, a, s') = r_h(s, a) + E[ r_{h+1}(s', A) - r_h(s, A) - r_{h+1}(S, A) ],      r_H = 0,

    which is the reward shaped by the potential `φ_h(s) = E[r_h(s, A)]`, `φ_H = 0`, less a constant of the step. The
    distance is the Pearson distance `√((1 - ρ)/2)` of the two `C`, where `(h, s, a)` is drawn from the coverage and
    `s'`, whatever `(s, a)`, from its states.

    Differs from the paper: the horizon is finite, so potentials have a step, and the last `C` is `r_h(s, a)` less its
    mean; there is no discount; and rewards do not depend on the successor. So shaping *in a process* is not taken out.
    What is: constants of each step, and what the first state earns.

    `horizon` is needed if both rewards are `[S, A]`.
    """
    shape = _shape(first, second, horizon)
    weights = _coverage(coverage, shape)
    states, actions = weights.sum(axis=(0, 2)), weights.sum(axis=(0, 1))

    # C is a part of (s, a) and a part of s'. At each step they are independent and the mean of the second is zero, so
    # mean squares add up.
    def canonical(reward: FloatArray) -> FloatArray:
        potential = reward @ actions
        own = reward - potential[:, :, None]
        following = _shifted(potential)
        following -= (following @ states)[:, None]
        return np.concatenate(((own - np.vdot(weights, own)).ravel(), following.ravel()))

    by_part = np.concatenate((weights.ravel(), np.outer(weights.sum(axis=(1, 2)), states).ravel()))
    return _compared(first, second, shape, canonical, by_part)


def dard(mdp: MDP, first: ArrayLike, second: ArrayLike, *, coverage: ArrayLike | None = None) -> float:
    """The distance of Wulfe et al., "Dynamics-Aware Comparison of Learned Reward Functions", 2022.

    EPIC with successors that the process can bring about. With `A` drawn from the actions of the coverage and then `S'`
    from `P(·|h, s, A)`,

        C_h(s, a, s') = r_h(s, a) + E[ r_{h+1}(s', A) - r_h(s, A) - r_{h+1}(S', A) ],     r_H = 0,

    and the distance is the Pearson distance of the two `C`, where `(h, s, a)` is drawn from the coverage and `s'` from
    `P(·|h, s, a)`. As the paper writes it, `S'` follows the very action `A` that the last term rewards.

    Differs from the paper: as for `epic`. In particular the paper's invariance is to shaping that depends on the
    successor; rewards of `(h, s, a)` that differ by shaping in the process may be far apart. `starc` is for those.
    """
    mdp.require_complete()
    if mdp.discount < 1:
        raise InputError(f"dard compares returns without a discount, and the process has {mdp.discount:g}; use starc")
    weights = _coverage(coverage, mdp.shape)
    n_actions, actions = mdp.n_actions, weights.sum(axis=(0, 1))
    entry, successor, probability = _moves(mdp)
    state, action = entry // n_actions, entry % n_actions  # the state at its step, h·S + s
    arrival = state - state % mdp.n_states + successor

    def canonical(reward: FloatArray) -> FloatArray:
        potential = reward @ actions
        later, later_potential = _shifted(reward).reshape(-1, n_actions), _shifted(potential).ravel()
        expected = probability * actions[action] * later[arrival, action]
        taken = potential.ravel() + np.bincount(state, expected, minlength=potential.size)
        form = reward.ravel()[entry] + later_potential[arrival] - taken[state]
        return np.asarray(form - np.vdot(by_move, form))

    by_move = weights.ravel()[entry] * probability
    return _compared(first, second, mdp.shape, canonical, by_move)


def starc(mdp: MDP, first: ArrayLike, second: ArrayLike, *, coverage: ArrayLike | None = None) -> float:
    """The distance of Skalse et al., "STARC: A General Framework For Quantifying Differences Between Reward Functions",
    2024, with the minimal canonical form in the weighted L2 norm:

        C = r - (φ_h(s) - γ·Σ P(s'|h,s,a)·φ_{h+1}(s'))  with the `φ [H, S]`, `φ_H = 0`, that makes its norm least.

    It is 0 exactly if `second` is a positive multiple of `first` plus shaping in this process (or both are mere
    shaping): if they order all policies alike, wherever and at whatever step episodes start. For episodes that start as
    the process says, pass a `coverage` that is positive where they can get and zero elsewhere, such as
    `occupancy(mdp, policy)` of a policy that tries every action. Where a covered entry may lead, some action must be
    covered too.

    Differs from the paper: the horizon is finite, so that potentials have a step; rewards do not depend on the
    successor, so that there is nothing to redistribute over successors; half the norm is taken, which makes 1 the
    largest distance. The discount `γ` is that of the process.
    """
    mdp.require_complete()
    weights = _coverage(coverage, mdp.shape)
    _require_closed(mdp, weights)
    return _compared(first, second, mdp.shape, lambda reward: unshaped(mdp, reward, weights).ravel(), weights.ravel())


def largest_regret(targets: Sequence[MDP], first: ArrayLike, second: ArrayLike) -> float:
    """The most that planning with `first` loses under `second` in any of the targets, each with its own start.

    `(V* - V^π)/(V* - V_worst)` of `second`, in [0, 1], as `metrics.Truth.regret`, by exact dynamic programming; 0 in a
    target where all policies are worth the same. Of several policies that are optimal for `first`, the one counts that
    is worst for `second`: that no tie is broken by luck makes it a property of the two rewards. It is not symmetric.
    """
    if not targets:
        raise InputError("targets is empty; name at least one process to plan in")
    return max(_regret(target, first, second, f"in targets[{i}]") for i, target in enumerate(targets))


def _regret(mdp: MDP, first: ArrayLike, second: ArrayLike, where: str) -> float:
    mdp.require_complete()
    planned = _scaled(check_reward(first, mdp.shape, name=f"first, {where},"))
    true = _scaled(check_reward(second, mdp.shape, name=f"second, {where},"))
    q, v = optimal_values(mdp, planned)
    optimal = q >= v[:, :, None] - TIE_TOLERANCE * np.abs(q).max()
    best = float(mdp.initial @ optimal_values(mdp, true)[1][0])
    worst = -float(mdp.initial @ optimal_values(mdp, -true)[1][0])
    reached = float(mdp.initial @ worst_values(mdp, true, optimal)[1][0])
    if best - worst <= TIE_TOLERANCE * mdp.horizon:
        return 0.0
    return min(1.0, max(0.0, (best - reached) / (best - worst)))


def _compared(
    first: ArrayLike,
    second: ArrayLike,
    shape: tuple[int, int, int],
    canonical: Callable[[FloatArray], FloatArray],
    weights: FloatArray,
) -> float:
    """Half the distance between the canonical forms, each over its own norm; `weights` sum to one."""
    forms = []
    for name, reward in (("first", first), ("second", second)):
        form = canonical(_scaled(check_reward(reward, shape, name=name)))
        norm = float(np.sqrt(np.vdot(weights * form, form)))
        forms.append(form / norm if norm > ZERO else np.zeros_like(form))
    difference = forms[0] - forms[1]
    return min(1.0, 0.5 * float(np.sqrt(np.vdot(weights * difference, difference))))


def _scaled(reward: FloatArray) -> FloatArray:
    """The reward with one as its largest absolute entry, unless it is zero."""
    largest = float(np.abs(reward).max())
    return reward / largest if largest > 0 else reward


def _shifted(array: FloatArray) -> FloatArray:
    """What holds at the next step; zero at the last."""
    return np.concatenate((array[1:], np.zeros_like(array[:1])))


def _moves(mdp: MDP) -> tuple[IntArray, Successors, FloatArray]:
    """`(entry, successor, probability)` of all transitions at all steps; an entry is `(h·S + s)·A + a`."""
    rows = mdp.transitions
    row = np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr))
    if not rows.stationary:
        return row, rows.successors, rows.probabilities
    step = np.repeat(np.arange(mdp.horizon) * rows.n_rows, len(row))
    return (
        np.tile(row, mdp.horizon) + step,
        np.tile(rows.successors, mdp.horizon),
        np.tile(rows.probabilities, mdp.horizon),
    )


def _coverage(coverage: ArrayLike | None, shape: tuple[int, int, int]) -> FloatArray:
    """Weights `[H, S, A]` that sum to one."""
    if coverage is None:
        return np.full(shape, 1 / np.prod(shape))
    weights = _scaled(check_reward(coverage, shape, name="coverage"))
    if (weights < 0).any():
        entry = [int(i) for i in np.argwhere(weights < 0)[0]]
        raise InputError(f"coverage{entry} is negative; how much an entry matters must be at least 0")
    if not weights.any():
        raise InputError("coverage is 0 everywhere; at least one entry must be compared")
    return np.asarray(weights / weights.sum())


def _require_closed(mdp: MDP, weights: FloatArray) -> None:
    """A potential that nothing covered depends on at its own step could take out more than shaping does."""
    uncovered = (weights.sum(axis=2) == 0).astype(np.float64)
    leaving = (weights > 0) & (mdp.transitions.expect(_shifted(uncovered)) > 0)
    if leaving.any():
        entry = [int(i) for i in np.argwhere(leaving)[0]]
        raise InputError(
            f"coverage{entry} is positive, but no action is covered in some state where this may lead; "
            "the occupancy of a policy covers what it can reach"
        )


def _shape(first: ArrayLike, second: ArrayLike, horizon: int | None) -> tuple[int, int, int]:
    """`(H, S, A)` from the rewards, with the horizon where neither has steps."""
    shapes = {name: np.shape(reward) for name, reward in (("first", first), ("second", second))}
    for name, shape in shapes.items():
        if len(shape) not in (2, 3) or 0 in shape:
            raise InputError(f"{name} must have shape [H, S, A] or [S, A], none of them 0, got {list(shape)}")
    if shapes["first"][-2:] != shapes["second"][-2:]:
        first_shape, second_shape = map(list, shapes.values())
        raise InputError(
            f"first and second must have the same states and actions, got {first_shape} and {second_shape}"
        )
    steps = horizon if horizon is not None else next((shape[0] for shape in shapes.values() if len(shape) == 3), None)
    if steps is None:
        raise InputError("horizon must be given if both rewards have shape [S, A]")
    if not isinstance(steps, int | np.integer) or steps < 1:
        raise InputError(f"horizon must be a whole number of at least 1, got {steps!r}")
    n_states, n_actions = shapes["first"][-2:]
    return int(steps), n_states, n_actions

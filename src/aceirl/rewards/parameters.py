"""Feasible rewards by their parameters `(A, V)`, and the reward of another problem with the same parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.mdp import FloatArray, check_reward
from aceirl.rewards.feasible import TOLERANCE, FeasibleRewardSet, first_entry
from aceirl.rewards.membership import optimality
from aceirl.rewards.polytope import expectation


def to_parameters(feasible: FeasibleRewardSet, reward: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """`(A [H, S, A], V [H, S])` of a feasible reward, whatever its bounds: how far actions are behind, and values.

    Paper, Lemma "Feasible Reward Set Explicit", read backward.
    """
    feasible.require_tables("a reward by (A, V)")
    array = check_reward(reward, feasible.mdp.shape)
    found = optimality(feasible, array)
    if found.violation > TOLERANCE * feasible.rmax:
        raise InputError(f"reward has no parameters in this set: {found}")
    q = feasible.action_values(array)
    values = q.max(axis=2)
    return np.where(feasible.uses, 0.0, values[:, :, None] - q), values


def from_parameters(feasible: FeasibleRewardSet, advantage: ArrayLike, values: ArrayLike) -> FloatArray:
    """`r = -A·1{πᴱ = 0} + V - P·V` for `advantage [H, S, A] ≥ 0` and `values [H, S]`; it may leave the bounds.

    Paper, Lemma "Feasible Reward Set Explicit". Differs: the sign before `P·V`, printed as `+`, is a slip.
    """
    shape = feasible.mdp.shape
    A = check_reward(advantage, shape, name="advantage")
    if (A < 0).any():
        entry = first_entry(A < 0)
        raise InputError(f"advantage{list(entry)} is {A[entry]:g}; it must be at least 0")
    V = np.asarray(values, dtype=np.float64)
    if V.shape != shape[:2] or not np.isfinite(V).all():
        raise InputError(f"values must be finite, of shape {list(shape[:2])}, got {list(V.shape)}")
    return V[:, :, None] - feasible.continuation(V) - np.where(feasible.uses, 0.0, A)


def matched(feasible: FeasibleRewardSet, other: FeasibleRewardSet, reward: ArrayLike) -> FloatArray:
    """The matched reward `[H, S, A]`: that of the other problem with the same `(A, V)`; it may leave its bounds."""
    _check_same_shape(feasible, other)
    return from_parameters(other, *to_parameters(feasible, reward))


def error_propagation(feasible: FeasibleRewardSet, other: FeasibleRewardSet, reward: ArrayLike) -> FloatArray:
    """`[H, S, A]`: a bound on `|r - r̂|` for a member and its match, `A·1{πᴱ = 0 < π̂ᴱ} + Σ |P - P̂|·V`.

    Paper, Theorem "Error Propagation". Differs: the paper has `|πᴱ - π̂ᴱ|` in place of the indicator, which is the
    same for deterministic experts and does not hold for others. Next to an unknown row, what follows is compared.
    """
    _check_same_shape(feasible, other)
    A, V = to_parameters(feasible, reward)
    shape = feasible.mdp.shape
    by_successor = np.asarray(abs(expectation(feasible.mdp) - expectation(other.mdp)) @ np.abs(V).ravel())
    of_mean = np.abs(feasible.continuation(V) - other.continuation(V))
    dynamics = np.where(feasible.mdp.known & other.mdp.known, by_successor.reshape(shape), of_mean)
    return np.where(~feasible.uses & other.uses, A, 0.0) + dynamics


def _check_same_shape(feasible: FeasibleRewardSet, other: FeasibleRewardSet) -> None:
    if feasible.mdp.shape != other.mdp.shape:
        raise InputError(f"other is a problem of shape {list(other.mdp.shape)}, not {list(feasible.mdp.shape)}")

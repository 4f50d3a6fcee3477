"""Counterfactuals are transfers: what the estimated expert would do in a changed world, with intervals.

What may change is a part of the reward (a price), the dynamics, or the discount; the rest is as it was estimated. Two
kinds of answers: the choice in each state, and the *demand*, the share of decisions that are an action in the long run.
Intervals follow by the delta method from the covariance of the parameters, with exact derivatives: those of choices
are scores, and those of the stationary distribution `μ` solve `(I − Pᵀ) ∂μ = ∂Pᵀμ` with `Σ∂μ = 0`. They are made on the
scale of log odds, so that they stay between 0 and 1. `draws` are the second route: parameters drawn from their normal
distribution, and the world solved for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from aceirl.errors import InputError, unknown_name
from aceirl.irl.structural import Errors, LogitPoint, StructuralEstimate, StructuralModel
from aceirl.models.tabular.mdp import FloatArray, Transitions


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """The expert of an `estimate` in a changed world: the `model` of that world, and how its parameters follow.

    A parameter is the estimated one times `factor [K]`, plus `shift [K]`; one that was set has the factor 0.
    """

    estimate: StructuralEstimate
    model: StructuralModel
    factor: FloatArray
    shift: FloatArray

    @cached_property
    def parameters(self) -> FloatArray:
        """`[K]`, in the changed world."""
        return self.factor * self.estimate.parameters + self.shift

    @cached_property
    def point(self) -> LogitPoint:
        """The expert there."""
        return self.model.at(self.model.linear(self.parameters))

    @property
    def policy(self) -> FloatArray:
        """`[S, A]`: how the expert chooses there."""
        return self.point.values.policy

    @cached_property
    def _slope(self) -> FloatArray:
        """`[K, K]`: the derivative of the changed coefficients, with scale 1, by the estimated parameters."""
        return np.asarray(np.linalg.inv(self.model.jacobian(self.model.linear(self.parameters))) * self.factor)

    def _interval(self, share: FloatArray, slope: FloatArray, level: float, errors: Errors) -> FloatArray:
        """`[..., 2]` of `share [...]`, with `slope [..., K]` by the coefficients, on the scale of log odds."""
        moved = slope @ self._slope
        spread = np.sqrt(np.maximum(np.einsum("...j,jk,...k->...", moved, self.estimate.covariance(errors), moved), 0))
        inside = np.clip(share, 1e-300, 1 - 1e-16)
        odds = np.log(inside) - np.log1p(-inside)
        reach = scipy.stats.norm.ppf((1 + level) / 2) * spread / np.maximum(inside * (1 - inside), 1e-300)
        ends = np.stack((odds - reach, odds + reach), axis=-1)
        certain = (share <= 0) | (share >= 1)
        return np.where(certain[..., None], share[..., None], 1 / (1 + np.exp(-np.clip(ends, -700, 700))))

    def choice_intervals(self, level: float = 0.9, errors: Errors = "observed") -> FloatArray:
        """`[S, A, 2]`: intervals of the probability of each choice."""
        return self._interval(self.policy, self.policy[:, :, None] * self.point.score, level, errors)

    @cached_property
    def _stationary(self) -> tuple[FloatArray, FloatArray]:
        """`(share [A], slope [A, K])` of the actions in the long run."""
        problem, policy = self.model.problem, self.policy
        if not problem.allowed.any(axis=1).all():
            raise InputError("there is no long run where the process ends: ask for the choice in each state instead")
        chain = problem.chain(policy).toarray()
        system = np.vstack(((np.eye(len(chain)) - chain.T)[:-1], np.ones(len(chain))))
        if np.linalg.cond(system) > 1e12:
            raise InputError("the long run depends on the start: some states are never reached from others")
        last = np.zeros(len(chain))
        last[-1] = 1.0
        stationary = np.linalg.solve(system, last)
        moving = policy[:, :, None] * self.point.score
        flow = (stationary[:, None, None] * moving).reshape(policy.size, -1)
        pushed = np.asarray(self.model.transitions.matrix.T @ flow)
        pushed[-1] = 0.0
        shifted = np.linalg.solve(system, pushed)
        slope = np.einsum("s,sak->ak", stationary, moving) + np.einsum("sk,sa->ak", shifted, policy)
        return stationary @ policy, slope

    @property
    def demand(self) -> FloatArray:
        """`[A]`: the share of each action among all decisions in the long run."""
        return self._stationary[0]

    def demand_intervals(self, level: float = 0.9, errors: Errors = "observed") -> FloatArray:
        """`[A, 2]`: intervals of the demand."""
        return self._interval(*self._stationary, level, errors)

    def shares(
        self, weights: FloatArray, level: float = 0.9, errors: Errors = "observed"
    ) -> tuple[FloatArray, FloatArray]:
        """`(share [A], intervals [A, 2])` of the actions in states that are visited in proportion to `weights [S]`.

        For processes that end, which have no long run.
        """
        visited = np.asarray(weights, dtype=np.float64) / np.sum(weights)
        slope = np.einsum("s,sa,sak->ak", visited, self.policy, self.point.score)
        share = visited @ self.policy
        return share, self._interval(share, slope, level, errors)

    def draws(self, number: int = 200, seed: int = 0, errors: Errors = "observed") -> FloatArray:
        """`[number, A]`: the demand with parameters drawn from their normal distribution, the second route."""
        rng = np.random.default_rng(seed)
        drawn = rng.multivariate_normal(self.estimate.parameters, self.estimate.covariance(errors), size=number)
        return np.array([self._with(theta).demand for theta in self.factor * drawn + self.shift])

    def _with(self, parameters: FloatArray) -> Counterfactual:
        return replace(self, factor=np.zeros_like(self.factor), shift=parameters)


def counterfactual(
    estimate: StructuralEstimate,
    *,
    parameters: Mapping[str, float] | None = None,
    scaled: Mapping[str, float] | None = None,
    transitions: Transitions | None = None,
    discount: float | None = None,
) -> Counterfactual:
    """The world with some `parameters` set, some `scaled` by a factor, other `transitions` or another `discount`.

    A price that rises by a tenth is `scaled={"RC": 1.1}`: parameters are in units of the taste shocks, so that the
    price itself is known as little as before. A set parameter is known exactly.
    """
    factor, shift = np.ones(len(estimate.names)), np.zeros(len(estimate.names))
    for given, put in ((parameters or {}, True), (scaled or {}, False)):
        for name, value in given.items():
            if name not in estimate.names:
                raise unknown_name("parameter", name, estimate.names)
            if not np.isfinite(value):
                raise InputError(f"{name} must be a finite number, got {value!r}")
            k = estimate.names.index(name)
            factor[k], shift[k] = (0.0, value) if put else (value, 0.0)
    unknown = [name for name, known in zip(estimate.names, estimate.identified, strict=True) if not known]
    moved = any(factor[estimate.names.index(name)] != 1 for name in unknown)
    if unknown and (moved or transitions is not None or discount is not None):
        # In the same world null directions change no choice; in another they do.
        raise InputError(
            f"the choices do not identify {', '.join(unknown)}, on which the counterfactual depends: leave them out of "
            "the features, or give what is known of the reward"
        )
    model = estimate.model
    if transitions is not None:
        shape = transitions.n_states, transitions.n_actions
        if shape != model.problem.shape:
            raise InputError(
                f"transitions must have {model.problem.shape[0]} states and {model.problem.shape[1]} actions"
            )
        model = replace(model, transitions=transitions)
    if discount is not None:
        model = replace(model, discount=discount)
    return Counterfactual(estimate, model, factor, shift)

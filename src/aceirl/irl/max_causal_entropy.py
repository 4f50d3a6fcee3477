"""Maximum causal entropy: the reward under which the expert is the likeliest soft optimiser."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.optimize import minimize

from aceirl.counts import Estimate
from aceirl.irl.base import Recovered, infeasibility, scaled
from aceirl.kernels import occupancy, soft_values
from aceirl.mdp import FloatArray

REGULARISATION = 0.01
RESIDUAL = 1e-4
MAX_ITERATIONS = 2000


def max_causal_entropy(estimate: Estimate, rmax: float, warm: FloatArray | None = None) -> Recovered:
    """The maximiser over `r [H, S, A]` of `⟨μᴱ, r⟩ - V_soft(r) - λ/2·‖r‖²`, scaled to `[0, Rmax]`.

    `μᴱ` is the expert's occupancy in the estimated process and `V_soft` the soft value of its start, so the gradient is
    `μᴱ - μ_r - λ·r`, exactly, from one soft backward and one forward pass. The term in `λ` makes the maximiser finite:
    a deterministic expert has none without it. Stops when the gradient is below `1e-4` of `‖μᴱ‖`.

    Ziebart et al. (2010). Differs from the paper's code: the soft backup is a log-sum-exp, not an average of `Q`, and
    the number of steps is not fixed. A step after an unknown row has reward zero and all actions open.
    """
    mdp = estimate.mdp
    expert = occupancy(mdp, estimate.expert_policy)
    scale = float(np.linalg.norm(expert))
    start = np.zeros(mdp.shape) if warm is None else warm
    if scale == 0:
        return Recovered(np.zeros(mdp.shape), 0.0, 0.0, start, iterations=0, residual=0.0)
    objective = _Objective(estimate, expert)
    flat, iterations = start.ravel(), 0
    # A start that will do is kept: a step from there would follow rounding errors, and scaling would magnify them.
    if np.linalg.norm(objective(flat)[1]) > RESIDUAL * scale:
        answer = minimize(
            objective,
            flat,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": MAX_ITERATIONS, "maxfun": 2 * MAX_ITERATIONS, "gtol": 0.0, "ftol": 0.0},
            callback=partial(objective.stop_below, RESIDUAL * scale),
        )
        flat, iterations = answer.x, int(answer.nit)
    parameters = flat.reshape(mdp.shape)
    reward, neutral = scaled(parameters, rmax)
    return Recovered(
        reward=reward,
        neutral=neutral,
        infeasibility=infeasibility(estimate, reward, neutral),
        parameters=parameters,
        iterations=iterations,
        residual=float(np.linalg.norm(objective(flat)[1])) / scale,
    )


class _Objective:
    """The negative objective at `flat [H·S·A]` with its gradient, whose norm is the convergence criterion."""

    def __init__(self, estimate: Estimate, expert: FloatArray) -> None:
        self.mdp, self.expert = estimate.mdp, expert
        self.unknown = np.log(self.mdp.n_actions) * np.arange(self.mdp.horizon - 1, -1, -1.0)
        self.norm = np.inf

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        mdp, parameters = self.mdp, flat.reshape(self.mdp.shape)
        policy, value = soft_values(mdp, parameters, self.unknown)
        loss = mdp.initial @ value[0] - np.vdot(self.expert, parameters) + REGULARISATION / 2 * (flat @ flat)
        gradient = (occupancy(mdp, policy) - self.expert + REGULARISATION * parameters).ravel()
        self.norm = float(np.linalg.norm(gradient))
        return float(loss), gradient

    def stop_below(self, tolerance: float, flat: FloatArray) -> None:
        """Called after each step; the last point evaluated is the one the step ended at."""
        if self.norm <= tolerance:
            raise StopIteration

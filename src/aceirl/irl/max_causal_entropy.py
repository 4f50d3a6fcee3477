"""Maximum causal entropy: the reward under which the expert is the likeliest soft optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from aceirl.irl.feasible_point import reproducing_answers
from aceirl.models.tabular.dynamic_programming import occupancy, soft_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.rewards.recovered import Parameters, Recovered, recovered_from
from aceirl.rewards.spaces import RewardSpace

RESIDUAL = 1e-4
MAX_ITERATIONS = 2000
MEMORY = 8
"""How many past steps the quasi-Newton direction remembers."""


@dataclass(frozen=True)
class MaxCausalEntropy:
    """The maximiser over `r [H, S, A]` of `⟨μᴱ, r⟩ - V_soft(r) - λ/2·‖r‖²`, scaled to `[0, Rmax]`.

    `μᴱ` is the expert's occupancy in the estimated process and `V_soft` the soft value of its start, so the gradient is
    `μᴱ - μ_r - λ·r`, exactly, from one soft backward and one forward pass. The term in `λ`, the `regularisation`, makes
    the maximiser finite: a deterministic expert has none without it. Stops when the gradient is below `1e-4` of `‖μᴱ‖`.

    Ziebart et al. (2010). Differs from the paper's code: the soft backup is a log-sum-exp, not an average of `Q`, and
    the number of steps is not fixed. A step after an unknown row has reward zero and all actions open. With
    `reproduce_answers` the result is moved until every known answer is greedy: see `reproducing_answers`.
    """

    regularisation: float = 0.01
    reproduce_answers: bool = True

    def __call__(
        self, estimate: Estimate, rmax: float, warm: Parameters | None = None, space: RewardSpace | None = None
    ) -> Recovered:
        """Minimise from where the last answer ended; without a space, in `any`."""
        if space is not None and not space.free:
            return self._found_in(space, estimate, (warm or {}).get(f"theta.{space.name}")).in_units(rmax)
        found = self._found(estimate, (warm or {}).get("theta"))
        return (reproducing_answers(estimate, found, 1.0) if self.reproduce_answers else found).in_units(rmax)

    def _found_in(self, space: RewardSpace, estimate: Estimate, warm: FloatArray | None) -> Recovered:
        """The maximiser over the parameters of a space: `Φᵀ(μᴱ - μ_r) - λ·θ` is the gradient then."""
        mdp, design = estimate.mdp, space.design_matrix(estimate.mdp, estimate.terminal_states)
        expert = occupancy(mdp, estimate.expert_policy)
        after = np.log(mdp.n_actions) * mdp.steps_after

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            table = design.table(theta)
            policy, value = soft_values(mdp, table, after)
            behind = design.adjoint(occupancy(mdp, policy) - expert) + self.regularisation * theta
            loss = float(mdp.initial @ value[0]) - float(np.vdot(expert, table))
            return loss + self.regularisation / 2 * float(theta @ theta), behind

        start = np.zeros(design.n_parameters) if warm is None or len(warm) != design.n_parameters else warm
        answer = scipy.optimize.minimize(
            objective, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_ITERATIONS}
        )
        residual = float(np.linalg.norm(answer.jac)) / max(float(np.linalg.norm(expert)), 1e-300)
        found = {f"theta.{space.name}": answer.x}
        return recovered_from(estimate, design.table(answer.x), found, int(answer.nit), residual)

    def _found(self, estimate: Estimate, warm: FloatArray | None) -> Recovered:
        mdp = estimate.mdp
        expert = occupancy(mdp, estimate.expert_policy)
        scale = float(np.linalg.norm(expert))
        theta = np.zeros(mdp.shape)
        if warm is not None and warm.shape[1] <= mdp.n_states:
            theta[:, : warm.shape[1]] = warm
        if scale == 0:
            return Recovered(np.zeros(mdp.shape), 0.0, 0.0, {"theta": theta})
        after = np.log(mdp.n_actions) * mdp.steps_after
        iterations, norm = descend(
            mdp.backup.rows, mdp.initial, after, expert, self.regularisation, theta, RESIDUAL * scale
        )
        return recovered_from(estimate, theta, {"theta": theta}, iterations, norm / scale)


class MatchingProblem(NamedTuple):
    """What the objective depends on besides the parameters, at the states `states[first[h]:first[h+1]]` of each step.

    These are all that can be reached or have parameters: elsewhere parameters and gradient stay zero. `rows` are
    `MDP.backup.rows`; `initial [S]`, `unknown [H]`, `first [H+1]`, `states [n]`, and `expert [n, A]`, its occupancy.
    """

    rows: tuple[IntArray, NDArray[np.int32], FloatArray, int]
    initial: FloatArray
    unknown: FloatArray
    first: IntArray
    states: IntArray
    expert: FloatArray


@compiled
def problem_of(
    rows: tuple[IntArray, NDArray[np.int32], FloatArray, int],
    initial: FloatArray,
    unknown: FloatArray,
    expert: FloatArray,
    parameters: FloatArray,
) -> MatchingProblem:
    """The problem of an expert with this occupancy `[H, S, A]`, to be solved from `parameters [H, S, A]` on."""
    indptr, successors, _, stride = rows
    horizon, n_states, n_actions = expert.shape
    first, states = np.zeros(horizon + 1, np.int64), np.empty(horizon * n_states, np.int64)
    here, count = initial > 0.0, 0
    for h in range(horizon):
        after = np.zeros(n_states, np.bool_)
        for s in range(n_states):
            if here[s] or parameters[h, s].any():
                states[count] = s
                count += 1
                row = h * stride + s * n_actions
                for k in range(indptr[row], indptr[row + n_actions]):
                    after[successors[k]] = True
        first[h + 1] = count
        here = after
    states = states[:count].copy()
    return MatchingProblem(rows, initial, unknown, first, states, gathered(first, states, expert))


@compiled
def gathered(first: IntArray, states: IntArray, whole: FloatArray) -> FloatArray:
    """`[n, A]`: the rows of `whole [H, S, A]` that belong to these states of each step."""
    found = np.empty((states.size, whole.shape[2]))
    for h in range(whole.shape[0]):
        for i in range(first[h], first[h + 1]):
            found[i] = whole[h, states[i]]
    return found


@compiled
def loss(problem: MatchingProblem, regularisation: float, parameters: FloatArray, gradient: FloatArray) -> float:
    """Minus the objective at `parameters [n, A]`; its gradient `[n, A]` is written.

    Backward, the gradient holds the soft policy; forward, mass flows by it and what is left is the gradient.
    """
    indptr, successors, probabilities, stride = problem.rows
    first, states, unknown, expert = problem.first, problem.states, problem.unknown, problem.expert.reshape(-1)
    horizon, n_states, n_actions = first.size - 1, problem.initial.size, parameters.shape[1]
    point, slope = parameters.reshape(-1), gradient.reshape(-1)
    v = np.zeros((2, n_states))
    for h in range(horizon - 1, -1, -1):
        here, later = v[h % 2], v[(h + 1) % 2]
        for i in range(first[h], first[h + 1]):
            row, entry, best, mass = h * stride + states[i] * n_actions, i * n_actions, -np.inf, 0.0
            last = np.uint64(indptr[row])
            for a in range(n_actions):
                begin, last = last, np.uint64(indptr[row + a + 1])
                total = unknown[h] if begin == last else 0.0
                for k in range(begin, last):
                    total += probabilities[k] * later[np.uint32(successors[k])]
                total += point[entry + a]
                slope[entry + a] = total
                if total > best:
                    best = total
            for a in range(n_actions):
                lag = slope[entry + a] - best
                weight = 1.0 if lag == 0.0 else np.exp(lag)
                slope[entry + a] = weight
                mass += weight
            for a in range(n_actions):
                slope[entry + a] /= mass
            here[states[i]] = best + np.log(mass)
    here, after = problem.initial.copy(), np.empty(n_states)
    value, earned, squares = 0.0, 0.0, 0.0
    for i in range(first[1]):
        value += here[states[i]] * v[0, states[i]]
    for h in range(horizon):
        after[:] = 0.0
        for i in range(first[h], first[h + 1]):
            mass, row, entry = here[states[i]], h * stride + states[i] * n_actions, i * n_actions
            for a in range(n_actions):
                flow, theta, wanted = mass * slope[entry + a], point[entry + a], expert[entry + a]
                if flow > 0.0:
                    for k in range(np.uint64(indptr[row + a]), np.uint64(indptr[row + a + 1])):
                        after[np.uint32(successors[k])] += flow * probabilities[k]
                slope[entry + a] = flow + (regularisation * theta - wanted)
                earned += wanted * theta
                squares += theta * theta
        here, after = after, here
    return value - earned + regularisation / 2 * squares


@compiled
def dot(a: FloatArray, b: FloatArray) -> float:
    """The inner product, summed in one order: a threaded library's would depend on the number of cores."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@compiled
def descend(
    rows: tuple[IntArray, NDArray[np.int32], FloatArray, int],
    initial: FloatArray,
    unknown: FloatArray,
    expert: FloatArray,
    regularisation: float,
    parameters: FloatArray,
    tolerance: float,
) -> tuple[int, float]:
    """Minimise the loss from `parameters [H, S, A]` on, in place; returns the iterations and the gradient's norm."""
    problem = problem_of(rows, initial, unknown, expert, parameters)
    first, states = problem.first, problem.states
    point = gathered(first, states, parameters)
    iterations, norm = minimise(problem, regularisation, point, tolerance)
    for h in range(parameters.shape[0]):
        for i in range(first[h], first[h + 1]):
            parameters[h, states[i]] = point[i]
    return iterations, norm


@compiled
def minimise(
    problem: MatchingProblem, regularisation: float, parameters: FloatArray, tolerance: float
) -> tuple[int, float]:
    """Minimise the loss from `parameters [n, A]` on, in place, by L-BFGS; returns the iterations and the slope's norm.

    Nocedal & Wright, Algorithm 7.5, with halved steps until the loss falls enough. The loss curves at least `λ` in
    every direction, so every step taken is one to learn the curvature from. A start that will do is kept: a step from
    there would follow rounding errors, and scaling would magnify them.
    """
    point, size = parameters.reshape(-1), parameters.size
    gradient, trial, trial_gradient = (
        np.empty_like(parameters),
        np.empty_like(parameters),
        np.empty_like(parameters),
    )
    slope, ahead, slope_ahead = gradient.reshape(-1), trial.reshape(-1), trial_gradient.reshape(-1)
    steps, turns, direction = np.empty((MEMORY, size)), np.empty((MEMORY, size)), np.empty(size)
    inverse, squares = np.empty(MEMORY), np.empty(MEMORY)
    value = loss(problem, regularisation, parameters, gradient)
    norm = np.sqrt(dot(slope, slope))
    for iteration in range(MAX_ITERATIONS):
        if norm <= tolerance:
            return iteration, norm
        fall = find_direction(iteration, slope, norm, steps, turns, inverse, squares, direction)
        length = 1.0
        while True:
            for j in range(size):
                ahead[j] = point[j] + length * direction[j]
            after = loss(problem, regularisation, trial, trial_gradient)
            if after <= value + 1e-4 * length * fall:
                break
            length /= 2
            if length < 1e-10:
                return iteration, norm
        i = iteration % MEMORY
        product, square, total = 0.0, 0.0, 0.0
        for j in range(size):
            step, turn = ahead[j] - point[j], slope_ahead[j] - slope[j]
            product += step * turn
            square += turn * turn
            total += slope_ahead[j] * slope_ahead[j]
            steps[i, j], turns[i, j], point[j], slope[j] = step, turn, ahead[j], slope_ahead[j]
        inverse[i], squares[i], norm, value = 1 / product, square, np.sqrt(total), after
    return MAX_ITERATIONS, norm


@compiled
def find_direction(
    iteration: int,
    slope: FloatArray,
    norm: float,
    steps: FloatArray,
    turns: FloatArray,
    inverse: FloatArray,
    squares: FloatArray,
    direction: FloatArray,
) -> float:
    """Nocedal & Wright, Algorithm 7.4: the quasi-Newton `direction [n]`; returns its product with the `slope [n]`.

    `steps` and `turns [MEMORY, n]` are the last steps and changes of the slope, `inverse` and `squares [MEMORY]` one
    over their products and the squares of the turns. Each loop changes the direction and takes the next inner product
    at once: an inner product that is summed in one order leaves the processor time for the rest.
    """
    oldest, shares, total = max(0, iteration - MEMORY), np.empty(MEMORY), 0.0
    if iteration == 0:
        for j in range(slope.size):
            direction[j] = -slope[j] / max(1.0, norm)
            total += direction[j] * slope[j]
        return total
    i = (iteration - 1) % MEMORY
    step = steps[i]
    for j in range(slope.size):
        direction[j] = -slope[j]
        total += step[j] * direction[j]
    for k in range(iteration - 1, oldest, -1):
        i, step = k % MEMORY, steps[(k - 1) % MEMORY]
        shares[i], turn = inverse[i] * total, turns[i]
        share, total = shares[i], 0.0
        for j in range(slope.size):
            part = direction[j] - share * turn[j]
            direction[j] = part
            total += step[j] * part
    i = oldest % MEMORY
    shares[i], turn, last = inverse[i] * total, turns[i], (iteration - 1) % MEMORY
    share, scale, total = shares[i], inverse[last] * squares[last], 0.0
    for j in range(slope.size):
        part = (direction[j] - share * turn[j]) / scale
        direction[j] = part
        total += turn[j] * part
    for k in range(oldest, iteration):
        i, following = k % MEMORY, slope if k == iteration - 1 else turns[(k + 1) % MEMORY]
        share, step, total = shares[i] - inverse[i] * total, steps[i], 0.0
        for j in range(slope.size):
            part = direction[j] + share * step[j]
            direction[j] = part
            total += following[j] * part
    return total

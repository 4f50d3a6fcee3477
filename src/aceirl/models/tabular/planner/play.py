"""The algorithm of the planner, written once for one core, threads and a GPU: fictitious play, bounded at each step.

In turn, each player answers the average of what the other has played, and adds the answer to its own average; `saddle`
says what is played for and why the bounds hold, and docs/planner.md what was tried. A rule is given a model, see
`passes`, and calls the passes over it.
"""

from __future__ import annotations

import numpy as np

from aceirl.models.tabular.mdp import FloatArray
from aceirl.models.tabular.planner.passes import (
    ADVERSARY,
    CHECKED,
    CONSTANT,
    LOWER,
    MULTIPLIER,
    NOTHING,
    SOFTNESS,
    STEP,
    UPPER,
    Cost,
    Model,
    SaddleProblem,
    SaddleState,
    add_answer,
    allocate,
    compiled_rule,
    largest_price,
    push,
    respond,
    scale_sums,
    set_answer,
    set_price,
    set_root,
    set_uniform,
    values_of,
)

ROUNDING = 1e-4
"""What rounding may make of a value, as a share of the slack: a gap of that size decides nothing."""

WARM_WEIGHT = 0.3
"""A start counts for this many iterations, over its relative gap in the new problem."""

SEARCH_LIMIT = 2
"""How many multipliers the adversary tries per iteration; its pair of policies carries over to the next."""

SEARCH_TOLERANCE = 0.1
"""The part of the gap asked for that is good enough for one answer of an adversary with a policy set."""

SOFT_ADVERSARY, SOFT_EXPLORER, SOFT_POWER = 1.0, 3.0, 0.7
"""The temperature of an answer is one of the first two, times the relative gap to this power; see docs/planner.md."""

FIRST_CHECK, PROGRESS = 16, 1.4
"""From this iteration on, at every power of two, the gap must have shrunk by this factor or softness is halved."""


@compiled_rule
def begin(model: Model, problem: SaddleProblem, state: SaddleState) -> None:
    """The explorer begins with uniform actions, or with a uniform allocation."""
    if problem.samples:
        allocate(model, problem, state)
    else:
        set_uniform(model, state)
        add_explorer(model, problem, state)


@compiled_rule
def begin_from(
    model: Model,
    problem: SaddleProblem,
    state: SaddleState,
    explorer: FloatArray,
    adversary: FloatArray,
    weight: float,
    tolerance: float,
) -> None:
    """Both players' first answers are these policies `[H, S, A]`, and count for `weight` iterations at most.

    The gap of fictitious play falls like one over its iterations, so a start counts for as many as its gap suggests.
    """
    if not problem.samples:
        set_answer(model, state, explorer)
        add_explorer(model, problem, state)
    set_answer(model, state, adversary)
    add_adversary(model, problem, state)
    if problem.samples:
        allocate(model, problem, state)
    set_root(model, problem, state)
    upper, lower = upper_bound(model, problem, state, 0.0, tolerance), lower_bound(model, problem, state, 0.0)
    state.totals[UPPER], state.totals[LOWER] = upper, max(0.0, lower)
    if lower < upper:
        weight = min(weight, max(1.0, WARM_WEIGHT * upper / (upper - lower)))
    scale_sums(model, problem, state, weight)


@compiled_rule
def iterate(
    model: Model, problem: SaddleProblem, state: SaddleState, tolerance: float, trace: FloatArray
) -> tuple[int, bool]:
    """Fictitious play for as many iterations as `trace` has rows, or until the gap is small; `(iterations, done)`.

    An iteration begins with the explorer's move, so that the last upper bound is that of the explorer returned. An
    allocation is exact against `μ̄`, hence bounded below before `μ̄` moves on; a policy is only a direction, and does
    better to answer what the adversary has just added.
    """
    totals, samples = state.totals, problem.samples
    for t in range(trace.shape[0]):
        lower = totals[LOWER]
        heat = totals[SOFTNESS] * relative_gap(totals[UPPER], lower) ** SOFT_POWER
        # 1. The explorer adds its answer to its average, or allocates anew.
        if samples:
            allocate(model, problem, state)
        elif totals[STEP] > 0.0:
            add_explorer(model, problem, state)
        set_root(model, problem, state)
        if samples and totals[ADVERSARY] > 0.0:
            lower = max(lower, lower_bound(model, problem, state, 0.0))
        # 2. The adversary answers the explorer's average, which bounds the optimum above, and adds it to its own.
        upper = upper_bound(model, problem, state, SOFT_ADVERSARY * heat, tolerance)
        add_adversary(model, problem, state)
        # 3. The explorer answers the adversary's average, which bounds the optimum below.
        if not samples:
            lower = max(lower, lower_bound(model, problem, state, SOFT_EXPLORER * heat))
        # 4. The gap says whether the plan is good enough, and how soft the next answers are.
        totals[LOWER], totals[UPPER] = lower, upper
        totals[STEP] += 1.0
        trace[t, 0], trace[t, 1] = upper, lower
        if upper - lower <= tolerance * upper:
            return t + 1, True
        soften(totals, relative_gap(upper, lower))
    return trace.shape[0], False


@compiled_rule
def relative_gap(upper: float, lower: float) -> float:
    """`(upper - lower) / upper`; rounding may put one above the other."""
    return max(0.0, upper - lower) / upper if upper > 0.0 else 0.0


@compiled_rule
def soften(totals: FloatArray, gap: float) -> None:
    """Set the softness after an iteration with this gap.

    It is halved when twice the iterations have not brought the gap down: softened answers then hold it up.
    """
    step = int(totals[STEP])
    if step >= FIRST_CHECK and step & (step - 1) == 0:
        if gap > totals[CHECKED] / PROGRESS:
            totals[SOFTNESS] *= 0.5
        totals[CHECKED] = gap


@compiled_rule
def add_explorer(model: Model, problem: SaddleProblem, state: SaddleState) -> None:
    """Add the explorer's answer, the last one given, to its sums."""
    push(model, state.none, state.policy, state.mass)
    add_answer(model, problem, state, state.none, 1.0, False)


@compiled_rule
def upper_bound(
    model: Model, problem: SaddleProblem, state: SaddleState, temperature: float, tolerance: float
) -> float:
    """The certificate's upper bound for the averaged explorer; the adversary's softened answer goes to `policy`."""
    if not np.isfinite(problem.floor):
        cost = Cost(problem.weight, state.root, problem.fixed, problem.reward)
        return respond(model, cost, 0.0, temperature, state.none, state.policy)
    _, _, upper, state.totals[MULTIPLIER], _ = search_multiplier(
        model, problem, state, problem.floor, temperature, SEARCH_TOLERANCE * tolerance, SEARCH_LIMIT
    )
    return upper


@compiled_rule
def add_adversary(model: Model, problem: SaddleProblem, state: SaddleState) -> None:
    """Add the adversary's answer to its sums, inside the policy set if there is one.

    What is softened need not meet the floor, or may stay above a floor that binds: mixed with the policy on the other
    side of the floor it meets it exactly.
    """
    none = state.none
    push(model, none, state.policy, state.mass)
    share, other = 1.0, 0
    if np.isfinite(problem.floor):
        cost = Cost(NOTHING, state.root, NOTHING, problem.reward)
        reward = values_of(model, cost, none, state.policy, state.mass)[1]
        if reward < problem.floor:
            share = mixing_share(state.rewards[0] - problem.floor, state.rewards[0] - reward, problem.slack)
        elif state.totals[MULTIPLIER] > 0.0 and state.rewards[1] < problem.floor:
            share, other = (problem.floor - state.rewards[1]) / (reward - state.rewards[1]), 1
    add_answer(model, problem, state, none, share, True)
    if share < 1.0:
        push(model, state.pair[other], state.policy, state.mass)
        add_answer(model, problem, state, state.pair[other], 1.0 - share, True)


@compiled_rule
def mixing_share(spare: float, lacking: float, slack: float) -> float:
    """How much of an answer that lies below the floor may be mixed with one that has reward to `spare`.

    Where the two differ by no more than rounding, nothing of it: the other one meets the floor by itself.
    """
    return max(0.0, spare) / lacking if lacking > slack else 0.0


@compiled_rule
def lower_bound(model: Model, problem: SaddleProblem, state: SaddleState, temperature: float) -> float:
    """The certificate's lower bound for both averages; the explorer's softened answer goes to `policy`."""
    value, held = set_price(model, problem, state)
    if problem.samples:
        gain = largest_price(model, state)
    else:
        cost = Cost(NOTHING, state.price, NOTHING, NOTHING)
        gain = respond(model, cost, 0.0, temperature, state.none, state.policy)
    total = held + problem.number * gain
    constant = float(state.totals[CONSTANT] / state.totals[ADVERSARY])
    return constant if total <= 0.0 else constant + value * float(np.sqrt(value / (2.0 * total)))


@compiled_rule
def search_multiplier(
    model: Model,
    problem: SaddleProblem,
    state: SaddleState,
    floor: float,
    temperature: float,
    tolerance: float,
    limit: int,
) -> tuple[float, float, float, float, int]:
    """Improve a pair of policies until their mixture is optimal up to a tolerance; the search of `constrained`.

    `pair [3, H, S]` holds the policy that meets the floor, the one that does not (if `rewards[1]` is finite) and room
    for a third; `rewards [2]` are their values of the reward, which do not depend on the cost. All are changed in
    place, so the next cost may start from them. `policy` is the softened answer to the last multiplier, see `respond`.
    Returns `(share of the first, value, bound, multiplier, evaluations)`.
    """
    slack, pair, rewards, policy, mass = problem.slack, state.pair, state.rewards, state.policy, state.mass
    cost = Cost(problem.weight, state.root, problem.fixed, problem.reward)
    push(model, pair[0], policy, mass)
    meets = values_of(model, cost, pair[0], policy, mass)[0]
    misses = -np.inf
    if np.isfinite(rewards[1]):
        push(model, pair[1], policy, mass)
        misses = values_of(model, cost, pair[1], policy, mass)[0]
    bound, best, evaluations = np.inf, 0.0, 0
    while evaluations < limit:
        multiplier = 0.0
        if misses > meets:
            # Every multiplier gives a bound, so a difference of rounding size decides nothing.
            multiplier = (misses - meets) / max(rewards[0] - rewards[1], slack)
        dual = respond(model, cost, multiplier, temperature, pair[2], policy) - multiplier * floor
        evaluations += 1
        if dual < bound:
            bound, best = dual, multiplier
        crossing = meets + multiplier * (rewards[0] - floor)
        if dual - crossing <= tolerance * abs(dual) + ROUNDING * (problem.cost_slack + multiplier * slack):
            break
        push(model, pair[2], policy, mass)
        value, reward = values_of(model, cost, pair[2], policy, mass)
        if reward >= floor - slack:
            pair[0], meets, rewards[0] = pair[2], value, reward
            if multiplier == 0.0:
                break
        else:
            pair[1], misses, rewards[1] = pair[2], value, reward
    if misses <= meets:
        return 1.0, meets, bound, best, evaluations
    share = min(1.0, max(0.0, (floor - rewards[1]) / max(rewards[0] - rewards[1], slack)))
    return share, share * meets + (1.0 - share) * misses, bound, best, evaluations


@compiled_rule
def reward_ceiling(model: Model, problem: SaddleProblem, state: SaddleState) -> float:
    """The best value of the reward, as the forward pass adds it up; the first of the pair is its policy.

    For a state whose `root` is still zero.
    """
    actions, policy, mass = state.pair[0], state.policy[:0], state.mass
    cost = Cost(NOTHING, state.root, NOTHING, problem.reward)
    respond(model, cost, 1.0, 0.0, actions, policy)
    push(model, actions, policy, mass)
    state.rewards[0] = values_of(model, cost, actions, policy, mass)[1]
    return float(state.rewards[0])


@compiled_rule
def maximise(
    model: Model, problem: SaddleProblem, state: SaddleState, tolerance: float, limit: int
) -> tuple[float, float, float, float, float, int]:
    """The search for the cost `weight` alone, from the reward's best policy; what is returned begins with its value.

    If even that policy is below the floor by more than the slack, nothing is searched.
    """
    ceiling = reward_ceiling(model, problem, state)
    if problem.floor - ceiling > problem.slack:
        return ceiling, 1.0, -np.inf, np.inf, np.inf, 0
    state.root[:] = 1.0
    floor = min(problem.floor, ceiling)
    share, value, bound, multiplier, evaluations = search_multiplier(
        model, problem, state, floor, 0.0, tolerance, limit
    )
    return ceiling, share, value, bound, multiplier, evaluations

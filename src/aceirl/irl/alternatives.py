"""What else might be said of the expert: other rewards of a space under which its answers are about as likely."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from aceirl.irl.likelihood import Likelihood
from aceirl.irl.sparse_likelihood import PENALTY, SIZES, SparseFit, changed, pieces
from aceirl.models.fields.reduction import Reduced
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards.explanation import Explanation
from aceirl.rewards.spaces import SPACES, DesignMatrix

N_SAMPLES, FEWEST_SAMPLES = 64, 16
"""How many rewards are sampled, and how many at least in a large world."""

THINNING = 32
"""How many moves lie between two samples, or fewer in a large world."""

MOST_WORK, FEWEST_MOVES = 400_000_000, 128
"""So many successors, over all steps, are looked at to judge the moves of all samples; but so many moves are made."""

TOLERATED = 2.0
"""A value of a parameter is possible if it makes the answers at most this many nats less likely."""

HALVINGS = 4
"""How often the ends of an interval are halved; they are right up to `2^-HALVINGS`."""

AS_MUCH = 0.95
"""A place may be worth as much as the goal if its parameter may be at least this; the goal's is one."""

SIGNS = np.array([1.0, -1.0])

VALUES = np.array([sign * size for sign in SIGNS for size in SIZES])


class Alternatives:
    """Rewards that are about as likely as one that was found: samples of them, and how far each parameter may move.

    A reward `θ` has the probability `∝ exp(-cost(θ))`, where the cost is that of `SparseFit`: few parameters are
    likelier than many, and the size of each is any of `SIZES`, of either sign.
    """

    def __init__(self, estimate: Estimate, design: DesignMatrix, explanation: Explanation, seed: int = 0) -> None:
        self.design, self.theta, self._explanation, self._seed = design, explanation.map_estimate, explanation, seed
        self._fit = SparseFit(Likelihood(estimate), design, PENALTY)
        self._work = estimate.mdp.horizon * len(estimate.mdp.transitions.successors)
        self._places = np.ones(design.shape[1], dtype=np.bool_)
        self._places[estimate.terminal_states] = explanation.ends[
            estimate.terminal_states
        ]  # an end that nobody reached is no place

    @cached_property
    def samples(self) -> FloatArray:
        """`[N, n]`: parameters, by a Metropolis walk that begins at the ones that were found.

        `N` is `N_SAMPLES`, or fewer in a large world.
        """
        rng, n_moves = np.random.default_rng(self._seed), N_SAMPLES * THINNING
        n_moves = min(n_moves, max(FEWEST_MOVES, MOST_WORK // max(1, self._work)))
        n_samples = max(min(N_SAMPLES, FEWEST_SAMPLES), n_moves // THINNING)
        thinning = n_moves // n_samples
        theta, cost = self.theta, self._fit.cost(self.theta)
        candidates = np.array(self._fit.candidates(self._fit.few))
        found = np.empty((n_samples, len(theta)))
        for n in range(n_samples * thinning):
            moved = _moved(theta, candidates, self._fit.most, rng)
            luck = rng.exponential()
            if moved is not None:
                there = self._fit.cost(moved, cost + luck)
                if there - cost <= luck:
                    theta, cost = moved, there
            found[n // thinning] = theta
        return found

    @cached_property
    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """`(low, high)`, `[n]` each: the values that each parameter may have while all others stay as they are."""
        return self._ends(-1.0), self._highest

    @cached_property
    def _highest(self) -> FloatArray:
        return self._ends(1.0)

    def _ends(self, side: float) -> FloatArray:
        """`[n]`: the furthest value on one side of each parameter's own at which the loss is tolerated."""
        limit = self._fit.loss(self.theta) + TOLERATED
        inside, outside = self.theta.copy(), np.full_like(self.theta, side)
        inside = np.where(self._possible(outside, limit), side, inside)
        for _ in range(HALVINGS):
            open_ends = np.flatnonzero(inside != side)
            middle = (inside + outside) / 2
            possible = self._possible(middle, limit, open_ends)
            inside, outside = np.where(possible, middle, inside), np.where(possible, outside, middle)
        return inside

    def _possible(self, values: FloatArray, limit: float, chosen: IntArray | None = None) -> BoolArray:
        """`[n]`: whether the loss stays within the limit if one parameter, of those chosen, has another value."""
        possible = np.zeros(len(values), dtype=np.bool_)
        for some in pieces([np.arange(len(values)) if chosen is None else chosen]):
            possible[some] = self._fit.losses(changed(self.theta, some, values[some]), limit) <= limit
        return possible

    @cached_property
    def goals(self) -> list[int]:
        """The places that may be the ones of the largest reward, the likeliest first.

        That is, if the largest parameter were about another place, and the answers hardly less likely.
        """
        thetas, costs = self._fit.moved(self.theta)
        found: dict[int, None] = {}
        for k in np.argsort(costs, kind="stable")[: int((costs <= costs.min() + TOLERATED + 1e-9).sum())].tolist():
            found.update(dict.fromkeys(self._explanation.of(thetas[k], self.design.paid(thetas[k])).goals))
        return [state for state in found if self._places[state]]

    @cached_property
    def undetermined(self) -> list[int]:
        """The places, in their order, that may be worth as much as any, going by what the answers say of them."""
        about = self.design.states[(self._highest >= AS_MUCH) & (self.design.states >= 0)]
        return [int(s) for s in np.unique(about) if self._places[s]]


class Expanded(Alternatives):
    """Alternatives that were `found` in fewer states, in those of a run, which have these `numbers [S]` there.

    Each of the `parameters [n]` of the `design`, the space laid over the run, is one of those that were found.
    """

    def __init__(self, found: Alternatives, parameters: IntArray, design: DesignMatrix, numbers: IntArray) -> None:
        self.design, self.theta = design, found.theta[parameters]
        self._found, self._parameters, self._numbers = found, parameters, numbers

    @cached_property
    def samples(self) -> FloatArray:
        """`[N, n]`: the same parameters, each of all states that are one."""
        return self._found.samples[:, self._parameters]

    @cached_property
    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """`(low, high)`, `[n]` each: how far the parameter of all states that are one may move."""
        low, high = self._found.intervals
        return low[self._parameters], high[self._parameters]

    @cached_property
    def goals(self) -> list[int]:
        """The states of all that may be the likeliest goals, those that are one together."""
        return [int(state) for goal in self._found.goals for state in np.flatnonzero(self._numbers == goal)]

    @cached_property
    def undetermined(self) -> list[int]:
        """All states of which it may be said."""
        return [int(state) for state in np.flatnonzero(np.isin(self._numbers, self._found.undetermined))]


def alternatives_in(
    fewer: Reduced, design: DesignMatrix, explanation: Explanation, seed: int = 0
) -> Alternatives | None:
    """Alternatives sought in the fewest states that fields make; None if the reward itself is not one of those."""
    estimate = fewer.estimate
    inner = SPACES[design.name]().design_matrix(estimate.mdp, estimate.terminal_states)
    found = explanation.elsewhere(inner, fewer.first)
    parameters = found.parameters_in(design, fewer.numbers)
    if not np.array_equal(found.map_estimate[parameters], explanation.map_estimate):
        return None
    return Expanded(Alternatives(estimate, inner, found, seed), parameters, design, fewer.numbers)


def _moved(theta: FloatArray, candidates: IntArray, most: int, rng: np.random.Generator) -> FloatArray | None:
    """A move as likely as the one back, if a parameter's values count as one; None if it leads out of the space."""
    moved, support = theta.copy(), np.flatnonzero(theta)
    one, other = int(rng.choice(support)), int(rng.choice(candidates))
    match int(rng.integers(3)):
        case 0:  # one parameter in the place of another, of either sign: to seek one may be to avoid the other
            moved[other], moved[one] = rng.choice(SIGNS) * theta[one], theta[other]
        case 1:  # one more, or one less
            moved[other] = 0.0 if theta[other] != 0 else rng.choice(VALUES)
        case _:  # another size or sign
            moved[one] = rng.choice(VALUES)
    return moved if np.abs(moved).max() == 1 and np.count_nonzero(moved) <= most else None

"""Sparse likelihood: the reward with the fewest parameters that makes the answers, and the preferences, likely."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aceirl.irl.comparisons import Comparisons
from aceirl.irl.incremental_likelihood import Common, IncrementalLikelihood
from aceirl.irl.likelihood import Likelihood
from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray
from aceirl.rewards.explanation import Explanation
from aceirl.rewards.hypotheses import Wish
from aceirl.rewards.recovered import Parameters, Recovered, infeasibility, recovered_from
from aceirl.rewards.spaces import SPACES, AnyReward, DesignMatrix, RewardSpace, StateReward

SIZES = (1.0, 0.5, 0.25, 0.1, 0.03)
"""What a parameter may be, of either sign; the largest is of size one."""

NEW_SIZES = (1.0, 0.25)
"""What a parameter is tried with before its size is adjusted."""

STEP_COSTS = (0.1, 0.01)
"""What the step cost may be beside the first parameter: without it a goal that is paid for once can wait."""

EQUAL = 0.05
"""Losses that differ by less, in nats, are the same: the smaller size is taken then."""

LEAST_GAIN = 1e-9
"""A change that saves less, in nats, is none."""

FEW = 128
"""Up to so many parameters, each is tried with either sign; of more, those with the largest feature expectation gap
and with its sign."""

LARGE = 1_000
"""With more states than this, fewer parameters are tried, and fewer may be other than zero."""

LEADING = 12
"""How many of those are tried for each parameter after the first, or together with a step cost."""

AT_ONCE = 48
"""How many rewards are laid over the process at once."""

WORTH_SHARING = 100
"""With fewer states than this, what rewards have in common is found no sooner than each of them is judged."""

FEW_COMMON = 4
"""How much that rewards have in common is kept for the next of them."""

PENALTY = 4.0
"""What a parameter that is not zero costs, in nats."""

UNLIKELY = 3.0
"""Rewards that are less likely than the best by more than so many nats are left out of the mean."""

MOST = 16
"""No reward has more parameters than this that are not zero."""

SOUGHT_END, AVOIDED_END = -2.0, 3.0
"""What is added to the price of a parameter for an end of episodes that is sought, and for one that is avoided."""

AGAINST = 8.0
"""What is added for an end that is sought although the expert gets there less often than by chance, or vice versa."""

Fit = tuple[FloatArray, float]

T = TypeVar("T", bound=np.generic)


class SparseFit:
    """Minimise `-log likelihood + penalty·‖θ‖₀` over `θ ∈ [-1, 1]ⁿ`, the largest of size one.

    The parameter that makes the answers likeliest comes first, perhaps with a step cost. Then, for as long as it helps,
    whichever change helps most: one more parameter, one less, one in the place of another; after each the sizes of all
    are adjusted. The problem is not convex; the search over single parameters is exhaustive where there are few, so
    that it does not depend on where it begins. An end of episodes that is sought is the likeliest goal, and cheaper.
    What is likely are the answers, and the preferences between episodes: either is enough.
    """

    def __init__(self, likelihood: Likelihood, design: DesignMatrix, penalty: float) -> None:
        self.likelihood, self.design, self.penalty = likelihood, design, penalty
        self.comparisons = Comparisons(likelihood.estimate, design)
        self._incremental = IncrementalLikelihood(likelihood)
        self.ends = np.isin(design.states, likelihood.estimate.terminal_states)
        self.evaluations = 0
        effort = min(1.0, LARGE / design.shape[1])
        self.few, self.leading = max(12, round(FEW * effort)), max(4, round(LEADING * effort))
        self.most = max(6, round(MOST * effort))
        self._commons: dict[bytes, Common] = {}

    def loss(self, theta: FloatArray, limit: float = np.inf) -> float:
        """Minus the log-likelihood of parameters `[n]`; see `costs` for the limit."""
        return float(self.losses(theta[None], limit)[0])

    def losses(self, thetas: FloatArray, limit: float = np.inf) -> FloatArray:
        """`[N]`: the loss of each of `thetas [N, n]`."""
        return self._judged(thetas, np.zeros(len(thetas)), limit)

    def costs(self, thetas: FloatArray, limit: float = np.inf) -> FloatArray:
        """`[N]`: the loss of each of `thetas [N, n]`, and the price of its parameters that are not zero.

        Those that are sure to be above the limit are not worked out to the end.
        """
        ends = self.ends if self.ends.any() else self.ends[:0]
        favour = self._favour if len(ends) else thetas[0]
        return self._judged(thetas, _prices(thetas, self.penalty, ends, favour), limit)

    def _judged(self, thetas: FloatArray, prices: FloatArray, limit: float) -> FloatArray:
        """`[N]`: the loss of each of `thetas [N, n]`, and its price `[N]`."""
        self.evaluations += len(thetas)
        prices, found = prices[:, None] + self.comparisons.losses(thetas), np.empty(len(thetas))
        if len(thetas) == 1 or not self._shares:
            return self._incremental.losses(self.design, thetas, prices, limit, self._of_nothing)
        # A step cost is paid from everywhere; rewards with the same one have more in common.
        for step_cost in set(thetas[:, -1].tolist()):
            alike = thetas[:, -1] == step_cost
            some = thetas[alike]
            found[alike] = self._incremental.losses(self.design, some, prices[alike], limit, self._common(some))
        return found

    @property
    def _shares(self) -> bool:
        """Whether what rewards have in common is worked out once."""
        return self.design.shape[1] >= WORTH_SHARING

    def _pieces(self, blocks: Iterable[FloatArray]) -> Iterator[FloatArray]:
        """Blocks `[N, n]` of rewards as they are judged at once: those of one block have the most in common."""
        return chain.from_iterable(pieces([block]) for block in blocks) if self._shares else pieces(blocks)

    def _common(self, thetas: FloatArray) -> Common:
        """What the rewards of `thetas [N, n]` have in common."""
        shared = np.where((thetas == thetas[0]).all(axis=0), thetas[0], 0.0)
        if not shared.any():
            return self._of_nothing
        key = shared.tobytes()
        if key not in self._commons:
            if len(self._commons) == FEW_COMMON:
                self._commons.clear()
            self._commons[key] = self._incremental.common(self.design, shared)
        return self._commons[key]

    @cached_property
    def _of_nothing(self) -> Common:
        """What all rewards have in common: nothing."""
        return self._incremental.common(self.design, np.zeros(self.design.n_parameters))

    def cost(self, theta: FloatArray, limit: float = np.inf) -> float:
        """The cost of parameters `[n]`."""
        return float(self.costs(theta[None], limit)[0])

    def solve(self, start: FloatArray | None = None) -> FloatArray:
        """`θ [n]`: from the best single parameter, or from an earlier answer if that is better."""
        begin = (np.zeros(self.design.n_parameters), np.inf)
        start = None if start is None else self._grown(start)
        if start is not None and start.any():
            begin = (start, self.cost(start))
        return self._improved(self._first(begin))[0]

    def _grown(self, start: FloatArray) -> FloatArray | None:
        """An earlier answer with nothing for the states that were met since; None if it is of no use.

        In a small world the search begins anew when a state is met: it takes no longer, and hangs on nothing before.
        """
        more = self.design.n_parameters - len(start)
        if more == 0:
            return start
        if more < 0 or self.design.shape[1] <= LARGE or (self.design.states < 0).all():
            return None
        last = len(start) - self.design.has_step_cost  # those of new states come last, but before the step cost
        return np.concatenate((start[:last], np.zeros(more), start[last:]))

    def _first(self, fit: Fit) -> Fit:
        """The single parameter that fits best, of either sign, or with a step cost; or the fit if better."""
        n, step_cost = self.design.n_parameters, self.design.n_parameters - 1
        candidates, nothing = np.array(self.candidates(self.few)), np.zeros(n)
        if n <= FEW:
            singles = changed(nothing, np.repeat(candidates, 2), np.tile([1.0, -1.0], len(candidates)))
        else:
            singles = changed(nothing, candidates, np.where(self._feature_gap[candidates] >= 0, 1.0, -1.0))
        best = self._best(fit, [singles, *self._with_avoided_terminals(nothing, SIZES[:1])])
        if not self.design.has_step_cost:
            return best
        goals = sorted({*self.candidates(self.leading), *np.flatnonzero(self.ends).tolist()[: self.few]} - {step_cost})
        paired = changed(nothing, np.repeat(goals, len(STEP_COSTS)), 1.0)
        paired[:, step_cost] = np.tile(STEP_COSTS, len(goals))
        return self._best(best, [paired])

    def _improved(self, fit: Fit) -> Fit:
        """The best change, then the sizes, for as long as that helps.

        Smaller sizes may cost a little more; they are not taken if they cost as much as there was before the change,
        for that might go on for ever.
        """
        while True:
            better = self._best(fit, self._changes(fit[0]))
            if better is fit:
                return fit
            resized = self._resized(better)
            fit = resized if resized[1] < fit[1] - LEAST_GAIN else better

    def _changes(self, theta: FloatArray) -> Iterable[FloatArray]:
        """One parameter more, less, or in the place of another; in blocks `[N, n]`."""
        support, candidates = np.flatnonzero(theta), np.array(self.candidates(self.leading))
        others = candidates[theta[candidates] == 0]
        if len(support) < self.most:
            yield from self._with_avoided_terminals(theta, NEW_SIZES)
            sizes = [sign * size for size in NEW_SIZES for sign in (1.0, -1.0)]
            yield changed(theta, np.repeat(others, len(sizes)), np.tile(sizes, len(others)))
        for k in support:
            without = changed(theta, [k], 0.0)
            yield changed(without[0], others, theta[k])
            if len(support) > 1:
                yield without / np.abs(without).max()

    def _with_avoided_terminals(self, theta: FloatArray, sizes: Iterable[float]) -> Iterable[FloatArray]:
        """`theta [n]` with all ends avoided, at once, that are liked less in comparisons.

        Who fears two holes alike calls two episodes equal that end in either: to avoid one alone would deny that.
        """
        avoided = self.ends & (self.comparisons.feature_gap < 0) & (theta == 0)
        if 1 < np.count_nonzero(avoided) <= self.most - np.count_nonzero(theta):
            yield np.array([np.where(avoided, -size, theta) for size in sizes])

    def _resized(self, fit: Fit) -> Fit:
        """The sizes of all parameters in turn: the best, and of those that are equally good the smallest."""
        for k in np.flatnonzero(fit[0]).tolist():
            for size in SIZES:
                theta = changed(fit[0], [k], np.sign(fit[0][k]) * size)[0]
                if np.abs(theta).max() < 1 or np.array_equal(theta, fit[0]):
                    continue
                cost = self.cost(theta, fit[1] + EQUAL)
                if cost < fit[1] - EQUAL or (cost < fit[1] + EQUAL and size < abs(fit[0][k])):
                    fit = theta, cost
        return fit

    def _best(self, fit: Fit, candidates: Iterable[FloatArray]) -> Fit:
        """The candidate of least cost, if that is less than the fit's; they come in blocks `[N, n]`."""
        for some in self._pieces(candidates):
            for theta, cost in zip(some, self.costs(some, fit[1]).tolist(), strict=True):
                if cost < fit[1] - LEAST_GAIN:
                    fit = theta, cost
        return fit

    @cached_property
    def _feature_gap(self) -> FloatArray:
        """`[n]`: how much the answers and the preferences lead to each parameter, or away from it."""
        answers, compared = self.design.adjoint(self.likelihood.feature_gap), self.comparisons.feature_gap
        if not compared.any():
            return answers
        largest = float(np.abs(answers).max())
        return np.asarray(compared / np.abs(compared).max() + (answers / largest if largest > 0 else 0.0))

    @cached_property
    def _favour(self) -> FloatArray:
        """`[n]`: how much more often the expert is paid by each parameter than someone who takes any action tried.

        Where preferences say anything of it, what they say.
        """
        estimate = self.likelihood.estimate
        known = estimate.mdp.known.astype(np.float64)
        anything = known / np.maximum(1.0, known.sum(axis=2, keepdims=True))
        answered = np.asarray(estimate.expert_uses.any(axis=2))[:, :, None]
        expert = np.where(answered, estimate.expert_policy, anything)
        favour = self.design.adjoint(occupancy(estimate.mdp, expert) - occupancy(estimate.mdp, anything))
        compared = self.comparisons.feature_gap
        return np.where(compared != 0, compared, favour)

    @cached_property
    def _order(self) -> list[int]:
        """The parameters that anything was ever paid by, those with the largest gap first; all, if nothing was."""
        counts = self.likelihood.estimate.counts
        by_step = self.design.matrix.shape[0] > math.prod(self.design.shape[1:])
        rows = np.asarray(counts.visits if by_step else counts.visited.pooled, dtype=np.float64)
        paid = (abs(self.design.matrix).T @ rows.ravel() > 0) | self.comparisons.paid
        return [int(k) for k in np.argsort(-np.abs(self._feature_gap), kind="stable") if paid[k] or not paid.any()]

    def candidates(self, most: int) -> list[int]:
        """The parameters worth a try: those to which the answers lead most, and a step cost."""
        candidates, last = self._order[:most], self.design.n_parameters - 1
        return [*candidates, last] if self.design.has_step_cost and last not in candidates else candidates

    def moved(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`(θ [N, n], costs [N])`: `theta [n]`, and for each of its parameters all that have it in any place.

        With either sign; so `theta` itself is there once more for each of its parameters. Those that are less likely by
        more than `UNLIKELY` nats are left out.
        """
        candidates, blocks = np.array(self.candidates(self.few)), [theta[None]]
        for k in np.flatnonzero(theta):
            rest = changed(theta, [k], 0.0)[0]
            free = candidates[rest[candidates] == 0]
            blocks.append(changed(rest, np.repeat(free, 2), np.tile([theta[k], -theta[k]], len(free))))
        limit = self.cost(theta) + UNLIKELY + LEAST_GAIN
        costs = np.concatenate([self.costs(some, limit) for some in self._pieces(blocks)])
        likely = np.flatnonzero(costs <= limit)
        return np.concatenate(blocks)[likely], costs[likely]

    def averaged(self, theta: FloatArray) -> FloatArray:
        """`[n]`: the mean of those in `moved`, by their likelihood; scaled so that the largest is of size one.

        Where a few places explain the answers about equally well, to plan with the mean is safer than with any one of
        them; where one explains them best by far, it is that one. What is paid at every step, what is paid once, on
        arrival at an end, and a step cost are never mixed.
        """
        thetas, costs = self.moved(theta)
        alike = (thetas[:, self.ends] != 0).sum(axis=1) == (theta[self.ends] != 0).sum()
        if self.design.has_step_cost:
            alike &= thetas[:, -1] == theta[-1]
        mean = np.exp(costs.min() - costs[alike]) @ thetas[alike]
        return np.asarray(mean / np.abs(mean).max())

    def importance(self, theta: FloatArray) -> FloatArray:
        """`[n]`: by how many nats the answers are less likely without each parameter."""
        found, loss = np.zeros(len(theta)), self.loss(theta)
        for k in np.flatnonzero(theta).tolist():
            found[k] = self.loss(changed(theta, [k], 0.0)[0]) - loss
        return found


def changed(theta: FloatArray, parameters: ArrayLike, values: ArrayLike) -> FloatArray:
    """`[N, n]`: `theta [n]` with one of the `parameters [N]` changed to one of the `values`, each in its turn."""
    thetas = np.tile(theta, (np.size(parameters), 1))
    thetas[np.arange(len(thetas)), np.asarray(parameters, dtype=np.int64)] = np.asarray(values)
    return thetas


def pieces(blocks: Iterable[NDArray[T]]) -> Iterator[NDArray[T]]:
    """Blocks `[N, ...]`, something for each of many rewards, as so many at a time as are judged at once."""
    waiting: NDArray[T] | None = None
    for block in blocks:
        waiting = block if waiting is None else np.concatenate((waiting, block))
        while len(waiting) >= AT_ONCE:
            yield waiting[:AT_ONCE]
            waiting = waiting[AT_ONCE:]
    if waiting is not None and len(waiting):
        yield waiting


@compiled
def _prices(thetas: FloatArray, penalty: float, ends: BoolArray, favour: FloatArray) -> FloatArray:
    """`[N]`: the price of the parameters that are not zero; `ends [n]` is empty if there are none."""
    prices = np.zeros(len(thetas))
    for n in range(len(thetas)):
        for k in range(thetas.shape[1]):
            value = thetas[n, k]
            if value == 0.0:
                continue
            prices[n] += penalty
            if ends.size and ends[k]:
                prices[n] += AVOIDED_END if value < 0.0 else SOUGHT_END
                prices[n] += AGAINST if value * favour[k] < -LEAST_GAIN else 0.0
    return prices


@dataclass(frozen=True)
class SparseLikelihood:
    """The reward with the fewest parameters that makes the answers likely, in a space or in the smallest that will do.

    Preferences between episodes count with the answers, or instead of them.

    With the space `auto`, `state` is tried first and `state-action` next. A space will do if its reward explains the
    answers: see `Explanation.explains`. Else the reward is one of `any`: it repeats the answers, and says so. Where
    there are only preferences nothing can be repeated, and it is the one of the smallest space.
    """

    penalty: float = PENALTY
    merges: ClassVar[bool] = True
    """States that fields make one have one reward."""

    def __call__(
        self, estimate: Estimate, rmax: float, warm: Parameters | None = None, space: RewardSpace | None = None
    ) -> Recovered:
        """The reward in that space; without one, in the smallest that will do."""
        likelihood = Likelihood(estimate)
        spaces = [make() for make in SPACES.values()] if space is None else [space]
        smallest = None
        for candidate in spaces:
            if candidate.free:
                continue
            design = candidate.design_matrix(estimate.mdp, estimate.terminal_states)
            fit = SparseFit(likelihood, design, self.penalty)
            theta = fit.solve(None if warm is None else warm.get(f"theta.{candidate.name}"))
            explanation = explanation_of(fit, theta)
            if space is not None or explanation.explains:
                return _averaged(fit, explanation).in_units(rmax)
            smallest = smallest or (fit, explanation)
        if smallest is None or not estimate.preferences or estimate.counts.questions:
            return _repeating(estimate, likelihood).in_units(rmax)
        return _averaged(*smallest).in_units(rmax)


def _averaged(fit: SparseFit, explanation: Explanation) -> Recovered:
    """The reward to be planned with: the mean of those that are about as likely."""
    mean = fit.averaged(explanation.map_estimate)
    meant = replace(explanation, theta=mean, paid=fit.design.paid(mean))
    return _recovered(fit.likelihood.estimate, fit.design, meant, fit.evaluations)


def explanation_of(fit: SparseFit, theta: FloatArray) -> Explanation:
    """What the parameters `theta [n]`, which are planned with, say of the answers."""
    table = fit.design.steps(theta)
    judged = fit.likelihood.judged(table, fit.comparisons.sums(theta))
    compared, explained = fit.likelihood.explained(table)
    return Explanation(
        space=fit.design.name,
        theta=theta,
        map_estimate=theta,
        states=fit.design.states,
        actions=fit.design.actions,
        has_step_cost=fit.design.has_step_cost,
        answers=int(fit.likelihood.estimate.counts.answers.any(axis=2).sum()),
        compared=int(compared.sum()),
        explained=int(explained.sum()),
        loss=judged.loss,
        chance=fit.loss(np.zeros_like(theta)),
        expected=judged.expected,
        deviation=float(np.sqrt(judged.variance)),
        error_rate=judged.error_rate,
        importance=fit.importance(theta),
        paid=fit.design.paid(theta),
        ends=_ends(fit.likelihood.estimate),
        horizon=fit.design.shape[0],
        preferences=len(fit.comparisons),
        explained_preferences=int(fit.comparisons.explained(theta).sum()),
    )


def _recovered(estimate: Estimate, design: DesignMatrix, explanation: Explanation, evaluations: int) -> Recovered:
    """The table of the parameters, moved and stretched to `[0, 1]`."""
    found = {f"theta.{design.name}": explanation.map_estimate}
    return recovered_from(estimate, design.table(explanation.theta), found, evaluations, explanation=explanation)


def reward_of_wish(estimate: Estimate, wish: Wish, rmax: float, fields: FieldTable | None = None) -> Recovered | None:
    """The reward of what the likeliest hypothesis pays for places, or for `fields`; None if it pays for more."""
    best = wish.best
    if best.actions or best.later or best.decay < 1 or not (best.places or best.features):
        return None
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    fit, theta = SparseFit(Likelihood(estimate), design, PENALTY), np.zeros(design.n_parameters)
    worth = np.zeros(estimate.mdp.n_states)
    worth[estimate.terminal_states] = best.other_ends
    for place, value in best.places:
        worth[place] = value
    for predicate, value in best.features:
        assert fields is not None
        worth += value * predicate.holds(fields)
    of_places = design.states >= 0
    theta[of_places] = worth[design.states[of_places]]
    if design.has_step_cost:
        theta[-1] = best.step_cost
    return _recovered(estimate, design, explanation_of(fit, theta), 1).in_units(rmax)


def _ends(estimate: Estimate) -> BoolArray:
    """`[S]`: the states in which episodes were seen to end."""
    ended = np.zeros(estimate.mdp.n_states)
    ended[estimate.terminal_states] = 1.0
    transitions = estimate.mdp.transitions
    acting = np.resize(np.repeat(ended == 0, estimate.mdp.n_actions), transitions.n_rows).astype(np.float64)
    return np.asarray((acting @ transitions.matrix > 0) & (ended > 0))


def _repeating(estimate: Estimate, likelihood: Likelihood) -> Recovered:
    """What the expert is known to do is worth everything, and to be done; all else nothing, and what is not known."""
    reward = np.where(estimate.expert_uses, 1.0, 0.0)
    reward[:, estimate.terminal_states] = 1.0
    compared, _ = likelihood.explained(reward)
    design = AnyReward().design_matrix(estimate.mdp, estimate.terminal_states)
    chance = likelihood.loss(np.zeros_like(reward))
    explanation = Explanation(
        space=AnyReward.name,
        theta=reward.ravel(),
        map_estimate=reward.ravel(),
        states=design.states,
        actions=design.actions,
        has_step_cost=False,
        answers=int(estimate.counts.answers.any(axis=2).sum()),
        compared=int(compared.sum()),
        explained=int(compared.sum()),
        loss=chance,
        chance=chance,
        expected=chance,
        deviation=0.0,
        error_rate=0.0,
        importance=np.zeros(reward.size),
        paid=reward.mean(axis=0),
        ends=_ends(estimate),
        horizon=len(reward),
        preferences=len(estimate.preferences),
    )
    return Recovered(reward, 0.0, infeasibility(estimate, reward, 0.0), explanation=explanation)

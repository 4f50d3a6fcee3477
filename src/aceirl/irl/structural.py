"""Structural estimation: the reward of a logit expert by maximum likelihood, with standard errors.

The expert of Rust (1987) has the reward `r(s, a) = k(s, a) + Σ_j θ_j·φ_j(s, a)`, a discount `γ` that is given, and
taste shocks of scale `σ`, drawn anew at every decision from the extreme-value distribution. Its choices are logit,

    π(a|s) = exp((Q(s, a) − V(s))/σ),   Q = r + γPV,   V = σ·log Σ_a exp(Q(·, a)/σ).

Divided by `σ`, everything is linear in `η = (θ/σ, 1/σ)`: a known part `k` of the reward is one more feature if the
scale is estimated, and an offset if it is given. So one problem is solved, with scale 1. Its derivatives are exact,
through the fixed point (implicit differentiation), and all use one factorisation of `I − γP_π`:

    (I − γP_π) ∂V = Σ_a π·φ,              ∂Q = φ + γP ∂V,          score(s, a) = ∂Q(s, a) − ∂V(s),
    (I − γP_π) ∂²V = Σ_a π·score·scoreᵀ,  ∂²Q = γP ∂²V,            Hessian(s, a) = ∂²Q(s, a) − ∂²V(s).

The likelihood is climbed by Newton's method, or by Fisher scoring where it is not concave. What is not identified is a
null direction of the information matrix: changes of `θ` after which every choice is as likely as before. A shift of the
reward's level and potentials `V − γPV` are such changes wherever the features can express them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from aceirl.data.tables import Panel
from aceirl.errors import InputError, shown
from aceirl.models.tabular.discounted import Discounted, DiscountedValues, Solver
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray, Transitions, frozen
from aceirl.models.tabular.panels import PanelDynamics

Errors = Literal["observed", "expected", "outer", "clustered"]
"""From the Hessian, from its mean, from the outer product of the scores, or robust to what individuals share."""

NULL = 1e-9
"""A direction is not identified if its information is below this share of the largest, features scaled alike."""
ENOUGH = 1e-10
"""The climb ends when the next step promises to raise the log-likelihood by less."""
MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class RecordedChoices:
    """Decisions counted: `individual`, `state`, `action` and `count`, flat arrays of one length.

    `individuals` is how many there are; errors that they share make clustered standard errors.
    """

    individual: IntArray
    state: IntArray
    action: IntArray
    count: FloatArray
    individuals: int

    @classmethod
    def of(cls, panel: Panel) -> RecordedChoices:
        """Those of a panel."""
        size = panel.n_states * panel.n_actions
        key = panel.individual * size + panel.state * panel.n_actions + panel.action
        keys, count = np.unique(key, return_counts=True)
        individual, rest = np.divmod(keys, size)
        state, action = np.divmod(rest, panel.n_actions)
        return cls(individual, state, action, count.astype(np.float64), len(panel.individuals))

    def table(self, shape: tuple[int, int], weights: FloatArray | None = None) -> FloatArray:
        """`[S, A]`: how often each action was taken; `weights [I]` are how often each individual counts."""
        found = np.zeros(shape)
        count = self.count if weights is None else self.count * weights[self.individual]
        np.add.at(found, (self.state, self.action), count)
        return found


@dataclass(frozen=True, eq=False)
class LogitPoint:
    """The logit expert at one parameter: `score [S, A, K]` is the gradient of the log-probability of each choice."""

    values: DiscountedValues
    score: FloatArray
    _problem: Discounted
    _solve: Solver

    def log_likelihood(self, counts: FloatArray) -> float:
        """Of choices counted in `counts [S, A]`."""
        taken = counts > 0
        return float((counts[taken] * (self.values.q - self.values.v[:, None])[taken]).sum())

    def gradient(self, counts: FloatArray) -> FloatArray:
        """`[K]`, of the log-likelihood of `counts [S, A]`."""
        return np.asarray(np.einsum("sa,sak->k", counts, self.score))

    def hessian(self, counts: FloatArray) -> FloatArray:
        """`[K, K]`, of the log-likelihood of `counts [S, A]`."""
        spread = np.einsum("sa,saj,sak->sjk", self.values.policy, self.score, self.score)
        k = spread.shape[1]
        bend = self._solve(spread.reshape(len(spread), -1))
        both = np.einsum("sa,sam->m", counts, self._problem.expected(bend)) - counts.sum(axis=1) @ bend
        return np.asarray(both).reshape(k, k)

    def information(self, counts: FloatArray) -> FloatArray:
        """`[K, K]`: the mean of the outer product of scores over choices, in the states of `counts [S, A]`."""
        weight = counts.sum(axis=1)[:, None] * self.values.policy
        return np.asarray(np.einsum("sa,saj,sak->jk", weight, self.score, self.score))


@dataclass(frozen=True, eq=False)
class StructuralModel:
    """Logit experts of a process, one for each parameter.

    `features [S, A, K]` with `names [K]`; `known [S, A]` is a part of the reward that is not estimated. With
    `scale=None` the scale is estimated, which only a known part makes possible. Actions are those with known dynamics,
    or those that are `available [S, A]`.
    """

    transitions: Transitions
    features: FloatArray
    names: tuple[str, ...]
    discount: float
    scale: float | None = 1.0
    known: FloatArray | None = None
    available: ArrayLike | None = None

    def __post_init__(self) -> None:
        n_states, n_actions = self.transitions.n_states, self.transitions.n_actions
        features = np.asarray(self.features, dtype=np.float64)
        if features.ndim != 3 or features.shape[:2] != (n_states, n_actions) or not features.shape[2]:
            raise InputError(f"features must have shape [{n_states}, {n_actions}, K], got {list(features.shape)}")
        if not np.isfinite(features).all():
            at = [int(i) for i in np.argwhere(~np.isfinite(features))[0]]
            raise InputError(f"features{at} is {features[tuple(at)]}, not a finite number")
        if len(self.names) != features.shape[2] or len(set(self.names)) < len(self.names):
            raise InputError(f"features needs {features.shape[2]} different names, got {shown(list(self.names))}")
        known = np.zeros((n_states, n_actions)) if self.known is None else np.asarray(self.known, dtype=np.float64)
        if known.shape != (n_states, n_actions) or not np.isfinite(known).all():
            raise InputError(f"known must be finite and have shape [{n_states}, {n_actions}], got {list(known.shape)}")
        if self.scale is None and not known.any():
            raise InputError(
                "the scale and the whole reward cannot both be estimated, only their ratio: give the part of the "
                "reward that is known, or a scale"
            )
        if self.scale is not None and not 0 < self.scale < np.inf:
            raise InputError(f"scale must be a finite number above 0, got {self.scale!r}")
        object.__setattr__(self, "features", frozen(features, np.float64))
        object.__setattr__(self, "known", frozen(known, np.float64))

    @cached_property
    def problem(self) -> Discounted:
        """The process with scale 1."""
        allowed = None if self.available is None else np.asarray(self.available, dtype=np.bool_)
        return Discounted(self.transitions, self.discount, 1.0, allowed)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Those of the features, and the scale if it is estimated."""
        return (*self.names, "scale") if self.scale is None else self.names

    @cached_property
    def design(self) -> FloatArray:
        """`[S, A, K]` of the linear problem with scale 1; the known part comes last if the scale is estimated."""
        assert self.known is not None
        return np.concatenate((self.features, self.known[:, :, None]), axis=2) if self.scale is None else self.features

    @cached_property
    def offset(self) -> FloatArray:
        """`[S, A]`: what is paid whatever the parameters, with scale 1."""
        assert self.known is not None
        return np.zeros_like(self.known) if self.scale is None else self.known / self.scale

    def with_transitions(self, transitions: Transitions) -> StructuralModel:
        """The same rewards in other dynamics."""
        return replace(self, transitions=transitions)

    def linear(self, parameters: ArrayLike) -> FloatArray:
        """`[K]`: the coefficients of the problem with scale 1."""
        theta = np.asarray(parameters, dtype=np.float64)
        if theta.shape != (len(self.parameter_names),):
            raise InputError(f"there are {len(self.parameter_names)} parameters, got shape {list(theta.shape)}")
        if self.scale is not None:
            return np.asarray(theta / self.scale)
        if not theta[-1] > 0:
            raise InputError(f"scale must be above 0, got {theta[-1]}")
        return np.asarray(np.append(theta[:-1], 1.0) / theta[-1])

    def parameters(self, linear: FloatArray) -> FloatArray:
        """`[K]`: the other way round."""
        if self.scale is not None:
            return np.asarray(linear * self.scale)
        return np.asarray(np.append(linear[:-1], 1.0) / linear[-1])

    def jacobian(self, linear: FloatArray) -> FloatArray:
        """`[K, K]`: the derivative of the parameters by the coefficients."""
        k = len(linear)
        if self.scale is not None:
            return np.asarray(np.eye(k) * self.scale)
        found: FloatArray = np.eye(k) / linear[-1]
        found[:-1, -1] = -linear[:-1] / linear[-1] ** 2
        found[-1, -1] = -1 / linear[-1] ** 2
        return found

    def at(self, linear: FloatArray, start: FloatArray | None = None) -> LogitPoint:
        """The expert with the coefficients `linear [K]`; the fixed point is looked for from the values `start [S]`."""
        values = self.problem.solve(self.offset + self.design @ linear, start)
        solve = self.problem.solver(values.policy)
        slope = solve(np.einsum("sa,sak->sk", values.policy, self.design))
        score = self.design + self.problem.expected(slope) - slope[:, None, :]
        score[~self.problem.allowed] = 0.0
        return LogitPoint(values, score, self.problem, solve)

    def policy(self, parameters: ArrayLike) -> FloatArray:
        """`[S, A]`: how the expert with these parameters chooses; zero in terminal states."""
        return self.at(self.linear(parameters)).values.policy

    def fit(
        self,
        choices: RecordedChoices,
        weights: FloatArray | None = None,
        start: ArrayLike | None = None,
    ) -> StructuralEstimate:
        """The parameters of the greatest likelihood; `weights [I]` are how often each individual counts."""
        counts = choices.table(self.problem.shape, weights)
        if (counts[~self.problem.allowed] > 0).any():
            s, a = (int(i) for i in np.argwhere((counts > 0) & ~self.problem.allowed)[0])
            raise InputError(f"action {a} was taken in state {s}, but it is not known what it leads to")
        first = self.scale is None and start is None
        linear = np.zeros(self.design.shape[2]) if start is None else self.linear(start)
        if first:
            linear[-1] = 1.0
        point = self.at(linear)
        value, steps, promised = point.log_likelihood(counts), 0, np.inf
        while steps < MOST_STEPS:
            gradient = point.gradient(counts)
            direction = _ascent(-point.hessian(counts), point.information(counts), gradient)
            promised = float(gradient @ direction) / 2
            if promised < ENOUGH * max(1.0, abs(value)):
                break
            steps += 1
            length, better = 1.0, None
            while length > 1e-10:
                tried = linear + length * direction
                if self.scale is not None or tried[-1] > 0:
                    better = self.at(tried, point.values.v)
                    if better.log_likelihood(counts) > value + 1e-4 * length * promised:
                        break
                length, better = length / 2, None
            if better is None:
                break
            linear, point, value = tried, better, better.log_likelihood(counts)
        return StructuralEstimate(self, choices, linear, point, counts, value, steps, promised)


def _ascent(curvature: FloatArray, information: FloatArray, gradient: FloatArray) -> FloatArray:
    """`[K]`: a Newton step where the likelihood is concave, else one of Fisher scoring; never in null directions."""
    size = _sizes(information)
    for matrix in (curvature, information):
        weights, directions = np.linalg.eigh(matrix / np.outer(size, size))
        kept = weights > NULL * weights.max()
        # The Hessian may be used where it bends the right way in all directions that are not null.
        if matrix is information or (weights[~kept] > -1e-6).all():
            inner = directions[:, kept] / weights[kept]
            return np.asarray(inner @ (directions[:, kept].T @ (gradient / size))) / size
    raise AssertionError


@dataclass(frozen=True, eq=False)
class StructuralEstimate:
    """The reward of greatest likelihood, and how well it is known.

    `linear [K]` are the coefficients with scale 1 and `point` the expert there; `counts [S, A]` are the choices.
    `promised` is what one more step would add to the log-likelihood: next to nothing when the climb has converged.
    """

    model: StructuralModel
    choices: RecordedChoices
    linear: FloatArray
    point: LogitPoint
    counts: FloatArray
    log_likelihood: float
    steps: int
    promised: float

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the parameters."""
        return self.model.parameter_names

    @cached_property
    def parameters(self) -> FloatArray:
        """`[K]`, the scale last if it is estimated."""
        return self.model.parameters(self.linear)

    @cached_property
    def policy(self) -> FloatArray:
        """`[S, A]`: how the estimated expert chooses."""
        return self.point.values.policy

    @property
    def decisions(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    @cached_property
    def converged(self) -> bool:
        """Whether the likelihood has a greatest value, and it was found.

        It has none where more and more extreme parameters explain the choices ever better, as when an action that a
        feature is about was never taken.
        """
        if not self.promised < 1e-6 * max(1.0, abs(self.log_likelihood)):
            return False
        further = self.model.at(2 * self.linear, self.point.values.v).log_likelihood(self.counts)
        return not (self.linear.any() and further > self.log_likelihood - 1e-4)

    @cached_property
    def null_directions(self) -> FloatArray:
        """`[M, K]`: unit changes of the parameters after which every recorded choice is as likely as before."""
        information = self.point.information(self.counts)
        size = _sizes(information)
        weights, directions = np.linalg.eigh(information / np.outer(size, size))
        null = (directions[:, weights <= NULL * max(weights.max(), 1e-300)] / size[:, None]).T
        moved = null @ self.model.jacobian(self.linear).T
        return moved / np.linalg.norm(moved, axis=1, keepdims=True) if len(moved) else moved

    @cached_property
    def identified(self) -> tuple[bool, ...]:
        """`[K]`: whether the choices tell each parameter."""
        return tuple(bool(np.abs(self.null_directions[:, k]).max(initial=0.0) < 1e-6) for k in range(len(self.names)))

    @cached_property
    def unbounded(self) -> tuple[bool, ...]:
        """`[K]`: whether the likelihood goes on rising as the parameter goes to infinity, others fixed.

        As where what a feature is about was never chosen: then it has a sign, and no estimate.
        """
        wide = np.abs(self.linear) < 2 * np.sqrt(np.maximum(np.diag(_inverse(self._curvature)), 0))
        found = []
        for k, candidate in enumerate(wide):
            further = self.linear + np.where(np.arange(len(wide)) == k, np.sign(self.linear) * 10.0, 0.0)
            usable = candidate and self.identified[k] and (self.model.scale is not None or k < len(wide) - 1)
            found.append(
                bool(usable)
                and self.model.at(further, self.point.values.v).log_likelihood(self.counts) > self.log_likelihood - 1e-3
            )
        return tuple(found)

    def covariance(self, errors: Errors = "observed") -> FloatArray:
        """`[K, K]` of the parameters; directions that are not identified are left out of it."""
        bread = _inverse(self.point.information(self.counts) if errors == "expected" else self._curvature)
        if errors in ("outer", "clustered"):
            scores = self.point.score[self.choices.state, self.choices.action]
            if errors == "outer":
                bread = _inverse(np.einsum("n,nj,nk->jk", self.choices.count, scores, scores))
            else:
                summed = np.zeros((self.choices.individuals, scores.shape[1]))
                np.add.at(summed, self.choices.individual, self.choices.count[:, None] * scores)
                groups = int((np.bincount(self.choices.individual) > 0).sum())
                if groups < 2:
                    raise InputError("clustered standard errors need at least two individuals; name their column")
                bread = bread @ (summed.T @ summed) @ bread * groups / (groups - 1)
        elif errors not in ("observed", "expected"):
            raise InputError(f"errors are observed, expected, outer or clustered, got {errors!r}")
        moved = self.model.jacobian(self.linear)
        return np.asarray(moved @ bread @ moved.T)

    def standard_errors(self, errors: Errors = "observed") -> FloatArray:
        """`[K]`; NaN for a parameter that is not identified or has no finite estimate."""
        variance = np.diag(self.covariance(errors))
        known = np.array(self.identified) & ~np.array(self.unbounded)
        return np.where(known, np.sqrt(np.maximum(variance, 0)), np.nan)

    def intervals(self, level: float = 0.9, errors: Errors = "observed") -> FloatArray:
        """`[K, 2]`: normal confidence intervals; all numbers where a parameter is not identified."""
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level!r}")
        reach = scipy.stats.norm.ppf((1 + level) / 2) * self.standard_errors(errors)
        reach = np.where(np.isnan(reach), np.inf, reach)
        return np.stack((self.parameters - reach, self.parameters + reach), axis=1)

    @cached_property
    def _curvature(self) -> FloatArray:
        return -self.point.hessian(self.counts)

    def bootstrap(
        self,
        draws: int = 200,
        seed: int = 0,
        *,
        panel: Panel | None = None,
        dynamics: PanelDynamics | None = None,
    ) -> FloatArray:
        """`[draws, K]`: the parameters of samples of the individuals, with replacement.

        With a `panel` and a kind of `dynamics` these are estimated again for every sample, so that what is not known of
        them counts too.
        """
        groups = self.choices.individuals
        if groups < 2:
            raise InputError("a bootstrap over individuals needs at least two of them; name their column")
        rng = np.random.default_rng(seed)
        found = np.empty((draws, len(self.names)))
        for k in range(draws):
            weights = rng.multinomial(groups, np.full(groups, 1 / groups)).astype(np.float64)
            model = self.model
            if panel is not None and dynamics is not None:
                model = model.with_transitions(dynamics.fit(panel, weights))
            found[k] = model.fit(self.choices, weights, self.parameters).parameters
        return found


def _sizes(information: FloatArray) -> FloatArray:
    """`[K]`: how much each parameter moves the choices; 1 where it is rounding, which must not be blown up."""
    size = np.sqrt(np.abs(np.diag(information)))
    return np.where(size > 1e-7 * size.max(initial=0.0), size, 1.0)


def _inverse(matrix: FloatArray) -> FloatArray:
    """`[K, K]`: the inverse on the directions that are identified, and zero on the others."""
    size = _sizes(matrix)
    weights, directions = np.linalg.eigh(matrix / np.outer(size, size))
    kept = weights > NULL * weights.max()
    inner = (directions[:, kept] / weights[kept]) @ directions[:, kept].T
    return np.asarray(inner / np.outer(size, size))


@dataclass(frozen=True)
class LikelihoodRatio:
    """A test of a smaller set of features against a larger one that contains it."""

    statistic: float
    degrees: int
    p_value: float


def likelihood_ratio(smaller: StructuralEstimate, larger: StructuralEstimate) -> LikelihoodRatio:
    """Whether the larger model explains the choices better; if not, twice the gain is chi-squared."""
    one, other = smaller.model, larger.model
    if smaller.counts.shape != larger.counts.shape or not np.array_equal(smaller.counts, larger.counts):
        raise InputError("a likelihood ratio compares models of the same choices")
    if one.discount != other.discount:
        raise InputError("models with different discounts are not nested: compare their likelihoods instead")
    acting = one.problem.allowed
    spans = [
        np.column_stack((model.design[acting], model.offset[acting])) if model.offset.any() else model.design[acting]
        for model in (one, other)
    ]
    ranks = [int(np.linalg.matrix_rank(span)) for span in (*spans, np.column_stack(spans))]
    if ranks[2] > ranks[1]:
        raise InputError("the features of the smaller model are not combinations of those of the larger one")
    degrees = (len(larger.names) - len(larger.null_directions)) - (len(smaller.names) - len(smaller.null_directions))
    if degrees < 1:
        raise InputError("the larger model has no more identified parameters than the smaller one")
    statistic = max(0.0, 2 * (larger.log_likelihood - smaller.log_likelihood))
    return LikelihoodRatio(statistic, degrees, float(scipy.stats.chi2.sf(statistic, degrees)))


REWARD, COPYING, HABIT, CHANCE = "the estimated reward", "frequency per state", "frequency per action", "chance"


def habits(counts: FloatArray, allowed: BoolArray, smoothing: float = 0.0) -> dict[str, FloatArray]:
    """Policies `[S, A]` that know no world, from choices `counts [S, A]` among the actions `allowed [S, A]`.

    Copying is a frequency for each state, with `smoothing` decisions added that follow the frequency per action.
    """

    def among(weights: FloatArray) -> FloatArray:
        kept = np.where(allowed, weights, 0.0)
        return np.asarray(kept / np.maximum(kept.sum(axis=1, keepdims=True), 1e-300))

    overall = among(np.broadcast_to(counts.sum(axis=0) + smoothing / counts.shape[1], counts.shape))
    return {COPYING: among(counts + smoothing * overall), HABIT: overall, CHANCE: among(np.ones(counts.shape))}


def habit_log_likelihoods(estimate: StructuralEstimate) -> dict[str, float]:
    """In-sample log-likelihoods of habits: a frequency per state and action, a frequency per action, and chance."""
    counts = estimate.counts
    found = habits(counts, estimate.model.problem.allowed)
    return {name: float((counts[counts > 0] * np.log(policy[counts > 0])).sum()) for name, policy in found.items()}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """How well decisions of individuals who were left out are predicted.

    `bits [I]` by name: the sum of the log₂-probabilities of each individual's `decisions [I]`.
    """

    bits: Mapping[str, FloatArray]
    decisions: FloatArray

    @property
    def means(self) -> dict[str, float]:
        """Bits per decision, by name."""
        return {name: float(total.sum() / self.decisions.sum()) for name, total in self.bits.items()}

    def advantage(self, name: str, over: str) -> tuple[float, float]:
        """`(bits per decision, standard error)` of the one over the other; individuals are independent."""
        gain = self.bits[name] - self.bits[over]
        mean = gain.sum() / self.decisions.sum()
        groups = int((self.decisions > 0).sum())
        spread = ((gain - mean * self.decisions) ** 2).sum() * groups / max(1, groups - 1)
        return float(mean), float(np.sqrt(spread) / self.decisions.sum())


def held_out(estimate: StructuralEstimate, folds: int = 5, seed: int = 0, smoothing: float = 1.0) -> HeldOut:
    """Every individual predicted by what the individuals of the other folds tell.

    The frequency per state is plain copying: counts, with `smoothing` spread by the frequency per action.
    """
    choices, groups = estimate.choices, estimate.choices.individuals
    if groups < 2:
        raise InputError("leaving individuals out needs at least two of them; name their column")
    shape = estimate.counts.shape
    fold = np.random.default_rng(seed).permutation(groups) % min(folds, groups)
    bits = {name: np.zeros(groups) for name in (REWARD, COPYING, HABIT, CHANCE)}
    for k in range(min(folds, groups)):
        seen = choices.table(shape, (fold != k).astype(np.float64))
        model = estimate.model.fit(choices, (fold != k).astype(np.float64), estimate.parameters)
        left = fold[choices.individual] == k
        state, action = choices.state[left], choices.action[left]
        predicted = {REWARD: model.policy, **habits(seen, estimate.model.problem.allowed, smoothing)}
        for name, policy in predicted.items():
            np.add.at(bits[name], choices.individual[left], choices.count[left] * np.log2(policy[state, action]))
    decisions = np.bincount(choices.individual, weights=choices.count, minlength=groups)
    return HeldOut(bits, np.asarray(decisions, dtype=np.float64))

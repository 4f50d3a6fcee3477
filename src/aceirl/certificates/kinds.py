"""What may be promised, and why. Statements and proofs: `docs/certificates.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aceirl.bounds import ErrorBound, dynamics_bound, plausible_policies
from aceirl.certificates.betting import Wealth, forecast, place
from aceirl.confidence import Radii
from aceirl.counts import Estimate
from aceirl.errors import InputError, unknown_name
from aceirl.irl import Recovered, action_values
from aceirl.irl.base import expert_uses
from aceirl.kernels import compiled, greedy_actions, occupancy, optimal_values
from aceirl.mdp import MDP, FloatArray, IntArray
from aceirl.planner import solve_constrained

KINDS: dict[str, str] = {
    "policy": "the recovered policy does as well as the expert, in this environment",
    "criterion": "the paper's definition, literally: the same after every first action",
    "reward": "the recovered reward judges good policies as the reward behind the expert would",
    "set": "so does every reward that explains the expert",
    "dynamics": "whatever the reward, planning with the estimated dynamics is as good as with the true ones",
}
"""The kinds a run can stop on. One more, `transfer`, needs a target: see `transfer_certificate`."""

EVALUATIONS = 20
"""How long the worst good policy is searched for; what the search has then is a bound already."""

DETERMINISTIC = "the expert answers a question always the same way"
MARKOV = "what happens next depends on step, state and action only"
STATIONARY = "the dynamics are the same at every step"
STATIONARY_EXPERT = "the expert does not look at the step"
BOUNDED = "no step pays less than 0 or more than {rmax:g}"
FRESH = "every episode is a fresh start of the same environment"
STOCHASTIC = "the expert takes every action it uses with a probability of at least {floor:g}"
UNSETTLED = "the expert may use actions that it was never seen to take"


@dataclass(frozen=True)
class Certificate:
    """A promise about what was recovered: with probability `1 - delta`, `value` is not exceeded.

    `value` and `epsilon` are in units of reward summed over an episode. `place` is the `(h, s)` or `(h, s, a)` that
    contributes most to the value, and `weight` how much, as far as the estimated process can tell. `more_samples` is a
    guess at how many samples are still needed; None if there is nothing to guess from. `possible` is the most an
    episode can earn.
    """

    kind: str
    value: float
    epsilon: float
    delta: float
    radii: str | None
    assumptions: tuple[str, ...]
    promise: str
    place: tuple[int, ...] | None
    weight: float
    more_samples: int | None
    possible: float
    guaranteed: bool = True

    @property
    def holds(self) -> bool:
        """Whether the promise is as good as was asked."""
        return reached(self.value, self.epsilon)

    def in_words(self, state_names: Sequence[str] = ()) -> str:
        """What is promised, for whom, and what stands in the way; for someone who does not know the theory."""
        confidence = f"{100 * (1 - self.delta):g} %"
        if not self.guaranteed:
            state = f"Nothing is guaranteed with these radii; by their own count it is at most {amount(self.value)}."
        elif self.holds:
            scale = f"of the {self.possible:g} that an episode can pay"
            state = f"Certified with {confidence} confidence: {self.promise} {amount(self.value)} {scale}."
        else:
            state = f"Not certified yet: {self.promise} {amount(self.value)} so far ({amount(self.epsilon)} was asked)."
        parts = [state]
        if self.place is not None and self.weight > 0:
            step, here, *action = self.place
            name = state_names[here] if here < len(state_names) else f"state {here}"
            where = [f"step {step}", name, *(f"action {number}" for number in action)]
            parts.append(f"Most of what is left lies at {', '.join(where)} (about {self.weight:.2g}).")
        if not self.holds and self.more_samples is not None:
            parts.append(f"At the present rate it takes about {self.more_samples:,} more samples.")
        parts.append(f"This takes for granted that {'; '.join(self.assumptions)}.")
        return " ".join(parts)


def amount(value: float) -> str:
    """A number as people write it, to three digits or to whole thousands."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def reached(value: float, epsilon: float) -> bool:
    """Whether a certified value is the one asked for or below, up to the rounding of turning shares into rewards."""
    return value <= epsilon * (1 + 1e-12)


@dataclass(frozen=True)
class Terms:
    """What is asked: accuracy `epsilon`, in units of reward summed over an episode, with confidence `1 - delta`.

    `radii` names the family; `rmax` is the most a step can pay.
    """

    epsilon: float
    delta: float
    rmax: float
    radii: str

    def share(self, horizon: int) -> float:
        """The accuracy as a share of the most an episode can earn."""
        return self.epsilon / (horizon * self.rmax)


@dataclass(frozen=True, eq=False)
class Findings:
    """What a certificate is made of. `route [H, S]` is what the expert is known to do, None if it draws its actions."""

    estimate: Estimate
    radii: Radii
    bound: ErrorBound
    recovered: Recovered
    wealth: Wealth
    route: IntArray | None


def values(findings: Findings, terms: Terms) -> dict[str, float]:
    """The current value of every kind that a run can stop on; cheap enough to be known at every iteration."""
    return {
        "policy": policy_value(findings.wealth, findings.estimate.mdp.horizon, terms),
        "criterion": criterion_value(findings.wealth, findings.estimate.mdp.horizon, terms),
        "reward": reward_value(findings.estimate, findings.radii, findings.recovered, terms),
        "set": set_value(findings.estimate, findings.radii, findings.bound),
        "dynamics": dynamics_value(findings.estimate, findings.radii),
    }


def policy_value(wealth: Wealth, horizon: int, terms: Terms) -> float:
    """The certified regret of any policy that does what the expert is known to do."""
    return wealth.certified(0, terms.delta) * horizon * terms.rmax


def criterion_value(wealth: Wealth, horizon: int, terms: Terms) -> float:
    """The certified error of the paper's criterion: the worst over first actions, each with its share of `delta`."""
    shares = [wealth.certified(1 + a, terms.delta / wealth.n_actions) for a in range(wealth.n_actions)]
    return max(shares) * horizon * terms.rmax


def next_first_action(wealth: Wealth, iteration: int, horizon: int, terms: Terms) -> int:
    """The first action to try next for the paper's criterion: in turn, those that are not certified yet."""
    delta, target = terms.delta / wealth.n_actions, terms.share(horizon)
    open_actions = [a for a in range(wealth.n_actions) if wealth.certified(1 + a, delta) > target]
    return open_actions[iteration % len(open_actions)] if open_actions else iteration % wealth.n_actions


def set_value(estimate: Estimate, radii: Radii, bound: ErrorBound) -> float:
    """(EB1) without its clipping: for matched pairs it bounds the gap between every policy's two values.

    Differs from the paper, (SP1), which stops at four times (EB1); with its own radii so does this. The partner of a
    reward in `[0, Rmax]` may leave that range, so `(H-h)·Rmax` is no ceiling here; what partners lose in all steps to
    come is.
    """
    if not radii.guaranteed:
        return 4 * bound.value
    mdp = estimate.mdp
    if not mdp.initial.any():
        return float(radii.ceiling.sum())
    worst = optimal_values(mdp, radii.transition + radii.expert[:, :, None])[1]
    return min(float(mdp.initial @ worst[0]) + radii.start, float(radii.ceiling.sum()))


def dynamics_value(estimate: Estimate, radii: Radii) -> float:
    """What planning in the estimated process may lose, for any reward in `[0, Rmax]`; the rule of reward-free UCRL.

    The plan's value and the best one are each estimated up to (EB1) of the dynamics.
    """
    return min(2 * dynamics_bound(estimate.mdp, radii).value, float(radii.ceiling[0]))


def reward_value(estimate: Estimate, radii: Radii, recovered: Recovered, terms: Terms) -> float:
    """(EB2) for the recovered reward and its partner, over the policies it calls at most `epsilon` below the best.

    The partner need not lie in `[0, Rmax]`, so its errors are followed through the true process: what that may do
    beyond the estimate is added to the radius. The worst good policy is searched for only if the best one promises
    anything.
    """
    mdp = estimate.mdp
    cost, worst = np.empty(mdp.shape), np.zeros((mdp.horizon + 1, mdp.n_states))
    rows = mdp.indptr, mdp.successors, mdp.probabilities, mdp.stride
    q = action_values(estimate, recovered.reward, recovered.neutral)
    # The partner prefers none of the actions the expert uses; a reward that does is that far from it there.
    preferred = np.where(expert_uses(estimate), q.max(axis=2, keepdims=True) - q, 0.0)
    radius = radii.transition + radii.expert[:, :, None] + preferred
    ceiling = np.cumsum(radii.ceiling[::-1])[::-1]
    spread, unseen = np.ascontiguousarray(radii.spread), np.ascontiguousarray(radii.unseen)
    all_met = estimate.possible_states <= mdp.n_states
    _follow_truth(*rows, radius, spread, unseen, ceiling, all_met, cost, worst)
    value = float(mdp.initial @ worst[0])
    best = q.argmax(axis=2)
    promising = (occupancy(mdp, np.eye(mdp.n_actions)[best]) * cost).sum() < radii.ceiling[0]
    policies = plausible_policies(estimate, recovered.reward, recovered.neutral, terms.epsilon / 10)
    if promising and policies is not None:
        answer = solve_constrained(mdp, cost, policies.reward, policies.floor, max_evaluations=EVALUATIONS)
        value = min(value, answer.bound)
    # A start that is off by `start/(H·Rmax)` meets what the estimate loses, at most H·Rmax, and how far off that is.
    start = radii.start * (1 + ceiling[0] / radii.ceiling[0])
    total = value + start if mdp.initial.any() else np.inf
    return (1 if radii.guaranteed else 4) * min(total, float(ceiling[0]))


@compiled
def _follow_truth(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    radius: FloatArray,
    spread: FloatArray,
    unseen: FloatArray,
    ceiling: FloatArray,
    all_met: bool,
    cost: FloatArray,
    worst: FloatArray,
) -> None:
    """`worst[h] = max_a cost[h] + P̂·worst[h+1]` where `cost` is the radius and what the true row may add to `P̂`.

    The true row may move `spread` of its mass among the successors seen, and `unseen` anywhere: to the worst state, or,
    unless all states were met, to one of which nothing is known. Advantages are at most
    `(H-h)·Rmax` at every step to come, which add up to the `ceiling [H]`.
    """
    horizon, n_states, n_actions = radius.shape
    for h in range(horizon - 1, -1, -1):
        later = worst[h + 1]
        anywhere = later.max() if all_met or h == horizon - 1 else ceiling[h + 1]
        for s in range(n_states):
            worst[h, s] = 0.0
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                total, highest = 0.0, 0.0
                for k in range(indptr[row], indptr[row + 1]):
                    total += probabilities[k] * later[successors[k]]
                    highest = max(highest, later[successors[k]])
                added = radius[h, s, a] + spread[h, s, a] * highest + unseen[h, s, a] * anywhere
                cost[h, s, a] = min(added, ceiling[h])
                worst[h, s] = max(worst[h, s], min(added + total, ceiling[h]))


def transfer_certificate(
    estimate: Estimate, radii: Radii, recovered: Recovered, target: MDP, terms: Terms
) -> Certificate:
    """What planning with the recovered reward may lose in a target process that is known.

    The recovered reward differs from its partner by `(P̂ - P)·V̂` and, where the expert is unknown or the reward prefers
    one of its actions to another, by at most its own advantage; both are added up along the target's dynamics, for the
    best policy there and for the planned one.
    """
    if target.shape != estimate.mdp.shape:
        raise InputError(f"the target has shape {list(target.shape)}, but the reward has {list(estimate.mdp.shape)}")
    target.require_complete()
    dynamics, advantage = _reward_error(estimate, radii, recovered)
    unknown = ~estimate.expert_known[:, :, None]
    against = dynamics + np.where(unknown | expert_uses(estimate), advantage, 0.0)
    best = float(target.initial @ optimal_values(target, against)[1][0])
    planned = transfer_policy(recovered, target)
    own = occupancy(target, np.eye(target.n_actions)[planned])
    worst = greedy_actions(optimal_values(target, against)[0], np.random.default_rng(0))
    share = occupancy(target, np.eye(target.n_actions)[worst]) * against + own * dynamics
    return Certificate(
        kind="transfer",
        value=best + float((own * dynamics).sum()),
        epsilon=terms.epsilon,
        delta=terms.delta,
        radii=terms.radii,
        assumptions=(*_taken_for_granted(estimate, terms.rmax), "the target's dynamics are as given"),
        promise="planning with the recovered reward in the target environment loses, under its partner, at most",
        place=_place(share),
        weight=float(share.max()),
        more_samples=None,
        possible=target.horizon * terms.rmax,
        guaranteed=radii.guaranteed,
    )


def transfer_policy(recovered: Recovered, target: MDP) -> IntArray:
    """`[H, S]`: the policy that the recovered reward plans in a target; of equally good actions the first."""
    actions: IntArray = optimal_values(target, recovered.reward)[0].argmax(axis=2)
    return actions


def _reward_error(estimate: Estimate, radii: Radii, recovered: Recovered) -> tuple[FloatArray, FloatArray]:
    """`[H, S, A]` each: how far dynamics may move the recovered reward from its partner, and its own advantages."""
    q = action_values(estimate, recovered.reward, recovered.neutral)
    v = q.max(axis=2)
    later = np.vstack((v[1:], np.zeros((1, v.shape[1]))))
    high, low = later.max(axis=1), later.min(axis=1)
    guess = recovered.neutral * np.arange(len(v) - 1, -1, -1.0)
    of_unknown = np.maximum(high - guess, guess - low)
    known = estimate.mdp.known
    dynamics = np.where(known, radii.spread * (high - low)[:, None, None], of_unknown[:, None, None])
    return dynamics, v[:, :, None] - q


def certificate(kind: str, findings: Findings, terms: Terms) -> Certificate:
    """The certificate of a kind, with all that is to be said about it."""
    if kind not in KINDS:
        raise unknown_name("certificate", kind, KINDS)
    if kind in ("policy", "criterion"):
        return _of_bets(kind, findings, terms)
    return _of_radii(kind, findings, terms)


def _of_bets(kind: str, findings: Findings, terms: Terms) -> Certificate:
    wealth, horizon = findings.wealth, findings.estimate.mdp.horizon
    loss, more = np.zeros((horizon, 1)), None
    if findings.route is not None:
        firsts = [None] if kind == "policy" else list(range(wealth.n_actions))
        bets = [_bet_on(first, findings, terms, terms.delta / len(firsts)) for first in firsts]
        loss = max(bets, key=lambda bet: bet.certified).loss
        episodes = [bet.episodes for bet in bets]
        more = None if None in episodes else sum(n for n in episodes if n is not None) * horizon
    value = policy_value if kind == "policy" else criterion_value
    return Certificate(
        kind=kind,
        value=value(wealth, horizon, terms),
        epsilon=terms.epsilon,
        delta=terms.delta,
        radii=None,
        assumptions=(BOUNDED.format(rmax=terms.rmax), FRESH, DETERMINISTIC, *_of_expert(findings.estimate)),
        promise=PROMISES[kind],
        place=_place(loss) if loss.any() else None,
        weight=float(loss.max()),
        more_samples=more,
        possible=horizon * terms.rmax,
    )


@dataclass(frozen=True, eq=False)
class _Bet:
    """How a bet stands: the share certified, where the rest is lost `[H, S]`, and how many episodes it still needs."""

    certified: float
    loss: FloatArray
    episodes: int | None


def _bet_on(first: int | None, findings: Findings, terms: Terms, delta: float) -> _Bet:
    """The bet on the expert's route, or on the one that begins with a first action."""
    assert findings.route is not None
    horizon, target = findings.estimate.mdp.horizon, terms.share(findings.estimate.mdp.horizon)
    route, bettor = findings.route, 0
    if first is not None:
        route, bettor = np.vstack((np.full_like(route[:1], first), route[1:])), 1 + first
    expected = forecast(findings.estimate, route)
    missing, growth = findings.wealth.missing(bettor, target, delta), place(expected, target).growth
    return _Bet(
        certified=findings.wealth.certified(bettor, delta),
        loss=expected.exits * expected.losses[:-1, None] * horizon * terms.rmax,
        episodes=0 if missing <= 0 else int(np.ceil(missing / growth)) if growth > 0 else None,
    )


def _of_radii(kind: str, findings: Findings, terms: Terms) -> Certificate:
    estimate, radii, bound = findings.estimate, findings.radii, findings.bound
    value = set_value(estimate, radii, bound)
    if kind == "reward":
        value = reward_value(estimate, radii, findings.recovered, terms)
    if kind == "dynamics":
        value, bound = dynamics_value(estimate, radii), dynamics_bound(estimate.mdp, radii)
        radii = replace(radii, expert=np.zeros_like(radii.expert))
    worst = greedy_actions(bound.error, np.random.default_rng(0))
    share = occupancy(estimate.mdp, np.eye(estimate.mdp.n_actions)[worst]) * radii.total
    # The radii fall with the square root of the samples; a bound that is still trivial says nothing of the way to go.
    further = max(0.0, (value / terms.epsilon) ** 2 - 1)
    trivial = value >= estimate.mdp.horizon * terms.rmax
    return Certificate(
        kind=kind,
        value=value,
        epsilon=terms.epsilon,
        delta=terms.delta,
        radii=terms.radii,
        assumptions=_taken_for_granted(estimate, terms.rmax, expert=kind != "dynamics"),
        promise=PROMISES[kind],
        place=_place(share) if share.any() else None,
        weight=float(share.max()),
        more_samples=None if trivial else int(estimate.counts.samples * further),
        possible=estimate.mdp.horizon * terms.rmax,
        guaranteed=radii.guaranteed,
    )


PROMISES = {
    "policy": "acting greedily on the recovered reward loses, against the expert in this environment, at most",
    "criterion": "after any first action, acting on the best recovered reward loses, against the expert, at most",
    "reward": "the recovered reward and its true partner disagree about the value of a good policy by at most",
    "set": "each reward that explains the expert and its recovered partner disagree about any policy by at most",
    "dynamics": "planning with the estimated dynamics loses, for any reward whatever, at most",
}


def _taken_for_granted(estimate: Estimate, rmax: float, *, expert: bool = True) -> tuple[str, ...]:
    """All that is assumed; nothing about the `expert` where its answers do not matter."""
    dynamics = (STATIONARY,) if estimate.mdp.stationary else ()
    granted = (BOUNDED.format(rmax=rmax), MARKOV, *dynamics)
    if not expert:
        return granted
    floor = estimate.kind.least_probability
    answers = UNSETTLED if floor is None else STOCHASTIC.format(floor=floor)
    return (*granted, DETERMINISTIC if estimate.kind.deterministic else answers, *_of_expert(estimate))


def _of_expert(estimate: Estimate) -> tuple[str, ...]:
    return (STATIONARY_EXPERT,) if estimate.kind.stationary else ()


def _place(share: FloatArray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(share.argmax()), share.shape))

"""What a kind of certificate can do, and the promise that it makes. Statements and proofs: `docs/certificates.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.certificates.budget import ROWS
from aceirl.certificates.e_process import BatchOutcome, Wager
from aceirl.irl.belief import Belief, Memory, Plan, Target
from aceirl.models.tabular.bounds import ErrorBound
from aceirl.models.tabular.confidence import Radii
from aceirl.models.tabular.dynamic_programming import greedy_actions, occupancy
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.protocols import ConfidenceRadii, ExactPlanning

DETERMINISTIC = "the expert's answer depends on the state and the step only"
ASKED_EVERYWHERE = (
    "the expert would act as it answers; it was asked again wherever the policy followed an earlier answer"
)
MARKOV = "what happens next depends on step, state and action only"
STATIONARY = "the dynamics are the same at every step"
STATIONARY_EXPERT = "the expert does not look at the step"
DECLARED = (
    "where the expert gave one answer for many situations, it would do the same in each; one in ten was asked about"
)
BOUNDED = "rewards of two steps differ by at most {rmax:g}; nothing is paid after the end of an episode"
BY_STATE = "a reward depends on the state alone, not on the action"
BOUNDED_RETURN = "returns of two episodes differ by at most {max_return:g}"
DISCOUNTED = "a reward is worth {discount:g} as much a step later"
FRESH = (
    "every episode is a fresh start of the same environment and of the same expert, and those of a batch are "
    "independent"
)
STOCHASTIC = "the expert takes every action it uses with a probability of at least {floor:g}"
UNSETTLED = "the expert may use actions that it was never seen to take"


@dataclass(frozen=True)
class Certificate:
    """A promise about what was recovered: with probability `1 - delta`, `value` is not exceeded.

    `value` and `epsilon` are in units of reward summed over an episode. `entry` is the `(h, s)` or `(h, s, a)` that
    contributes most to the value, and `weight` how much, as far as the estimated process can tell. `more_samples` is a
    guess at how many samples are still needed; None if there is nothing to guess from. `possible` is the most by which
    two episodes can differ. `refuted` says which of the assumptions was seen to be false, and how; then nothing is
    promised.
    """

    kind: str
    value: float
    epsilon: float
    delta: float
    radii: str | None
    assumptions: tuple[str, ...]
    promise: str
    entry: tuple[int, ...] | None
    weight: float
    more_samples: int | None
    possible: float
    guaranteed: bool = True
    refuted: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the promise is as good as was asked."""
        return self.refuted is None and Target(self.epsilon, self.delta, 1.0).reached(self.value)

    def in_words(self, state_names: Sequence[str] = (), action_names: Sequence[str] = ()) -> str:
        """What is promised, for whom, and what stands in the way; for someone who does not know the theory.

        `state_names [S]` and `action_names [A]` are what people call them.
        """
        confidence = f"{100 * (1 - self.delta):g} %"
        if self.refuted is not None:
            return f"Nothing is promised: {self.refuted}."
        if not self.guaranteed:
            state = f"These radii guarantee nothing; if they were valid, it would be at most {amount(self.value)}."
        elif self.holds:
            scale = f"where the best and the worst episode differ by at most {amount(self.possible)}"
            state = f"Certified with {confidence} confidence: {self.promise} {amount(self.value)}, {scale}."
        else:
            state = (
                f"Not certified yet: {self.promise} {amount(self.value)} so far ({amount(self.epsilon)} was asked for)."
            )
        parts = [state]
        if not self.holds and self.entry is not None and self.weight > 0:
            step, here, *action = self.entry
            name = state_names[here] if here < len(state_names) else f"state {here}"
            done = (action_names[number] if number < len(action_names) else f"action {number}" for number in action)
            where = ", ".join((f"step {step + 1}", name, *done))
            parts.append(f"The largest part of it, about {self.weight:.2g}, is due to {where}.")
        if not self.holds and self.more_samples is not None:
            parts.append(f"At the present rate it takes about {self.more_samples:,} more samples.")
        parts.append(f"This assumes that {'; '.join(self.assumptions)}.")
        return " ".join(parts)


def amount(value: float) -> str:
    """A number as people write it, to three digits or to whole thousands."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


class CertificateKind:
    """A kind of certificate: a value with a `name`, a line that says what it promises, and these verbs.

    Only `value` and `explain` must be written anew; the others do nothing unless a kind needs them. `memory` is what
    `update` returned last, empty at first; it is kept with the run and found again in `belief.evidence` by name.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    event: ClassVar[str] = ROWS
    """The event that its promise rests on, which has a share of `delta`: see `budget.py`."""
    in_returns: ClassVar[bool] = False
    """Whether it is about returns, which `max_return` bounds, and not about every step on its own."""
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning, ConfidenceRadii)
    """What the model must be able to do."""
    on_request: ClassVar[bool] = False
    """Whether it is worked out only where a run shall stop on it."""

    def check(self, expert: ExpertKind) -> None:
        """Raise an `InputError` if nothing can be certified of such an expert."""

    def steer(self, plan: Plan, belief: Belief) -> Plan:
        """Change a plan, if a run shall stop on this certificate, so that its episodes bear on it."""
        return plan

    def watch(self, belief: Belief, plan: Plan, reference: IntArray | None) -> Wager | None:
        """What is wagered on the next batch, from what is known before it.

        `reference [H, S]` are known expert actions, from which the batch's deviations will be counted; None if there
        are none, because the expert is stochastic.
        """
        return None

    def update(self, memory: Memory, wager: Wager, plan: Plan, seen: BatchOutcome, target: Target) -> Memory:
        """What a batch made of its wager."""
        return memory

    def value(self, belief: Belief) -> float:
        """What is certified now, in units of reward summed over an episode; cheap enough for every iteration."""
        raise NotImplementedError

    def explain(self, belief: Belief) -> Certificate:
        """The same with all that is to be said about it."""
        raise NotImplementedError


def family_name(belief: Belief) -> str:
    """The name of the radii."""
    family = belief.table.family
    return str(getattr(family, "__name__", type(family).__name__))


def radii_certificate(
    kind: str, promise: str, belief: Belief, value: float, bound: ErrorBound, radii: Radii, *, expert: bool = True
) -> Certificate:
    """The certificate of a kind that rests on radii; nothing is assumed of the `expert` where it does not matter."""
    estimate, target = belief.estimate, belief.target
    worst = greedy_actions(bound.error, np.random.default_rng(0))
    share = occupancy(estimate.mdp, np.eye(estimate.mdp.n_actions)[worst]) * radii.total
    # The radii fall with the square root of the samples; a bound that is still trivial says nothing of the way to go.
    further = max(0.0, (value / target.epsilon) ** 2 - 1)
    trivial = value >= target.steps(estimate.mdp.horizon) * target.rmax
    return Certificate(
        kind=kind,
        value=value,
        epsilon=target.epsilon,
        delta=target.delta,
        radii=family_name(belief),
        assumptions=taken_for_granted(estimate, target.rmax, expert=expert),
        promise=promise,
        entry=largest_entry(share) if share.any() else None,
        weight=float(share.max()),
        more_samples=None if trivial else int(estimate.counts.samples * further),
        possible=target.steps(estimate.mdp.horizon) * target.rmax,
        guaranteed=radii.guaranteed,
        refuted=refutation(estimate) if expert and estimate.counts.contradicted.any() else None,
    )


def refutation(estimate: Estimate) -> str:
    """How the expert was heard to answer one state differently."""
    repeats = estimate.counts.repeats
    states = int((repeats[:, 1] > 0).sum())
    return (
        f"asked again, the expert gave another answer {repeats[:, 1].sum():,} of {repeats.sum():,} times, in "
        f"{states:,} {'state' if states == 1 else 'states'}: it looks at more than the "
        "state, draws its actions at random, or errs"
    )


def same_to_expert(estimate: Estimate) -> BoolArray:
    """`[H, S, A]`: the actions that are all the same to the expert: those it uses, and any after the end."""
    same = estimate.expert_uses.copy()
    same[:, estimate.terminal_states] = True
    return same


def taken_for_granted(estimate: Estimate, rmax: float, *, expert: bool = True) -> tuple[str, ...]:
    """All that is assumed; nothing about the `expert` where its answers do not matter."""
    dynamics = (STATIONARY,) if estimate.mdp.stationary else ()
    granted = (BOUNDED.format(rmax=rmax), *discounted(estimate.discount), MARKOV, *dynamics)
    if not expert:
        return granted
    floor = estimate.kind.least_probability
    answers = UNSETTLED if floor is None else STOCHASTIC.format(floor=floor)
    return (*granted, DETERMINISTIC if estimate.kind.deterministic else answers, *of_expert(estimate.kind))


def discounted(discount: float) -> tuple[str, ...]:
    """That returns are discounted, where they are."""
    return (DISCOUNTED.format(discount=discount),) if discount < 1 else ()


def of_expert(kind: ExpertKind) -> tuple[str, ...]:
    """What is assumed of the expert's memory, and of what it declared."""
    stationary = (STATIONARY_EXPERT,) if kind.stationary and not kind.asked_everywhere else ()
    return (*stationary, DECLARED) if kind.declares else stationary


def largest_entry(share: FloatArray) -> tuple[int, ...]:
    """The index of the largest element."""
    return tuple(int(i) for i in np.unravel_index(int(share.argmax()), share.shape))

"""`policy`: the recovered policy does as well as the expert, in this environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.certificates.base import (
    ASKED_EVERYWHERE,
    BOUNDED,
    BOUNDED_RETURN,
    BY_STATE,
    DETERMINISTIC,
    FRESH,
    Certificate,
    CertificateKind,
    discounted,
    largest_entry,
    of_expert,
    refutation,
)
from aceirl.certificates.budget import delta_of
from aceirl.certificates.e_process import (
    DEVIATIONS,
    FADING,
    BatchOutcome,
    EProcess,
    Wager,
    habitual_wager,
    kelly_wager,
)
from aceirl.certificates.forecast import LOOK_AGAIN, chance_taken, doubts, forecast, possible_losses, unpromising
from aceirl.errors import InputError
from aceirl.irl.belief import Belief, Memory, Plan, Target
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray, IntArray

WAIT_FOR = "wait_for"
"""What is kept of `Wager.wait_for`."""

PROMISE = "the policy, which repeats the expert's answers, loses against the expert in this environment at most"


@dataclass(frozen=True)
class PolicyCertificate(CertificateKind):
    """The regret of any policy that does what the expert is known to do, by an e-process over episodes."""

    name: ClassVar = "policy"
    event: ClassVar = "policy"
    summary: ClassVar = "the recovered policy does as well as the expert, in this environment"
    in_returns: ClassVar = True
    needs: ClassVar = ()

    def check(self, expert: ExpertKind) -> None:
        """Only a deterministic expert has known actions."""
        require_deterministic("policy", expert)

    def watch(self, belief: Belief, plan: Plan, reference: IntArray | None) -> Wager | None:
        """A wager on episodes that may follow the expert from the first step on."""
        if plan.allocation is not None or plan.first_action is not None:
            return None
        target, horizon = belief.target, belief.steps
        if belief.tables is None:
            return habitual_wager(belief.evidence.get(self.name, {}), target.losses(horizon), target.share(horizon))
        if reference is None:
            return None
        samples, waiting = belief.estimate.counts.samples, belief.evidence.get(self.name, {}).get(WAIT_FOR)
        if waiting is not None and samples < waiting:
            return Wager(0.0, wait_for=float(waiting))
        taken, doubt, share = chance_taken(plan, reference), doubts(belief), target.share(horizon)
        expected = forecast(belief.estimate, reference, target, taken, doubt)
        if plan.always_follows and unpromising(expected, share):  # whoever does not follow loses more
            return Wager(0.0, wait_for=LOOK_AGAIN * samples)
        return kelly_wager(expected.law, expected.losses, share)

    def update(self, memory: Memory, wager: Wager, plan: Plan, seen: BatchOutcome, target: Target) -> Memory:
        """The e-process after the batch."""
        after = EProcess.of(memory, target.share(len(seen.first_deviations) - 1)).after(wager, seen)
        kept = {}
        if wager.wait_for:
            kept[WAIT_FOR] = np.asarray(wager.wait_for)
        if seen.habits:
            kept[DEVIATIONS] = np.asarray(
                FADING * memory.get(DEVIATIONS, 0.0) + seen.first_deviations, dtype=np.float64
            )
        return {**after.evidence(), **kept, **seen.frozen_imputation(memory, wager)}

    def value(self, belief: Belief) -> float:
        """The certified regret of any policy that does what the expert is known to do."""
        horizon, target = belief.steps, belief.target
        share = self._process(belief).certified(delta_of(belief, self.event))
        if belief.tables is None:
            return share * target.possible(horizon)
        if belief.known_actions is not None:
            certain = float(possible_losses(target, belief.estimate, belief.known_actions)[0])
            share = min(share, certain) if certain <= target.share(horizon) * (1 + 1e-9) else share
        return (1.0 if refuted(belief.estimate) else share) * target.possible(horizon)

    def explain(self, belief: Belief) -> Certificate:
        """Where episodes are still expected to leave what is known, and how many more are needed."""
        loss, episodes = np.zeros((belief.steps, 1)), None
        if belief.tables is not None and belief.imputed_actions is not None:
            delta = delta_of(belief, self.event)
            loss, episodes = outlook(self._process(belief), belief, belief.imputed_actions, doubts(belief), delta)
        more = None if episodes is None else int(np.ceil(episodes * steps_of_episode(belief)))
        return episodes_certificate("policy", PROMISE, belief, self.value(belief), loss, more)

    def _process(self, belief: Belief) -> EProcess:
        return EProcess.of(belief.evidence.get(self.name, {}), belief.target.share(belief.steps))


def require_deterministic(kind: str, expert: ExpertKind) -> None:
    """The error for a stochastic expert, of whom these certificates say nothing."""
    if not expert.deterministic:
        raise InputError(
            f"certify is {kind!r}, which needs an expert who always gives the same answer; for this one choose reward, "
            "set, dynamics or none"
        )


def refuted(estimate: Estimate) -> bool:
    """Whether an expert who is taken to answer a state always alike was heard to answer one differently.

    Of an expert who is asked everywhere nothing is taken for granted: what it says otherwise counts where it says so.
    """
    counts = estimate.counts
    return not estimate.kind.asked_everywhere and counts.repeated > 0 and bool(counts.contradicted.any())


def steps_of_episode(belief: Belief) -> float:
    """How long an episode has been on average; the horizon before there was any."""
    counts = belief.estimate.counts
    return counts.samples / counts.episodes if counts.episodes and counts.samples else float(belief.shape[0])


def outlook(
    process: EProcess, belief: Belief, reference: IntArray, doubt: FloatArray, delta: float
) -> tuple[FloatArray, int | None]:
    """`(loss [H, S], episodes)`: where the reference is expected to be left, and how many episodes it takes."""
    horizon, target = belief.shape[0], belief.target
    expected = forecast(belief.estimate, reference, target, doubt=doubt)
    missing = process.missing(target.share(horizon), delta)
    growth = kelly_wager(expected.law, expected.losses, target.share(horizon)).growth
    loss = expected.deviations * expected.losses[:-1, None] * target.possible(horizon)
    return loss, 0 if missing <= 0 else int(np.ceil(missing / growth)) if growth > 0 else None


def episodes_certificate(
    kind: str, promise: str, belief: Belief, value: float, loss: FloatArray, more_samples: int | None
) -> Certificate:
    """The certificate of a kind that rests on reference episodes; `loss [H, S]` is where they are still lost."""
    target, tables, kind_of_expert = belief.target, belief.tables, belief.kind
    answers = ASKED_EVERYWHERE if kind_of_expert.asked_everywhere else DETERMINISTIC
    bounded = [BOUNDED.format(rmax=target.rmax)]
    if target.max_return is not None:
        bounded.append(BOUNDED_RETURN.format(max_return=target.max_return))
    if target.by_state:
        bounded.append(BY_STATE)
    bounded += discounted(target.discount)
    return Certificate(
        kind=kind,
        value=value,
        epsilon=target.epsilon,
        delta=target.delta,
        radii=None,
        assumptions=(*bounded, FRESH, answers, *of_expert(kind_of_expert)),
        promise=promise,
        entry=largest_entry(loss) if loss.any() else None,
        weight=float(loss.max()),
        more_samples=more_samples,
        possible=target.possible(belief.steps),
        refuted=refutation(tables.estimate) if tables is not None and refuted(tables.estimate) else None,
    )

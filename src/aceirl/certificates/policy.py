"""`policy`: the recovered policy does as well as the expert, in this environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.belief import Belief, Memory, Plan, Target
from aceirl.certificates.base import (
    ASKED_EVERYWHERE,
    BOUNDED,
    BOUNDED_RETURN,
    BY_STATE,
    DETERMINISTIC,
    FRESH,
    Certificate,
    CertificateKind,
    largest_entry,
    of_expert,
    refutation,
)
from aceirl.certificates.e_process import (
    LOOK_AGAIN,
    EProcess,
    Wager,
    Watched,
    chance_taken,
    doubts,
    forecast,
    kelly_wager,
    kept_evidence,
    possible_losses,
    unpromising,
)
from aceirl.counts import Estimate, ExpertKind
from aceirl.errors import InputError
from aceirl.mdp import FloatArray, IntArray

WAIT_FOR = "wait_for"
"""What is kept of `Wager.wait_for`."""

PROMISE = "the policy, which repeats the expert's answers, loses against the expert in this environment at most"


@dataclass(frozen=True)
class Policy(CertificateKind):
    """The regret of any policy that does what the expert is known to do, by an e-process over episodes."""

    name: ClassVar = "policy"
    summary: ClassVar = "the recovered policy does as well as the expert, in this environment"
    in_returns: ClassVar = True

    def check(self, expert: ExpertKind) -> None:
        """Only a deterministic expert has known actions."""
        require_deterministic("policy", expert)

    def watch(self, belief: Belief, plan: Plan, watched: IntArray | None) -> Wager | None:
        """A wager on episodes that may follow the expert from the first step on."""
        if watched is None or plan.policy is None or plan.first_action is not None:
            return None
        samples, waiting = belief.estimate.counts.samples, belief.evidence.get(self.name, {}).get(WAIT_FOR)
        if waiting is not None and samples < waiting:
            return Wager(0.0, wait_for=float(waiting))
        taken, doubt, share = chance_taken(plan, watched), doubts(belief), belief.target.share(belief.shape[0])
        expected = forecast(belief.estimate, watched, belief.target, taken, doubt)
        if plan.always_follows and unpromising(expected, share):  # whoever does not follow loses more
            return Wager(0.0, wait_for=LOOK_AGAIN * samples)
        return kelly_wager(expected, share)

    def update(self, memory: Memory, wager: Wager, plan: Plan, seen: Watched, target: Target) -> Memory:
        """The e-process after the batch."""
        after = _process(memory, target, len(seen.first_deviations) - 1).after(wager, seen)
        waiting = {WAIT_FOR: np.asarray(wager.wait_for)} if wager.wait_for else {}
        return {"levels": after.levels, "now": after.now, "peak": after.peak, **waiting, **seen.standing(memory, wager)}

    def retarget(self, memory: Memory, share: float) -> Memory:
        """The e-processes, if one of their levels is as low."""
        return kept_evidence({name: array for name, array in memory.items() if name != WAIT_FOR}, share)

    def value(self, belief: Belief) -> float:
        """The certified regret of any policy that does what the expert is known to do."""
        horizon, target = belief.shape[0], belief.target
        share = _process(belief.evidence.get(self.name, {}), target, horizon).certified(target.delta)
        if belief.known_actions is not None:
            certain = float(possible_losses(target, belief.estimate, belief.known_actions)[0])
            share = min(share, certain) if certain <= target.share(horizon) * (1 + 1e-9) else share
        return (1.0 if refuted(belief.estimate) else share) * target.possible(horizon)

    def explain(self, belief: Belief) -> Certificate:
        """Where episodes are still expected to leave what is known, and how many more are needed."""
        horizon, target = belief.shape[0], belief.target
        process = _process(belief.evidence.get(self.name, {}), target, horizon)
        loss, episodes = np.zeros((horizon, 1)), None
        if belief.presumed_actions is not None:
            loss, episodes = outlook(process, belief, belief.presumed_actions, doubts(belief), target.delta)
        more = None if episodes is None else int(np.ceil(episodes * steps_of_episode(belief)))
        return watched_certificate("policy", PROMISE, belief, self.value(belief), loss, more)


def _process(memory: Memory, target: Target, horizon: int) -> EProcess:
    if not memory:
        return EProcess.started(target.share(horizon))
    return EProcess(*(memory[name] for name in ("levels", "now", "peak")))


def require_deterministic(kind: str, expert: ExpertKind) -> None:
    """The error for a stochastic expert, of whom these certificates say nothing."""
    if not expert.deterministic:
        raise InputError(
            f"certify is {kind!r}, which needs an expert who always answers alike; for this one choose reward, set, "
            "dynamics or none"
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
    process: EProcess, belief: Belief, watched: IntArray, doubt: FloatArray, delta: float
) -> tuple[FloatArray, int | None]:
    """`(loss [H, S], episodes)`: where the watched actions are expected to be left, and how many episodes it takes."""
    horizon, target = belief.shape[0], belief.target
    expected = forecast(belief.estimate, watched, target, doubt=doubt)
    missing = process.missing(target.share(horizon), delta)
    growth = kelly_wager(expected, target.share(horizon)).growth
    loss = expected.deviations * expected.losses[:-1, None] * target.possible(horizon)
    return loss, 0 if missing <= 0 else int(np.ceil(missing / growth)) if growth > 0 else None


def watched_certificate(
    kind: str, promise: str, belief: Belief, value: float, loss: FloatArray, more_samples: int | None
) -> Certificate:
    """The certificate of a kind that rests on watched episodes; `loss [H, S]` is where they are still lost."""
    target, estimate, horizon = belief.target, belief.estimate, belief.shape[0]
    answers = ASKED_EVERYWHERE if estimate.kind.asked_everywhere else DETERMINISTIC
    bounded = [BOUNDED.format(rmax=target.rmax)]
    if target.max_return is not None:
        bounded.append(BOUNDED_RETURN.format(max_return=target.max_return))
    if target.by_state:
        bounded.append(BY_STATE)
    return Certificate(
        kind=kind,
        value=value,
        epsilon=target.epsilon,
        delta=target.delta,
        radii=None,
        assumptions=(*bounded, FRESH, answers, *of_expert(estimate)),
        promise=promise,
        entry=largest_entry(loss) if loss.any() else None,
        weight=float(loss.max()),
        more_samples=more_samples,
        possible=target.possible(horizon),
        refuted=refutation(estimate) if refuted(estimate) else None,
    )

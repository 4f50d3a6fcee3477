"""`criterion`: the paper's definition, literally: the same after every first action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aceirl.certificates.base import Certificate, CertificateKind
from aceirl.certificates.budget import delta_of
from aceirl.certificates.e_process import BatchOutcome, EProcess, Wager, kelly_wager
from aceirl.certificates.forecast import chance_taken, doubts, forecast
from aceirl.certificates.policy import episodes_certificate, outlook, refuted, require_deterministic, steps_of_episode
from aceirl.irl.belief import Belief, Memory, Plan, Target
from aceirl.models.tabular.estimate import ExpertKind
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.protocols import ExactPlanning

PROMISE = (
    "after any first action, the policy that is best by the recovered reward in the estimated process loses, against "
    "the expert, at most"
)


@dataclass(frozen=True)
class Criterion(CertificateKind):
    """The policy certificate after each first action, with its share of `delta`; first actions are imposed in turn."""

    name: ClassVar = "criterion"
    event: ClassVar = "criterion"
    summary: ClassVar = "the paper's definition, literally: the recovered policy does as well after every first action"
    in_returns: ClassVar = True
    needs: ClassVar = (ExactPlanning,)

    def check(self, expert: ExpertKind) -> None:
        """Only a deterministic expert has known actions."""
        require_deterministic("criterion", expert)

    def steer(self, plan: Plan, belief: Belief) -> Plan:
        """Impose a first action: in turn, those that are not certified yet."""
        processes, target = _processes(belief), belief.target
        share = target.share(belief.shape[0])
        delta = _delta(belief)
        left = [action for action, process in enumerate(processes) if process.certified(delta) > share]
        choices = left or list(range(len(processes)))
        return replace(plan, first_action=choices[belief.iteration % len(choices)])

    def watch(self, belief: Belief, plan: Plan, reference: IntArray | None) -> Wager | None:
        """A wager on episodes that take the imposed action first and then may follow the expert."""
        if reference is None or plan.allocation is not None or plan.first_action is None:
            return None
        taken, doubt = chance_taken(plan, reference), _doubts(belief)
        expected = forecast(belief.estimate, reference, belief.target, taken, doubt)
        return kelly_wager(expected.law, expected.losses, belief.target.share(belief.shape[0]))

    def update(self, memory: Memory, wager: Wager, plan: Plan, seen: BatchOutcome, target: Target) -> Memory:
        """The e-process of the imposed action after the batch."""
        name, share = f"{plan.first_action}.", target.share(len(seen.first_deviations) - 1)
        process = EProcess.of(memory, share, name).after(wager, seen)
        return {**memory, **process.evidence(name), **seen.frozen_imputation(memory, wager)}

    def value(self, belief: Belief) -> float:
        """The certified error of the paper's criterion: the worst over first actions."""
        target, delta = belief.target, _delta(belief)
        shares = [process.certified(delta) for process in _processes(belief)]
        return (1.0 if refuted(belief.estimate) else max(shares)) * target.possible(belief.shape[0])

    def explain(self, belief: Belief) -> Certificate:
        """Where episodes of the worst first action are still lost, and how many more are needed for all of them."""
        horizon = belief.shape[0]
        loss, more, reference = np.zeros((horizon, 1)), None, belief.imputed_actions
        if reference is not None:
            processes = _processes(belief)
            delta = _delta(belief)
            outlooks = [
                outlook(process, belief, with_first(reference, action), _doubts(belief), delta)
                for action, process in enumerate(processes)
            ]
            worst = max(range(len(processes)), key=lambda action: processes[action].certified(delta))
            loss = outlooks[worst][0]
            episodes = [count for _, count in outlooks]
            needed = sum(count for count in episodes if count is not None)
            more = None if None in episodes else int(np.ceil(needed * steps_of_episode(belief)))
        return episodes_certificate("criterion", PROMISE, belief, self.value(belief), loss, more)


def with_first(actions: IntArray, action: int) -> IntArray:
    """`[H, S]`: that action first, wherever it is, and the expert's from then on."""
    return np.concatenate((np.full_like(actions[:1], action), actions[1:]))


def _doubts(belief: Belief) -> FloatArray:
    """`[H, S]`: as for any expert, but there is no doubt about the first action, which is imposed."""
    doubt = doubts(belief).copy()
    doubt[0] = 0.0
    return doubt


def _processes(belief: Belief) -> list[EProcess]:
    memory, share = belief.evidence.get("criterion", {}), belief.target.share(belief.shape[0])
    return [EProcess.of(memory, share, f"{action}.") for action in range(belief.shape[2])]


def _delta(belief: Belief) -> float:
    """How often the e-process of each first action may be wrong."""
    return delta_of(belief, Criterion.event) / belief.shape[2]

"""`goal`: what the expert wants is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from aceirl.certificates.base import Certificate, CertificateKind, refutation, taken_for_granted
from aceirl.irl.belief import Belief, is_due
from aceirl.protocols import ExactPlanning

PROMISE = "what is said about the expert's goal is true"
HYPOTHESES = "the expert acts by one of the simple rewards that are compared, or by a habit"
MERGED = "fields that have made no difference so far make none"


@dataclass(frozen=True)
class GoalCertificate(Certificate):
    """What is said of the wish is false with a probability of at most `doubt`, by the hypotheses that are compared."""

    doubt: float = 1.0

    def in_words(self, state_names: Sequence[str] = (), action_names: Sequence[str] = ()) -> str:
        """Whether the wish is known, how surely, and what that assumes."""
        if self.refuted is not None:
            return f"Nothing is promised: {self.refuted}."
        if self.holds:
            state = f"What is said about the expert's goal is true with a probability of {1 - self.doubt:.1%}."
        else:
            state = "The expert's goal is not known yet."
            if self.more_samples is not None:
                state += f" At the present rate it takes about {self.more_samples:,} more samples."
        return f"{state} This assumes that {'; '.join(self.assumptions)}."


@dataclass(frozen=True)
class Goal(CertificateKind):
    """A bold sentence about the wish, by the probabilities of `aceirl.rewards.hypotheses`. Not in the paper.

    It is looked for whenever the iterations have grown by the share `growth`, because every look takes a while.
    """

    growth: float = 0.25

    name: ClassVar = "goal"
    summary: ClassVar = "what the expert wants is known; explore with the strategy `telling`"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning,)
    on_request: ClassVar = True

    def value(self, belief: Belief) -> float:
        """Zero if the wish is known, else the most by which two episodes can differ."""
        if not is_due(belief.iteration, self.growth):
            return self._possible(belief)
        return 0.0 if self._doubt(belief) <= belief.delta else self._possible(belief)

    def explain(self, belief: Belief) -> GoalCertificate:
        """With a forecast: the evidence against habits grows with the samples."""
        doubt, samples, missing = self._doubt(belief), belief.estimate.counts.samples, belief.promised_wish.missing
        known, merged = doubt <= belief.delta, (MERGED,) if belief.table.fewer is not None else ()
        return GoalCertificate(
            kind=self.name,
            value=0.0 if known else self._possible(belief),
            epsilon=belief.target.epsilon,
            delta=belief.delta,
            radii=None,
            assumptions=(*taken_for_granted(belief.estimate, belief.rmax), HYPOTHESES, *merged),
            promise=PROMISE,
            entry=None,
            weight=0.0,
            more_samples=None if known or missing is None else int(samples * missing),
            possible=self._possible(belief),
            refuted=refutation(belief.estimate) if belief.estimate.counts.contradicted.any() else None,
            doubt=doubt,
        )

    def _doubt(self, belief: Belief) -> float:
        """How probably what may be said is false; 1 if the wish is not known."""
        return 1 - belief.promised_wish.probability if belief.promised_wish.is_known else 1.0

    def _possible(self, belief: Belief) -> float:
        return belief.target.possible(belief.steps)

"""An expert given as a policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.mdp import FloatArray, check_policy
from aceirl.protocols import Question


class PolicyExpert:
    """Answers from a table: actions `[H, S]` or `[S]`, or probabilities `[H, S, A]`.

    Whether the expert is deterministic and stationary is read off the table unless `stationary` says otherwise: an
    expert whose answers happen not to depend on the step is stationary for the learner only if it is declared so.
    """

    def __init__(self, policy: ArrayLike, shape: tuple[int, int, int], *, stationary: bool = False) -> None:
        self.policy: FloatArray = check_policy(policy, shape, "expert policy")
        self.ask_again = 0.0
        self.deterministic = bool(np.isin(self.policy, (0.0, 1.0)).all())
        self.stationary = stationary
        if stationary and not (self.policy == self.policy[0]).all():
            step = int(np.argmax((self.policy != self.policy[0]).any(axis=(1, 2))))
            raise InputError(f"the expert was declared stationary, but its policy differs between steps 0 and {step}")

    def answer(self, question: Question) -> int:
        """The action the table gives, drawn if it gives several."""
        return int(question.rng.choice(self.policy.shape[2], p=self.policy[question.step, question.state]))

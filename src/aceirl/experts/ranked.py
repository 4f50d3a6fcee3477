"""An expert who puts all actions in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from aceirl.mdp import check_reward
from aceirl.protocols import Question


class RankedExpert:
    """Ranks the actions of a state by Plackett and Luce, with scores `[H, S, A]`; a Boltzmann expert has `β·Q`.

    The first of a ranking is drawn in proportion to `exp(score)`, the next in the same way from what is left. To the
    engine it answers the first action, as any other stochastic expert; the whole rankings `(step, state, actions in
    order)` are kept, in `rankings`, for a likelihood that knows what to make of them: see `irl.boltzmann.Choices`.
    """

    deterministic = False
    stationary = False
    ask_again = 0.0

    def __init__(self, scores: ArrayLike, shape: tuple[int, int, int]) -> None:
        self.scores = check_reward(scores, shape, "scores")
        self.rankings: list[tuple[int, ...]] = []

    def answer(self, question: Question) -> int:
        """The first action of a new ranking."""
        # The order of scores with Gumbel noise is a draw of Plackett and Luce's.
        noisy = self.scores[question.step, question.state] + question.rng.gumbel(size=self.scores.shape[2])
        order = np.argsort(-noisy, kind="stable").tolist()
        self.rankings.append((question.step, question.state, *order))
        return int(order[0])

"""Which of the expert's answers mattered: what it would cost not to have them."""

from __future__ import annotations

import numpy as np

from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.rewards.recovered import Recovered, action_values


def answer_importance(estimate: Estimate, recovered: Recovered, policy: IntArray) -> FloatArray:
    """`[S]`: each state's share of what the answers save whoever acts on `policy [H, S]`.

    The shares sum to one, and are all zero if every guess is as good as any answer.

    The answer for state `s` at step `h` saves what a guess there would cost: to take any action once, each as likely,
    instead of the best one, and to go on as well as one can. That is
    `P(s_h = s)·(max_a Q_h(s, a) - mean_a Q_h(s, a))` in the estimated process, under the recovered reward, summed over
    the steps at which the state has an answer that counts.
    """
    q = action_values(estimate, recovered.reward, recovered.unknown_step_reward)
    here = occupancy(estimate.mdp, np.eye(q.shape[2])[policy]).sum(axis=2)
    answered = estimate.kind.pooled(estimate.counts.answers).any(axis=2)
    saved = (here * (q.max(axis=2) - q.mean(axis=2)) * answered).sum(axis=0)
    total, rounding = float(saved.sum()), 1e-9 * float(np.abs(q).max())
    return np.asarray(saved / total if total > rounding else np.zeros_like(saved))

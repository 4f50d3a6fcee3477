"""How good a recovered policy is, measured against a truth the learner never sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aceirl.models.tabular.dynamic_programming import evaluate, follow, optimal_values, returns
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, check_policy, check_reward


class Truth:
    """The true process and reward; turns a policy into its regret."""

    def __init__(self, mdp: MDP, reward: FloatArray) -> None:
        self.mdp = mdp
        self.reward = check_reward(reward, mdp.shape)
        self.best = float(mdp.initial @ optimal_values(mdp, self.reward)[1][0])
        self.worst = -float(mdp.initial @ optimal_values(mdp, -self.reward)[1][0])
        self._last: tuple[FloatArray | IntArray, float] | None = None

    def value(self, policy: FloatArray | IntArray) -> float:
        """The expected return of a policy `[H, S, A]` or of actions `[H, S]`, -1 where each is as likely as any other.

        The same policy is not evaluated twice in a row.
        """
        last = self._last
        if last is None or last[0].dtype != policy.dtype or not np.array_equal(last[0], policy):
            last = self._last = policy.copy(), self._evaluated(policy)
        return last[1]

    def _evaluated(self, policy: FloatArray | IntArray) -> float:
        horizon, n_states, n_actions = self.mdp.shape
        given = policy.shape == (horizon, n_states) and policy.dtype == np.int64
        if given and policy.min() >= -1 and policy.max() < n_actions:
            values = follow(self.mdp, self.reward, np.asarray(policy, dtype=np.int64))
        else:
            values = evaluate(self.mdp, self.reward, check_policy(policy, self.mdp.shape))[1]
        return float(self.mdp.initial @ values[0])

    def regret(self, policy: FloatArray | IntArray) -> float:
        """Paper, §Experiments: `(V* - V^π)/(V* - V_worst)`, in [0, 1]; 0 where all policies are worth the same."""
        return self.regret_of(self.value(policy))

    def regret_of(self, value: float) -> float:
        """The same of a policy whose expected return is known."""
        return _share(self.best, self.worst, value)

    def visits(self, policy: FloatArray | IntArray) -> FloatArray:
        """`[H, S, A]`: where a policy goes in the true process."""
        return self.mdp.transitions.push(self.mdp.initial, check_policy(policy, self.mdp.shape))


def regret(mdp: MDP, reward: FloatArray, policy: FloatArray) -> float:
    """The regret of one `policy [H, S, A]` for `reward [H, S, A]`, in one sweep and without a table of all steps."""
    return _share(*returns(mdp, reward, policy))


def _share(best: float, worst: float, value: float) -> float:
    span = best - worst
    return 0.0 if span <= 0 else min(1.0, max(0.0, (best - value) / span))


@dataclass(frozen=True)
class Threshold:
    """The samples a run needed to get its regret below a threshold; if `censored`, those it spent in vain."""

    samples: int
    censored: bool


def samples_to_threshold(samples: Sequence[int], regrets: Sequence[float], threshold: float) -> Threshold:
    """When the regret is first below the threshold. A run that never gets there is censored at its last sample."""
    below = np.flatnonzero(np.asarray(regrets) < threshold)
    if len(below):
        return Threshold(int(samples[below[0]]), censored=False)
    return Threshold(int(samples[-1]) if len(samples) else 0, censored=True)

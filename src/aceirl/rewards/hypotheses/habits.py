"""Habits: how an expert would answer who knows no world and wants nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards.hypotheses.evidence import GivenAnswers

CREDITS = (0.05, 0.5)
"""What a habit credits an action with that it has not seen yet: it is firm, or it wavers."""

ANYTHING = "anything"
"""The habit of answering at random."""


def habits(answers: GivenAnswers) -> Mapping[str, float]:
    """The log-likelihood of the answers under each habit, each answer predicted from those before it.

    Any action at random; the commonest ones everywhere; those of the same state; those of the same step.
    """
    n_actions = answers.tried.shape[1]
    found = {ANYTHING: -float((answers.times * np.log(answers.options[answers.state])).sum())}
    groups = {
        "the same action everywhere": np.zeros_like(answers.state),
        "an action for each state": answers.state,
        "an action for each step": answers.step,
    }
    for name, group in groups.items():
        for credit in CREDITS:
            table = np.zeros((int(group.max(initial=0)) + 1, n_actions))
            told = _predicted(group, answers.state, answers.action, answers.times, answers.tried, credit, table)
            found[name] = max(found.get(name, -np.inf), float(told))
    return found


@compiled
def _predicted(
    group: IntArray,
    states: IntArray,
    actions: IntArray,
    times: IntArray,
    tried: BoolArray,
    credit: float,
    table: FloatArray,
) -> float:
    """The log-likelihood of answers, each predicted by those of its group before it, and those of all groups.

    An action that its group has not shown yet is as likely as it is among all, or among those tried, half each.
    """
    n_actions, total = table.shape[1], 0.0
    overall = np.zeros(n_actions)
    for i in range(states.size):
        for _ in range(times[i]):
            common, options = 0.0, 0
            for a in range(n_actions):
                if tried[states[i], a]:
                    common, options = common + overall[a] + 0.5, options + 1
            seen, weight = 0.0, credit * n_actions
            for a in range(n_actions):
                if tried[states[i], a]:
                    seen += table[group[i], a]
            mine = actions[i]
            prior = 0.5 * (overall[mine] + 0.5) / common + 0.5 / options
            total += np.log((table[group[i], mine] + weight * prior) / (seen + weight))
            table[group[i], mine] += 1.0
            overall[mine] += 1.0
    return total

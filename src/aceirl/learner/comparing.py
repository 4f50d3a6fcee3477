"""A run's reward beside what is simpler, on answers that none of them was shown.

The answers are divided into a few parts. Of each part, every method is shown all the others and the same transitions,
and then has to predict it. Only answers in states where several actions were tried count, and only those actions can be
predicted: the consequences of others are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.errors import InputError
from aceirl.irl import MaxCausalEntropy
from aceirl.irl.belief import recovered_by
from aceirl.learner.turns import Turn
from aceirl.models.tabular.dynamic_programming import soft_values
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray, steps_after
from aceirl.models.tabular.model import TabularModel
from aceirl.rewards import StateReward, action_values

PARTS = 5
"""Into how many parts the answers are divided."""

ERRORS = 0.05
"""How often a method that names actions is taken to be wrong: without that, one miss would outweigh all hits."""

TIES = 1e-9
"""Chances that differ by less than this share of the largest are equal."""

NEARLY = 0.03
"""Actions are equally good by a reward that differ by at most this share of the range of values at their step: in
estimated dynamics no two are exactly so."""


@dataclass(frozen=True)
class Score:
    """How a method predicts answers that it was not shown.

    `right` is the share of them for which its likeliest action was the expert's, a tie counted in parts; `nats` the
    mean log-probability that it gave them. `accepted` is the share of them that were among its likeliest actions, and
    `options` how many these were on average.
    """

    method: str
    right: float
    nats: float
    accepted: float
    options: float


@dataclass(frozen=True)
class Comparison:
    """The `scores` of all methods, the best first, on so many `answers`."""

    scores: tuple[Score, ...]
    answers: int

    def __str__(self) -> str:
        return self.in_words()

    def in_words(self) -> str:
        """A line for each method."""
        width = max(len(score.method) for score in self.scores)
        lines = [f"Predicting {self.answers:,} answers of the expert, each from the others:"]
        lines += [f"  {one.method:<{width}}  {one.right:4.0%} right, {one.nats:.2f} nats each" for one in self.scores]
        return "\n".join(lines)

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values."""
        return [vars(score) for score in self.scores]


def compared(turn: Turn, *, briefly: bool = False) -> Comparison:
    """The reward of a turn beside copying, a habit, maximum causal entropy and chance; if `briefly`, the first two."""
    methods = {name: METHODS[name] for name in (BRIEF if briefly else METHODS)}
    estimate = turn.belief.estimate
    known = np.asarray(estimate.mdp.known, dtype=np.bool_)
    told = np.argwhere(turn.counts.answers.any(axis=2) & (known.sum(axis=2) > 1))
    if len(told) < 2:
        raise InputError(
            f"{len(told)} of the expert's answers can be compared, and a comparison needs two: try more than one "
            "action in the states where it answers"
        )
    part = np.random.default_rng(turn.settings.seed).permutation(len(told)) % min(PARTS, len(told))
    predicted = {name: np.zeros((len(told), known.shape[2])) for name in methods}
    for fold in range(int(part.max()) + 1):
        hidden = np.zeros(known.shape[:2], dtype=np.bool_)
        hidden[tuple(told[part == fold].T)] = True
        shown = _without(turn, hidden)
        for name, method in methods.items():
            predicted[name][part == fold] = method(turn, shown)[tuple(told[part == fold].T)]
    times, options = turn.counts.answers[tuple(told.T)], known[tuple(told.T)]
    scores = [_score(name, weights, options, times) for name, weights in predicted.items()]
    return Comparison(tuple(sorted(scores, key=lambda one: -one.nats)), int(times.sum()))


def _score(method: str, weights: FloatArray, options: BoolArray, times: IntArray) -> Score:
    """Of `weights [n, A]` for the `options [n, A]`, by how many `times [n, A]` each action was the answer."""
    allowed = np.where(options, weights, 0.0)
    allowed = np.where(allowed.sum(axis=1, keepdims=True) > 0, allowed, options)
    probability = allowed / allowed.sum(axis=1, keepdims=True)
    probability = (1 - ERRORS) * probability + ERRORS * options / options.sum(axis=1, keepdims=True)
    best = probability >= probability.max(axis=1, keepdims=True) * (1 - TIES)
    given = times * options
    number = best.sum(axis=1, keepdims=True)
    each = (best / number, np.log(np.where(options, probability, 1.0)), best, np.broadcast_to(number, best.shape))
    return Score(method, *(float((given * one).sum() / given.sum()) for one in each))


def _without(turn: Turn, hidden: BoolArray) -> TabularModel:
    """The model of all transitions, and of all answers but those that are `hidden [H, S]`."""
    counts = turn.counts
    answers = np.where(hidden[:, :, None], 0, counts.answers)
    return turn.belief.table.with_counts(counts.with_answers(answers, counts.repeats))


def _reward(turn: Turn, shown: TabularModel) -> FloatArray:
    """The best actions by the reward that the run's own algorithm finds."""
    if turn.settings.irl is None:
        return np.zeros(shown.counts.shape)
    found = recovered_by(turn.settings.irl, shown, {}, turn.space)
    q = action_values(shown.estimate, found.reward, found.unknown_step_reward)
    known = shown.estimate.mdp.known
    high, low = np.where(known, q, -np.inf), np.where(known, q, np.inf)
    spread = high.max(axis=(1, 2), keepdims=True) - low.min(axis=(1, 2), keepdims=True)
    behind = high.max(axis=2, keepdims=True) - NEARLY * np.maximum(0.0, spread)  # where nothing is known: none
    return np.asarray(high >= behind - TIES * np.abs(q), dtype=np.float64)


def _entropy(turn: Turn, shown: TabularModel) -> FloatArray:
    """The soft policy of the reward of states, of maximum causal entropy."""
    space = StateReward()
    mdp, design = shown.estimate.mdp, space.design_matrix(shown.estimate.mdp, shown.estimate.terminal_states)
    found = MaxCausalEntropy(reproduce_answers=False)(shown.estimate, 1.0, {}, space)
    after = np.log(mdp.n_actions) * steps_after(mdp.horizon)
    return soft_values(mdp, design.table(found.parameters[f"theta.{space.name}"]), after)[0]


def _copying(turn: Turn, shown: TabularModel) -> FloatArray:
    """What the expert said in the same state at other steps; elsewhere copying knows nothing."""
    said = shown.counts.given.pooled.astype(np.float64)
    return np.broadcast_to(said, shown.counts.shape)


def _habit(turn: Turn, shown: TabularModel) -> FloatArray:
    """How often the expert takes an action anywhere, each once more than it did."""
    return np.broadcast_to(shown.counts.answers.sum(axis=(0, 1)) + 1.0, shown.counts.shape)


def _chance(turn: Turn, shown: TabularModel) -> FloatArray:
    return np.ones(shown.counts.shape)


METHODS: dict[str, Callable[[Turn, TabularModel], FloatArray]] = {
    "this reward": _reward,
    "maximum causal entropy": _entropy,
    "copying": _copying,
    "a habit": _habit,
    "chance": _chance,
}

BRIEF = ("this reward", "copying", "a habit")

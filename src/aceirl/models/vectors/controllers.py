"""Controllers that are linear in the numbers of an observation and in their sizes, and a search for good ones.

They are what plans are chosen from where a grid has too many coordinates. Where actions are numbered, a network that
copies the expert is a part of each, and the linear part is what it does otherwise. The search is the cross-entropy
method: draw controllers about the best so far, play each, go on about the best of them. It has to begin near something
that works: a copy of the expert, whose actions are *translated* first, as they may do something else in another world.
An action there stands for the action at home whose effect on the next observation is most alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from aceirl.data.arrays import FloatArray
from aceirl.models.vectors.committee import NetworkCommittee, Schedule, fitted
from aceirl.models.vectors.episodes import Episode, TriedActions
from aceirl.models.vectors.experience import Experience

RIDGE = 1e-3
"""The ridge of the weights of a copy."""

POPULATION, BEST, EACH, NEARBY, LEAST = 24, 6, 4, 0.3, 0.03
"""Controllers of one round of the search, how many of them the next one is about, and the episodes each plays; how far
the first are from where it begins and how far all are at least, in standard deviations of the first weights."""

TESTS = 8
"""The episodes by which the found controller and the first are compared."""

COPYING = Schedule(1500, 3e-3)
"""How the network of a copy is fitted."""

MISSED = 10.0
"""A step tells nothing of effects if it misses the first fit by so many times the median."""


@dataclass(frozen=True, eq=False)
class Controller:
    """`weights [m, 1 + 2d]` of one, the numbers of an observation in units of `scale [d]`, and their absolute values.

    Of a Discrete space the action with the largest score is taken; of a Box each number of the action is a score,
    between its bounds. To the scores of a Discrete space those of a `network` are added, if there is one. Weights of
    that `size` change what the controller does.
    """

    choices: TriedActions
    scale: FloatArray
    weights: FloatArray
    size: float
    network: NetworkCommittee | None = None

    @classmethod
    def copying(cls, choices: TriedActions, observations: FloatArray, actions: Any) -> Controller:
        """As near to `actions [n]` or `[n, m]` on `observations [n, d]` as such a controller comes.

        The scores of the network are made as large as those of the best linear controller, about which is searched.
        """
        spread, usual = observations.std(axis=0), np.abs(observations).mean(axis=0)
        scale = np.where(spread > 1e-6 * (1 + usual), spread, 1 + usual)  # what never changes is about one
        X, Y = _inputs(observations / scale), choices.parts(actions)
        if not choices.discrete:
            ridge = RIDGE * len(X) * np.eye(X.shape[1])
            linear = np.asarray(np.linalg.solve(X.T @ X + ridge, X.T @ Y).T, dtype=np.float64)
            return cls(choices, scale, linear, float(linear.std()) or 1.0)

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            likely = scipy.special.log_softmax(X @ flat.reshape(len(choices), -1).T, axis=1)
            slope = (np.exp(likely) - Y).T @ X / len(X)
            return float(RIDGE * flat @ flat - (likely * Y).sum() / len(X)), slope.ravel() + 2 * RIDGE * flat

        found = scipy.optimize.minimize(loss, np.zeros(len(choices) * X.shape[1]), jac=True, method="L-BFGS-B").x
        weights = found.reshape(len(choices), -1)
        weights -= weights.mean(axis=0)
        network = fitted(observations, Y.argmax(axis=1), len(choices), COPYING, seed=(0x434F,), members=1)
        louder = (X @ weights.T).std() / max(1e-9, float(network.logits(observations).std()))
        network = network.with_last_layer(lambda layer: layer * np.float32(louder))
        network = replace(network, scale=np.where(scale == spread, network.scale, np.inf))  # it may change elsewhere
        return cls(choices, scale, np.zeros_like(weights), float(weights.std()) or 1.0, network)

    def predict(self, observation: Any) -> Any:
        """The action, as the environment takes it."""
        seen = np.asarray(observation, dtype=np.float64)
        scores = self.weights @ _inputs((seen / self.scale)[None])[0]
        if self.network is not None:
            scores += self.network.logits(seen[None])[0, 0]
        return self.choices.action(int(scores.argmax())) if self.choices.discrete else self.choices.within(scores)

    def translated(self, home: Effects, away: Effects, choices: TriedActions) -> Controller:
        """The same controller for the actions of another world, by what they do there.

        Each action stands for one at home, no two for the same if there are as many; in a Box, for one or its opposite.
        """
        if choices.discrete != self.choices.discrete:
            return Controller(choices, self.scale, np.zeros((len(away.mean), self.weights.shape[1])), 1.0)
        width = np.abs(home.mean).max(axis=0) ** 2 + (home.error**2).max(axis=0) + (away.error**2).max(axis=0) + 1e-12
        signs = np.array([1.0] if choices.discrete else [1.0, -1.0])
        apart = ((away.mean[:, None, None] - signs[:, None] * home.mean[:, None]) ** 2 / width).sum(
            axis=3
        )  # [m, m', 2]
        sign, cost = signs[apart.argmin(axis=2)], apart.min(axis=2)
        rows = np.arange(len(cost))
        means = scipy.optimize.linear_sum_assignment(cost)[1] if cost.shape[0] == cost.shape[1] else cost.argmin(axis=1)
        network = None if self.network is None else self.network.with_last_layer(lambda layer: layer[..., means])
        return replace(self, choices=choices, weights=sign[rows, means, None] * self.weights[means], network=network)


def _inputs(standard: FloatArray) -> FloatArray:
    """`[n, 1 + 2d]`: one, the numbers and their absolute values."""
    return np.concatenate((np.ones((len(standard), 1)), standard, np.abs(standard)), axis=1)


@dataclass(frozen=True, eq=False)
class Effects:
    """What each action of a Discrete space, or each number of a Box, does to the next observation beside the others:
    `mean [m, d]` with the standard `error [m, d]`, in units of the observations."""

    mean: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, choices: TriedActions, episodes: Sequence[Episode], scale: FloatArray) -> Effects:
        """By a linear regression of the change of observations, in units of `scale [d]`; without the steps that fit
        badly, as those that hit something."""
        before = np.concatenate([episode.observations[:-1] for episode in episodes]) / scale
        change = np.concatenate([episode.arrivals for episode in episodes]) / scale - before
        acted = choices.parts(np.concatenate([episode.actions for episode in episodes]))
        X = np.concatenate(
            (before, acted if choices.discrete else np.column_stack((acted, np.ones(len(acted))))), axis=1
        )
        ridge = 1e-9 * len(X) * np.eye(X.shape[1])
        found = np.linalg.solve(X.T @ X + ridge, X.T @ change)
        miss = np.abs(change - X @ found).max(axis=1)
        kept = miss <= MISSED * np.median(miss) + 1e-12
        X, change = X[kept], change[kept]
        inverse = np.linalg.inv(X.T @ X + ridge)
        found = inverse @ X.T @ change
        variance = ((change - X @ found) ** 2).sum(axis=0) / max(len(X) - X.shape[1], 1)
        part, m = slice(before.shape[1], before.shape[1] + acted.shape[1]), acted.shape[1]
        beside = np.eye(m) - choices.discrete / m  # of a Discrete space, one action less the mean of all
        spread = np.diag(beside @ inverse[part, part] @ beside)
        return cls(beside @ found[part], np.sqrt(np.maximum(spread, 0.0)[:, None] * variance))


@dataclass(frozen=True, eq=False)
class Searched:
    """The controller that was found, what its test episodes were worth, and the last round: the episodes of each
    controller that was tried, all from the same seeds; the first are those of the found one."""

    controller: Controller
    value: float
    last: tuple[tuple[Episode, ...], ...]


def search(
    met: Experience,
    worth: Callable[[Episode], float],
    start: Controller,
    until: float,
    each: int = EACH,
) -> Searched:
    """Look for a controller whose episodes are worth much, about `start`, until so many steps were taken in all.

    Each plays `each` episodes, and what is found is compared with `start` by a few more; fewer if steps are few.
    """
    rng, size = met.rng, start.size
    works = start.network is not None or start.weights.any()
    mean, spread = start.weights, np.full(start.weights.shape, NEARBY * size if works else size)
    length = max(1.0, met.steps / max(1, len(met.episodes)))
    n_tests = int(np.clip((until - met.steps) / (BEST * length), 1, TESTS))
    seeds = [int(seed) for seed in rng.integers(2**31, size=n_tests)]

    def played(controller: Controller, seeds: Sequence[int]) -> tuple[tuple[Episode, ...], float]:
        episodes = tuple(met.play(controller.predict, seed) for seed in seeds)
        return episodes, float(np.mean([worth(one) for one in episodes]))

    episodes, first = played(start, seeds)
    length = max(length, float(np.mean([one.steps for one in episodes])))
    while True:
        left = (until - met.steps) / length - len(seeds) - each  # episodes
        n_episodes = int(np.clip(left / BEST, 1, each))
        number = int(np.clip(left / n_episodes, 3, POPULATION))
        drawn = mean + spread * rng.standard_normal((number, *mean.shape))
        drawn[0] = mean
        starts = [int(seed) for seed in rng.integers(2**31, size=n_episodes)]
        tried: list[tuple[tuple[Episode, ...], float]] = []
        while len(tried) < number and (len(tried) < 3 or until - met.steps > (len(seeds) + 2 * n_episodes) * length):
            tried.append(played(replace(start, weights=drawn[len(tried)]), starts))
        length = float(np.mean([one.steps for episodes, _ in tried for one in episodes]))
        best = drawn[np.argsort([value for _, value in tried], kind="stable")[-min(BEST, len(tried) // 2) :]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + LEAST * size
        if until - met.steps < (BEST * each + len(seeds)) * length:
            break
    found = replace(start, weights=mean)
    value = played(found, seeds)[1]
    if value < first:
        found, value = start, first
    return Searched(found, value, (played(found, starts)[0], *(episodes for episodes, _ in tried)))

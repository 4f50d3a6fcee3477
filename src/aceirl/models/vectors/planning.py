"""Plans in learned dynamics: value iteration on a grid of at most four coordinates, with multilinear interpolation.

Values between the nodes are weighted means of those at the corners of their cell, so every backup is a contraction and
the iteration converges. Half of the nodes of a coordinate lie evenly, half where the observations were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.data.arrays import BoolArray, FloatArray, IntArray
from aceirl.errors import InputError
from aceirl.models.tabular.kernels import compiled
from aceirl.models.vectors.dynamics import LearnedDynamics
from aceirl.models.vectors.episodes import BatchReward, Episode

FINE, COARSE, MOST_PER_COORDINATE = 84_000, 15_000, 101
"""The nodes of a grid, for a plan that is kept and for one that is not, and the most along one coordinate."""

MOST_COORDINATES = 4
"""A grid of more coordinates has too few nodes along each."""

EVALUATIONS, MOST_ROUNDS, TOLERANCE = 15, 80, 1e-3
"""Sweeps with the actions held between two choices of actions, how often these are made, and when it has converged: the
span of the last changes, as a share of the largest reward. What all values change by is no matter for the actions."""


@dataclass(frozen=True, eq=False)
class NodeGrid:
    """`axes`, the nodes of each coordinate; along a circle the last is followed by the first."""

    axes: tuple[FloatArray, ...]
    circles: BoolArray

    @classmethod
    def of(cls, dynamics: LearnedDynamics, seen: FloatArray, nodes: int) -> NodeGrid:
        """A grid of at most so many nodes for learned dynamics, where coordinates `[n, c]` were seen."""
        circles = dynamics.coordinates.circles
        if len(circles) > MOST_COORDINATES:
            raise InputError(
                f"observations have {len(circles)} coordinates ({', '.join(dynamics.coordinates.names)}); plans on a "
                f"grid take at most {MOST_COORDINATES}: leave out what does not matter with a wrapper"
            )
        each = min(MOST_PER_COORDINATE, int(nodes ** (1 / len(circles)) + 1e-9))
        axes = []
        for place, circle in enumerate(circles):
            if circle:
                axes.append(np.linspace(-np.pi, np.pi, each, endpoint=False))
                continue
            even = np.linspace(dynamics.low[place], dynamics.high[place], each)
            share = np.linspace(0, 1, each)
            there = np.quantile(seen[:, place], share)
            there[0], there[-1] = even[0], even[-1]
            axes.append((even + there) / 2)
        return cls(tuple(axes), circles)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of nodes of each coordinate."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def nodes(self) -> FloatArray:
        """`[N, c]`: the coordinates of all nodes, the last coordinate changing first."""
        return np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1).reshape(-1, len(self.axes))

    def locate(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """`[n, 2^c]`: the nodes at the corners of the cell around coordinates `[n, c]`, and their weights, which sum to
        one."""
        corners = np.zeros((len(values), 1), dtype=np.int64)
        weights = np.ones((len(values), 1))
        for place, axis in enumerate(self.axes):
            n = len(axis)
            if self.circles[place]:
                z = (values[:, place] - axis[0]) / (axis[1] - axis[0]) % n
                below = np.minimum(z.astype(np.int64), n - 1)
                share, above = z - below, (below + 1) % n
            else:
                inside = np.clip(values[:, place], axis[0], axis[-1])
                below = np.clip(np.searchsorted(axis, inside, side="right") - 1, 0, n - 2)
                share, above = (inside - axis[below]) / (axis[below + 1] - axis[below]), below + 1
            corners = np.concatenate((corners * n + below[:, None], corners * n + above[:, None]), axis=1)
            weights = np.concatenate((weights * (1 - share)[:, None], weights * share[:, None]), axis=1)
        return corners, weights


@compiled
def _evaluate(values: Any, rewards: Any, corners: Any, weights: Any, choice: Any) -> None:
    """One sweep in place: `values[s] = r + Σ w·values[corner]` for the chosen actions."""
    for s in range(len(values)):
        a = choice[s]
        total = rewards[a, s]
        for k in range(corners.shape[2]):
            total += weights[a, s, k] * values[corners[a, s, k]]
        values[s] = total


@compiled
def _improve(values: Any, rewards: Any, corners: Any, weights: Any, choice: Any) -> float:
    """One sweep in place over all actions, which are chosen anew; the largest change of a value less the smallest."""
    most, least = -np.inf, np.inf
    for s in range(len(values)):
        best, action = -np.inf, 0
        for a in range(len(rewards)):
            total = float(rewards[a, s])
            for k in range(corners.shape[2]):
                total += weights[a, s, k] * values[corners[a, s, k]]
            if total > best:
                best, action = total, a
        most, least = max(most, best - values[s]), min(least, best - values[s])
        values[s] = best
        choice[s] = action
    return most - least


@dataclass(frozen=True, eq=False)
class Prepared:
    """Dynamics laid out on a grid, for plans with several rewards: `arrivals [A, N, d]`, `over [A, N]`, and the
    `corners` and discounted `weights [A, N, 2^c]` of what they lead to."""

    dynamics: LearnedDynamics
    grid: NodeGrid
    gamma: float
    observations: FloatArray
    arrivals: FloatArray
    over: BoolArray
    corners: Any
    weights: Any

    @classmethod
    def of(cls, dynamics: LearnedDynamics, seen: FloatArray, gamma: float, nodes: int = FINE) -> Prepared:
        """On a grid of at most so many nodes, where coordinates `[n, c]` were seen."""
        grid = NodeGrid.of(dynamics, seen, nodes)
        places = grid.nodes
        arrived, over = dynamics.step(places)
        flat = arrived.reshape(-1, arrived.shape[2])
        corners, weights = grid.locate(flat)
        weights *= gamma * ~over.reshape(-1, 1)
        shape = (*arrived.shape[:2], -1)
        return cls(
            dynamics,
            grid,
            gamma,
            dynamics.coordinates.decode(places),
            dynamics.coordinates.decode(flat).reshape(*shape),
            over,
            corners.reshape(shape).astype(np.int32),
            weights.reshape(shape).astype(np.float32),
        )

    def plan(self, reward: BatchReward, before: GridPlan | None = None) -> GridPlan:
        """The best policy for a reward, discounted; a plan for the same reward from `before` is a start."""
        n = len(self.observations)
        rewards = np.stack(
            [
                reward(self.observations, np.broadcast_to(action, (n, len(action))), self.arrivals[a], self.over[a])
                for a, action in enumerate(self.dynamics.choices.values)
            ]
        )
        values = np.zeros(n) if before is None else before.interpolated(self.grid.nodes)
        choice = np.zeros(n, dtype=np.int64)
        scale = max(float(np.abs(rewards).max()), 1e-12)
        change, rounds = np.inf, 0
        while change > TOLERANCE * scale and rounds < MOST_ROUNDS:
            change = _improve(values, rewards, self.corners, self.weights, choice)
            for _ in range(EVALUATIONS):
                _evaluate(values, rewards, self.corners, self.weights, choice)
            rounds += 1
        return GridPlan(self.dynamics, self.grid, self.gamma, reward, values, change / scale)


@dataclass(frozen=True, eq=False)
class GridPlan:
    """A policy by looking one step ahead: the reward of the step and the discounted value of where it leads.

    `values [N]` at the nodes of the `grid`; `residual` is the span of their last changes, as a share of the largest
    reward.
    """

    dynamics: LearnedDynamics
    grid: NodeGrid
    gamma: float
    reward: BatchReward
    values: FloatArray
    residual: float

    def interpolated(self, values: FloatArray) -> FloatArray:
        """`[n]`: the value of coordinates `[n, c]`."""
        corners, weights = self.grid.locate(values)
        return np.asarray((self.values[corners] * weights).sum(axis=1))

    def worths(self, observations: FloatArray) -> FloatArray:
        """`[A, n]`: what each action is worth on observations `[n, d]`."""
        seen = np.asarray(observations, dtype=np.float64)
        coordinates, actions = self.dynamics.coordinates, self.dynamics.choices.values
        arrived, over = self.dynamics.step(coordinates.encode(seen))
        worths = np.empty(over.shape)
        for a, action in enumerate(actions):
            paid = self.reward(
                seen, np.broadcast_to(action, (len(seen), len(action))), coordinates.decode(arrived[a]), over[a]
            )
            worths[a] = paid + self.gamma * self.interpolated(arrived[a]) * ~over[a]
        return worths

    def predict(self, observation: Any) -> Any:
        """The best action, as the environment takes it."""
        worths = self.worths(np.asarray(observation, dtype=np.float64)[None])
        return self.dynamics.choices.action(int(worths[:, 0].argmax()))

    def imagined(self, starts: FloatArray, horizon: int) -> list[Episode]:
        """Episodes of the plan in its own learned dynamics, from observations `[n, d]`: they take no step anywhere."""
        coordinates, actions = self.dynamics.coordinates, self.dynamics.choices.values
        seen, done, goes_on = [np.asarray(starts, dtype=np.float64)], [], np.ones(len(starts), dtype=bool)
        lengths = np.zeros(len(starts), dtype=np.int64)
        for _ in range(horizon):
            chosen = self.worths(seen[-1]).argmax(axis=0)
            arrived, over = self.dynamics.step(coordinates.encode(seen[-1]))
            rows = np.arange(len(starts))
            seen.append(np.where(goes_on[:, None], coordinates.decode(arrived[chosen, rows]), seen[-1]))
            done.append(actions[chosen])
            lengths += goes_on
            goes_on = goes_on & ~over[chosen, rows]
            if not goes_on.any():
                break
        return [
            Episode(np.stack(seen)[: n + 1, row], np.stack(done)[:n, row], not goes_on[row], -1)
            for row, n in enumerate(lengths)
        ]

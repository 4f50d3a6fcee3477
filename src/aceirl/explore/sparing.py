"""`sparing`: look around without asking, then ask one question an episode, the one whose answer settles most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.errors import InputError
from aceirl.irl.belief import Belief, Plan, uniform_policy
from aceirl.models.fields.dynamics import Imagined
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import compiled, look_ahead
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray, Successors
from aceirl.protocols import ExactPlanning

SHARES = (0.95, 0.8, 0.6, 0.4, 0.25, 0.1, 0.0)
"""How good, as a share of the best question, one may be that is asked."""

AHEAD, NEARER = 100, 0.97
"""So many steps ahead is looked for what was tried too little, and what is a step nearer counts so much more."""


LARGE = 1_500
"""In a world of so many states, imagined ones included, questions are weighed anew when answers grew by a share."""


@dataclass(frozen=True)
class Sparing:
    """Few answers, many steps. Not in the paper.

    First the learner finds out what actions lead to and asks nothing: it heads for rows that were tried less than
    `tries` times or, where they have led to different states, less than `random_tries` times, until an episode is
    expected to meet less than `news` of them, or `look` steps, half of all that it may take, or so many `episodes` are
    over. Where the dynamics factor over fields, rows that are predicted need no try of their own, unless they lead to
    values of fields that were never met together; and it plans over states that it only imagines. From then on it asks
    one question an episode. It knows the members of a prediction (see `aceirl.irl.prediction`): plans for the
    likeliest wishes, and trees over fields. In which state to ask is a problem of optimal stopping: where the answer
    is expected to settle more than any question that can still be reached; a much better one that comes along in one
    of `patience` episodes is waited for. What is settled in a state is weighed by how often the predicted policy, and
    those of the likeliest `members`, are there, as a square root: what is rare is many things together. What an answer
    tells of the wish itself, wherever it is given, counts `telling` times its information. Once nothing is left to
    settle, what the policy relies on most is asked.

    The expert must be deterministic, and the dynamics must not depend on the step. Predictions do not look at the step,
    so an expert who does is predicted badly.
    """

    look: int = 50_000
    episodes: int = 3_000
    tries: int = 1
    random_tries: int = 100
    news: float = 0.1
    wander: float = 0.3
    patience: int = 20
    checking: float = 0.005
    telling: float = 0.05
    members: int = 8
    growth: float = 0.2

    access: ClassVar = "episodes"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning,)
    summary: ClassVar = "explore without asking, then ask where the answer tells most"
    predicts: ClassVar = True

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """A way to look around, or to the next question."""
        kind, counts = belief.estimate.kind, belief.estimate.counts
        if not (kind.deterministic and counts.stationary):
            raise InputError(
                "the strategy sparing needs a deterministic expert, and dynamics that do not depend on the step; "
                "for others choose guided"
            )
        policy, news = self._looking(belief)
        rows = None if belief.imagined is None else belief.imagined_state
        look = min(self.look, belief.max_samples / 2)
        if news > self.news and counts.samples < look and counts.episodes < self.episodes:
            return Plan(policy=policy, ask=False, rows=rows)
        value, of_answers = self._remembered(belief)
        ask, go = self._question(_estimate(belief).mdp, value)
        there = np.eye(policy.shape[2])[np.maximum(go, 0)]
        way = np.where((go >= 0)[:, :, None], there, policy)
        return Plan(policy=way, ask=ask, questions=1, memory=_noted(belief, value, of_answers), rows=rows)

    def _remembered(self, belief: Belief) -> tuple[FloatArray, float]:
        """`(value [S], answers)`: what questions are worth, and how many answers there were when that was worked out;
        as it was, if nothing was answered and no state met since.

        In a world that is large and imagined it is as it was for a few answers, but for what was answered.
        """
        before, answers = belief.memory.get("worth"), float(belief.estimate.counts.questions)
        world = belief.imagined
        if before is None or (world is not None and "records" not in belief.memory):
            return self._values(belief), answers
        then = float(belief.memory["answers"][0])
        if world is None:
            same = len(before) == belief.shape[1] and then == answers
            return (np.asarray(before) if same else self._values(belief)), answers
        if answers - then > (self.growth * answers if world.estimate.counts.shape[1] >= LARGE else 0):
            return self._values(belief), answers
        worth = dict(zip(map(tuple, belief.memory["records"].tolist()), before.tolist(), strict=True))
        value = np.array([worth.get(one, 0.0) for one in map(tuple, _records(world).tolist())])
        value[world.table.ends | world.estimate.answered.any(axis=0)] = 0.0
        return (value, then) if value.any() else (self._values(belief), answers)

    def _question(self, mdp: MDP, value: FloatArray) -> tuple[BoolArray, IntArray]:
        """`(ask [H, S], go [H, S])`: the questions worth waiting for, by what an answer in each state is worth.

        An episode is asked nothing if a much better question comes along in one of `patience` episodes.
        """
        for share in SHARES:
            worthy = value >= share * value.max()
            _, _, met = _stopping(*mdp.transitions.rows, mdp.n_actions, worthy.astype(np.float64), mdp.horizon)
            if float(mdp.initial @ met) >= 1 / self.patience:
                break
        ask, go, _ = _stopping(*mdp.transitions.rows, mdp.n_actions, np.where(worthy, value, 0.0), mdp.horizon)
        return ask, go

    def _looking(self, belief: Belief) -> tuple[FloatArray, float]:
        """How to look around, and how many rows that were tried too little an episode is expected to meet."""
        estimate = _estimate(belief)
        mdp, shape = estimate.mdp, estimate.counts.shape
        if not estimate.counts.samples:
            return uniform_policy(shape), np.inf
        tried, rows = estimate.row_visits[0], mdp.transitions
        varied = np.diff(rows.indptr).reshape(shape[1:]) > 1
        missing = np.where(tried < np.where(varied, self.random_tries, self.tries), 1 / (1.0 + tried), 0.0)
        if belief.imagined is not None:
            unmet = ~belief.imagined.table.met_together(belief.shape[1])
            missing = np.maximum(missing, rows.expect(unmet[None].astype(np.float64))[0])
        missing[estimate.terminal_states] = 0.0
        q, v = look_ahead(*rows.rows, missing, min(shape[0], AHEAD), NEARER)
        best = q >= q.max(axis=1, keepdims=True) - 1e-9
        rarest = tried == tried.min(axis=1, keepdims=True)
        greedy, anything = (those / those.sum(axis=1, keepdims=True) for those in (best, rarest))
        policy = (1 - self.wander) * greedy + self.wander * anything
        return np.broadcast_to(policy, shape), float(mdp.initial @ v)

    def _values(self, belief: Belief) -> FloatArray:
        """`[S]`: what a question in each state is worth; 0 where it was asked, or episodes end."""
        estimate = _estimate(belief)
        mdp, prediction, known = estimate.mdp, belief.prediction, estimate.known_actions
        assert known is not None
        answered = estimate.answered.any(axis=0)
        open_states = ~answered & mdp.known[0].any(axis=1)
        open_states[estimate.terminal_states] = False
        policy = np.where(known < 0, prediction.actions, known)
        mass = self._mass(mdp, np.eye(mdp.n_actions)[policy])
        order = np.argsort(-prediction.weights, kind="stable")[: self.members]
        for member in order[prediction.weights[order] > 1e-3]:
            accepted = prediction.accepted[member] / prediction.accepted[member].sum(axis=1, keepdims=True)
            mass += prediction.weights[member] * self._mass(mdp, np.broadcast_to(accepted, mdp.shape).copy())
        weight = np.where(answered, 0.0, np.sqrt(mass))
        weight /= max(1e-12, weight.sum())
        settles = prediction.settled(weight, open_states)
        tells = self.telling * prediction.telling
        return np.asarray(settles + open_states * (tells + self.checking * weight + 1e-12))

    def _mass(self, mdp: MDP, policy: FloatArray) -> FloatArray:
        """`[S]`: the share of the steps that a policy spends in each state."""
        return np.asarray(occupancy(mdp, policy).sum(axis=(0, 2)) / mdp.horizon)


def _estimate(belief: Belief) -> Estimate:
    """What is known, with what the dynamics of fields predict."""
    return belief.estimate if belief.imagined is None else belief.imagined.estimate


def _noted(belief: Belief, value: FloatArray, of_answers: float) -> dict[str, FloatArray]:
    noted = {"worth": value, "answers": np.array([of_answers])}
    return noted if belief.imagined is None else noted | {"records": _records(belief.imagined)}


def _records(world: Imagined) -> FloatArray:
    """`[S, F + 1]`: the values of the fields, and whether episodes end there."""
    return np.column_stack((world.table.values, world.table.ends))


@compiled
def _stopping(
    indptr: IntArray,
    successors: Successors,
    probabilities: FloatArray,
    stride: int,
    n_actions: int,
    value: FloatArray,
    horizon: int,
) -> tuple[BoolArray, IntArray, FloatArray]:
    """`(stop [H, S], go [H, S], worth [S])`: where to stop for the `value [S]` of a state, the action to a better one,
    and what the first step is worth.

    Optimal stopping by backward induction; -1 where no action leads to anything.
    """
    n_states = value.size
    stop, go = np.zeros((horizon, n_states), np.bool_), np.full((horizon, n_states), -1)
    after, now = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        for s in range(n_states):
            best = 0.0
            for a in range(n_actions):
                row, total = h * stride + s * n_actions + a, 0.0
                for k in range(indptr[row], indptr[row + 1]):
                    total += probabilities[k] * after[successors[k]]
                if total > best * (1 + 1e-9):
                    best, go[h, s] = total, a
            stop[h, s] = value[s] > 0 and value[s] >= best * (1 - 1e-9)
            now[s] = max(value[s], best)
        after, now = now, after
    return stop, go, after

"""What the expert would answer where it was not asked, and which question would settle most.

Two kinds of members have a say: plans for the likeliest wishes in the estimated dynamics, and trees that predict
answers by fields. Each accepts some actions in each state; what they predict, and how sure they are together, follows
from their weights. The weight of a wish is that of its evidence, whether what it leaves open goes by chance or by the
trees; the weight of all trees together is that of the answers they had not seen. Predictions steer. They never certify:
what a promise rests on is what the expert said.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aceirl.models.fields.rules import Committee, committee
from aceirl.models.tabular.kernels import compiled, look_ahead
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards.hypotheses.search import Judged, StationarySearch

WISHES = 24
"""So many of the likeliest wishes have a say."""

TIED = 0.003
"""A plan accepts actions that are behind the best by at most this share of the range of values."""

LOST = 0.05
"""An action that is behind by this share is as bad as any."""

ERRORS = 0.02
"""How often an answer is none that a member accepts."""

NEVER = -1e9
"""What an action pays that a plan may not take."""

MOST_CANDIDATES = 150
"""So many states are weighed as questions: those of which the members disagree most."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What members predict: `worth [M, S, A]` is 1 for what each holds best and 0 for what is as bad as any; `weights
    [M]` sum to one. The first `n_wishes` are plans, the others trees of equal weight."""

    worth: FloatArray
    weights: FloatArray
    n_wishes: int

    @property
    def by_rules(self) -> float:
        """The weight of the trees."""
        return float(self.weights[self.n_wishes :].sum())

    @cached_property
    def accepted(self) -> BoolArray:
        """`[M, S, A]`: the actions that each member accepts."""
        return _accepted(self.worth)

    @cached_property
    def support(self) -> FloatArray:
        """`[S, A]`: the weight of the members that accept each action."""
        return np.asarray(np.tensordot(self.weights, self.accepted, 1))

    @cached_property
    def actions(self) -> IntArray:
        """`[S]`: the action that most accept; of those accepted alike, the one worth most."""
        return np.asarray((self.support + 1e-3 * np.tensordot(self.weights, self.worth, 1)).argmax(axis=1))

    @property
    def doubt(self) -> FloatArray:
        """`[S]`: the weight of the members that do not accept it."""
        return np.asarray(1 - self.support.max(axis=1))

    def settled(self, mass: FloatArray, askable: BoolArray) -> FloatArray:
        """`[S]`: by how much an answer in each of the states that are `askable` is expected to raise what the best
        action is worth, summed over all states with the weights `mass [S]`; 0 elsewhere."""
        matters = np.flatnonzero(self.doubt * mass > 1e-9)
        value = np.zeros(len(mass))
        candidates = np.flatnonzero(askable & (self._spread > 1e-9))
        if not len(matters) or not len(candidates):
            return value
        order = np.argsort(-self._spread[candidates] * (self.doubt + 0.01)[candidates], kind="stable")
        candidates = candidates[order[:MOST_CANDIDATES]]
        answers, worth = self._answers[:, candidates], np.ascontiguousarray(self.worth[:, matters])
        value[candidates] = _settled(answers, worth, self.weights, mass[matters])
        return value

    @cached_property
    def _answers(self) -> FloatArray:
        """`[M, S, A]`: how likely each member holds each answer."""
        n_actions = self.accepted.shape[2]
        share = self.accepted / np.maximum(1, self.accepted.sum(axis=2, keepdims=True))
        return np.asarray((1 - ERRORS) * share + ERRORS / n_actions)

    @cached_property
    def _spread(self) -> FloatArray:
        """`[S]`: how differently the members answer."""
        return _information(self._answers, self.weights)

    @property
    def telling(self) -> FloatArray:
        """`[S]`: how much an answer tells of the wish, or that trees predict it better than any wish."""
        answers, weights, n = self._answers, self.weights, self.n_wishes
        if n < len(weights):
            trees = answers[n:].mean(axis=0, keepdims=True)
            answers, weights = np.concatenate((answers[:n], trees)), np.append(weights[:n], self.by_rules)
        return _information(answers, weights)


def _information(answers: FloatArray, weights: FloatArray) -> FloatArray:
    """`[S]`: the mutual information of a member, by `weights [M]`, and its answer, by `answers [M, S, A]`."""
    mean = np.tensordot(weights, answers, 1)
    each = -(answers * np.log(answers)).sum(axis=2)
    return np.asarray(-(mean * np.log(mean)).sum(axis=1) - weights @ each)


def predicted(search: StationarySearch, seed: int = 0) -> Prediction:
    """What the answers of a stationary expert, in the dynamics as they are estimated, tell of those not given."""
    counts, fields = search.counts, search.fields
    n_actions = counts.shape[2]
    wishes, found = _plans(search)
    if fields is None:
        weights = np.exp(found.score - np.logaddexp.reduce(found.score))
        return Prediction(wishes, weights, len(wishes))
    said = counts.given.pooled
    states = np.flatnonzero(said.any(axis=1))
    trees = committee(fields, states, said[states].argmax(axis=1), n_actions, np.random.default_rng([seed, 0x46]))
    votes = trees.votes[:, :, None] == np.arange(n_actions)
    # A state without fields, and all states before any answer: every action is as good as another.
    votes |= ~votes.any(axis=2, keepdims=True)
    evidence = np.logaddexp(found.score, found.log_prior + _with_trees(_accepted(wishes), trees)) - np.log(2)
    logs = np.concatenate((evidence, np.full(len(votes), _evidence(trees) - np.log(len(votes)))))
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    return Prediction(np.concatenate((wishes, votes)), weights, len(wishes))


def _accepted(worth: FloatArray) -> BoolArray:
    return np.asarray(worth >= 1 - TIED / LOST - 1e-9)


def _evidence(trees: Committee) -> float:
    return trees.log_likelihood if len(trees.states) else -len(trees.votes)


def _with_trees(accepted: BoolArray, trees: Committee) -> FloatArray:
    """`[W]`: the log-likelihood of the answers if they are what a plan accepts and, among that, what the trees say."""
    own = accepted[:, trees.states]
    among = (own * trees.chances).sum(axis=2)
    each, one = np.arange(len(trees.actions)), trees.actions
    n_actions = accepted.shape[2]
    share = np.where(own[:, each, one], trees.chances[each, one] / np.maximum(among, 1e-12), 0.0)
    return np.asarray(np.log((1 - ERRORS) * share + ERRORS / n_actions).sum(axis=1))


def _plans(search: StationarySearch) -> tuple[FloatArray, Judged]:
    """`(worth [W, S, A], judged)` of the likeliest wishes.

    The best action is worth 1, one that is behind less. An expert that does not look at the step is in a hurry at all
    steps, as if each could be among the last: rewards count the less the later they come, after an episode's length
    about a third.
    """
    mdp, found = search.estimate.mdp, search.found
    rows = mdp.transitions
    rewards = search.rewards(found.hypotheses)
    known = mdp.known[0]
    worth = np.zeros((len(found.hypotheses), *known.shape))
    ends = np.zeros(known.shape[0], dtype=np.bool_)
    ends[search.terminal] = True
    for i in range(len(found.hypotheses)):
        places = rewards.early[i]
        arrived = rows.expect(np.where(ends, places, 0.0)[None])[0]
        table = np.where(ends, 0.0, places)[:, None] + arrived + rewards.action[i] - rewards.step_cost[i]
        table[ends] = 0.0
        table[~known & known.any(axis=1, keepdims=True)] = NEVER
        q = np.where(known, look_ahead(*rows.rows, table, 2 * mdp.horizon, 1 - 1 / mdp.horizon)[0], -np.inf)
        acting = known.any(axis=1) & ~ends
        best = np.where(acting, q.max(axis=1, initial=-np.inf), 0.0)
        size = max(1e-12, float(best[acting].max(initial=0.0) - q[acting][known[acting]].min(initial=0.0)))
        behind = np.where(known, best[:, None] - q, np.inf) / size
        worth[i] = 1 - np.minimum(1.0, behind / LOST)
        worth[i][~acting] = 1.0
    return _told_apart(worth, found)


def _told_apart(worth: FloatArray, found: Judged) -> tuple[FloatArray, Judged]:
    """The likeliest wishes, each for all that accept the same."""
    accepted = np.packbits(_accepted(worth).reshape(len(worth), -1), axis=1)
    _, first, same = np.unique(accepted, axis=0, return_index=True, return_inverse=True)
    together = np.full(len(first), -np.inf)
    np.logaddexp.at(together, same.ravel(), found.score)
    order = np.argsort(-together, kind="stable")[:WISHES]
    chosen = first[order]
    likelihood = found.log_likelihood[chosen]
    kept = Judged(
        tuple(found.hypotheses[i] for i in chosen), together[order] - likelihood, likelihood, found.unexplained[chosen]
    )
    return worth[chosen], kept


@compiled
def _settled(answers: FloatArray, worth: FloatArray, weights: FloatArray, mass: FloatArray) -> FloatArray:
    """For each candidate, by how much its answer is expected to raise what the best action is worth to all members.

    `answers [M, C, A]` is how likely each member holds each answer to a candidate, `worth [M, S, A]` what actions are
    worth to it in the states that matter, by `mass [S]`.
    """
    members, candidates, n_actions = answers.shape
    n_states = worth.shape[1]
    value, after, support = np.zeros(candidates), np.empty(members), np.empty(n_actions)
    for c in range(-1, candidates):
        total = 0.0
        for a in range(n_actions if c >= 0 else 1):
            for m in range(members):
                after[m] = weights[m] * (answers[m, c, a] if c >= 0 else 1.0)
            for s in range(n_states):
                support[:] = 0.0
                for m in range(members):
                    if after[m] > 1e-9:
                        for b in range(n_actions):
                            support[b] += after[m] * worth[m, s, b]
                total += mass[s] * support.max()
        if c < 0:
            now = total
        else:
            value[c] = total - now
    return np.maximum(value, 0.0)

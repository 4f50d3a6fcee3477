"""What data support and what they leave open: what was never tried or never answered, and what to record next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aceirl.explain.listing import listed
from aceirl.learner.turns import Turn
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import BoolArray, FloatArray
from aceirl.rewards import Explanation, FeasibleRewardSet, action_values
from aceirl.rewards.polytope import programme
from aceirl.rewards.programme import Repeated
from aceirl.rewards.recovered import scaled
from aceirl.rewards.spaces import SPACES

AHEAD = 0.05
"""A place may be worth more than the goal if some reward with parameters in [-1, 1] puts it ahead by this much."""

LARGE = 4_000
"""Entries `H·S·A` above which no linear programmes are solved: what is open is then judged by likelihood."""

SIGNIFICANT = 2.0
"""An answer is better than another action if it is ahead by so many standard errors of the estimated dynamics."""

OFTEN = 0.01
"""A state is on the expert's way if it passes there in at least this share of the episodes."""

STRAYING = 0.2
"""How often a recording to come is taken to leave the way of the policy."""

MOST = 5
"""So many things to record are named at most."""


@dataclass(frozen=True)
class Suggestion:
    """What to record next in a `state`: the `actions` that were never tried or, if there are none, what is done there.

    `taken` is how many steps the data have from there. `reach` is how often an episode to come is predicted to pass
    there, at most. `share` is how many of the actions were never tried or, where it is not known what is done, how many
    of the plausible rewards would have something else done than most of them.
    """

    state: int
    actions: tuple[int, ...]
    taken: int
    reach: float
    share: float

    @property
    def weight(self) -> float:
        """How much it may decide, from 0 to 1."""
        return self.reach * self.share

    def in_words(self, names: Sequence[str], actions: Sequence[str], n_actions: int, episodes: int) -> str:
        """One sentence; `episodes` is how many the data have."""
        if not self.actions:
            return (
                f"Record what the expert does in {names[self.state]}: that is not known, and {self.share:.0%} of the "
                "rewards that fit the data disagree there with the others."
            )
        tried = n_actions - len(self.actions)
        called = _or([actions[a] if actions else f"action {a}" for a in self.actions])
        before = "one action was tried there" if tried == 1 else f"{tried} actions were tried there"
        often = f"{_some(self.taken, 'step')} in {_some(episodes, 'episode')}"
        return f"In {names[self.state]}, which has {often} in the data, try {called}: so far {before}."


@dataclass(frozen=True)
class Support:
    """What data say, and what they do not.

    `states` is how many were met in which one acts, `unmet` how many there are besides, where that is known, and
    `unanswered` are those that were met and for which no action of the expert is known. Of the `rows`, pairs of such a
    state and an action, `tried` were; `untried_on_the_way` of the others are in states through which the expert's
    episodes pass. `alone` is how many states have an answer with which nothing can be compared, because nothing else
    was tried there.

    `open_places` may be worth more than the goal by a reward that explains what the found one does; `closed_places`
    cannot; of the `unclear_places` neither could be shown. `by` says how that was judged: "feasible set", "likelihood"
    if the problem is too large for that, or "" where there is no goal to compare with; all places are open then.
    `next` is what to record. The data are of `episodes` with `n_actions` to choose from.
    """

    states: int
    unmet: int
    unanswered: tuple[int, ...]
    rows: int
    tried: int
    untried_on_the_way: int
    alone: int
    open_places: tuple[int, ...]
    closed_places: tuple[int, ...]
    unclear_places: tuple[int, ...]
    by: str
    next: tuple[Suggestion, ...]
    n_actions: int
    episodes: int

    def in_words(self, names: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
        """A sentence or two each; `names [S]` are what people call the states, `actions [A]` the actions."""
        lines = [
            f"Never tried: {self.rows - self.tried:,} of {self.rows:,} pairs of state and action, "
            f"{self.untried_on_the_way:,} of them on the expert's path."
        ]
        if self.unmet:
            lines.append(f"Never visited: {_some(self.unmet, 'state')}, about which nothing is known.")
        if self.unanswered:
            known = f"in {len(self.unanswered):,} of {self.states:,} states"
            lines.append(f"What the expert does {known} is not known: {listed([names[s] for s in self.unanswered])}.")
        if self.alone:
            lines.append(
                f"No action but the expert's was tried in {_some(self.alone, 'state')}: it cannot be compared with any "
                "other there."
            )
        lines += self._open_in_words(names)
        lines += [one.in_words(names, actions, self.n_actions, self.episodes) for one in self.next]
        return lines

    def _open_in_words(self, names: Sequence[str]) -> list[str]:
        n = len(self.open_places) + len(self.closed_places) + len(self.unclear_places)
        if not self.by:
            return [f"The data name no goal: what each of the {n:,} places is worth is open."]
        judged = "" if self.by == "feasible set" else " (judged one by one, by likelihood)"
        if n == len(self.closed_places):
            return [f"No place can be worth more than the goal{judged}."]
        lines = []
        if self.open_places:
            called = listed([names[s] for s in self.open_places])
            some = f"{len(self.open_places):,} of {n:,} places"
            lines.append(f"Left open: {some} may be worth more than the goal{judged}: {called}.")
        if self.unclear_places:
            called = listed([names[s] for s in self.unclear_places])
            lines.append(f"Whether these are worth more than the goal could not be decided: {called}.")
        return lines

    def to_json(self, names: Sequence[str], actions: Sequence[str] = ()) -> dict[str, Any]:
        """Plain values."""
        return {
            "states": self.states,
            "unmet": self.unmet,
            "unanswered": [names[s] for s in self.unanswered],
            "rows": self.rows,
            "tried": self.tried,
            "untried_on_the_way": self.untried_on_the_way,
            "alone": self.alone,
            "open": [names[s] for s in self.open_places],
            "closed": [names[s] for s in self.closed_places],
            "unclear": [names[s] for s in self.unclear_places],
            "judged_by": self.by,
            "next": [
                {
                    "state": names[one.state],
                    "try": [actions[a] if actions else a for a in one.actions],
                    "taken": one.taken,
                    "predicted_reach": one.reach,
                    "share": one.share,
                }
                for one in self.next
            ],
        }


def support_of(turn: Turn) -> Support:
    """What the data behind a turn support."""
    estimate = turn.belief.estimate
    acting = _acting(estimate)
    tried = np.asarray(estimate.row_visits.any(axis=0)) & acting[:, None]
    answered = estimate.answered.any(axis=0)
    policy = np.eye(tried.shape[1])[turn.policy]
    on_the_way = _reach(estimate, policy) >= OFTEN
    is_open, is_closed, by = openness(turn)
    places = _places(turn.explanation, estimate)
    return Support(
        states=int(acting.sum()),
        unmet=_unmet(turn, acting),
        unanswered=tuple(np.flatnonzero(acting & ~answered).tolist()),
        rows=int(acting.sum()) * tried.shape[1],
        tried=int(tried.sum()),
        untried_on_the_way=int((~tried & (acting & on_the_way)[:, None]).sum()),
        alone=int((acting & answered & (tried.sum(axis=1) <= 1)).sum()),
        open_places=tuple(np.flatnonzero(is_open & places).tolist()),
        closed_places=tuple(np.flatnonzero(is_closed & places).tolist()),
        unclear_places=tuple(np.flatnonzero(~is_open & ~is_closed & places).tolist()),
        by=by,
        next=_suggestions(turn, tried, acting & ~answered, policy),
        n_actions=tried.shape[1],
        episodes=estimate.counts.episodes,
    )


def openness(turn: Turn) -> tuple[BoolArray, BoolArray, str]:
    """`[S]` each: the places that may be worth more than the goal and those that cannot; and how that was judged.

    What counts is what one step there pays beyond what a step after the end does, or an end when it is reached. A place
    may be worth more if a reward of the same space, with parameters from -1 to 1, puts it ahead of the goal, and
    explains all answers that the found reward explains. That is the feasible set of those answers in the estimated
    process, without the comparisons that may be due to chance.
    """
    found, estimate = turn.explanation, turn.belief.estimate
    nowhere = np.zeros(estimate.mdp.n_states, dtype=np.bool_)
    if found is None or found.space not in ("state", "state-action") or not found.goals:
        return ~nowhere, nowhere, ""
    if estimate.mdp.horizon * found.paid.size > LARGE:
        alternatives = turn.alternatives
        assert alternatives is not None
        likely = nowhere.copy()
        likely[[s for s in alternatives.undetermined if s not in found.goals]] = True
        return likely, ~likely, "likelihood"
    feasible, value = explained_set(estimate, found), worth(found)
    goal = np.flatnonzero(np.isin(found.states, found.goals))
    beyond = value - value[goal[np.argmax(found.map_estimate[goal])]]
    places = _places(found, estimate)
    about = [k for k, state in enumerate(found.states) if state >= 0 and places[state]]
    shown, possible = _ahead(feasible, _decided(estimate, feasible, found.map_estimate), beyond, about)
    is_open, may_be = nowhere.copy(), nowhere.copy()
    for k in about:
        is_open[found.states[k]] |= shown[k] > AHEAD
        may_be[found.states[k]] |= possible[k] > AHEAD
    return is_open, ~may_be, "feasible set"


def explained_set(estimate: Estimate, found: Explanation) -> FeasibleRewardSet:
    """The feasible set, in the space of a reward, of all answers that the reward explains.

    These are the answers that are optimal under it in the estimated process, where they are at least half of those
    given. An expert who errs has given others too.
    """
    everything = FeasibleRewardSet.of_estimate(estimate, space=SPACES[found.space]())
    given = np.where(everything.mdp.known, everything.policy, 0.0)
    nobody = replace(everything, known=np.zeros_like(everything.known))
    advantage = -nobody.losses(found.map_estimate)
    best = advantage >= -1e-9 * max(1.0, float(np.abs(advantage[np.isfinite(advantage)]).max(initial=0.0)))
    kept = np.where(best & (given > 0), given, 0.0)
    share = kept.sum(axis=2, keepdims=True)
    policy = np.divide(kept, share, out=np.zeros_like(kept), where=share >= 0.5)
    # Where there is no choice it is settled what is done: after the end, and where one action was tried.
    settled = np.isin(np.arange(given.shape[1]), estimate.terminal_states) | (everything.counted.sum(axis=2) == 1)
    only = np.eye(given.shape[2])[everything.counted.argmax(axis=2)] * (settled & ~policy.any(axis=2))[:, :, None]
    return replace(everything, expert_policy=policy + only, known=(policy + only).any(axis=2))


def _decided(estimate: Estimate, feasible: FeasibleRewardSet, theta: FloatArray) -> BoolArray:
    """`[H, S, A]`: whether the answer is better than the action by more than chance would let it seem; true elsewhere.

    The mean of a value `V` over a row of `n` observations is known up to `Var(V)/n`. Where the dynamics are seen to be
    random, the next observation of a row may be another: it counts as having been so with probability `1/(n + 2)`.
    """
    mdp, matrix = estimate.mdp, estimate.mdp.transitions.matrix
    behind = feasible.losses(theta)
    later = mdp.discount * np.vstack([feasible.values(theta)[1][1:], np.zeros(mdp.n_states)])
    random = bool((np.diff(mdp.transitions.indptr) > 1).any())
    error = np.zeros(mdp.shape)
    for h, values in enumerate(later):
        rows = matrix if mdp.stationary else matrix[h * error[0].size : (h + 1) * error[0].size]
        spread = np.maximum(rows @ values**2 - (rows @ values) ** 2, 0.0).reshape(error[0].shape)
        n = np.maximum(estimate.row_visits[h], 1.0)
        least = random * np.ptp(values) ** 2 * (n + 1) / (n + 2) ** 2
        error[h] = np.maximum(spread, least) / n
    own = (feasible.policy * error).sum(axis=2, keepdims=True)
    compared = feasible.known[:, :, None] & (feasible.policy == 0) & np.isfinite(behind)
    allowed = SIGNIFICANT * np.sqrt(error + own)
    return np.asarray(~compared | (np.where(compared, behind, 0.0) >= allowed - 1e-12))


def worth(found: Explanation) -> FloatArray:
    """`[n, n]`: what each place is worth as a function of the parameters; zero for a step cost, which is no place.

    To pay the same for every step, before the end and after it, changes nothing; so the step cost is taken off.
    """
    n = len(found.states)
    matrix = np.eye(n)
    if found.has_step_cost:
        acting = ~found.ends[found.states] & (found.states >= 0)
        matrix[acting, n - 1] = -1.0
        matrix[n - 1] = 0.0
    return matrix


def _ahead(
    feasible: FeasibleRewardSet, decided: BoolArray, beyond: FloatArray, places: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """`(shown, possible)`, `[n]` each: how far a place is ahead of the goal under some reward, and the most it can be.

    `beyond [n, n]` is what each parameter's place is worth beyond the goal, as a function of the parameters; only
    comparisons that are `decided [H, S, A]` count. Once both are above `AHEAD` no more is looked for. Where the expert
    is not known everywhere, the second is a bound, and the first what was found by completing it.
    """

    def solved(base: Repeated, k: int) -> FloatArray:
        return np.clip(base.solve(-beyond[k]).x[: len(beyond)], feasible.lower, feasible.upper)

    shown, possible = np.full((2, len(beyond)), -np.inf)
    base, complete = Repeated(programme(feasible, only=decided)), bool(feasible.known.all())
    for k in places:
        if shown[k] > AHEAD:
            continue
        theta = solved(base, k)
        possible[k] = float(beyond[k] @ theta)
        if not complete and possible[k] > AHEAD:
            piece = feasible.completed(feasible.best_actions(theta))
            theta = solved(Repeated(programme(piece, only=decided)), k)
        np.maximum(shown, beyond @ theta, out=shown)
    return shown, np.maximum(possible, shown)


def _acting(estimate: Estimate) -> BoolArray:
    """`[S]`: the states that were met and in which one acts."""
    counts = estimate.counts
    met = counts.visited.pooled.any(axis=1) | (counts.starts > 0) | counts.given.pooled.any(axis=1)
    met[counts.move_keys % counts.shape[1]] = True
    met[estimate.terminal_states] = False
    return np.asarray(met)


def _unmet(turn: Turn, acting: BoolArray) -> int:
    """How many states were never met; of an environment that numbers them as it meets them nobody knows."""
    return 0 if turn.names else int((~acting).sum()) - len(turn.belief.estimate.terminal_states)


def _places(found: Explanation | None, estimate: Estimate) -> BoolArray:
    """`[S]`: the states that were met, ends included, other than the goal."""
    places = _acting(estimate)
    counts = estimate.counts
    arrived = np.zeros_like(places)
    arrived[counts.move_keys % counts.shape[1]] = True
    places[estimate.terminal_states] = arrived[estimate.terminal_states]
    if found is not None:
        places[found.goals] = False
    return places


def _reach(estimate: Estimate, policy: FloatArray) -> FloatArray:
    """`[S]`: how often an episode of a policy `[H, S, A]` passes a state; less often than that where it comes back."""
    return np.asarray(np.minimum(1.0, estimate.mdp.transitions.push(estimate.mdp.initial, policy).sum(axis=(0, 2))))


def _suggestions(turn: Turn, tried: BoolArray, unanswered: BoolArray, policy: FloatArray) -> tuple[Suggestion, ...]:
    """What to record, what may decide most first."""
    estimate = turn.belief.estimate
    known = np.where(tried.any(axis=1, keepdims=True), tried, True)
    straying = np.broadcast_to(known / known.sum(axis=1, keepdims=True), policy.shape)
    reach = _reach(estimate, (1 - STRAYING) * policy + STRAYING * straying)
    dispute, taken = _disagreement(turn), estimate.counts.visited.pooled.sum(axis=1)
    found = [
        Suggestion(s, (), int(taken[s]), float(reach[s]), float(dispute[s]))
        for s in np.flatnonzero(unanswered).tolist()
    ]
    for s in np.flatnonzero(_acting(estimate) & ~unanswered & ~tried.all(axis=1)).tolist():
        untried = tuple(np.flatnonzero(~tried[s]).tolist())
        found.append(Suggestion(s, untried, int(taken[s]), float(reach[s]), len(untried) / tried.shape[1]))
    weighed = sorted(found, key=lambda one: (-round(one.weight, 9), one.state))
    return tuple(one for one in weighed if one.reach >= OFTEN and one.share > 0)[:MOST]


def _disagreement(turn: Turn) -> FloatArray:
    """`[S]`: how many of the plausible rewards would have something else done than most; on average over the steps."""
    estimate, alternatives = turn.belief.estimate, turn.alternatives
    n_states, n_actions = estimate.mdp.shape[1:]
    if alternatives is None:
        return np.full(n_states, 1 - 1 / n_actions)
    plausible, times = np.unique(alternatives.samples, axis=0, return_counts=True)
    votes = np.zeros(estimate.mdp.shape)
    for theta, often in zip(plausible, times, strict=True):
        reward, unknown = scaled(alternatives.design.table(theta))
        q = action_values(estimate, reward, unknown)
        best = q >= q.max(axis=2, keepdims=True) - 1e-9 * max(1.0, float(np.abs(q).max()))
        votes += often * best / best.sum(axis=2, keepdims=True)
    return np.asarray(np.mean(1 - votes.max(axis=2) / times.sum(), axis=0))


def _some(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _or(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"

"""How likely answers are under many rewards: each is planned with backward in time, several side by side.

What the answers of a state tell of a reward depends on which actions are the best there, and no more. Those seldom
change from a step to the next, and few sets of actions are ever the best ones: the answers are summed up once for each
set, and of each reward it is looked up where one set follows on another.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray

Array = TypeVar("Array", IntArray, FloatArray)

AT_FIRST = 0.05
"""An expert who has an order of its own among what is equally good: what either of two actions is credited with before
one was chosen where the other was as good. The order is broken as often as the expert errs."""

CUSTOM = 0.2
"""What the best actions are credited with, all together, where the expert rather takes what it took before."""

MISJUDGED = 0.02
"""Where an expert may have an order: how probably what is believed of a state is wrong. Then its answers tell nothing
of the wish, and are as likely as by habit."""

ABREAST, LEAST_ABREAST = 32, 8
"""So many rewards are judged side by side; fewer if otherwise more than `MOST_NUMBERS` would be kept of them."""

MOST_NUMBERS = 2_000_000

Answers = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, BoolArray, FloatArray]
"""The arrays of `GivenAnswers`, and `common`."""


@compiled
def judge(
    indptr: IntArray,
    successors: IntArray,
    draws: FloatArray,
    stride: int,
    discount: float,
    rewards: tuple[FloatArray, FloatArray, IntArray, FloatArray, FloatArray, FloatArray],
    answers: Answers,
    by_state: tuple[IntArray, IntArray, IntArray, IntArray, FloatArray, FloatArray],
    terminal: IntArray,
    acting: IntArray,
    block: IntArray,
    ties: FloatArray,
    errors: FloatArray,
    whose: IntArray,
    codes: IntArray,
    logs: FloatArray,
    unexplained: FloatArray,
) -> None:
    """The log-likelihood of all answers for each reward, error rate, and way to choose between the best; and what is
    unexplained. The last axis of both is which tolerances of ties states may have, each its own: from the first to
    before the last of `whose [n, 2]`.

    Answers come also by state: the `block` of each, in which order those of each block follow each other, where each
    block begins in it, the place of each answer in its block, and how often each action was taken there later, and
    earlier. The `codes [A]` of actions are such that no two sets of actions have the same sum.
    """
    early, late, change, paid, step_cost, decay = rewards
    states, actions, times, first, options, tried, common = answers
    horizon, n_states, n_actions = first.size - 1, early.shape[1], paid.shape[1]
    # For each way to choose between the best: any, what is chosen later, what was chosen before, the first, an order.
    n_ways = logs.shape[2] + 1
    ordered = n_ways == 5
    n_summed = n_ways - 1 if ordered else n_ways
    blocks, own, own_first, place, later, earlier = by_state
    n_blocks = own_first.size - 1
    # Sums over the answers of a state for each set of best actions, from a row on: which set that is, and the row of
    # the set that was met before in this state. The first rows are zeros, for no set at all.
    used = states.size + 1
    newest, set_of, before = np.full(n_blocks, -1), np.empty(used, np.int64), np.empty(used, np.int64)
    sums, missed = np.zeros((used, errors.size, n_summed)), np.zeros(used)
    apart, answered = np.zeros((n_blocks, errors.size)), np.zeros(n_blocks)
    for k in range(states.size):
        answered[blocks[k]] += times[k]
    for b in range(n_blocks if ordered else 0):
        mine = own[own_first[b] : own_first[b + 1]]
        s = states[mine[0]]
        alone, none = np.empty((mine.size + 1, errors.size, 3)), np.empty(mine.size + 1)
        _sum(mine, tried[s], options[s], actions, times, common, later, earlier, errors, alone, none)
        apart[b] = alone[mine.size, :, 2]
    numbers = n_blocks * ties.size * draws.shape[0] * errors.size * n_ways + ordered * states.size * n_actions
    abreast = min(ABREAST, max(LEAST_ABREAST, MOST_NUMBERS // max(1, numbers)))
    for start in range(0, early.shape[0], abreast):
        n = min(abreast, early.shape[0] - start)
        some = slice(start, start + n)
        v, v_next, places = np.zeros((n_states, n)), np.zeros((n_states, n)), np.zeros((n_states, n))
        q, always = np.zeros((n_blocks, n_actions, n)), (paid[some] - step_cost[some].reshape(-1, 1)).T.copy()
        values, spread = np.empty((states.size if ordered else 0, n_actions, n)), np.empty((horizon, n))
        least, best = np.empty((ties.size, n)), np.empty((ties.size, n), np.int64)
        held, row = np.empty((2, n_blocks, ties.size, n), np.int64)
        told = np.zeros((draws.shape[0], n_blocks, ties.size, n, errors.size, n_ways))
        wrong = np.zeros((draws.shape[0], n_blocks, ties.size, n))
        for d in range(draws.shape[0]):
            v_next[:], held[:], row[:] = 0.0, 0, 0
            for h in range(horizon - 1, -1, -1):
                for j in range(n):
                    i = start + j
                    if h == horizon - 1 or decay[i] < 1 or h == change[i] - 1:
                        places[:, j] = decay[i] ** h * (early[i] if h < change[i] else late[i])
                for s in terminal:
                    v_next[s] = places[s]
                _back_up(
                    indptr,
                    successors,
                    draws[d],
                    h * stride,
                    acting,
                    tried,
                    places,
                    always,
                    block,
                    v_next,
                    v,
                    q,
                    spread[h],
                )
                for k in range(first[h], first[h + 1]):
                    s, b = states[k], blocks[k]
                    if ordered:
                        values[k] = q[b]
                    if k + 1 < first[h + 1] and states[k + 1] == s:  # its answers at this step are judged together
                        continue
                    _best(q[b], v[s], spread[h], ties, tried[s], codes, least, best)
                    for t in range(ties.size):
                        for j in range(n):
                            if best[t, j] == held[b, t, j]:
                                continue
                            at = newest[b]
                            while at >= 0 and set_of[at] != best[t, j]:
                                at = before[at]
                            if at < 0:
                                mine = own[own_first[b] : own_first[b + 1]]
                                at, used = used, used + mine.size + 1
                                if used > missed.size:
                                    set_of, before = _longer(set_of, used), _longer(before, used)
                                    sums, missed = _longer(sums, used), _longer(missed, used)
                                set_of[at], before[at], newest[b] = best[t, j], newest[b], at
                                is_best = tried[s] & (q[b, :, j] >= least[t, j])
                                _sum(
                                    mine,
                                    is_best,
                                    options[s],
                                    actions,
                                    times,
                                    common,
                                    later,
                                    earlier,
                                    errors,
                                    sums[at:used],
                                    missed[at:used],
                                )
                            # From the next answer of this state on all is as it was; up to this one it is by this set.
                            now, then = at + place[k] + 1, row[b, t, j] + place[k] + 1
                            wrong[d, b, t, j] += missed[now] - missed[then]
                            for e in range(errors.size):
                                for way in range(n_summed):
                                    told[d, b, t, j, e, way] += sums[now, e, way] - sums[then, e, way]
                            held[b, t, j], row[b, t, j] = best[t, j], at
                v, v_next = v_next, v
                if discount < 1:
                    for s in acting:
                        v_next[s] *= discount
            if ordered:
                _ordered(values, spread, answers, blocks, earlier, ties, errors, told[d])
        _mix(told, wrong, whose, apart, MISJUDGED if ordered else 0.0, answered, logs[some], unexplained[some])


@compiled
def _back_up(
    indptr: IntArray,
    successors: IntArray,
    chances: FloatArray,
    first_row: int,
    acting: IntArray,
    tried: BoolArray,
    places: FloatArray,
    always: FloatArray,
    block: IntArray,
    v_next: FloatArray,
    v: FloatArray,
    q: FloatArray,
    spread: FloatArray,
) -> None:
    """One step back for `n` rewards: what states are worth, `v [S, n]`, what actions where there are answers,
    `q [blocks, A, n]`, and the range of all, `spread [n]`. Loops are short: the compiler makes the most of those."""
    n, n_actions = spread.size, tried.shape[1]
    highest, lowest, total = np.full(n, -np.inf), np.full(n, np.inf), np.empty(n)
    for s in acting:
        b = block[s]
        for j in range(n):
            v[s, j] = -np.inf
        for a in range(n_actions):
            if not tried[s, a]:
                continue
            row = first_row + s * n_actions + a
            for j in range(n):
                total[j] = places[s, j] + always[a, j]
            for k in range(indptr[row], indptr[row + 1]):
                there, chance = successors[k], chances[k]
                for j in range(n):
                    total[j] += chance * v_next[there, j]
            for j in range(n):
                v[s, j] = total[j] if total[j] > v[s, j] else v[s, j]
            for j in range(n):
                lowest[j] = total[j] if total[j] < lowest[j] else lowest[j]
            if b >= 0:
                for j in range(n):
                    q[b, a, j] = total[j]
        for j in range(n):
            highest[j] = v[s, j] if v[s, j] > highest[j] else highest[j]
    for j in range(n):
        spread[j] = highest[j] - lowest[j]


@compiled
def _best(
    q: FloatArray,
    v: FloatArray,
    spread: FloatArray,
    ties: FloatArray,
    tried: BoolArray,
    codes: IntArray,
    least: FloatArray,
    best: IntArray,
) -> None:
    """Which of the actions that are worth `q [A, n]` are the best by each tolerance: the sum of their codes,
    `best [ties, n]`, and what they are worth at `least [ties, n]`."""
    n = spread.size
    for t in range(ties.size):
        tie = ties[t]
        for j in range(n):
            least[t, j] = v[j] - tie * spread[j] - 1e-12
        for j in range(n):
            best[t, j] = 0
        for a in range(codes.size):
            if tried[a]:
                code = codes[a]
                for j in range(n):
                    best[t, j] += code if q[a, j] >= least[t, j] else 0


@compiled
def _longer(array: Array, least: int) -> Array:
    """The same with room for at least so many rows."""
    longer = np.empty((2 * least, *array.shape[1:]), array.dtype)
    longer[: array.shape[0]] = array
    return longer


@compiled
def _sum(
    mine: IntArray,
    is_best: BoolArray,
    options: int,
    actions: IntArray,
    times: IntArray,
    common: FloatArray,
    later: FloatArray,
    earlier: FloatArray,
    errors: FloatArray,
    sums: FloatArray,
    missed: FloatArray,
) -> None:
    """If these actions are the best of a state: the log-likelihood `sums [answers + 1, errors, ways]` of its first
    answers, which are `mine`, for three or four ways to choose between the best, and how many are `missed
    [answers + 1]`."""
    sums[0], missed[0], share = 0.0, 0.0, np.zeros(4)
    best, the_first = is_best.sum(), is_best.argmax()
    for i in range(mine.size):
        k = mine[i]
        taken, share[:] = actions[k], 0.0
        if is_best[taken]:
            after, before, preferred = CUSTOM, CUSTOM, 0.0
            for a in np.flatnonzero(is_best):
                after, before, preferred = after + later[k, a], before + earlier[k, a], preferred + common[k, a]
            usual = 0.5 / best + 0.5 * common[k, taken] / preferred
            share[0] = 1 / best
            share[1] = (later[k, taken] + CUSTOM / best) / after
            share[2] = (earlier[k, taken] + CUSTOM * usual) / before
            share[3] = 1.0 if taken == the_first else 0.0
        missed[i + 1] = missed[i] + (0 if is_best[taken] else times[k])
        for e in range(errors.size):
            for way in range(sums.shape[2]):
                told = np.log(errors[e] / options + (1 - errors[e]) * share[way])
                sums[i + 1, e, way] = sums[i, e, way] + times[k] * told


@compiled
def _ordered(
    values: FloatArray,
    spread: FloatArray,
    answers: Answers,
    blocks: IntArray,
    earlier: FloatArray,
    ties: FloatArray,
    errors: FloatArray,
    told: FloatArray,
) -> None:
    """Add what answers tell if the expert has an order of its own among the best: of two it rather takes the one that
    it took before where both were. Actions are worth `values [answers, A, n]`, whose range is `spread [H, n]`."""
    states, actions, times, first, options, tried, _ = answers
    n_actions, n = values.shape[1:]
    won = np.full((n, ties.size, 2, n_actions, n_actions), AT_FIRST)
    now_won, best = np.zeros_like(won), np.empty(n_actions, np.int64)
    for h in range(first.size - 1):
        for k in range(first[h], first[h + 1]):
            s, mine, b = states[k], actions[k], blocks[k]
            if k == first[h] or states[k - 1] != s:
                won += now_won
                now_won[:] = 0.0
            for j in range(n):
                most = -np.inf
                for a in range(n_actions):
                    if tried[s, a]:
                        most = max(most, values[k, a, j])
                for t in range(ties.size):
                    least, n_best = most - ties[t] * spread[h, j] - 1e-12, 0
                    for a in range(n_actions):
                        if tried[s, a] and values[k, a, j] >= least:
                            best[n_best], n_best = a, n_best + 1
                    is_best, no_matter = values[k, mine, j] >= least, int(n_best == options[s])
                    usual = 1.0 if is_best else 0.0
                    if is_best and n_best > 1:
                        of_all, before, wins = 0.0, CUSTOM, won[j, t, no_matter]
                        for a in best[:n_best]:
                            share = 1.0
                            for other in best[:n_best]:
                                share *= 1.0 if a == other else wins[a, other] / (wins[a, other] + wins[other, a])
                            of_all += share
                            before += earlier[k, a]
                            if a == mine:
                                usual = share
                            else:
                                now_won[j, t, no_matter, mine, a] += times[k]
                        usual /= of_all
                    for e in range(errors.size):
                        chance = usual
                        if is_best and n_best > 1:
                            chance = errors[e] / n_best + (1 - errors[e]) * usual
                            if not no_matter:
                                chance = (earlier[k, mine] + CUSTOM * chance) / before
                        missed = errors[e] / options[s]
                        told[b, t, j, e, 4] += times[k] * np.log(missed + (1 - errors[e]) * chance)


@compiled
def _mix(
    told: FloatArray,
    wrong: FloatArray,
    whose: IntArray,
    apart: FloatArray,
    misjudged: float,
    answered: FloatArray,
    logs: FloatArray,
    unexplained: FloatArray,
) -> None:
    """Average over draws, tolerances of ties and, where the expert has no habit, two ways to choose; and over whether
    the state is `misjudged`: then its answers, as many as `answered [blocks]`, are as likely as `apart [blocks,
    errors]` says."""
    n_draws, n_blocks, n_ties, n, n_errors, n_ways = told.shape
    total, astray = np.empty((2, n_ties))
    logs[:], unexplained[:] = 0.0, 0.0
    for j in range(n):
        for b in range(n_blocks):
            for e in range(n_errors):
                for way in range(n_ways - 1):
                    low, high = (way + 1, way + 2) if way else (0, 2)
                    most = told[:, b, :, j, e, low:high].max()
                    for t in range(n_ties):
                        total[t], astray[t] = 0.0, 0.0
                        for d in range(n_draws):
                            for w in range(low, high):
                                weight = np.exp(told[d, b, t, j, e, w] - most)
                                total[t] += weight
                                astray[t] += weight * wrong[d, b, t, j]
                    for alike in range(logs.shape[3]):
                        some = slice(whose[alike, 0], whose[alike, 1])
                        mass, share = total[some].sum(), n_draws * total[some].size * (high - low)
                        by_wish = np.log(1 - misjudged) + most + np.log(mass / share) if mass > 0 else -np.inf
                        by_habit = np.log(misjudged) + apart[b, e] if misjudged > 0 else -np.inf
                        both = max(by_wish, by_habit)
                        if both > -np.inf:  # else too unlikely for a number
                            both += np.log(np.exp(by_wish - both) + np.exp(by_habit - both))
                            unexplained[j, e, way, alike] += np.exp(by_habit - both) * answered[b]
                            if mass > 0:
                                unexplained[j, e, way, alike] += np.exp(by_wish - both) * astray[some].sum() / mass
                        logs[j, e, way, alike] += both

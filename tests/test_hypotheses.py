"""What the expert may want: likelihoods that are likelihoods, and words that the evidence carries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import log, prod

import numpy as np
import pytest

from aceirl import ActiveIRL
from aceirl.data.arrays import Move
from aceirl.data.preferences import Preference
from aceirl.envs.problem import from_moves
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.rewards.hypotheses import Claim, Denied, Hypothesis, Named, Wish, agreement, habits, wish
from aceirl.rewards.hypotheses.evidence import (
    BY_HABIT,
    EQUAL,
    ERRORS,
    PSEUDO_COUNT,
    SMALL_TIES,
    TIES,
    DrawnDynamics,
    GivenAnswers,
    Rewards,
    judged,
    preferred,
)
from aceirl.rewards.hypotheses.habits import CREDITS
from aceirl.rewards.hypotheses.likelihood import AT_FIRST, CUSTOM, MISJUDGED, judge
from aceirl.rewards.hypotheses.search import Search, paid
from aceirl.rewards.hypotheses.wish import Kind
from studies.families import case

Shape = tuple[int, int, int]
NO_END = np.zeros(0, dtype=np.int64)


def walked(rng: np.random.Generator, shape: Shape, episodes: int, *, stationary: bool = True, end: int = -1) -> Counts:
    """Episodes of any actions, which lead to two or three places of each state by chance, until one is in `end`."""
    horizon, n_states, n_actions = shape
    leads = rng.integers(n_states, size=(horizon, n_states, n_actions, 3))
    leads = np.broadcast_to(leads[:1], leads.shape) if stationary else leads
    starts, walks = [], []
    for _ in range(episodes):
        state = int(rng.integers(n_states - (end == n_states - 1)))
        starts.append(state)
        walk: list[Move] = []
        for step in range(horizon):
            action = int(rng.integers(n_actions))
            there = int(rng.choice(leads[step, state, action]))
            walk.append((step, state, action, there))
            state = there
            if state == end:
                break
        walks.append(walk)
    return Counts.of_walks(starts, walks, shape, stationary=stationary)


def answered(counts: Counts, replies: dict[tuple[int, int], list[int]]) -> Counts:
    """The same with the actions that were told for a step and state."""
    answers = np.zeros(counts.shape, dtype=np.int64)
    for place, actions in replies.items():
        np.add.at(answers, (*place, actions), 1)
    return counts.with_answers(answers)


def rewards(rng: np.random.Generator, n: int, shape: Shape) -> Rewards:
    """All kinds at once: places and actions paid, a change, a step cost, decay; the first pays nothing."""
    horizon, n_states, n_actions = shape
    few = rng.random((2, n, n_states)) < 0.5
    early, late = rng.choice([1.0, -1.0, 0.5], size=(2, n, n_states)) * few
    action = rng.choice([0.3, -0.1, 0.0, 0.0], size=(n, n_actions))
    change = rng.integers(1, horizon + 1, size=n)
    cost, decay = rng.choice([0.0, 0.1], size=n), rng.choice([1.0, 0.75], size=n)
    for array in (early, late, action):
        array[0] = 0.0
    return Rewards(early, late, change, action, cost, decay)


def every_reply(counts: Counts, asked: list[tuple[int, int]]) -> Iterator[dict[tuple[int, int], list[int]]]:
    """All that may be replied to these questions with actions that were tried; one may be asked twice."""
    tried = np.asarray(counts.visits.any(axis=0))
    options = [np.flatnonzero(tried[state]).tolist() for _, state in asked]
    for actions in itertools.product(*options):
        replies: dict[tuple[int, int], list[int]] = {}
        for place, action in zip(asked, actions, strict=True):
            replies.setdefault(place, []).append(int(action))
        yield replies


@pytest.mark.parametrize("by_order", [False, True])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_what_may_be_answered_has_the_probability_one_under_every_hypothesis(
    seed: int, twice: bool, by_order: bool
) -> None:
    """So a ratio of two is a likelihood ratio."""
    rng, shape = np.random.default_rng(seed), (3, 3, 3)
    counts = walked(rng, shape, 12, end=2)
    terminal = np.array([2])
    dynamics, wishes = DrawnDynamics.drawn(counts, 5, rng), rewards(rng, 12, shape)
    asked = [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)]
    asked += [(1, 0)] if twice else []
    total = np.full(12, -np.inf)
    for replies in every_reply(counts, asked):
        told = GivenAnswers.of(answered(counts, replies), terminal)
        assert told.number == len(asked)
        total = np.logaddexp(total, judged(wishes, dynamics, told, terminal, by_order=by_order)[0])
    np.testing.assert_allclose(total, 0.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_what_may_be_answered_has_the_probability_one_under_every_habit(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is firm, and one that wavers; the better of both is a little more than a likelihood, to its favour."""
    counts = walked(np.random.default_rng(seed), (3, 3, 3), 8)
    asked = [(0, 0), (0, 1), (1, 0), (1, 2), (2, 0), (2, 1)]

    def total() -> dict[str, float]:
        found: dict[str, float] = {}
        for replies in every_reply(counts, asked):
            for name, told in habits.habits(GivenAnswers.of(answered(counts, replies), NO_END)).items():
                found[name] = found.get(name, 0.0) + float(np.exp(told))
        return found

    better = total()
    for credit in CREDITS:
        monkeypatch.setattr(habits, "CREDITS", (credit,))
        alone = total()
        assert len(alone) == 4
        assert alone == pytest.approx(dict.fromkeys(alone, 1.0), abs=1e-9)
        assert all(better[name] >= alone[name] - 1e-9 for name in alone)
    assert all(1 - 1e-9 <= value <= len(CREDITS) for value in better.values())


def estimated(counts: Counts, preferences: tuple[Preference, ...] = (), ends: tuple[int, ...] = ()) -> Estimate:
    """What is believed because of counts."""
    kind = ExpertKind()
    return Estimate.of(counts, kind=kind, delta=0.1, terminal=ends, preferences=preferences)


def habitually(
    counts: Counts, state: int, tried: list[bool], error: float, common: dict[tuple[int, int], list[float]]
) -> float:
    """How likely the answers of a state are of somebody who rather does what they did there before."""
    options, chance = np.flatnonzero(tried), 1.0
    before = np.zeros(len(tried))
    for h in range(counts.shape[0]):
        usual = np.array(common[h, state])[options]
        usual = 0.5 / len(options) + 0.5 * usual / usual.sum()
        share = (before[options] + CUSTOM * usual) / (before[options].sum() + CUSTOM)
        given = counts.answers[h, state]
        chance *= float(np.prod((error / len(options) + (1 - error) * share) ** given[options]))
        before = before + given
    return chance


def plainly_judged(
    wishes: Rewards,
    dynamics: DrawnDynamics,
    counts: Counts,
    ends: set[int],
    by_order: bool = False,
    large: bool = False,
) -> tuple[list[float], list[float]]:
    """The definition, in plain loops: `(log_likelihood, unexplained)` of each reward."""
    horizon, n_states, n_actions = counts.shape
    tried = [[bool(counts.visits[:, s, a].any()) for a in range(n_actions)] for s in range(n_states)]
    acting = [s for s in range(n_states) if any(tried[s]) and s not in ends]
    asked = [s for s in acting if sum(tried[s]) >= 2]
    if large and dynamics.stride == 0:
        reached = {s for s in asked if (counts.answers[:, s] * tried[s]).any()}
        for _ in range(n_states):
            rows = [s * n_actions + a for s in reached for a in range(n_actions)]
            entries = [k for row in rows for k in range(dynamics.indptr[row], dynamics.indptr[row + 1])]
            reached |= {int(dynamics.successors[k]) for k in entries}
        acting, asked = ([s for s in some if s in reached] for some in (acting, asked))
    common, often = {}, [0.5] * n_actions
    for h, s in itertools.product(range(horizon), asked):
        common[h, s] = often
        told_here = [n * tried[s][a] for a, n in enumerate(counts.answers[h, s])]
        often = [n + int(m) for n, m in zip(often, told_here, strict=True)]
    logs, missed = [], []
    ways = ["any", "as later", "as before", "the first", "by order"][: 5 if by_order else 3]
    for i in range(len(wishes.early)):
        # By way to choose between the best, error rate and state: the probability of its answers, and how many are
        # errors, for each draw and tolerance of ties; the first way comes in two.
        # A tolerance of 0 means that each state has its own, one of -1 that all of these are small.
        told: dict[tuple[int, float, float, int], list[tuple[float, int]]] = {}
        for probabilities in dynamics.probabilities:
            value, here = [0.0] * n_states, {}
            for h in reversed(range(horizon)):
                places = (wishes.early if h < wishes.change[i] else wishes.late)[i] * wishes.decay[i] ** h
                q = {}
                for s, a in itertools.product(acting, range(n_actions)):
                    if tried[s][a]:
                        row = h * dynamics.stride + s * n_actions + a
                        q[s, a] = places[s] - wishes.step_cost[i] + wishes.action[i, a]
                        for k in range(dynamics.indptr[row], dynamics.indptr[row + 1]):
                            after = int(dynamics.successors[k])
                            q[s, a] += probabilities[k] * (places[after] if after in ends else value[after])
                value = [max((q[s, a] for a in range(n_actions) if (s, a) in q), default=0.0) for s in range(n_states)]
                here[h] = q, max(q.values()) - min(q.values())
            preferred = {}
            for tie in TIES:
                # How often one was taken where the other was as good: where some of those tried were, and where all.
                pairs = dict.fromkeys(itertools.permutations(range(n_actions), 2), AT_FIRST)
                won = {False: pairs, True: pairs}
                for h, s in itertools.product(range(horizon), asked):
                    q, spread = here[h]
                    options = [a for a in range(n_actions) if tried[s][a]]
                    most = max(q[s, a] for a in options)
                    best = [a for a in options if q[s, a] >= most - tie * spread - 1e-12]
                    now = won[best == options]
                    wins = {a: prod(now[a, b] / (now[a, b] + now[b, a]) for b in best if b != a) for a in best}
                    preferred[tie, h, s] = {a: wins[a] / sum(wins.values()) for a in best}
                    taken_here = {a: int(counts.answers[h, s, a]) * (a in best) for a in range(n_actions)}
                    won[best == options] = {(a, b): n + taken_here[a] * (b in best) for (a, b), n in now.items()}
            for tie, s, way, error in itertools.product(TIES, asked, ways, ERRORS):
                share, errors, taken = 1.0, 0, [0] * n_actions
                options = [a for a in range(n_actions) if tried[s][a]]
                for h in range(horizon) if way in ("as before", "by order") else reversed(range(horizon)):
                    q, spread = here[h]
                    most = max(q[s, a] for a in options)
                    best = [a for a in options if q[s, a] >= most - tie * spread - 1e-12]
                    for a in options:
                        chance = (a in best) / len(best)
                        if way in ("as before", "by order") and a in best:
                            by = way == "by order"
                            usual = common[h, s][a] / sum(common[h, s][b] for b in best)
                            liked, any_of = (preferred[tie, h, s][a], error) if by else (usual, 0.5)
                            chance = any_of * chance + (1 - any_of) * liked
                        if way == "the first":
                            chance = float(a == best[0])
                        elif way != "any" and a in best and not (way == "by order" and best == options):
                            chance = (taken[a] + CUSTOM * chance) / (sum(taken[b] for b in best) + CUSTOM)
                        times = int(counts.answers[h, s, a])
                        share *= (error / len(options) + (1 - error) * chance) ** times
                        errors += times * (a not in best)
                    taken = [n + int(m) for n, m in zip(taken, counts.answers[h, s], strict=True)]
                for whose in (0.0, tie, *([-1.0] if tie in TIES[:SMALL_TIES] else [])):
                    told.setdefault((max(0, ways.index(way) - 1), error, whose, s), []).append((share, errors))
        own = {0.0: 0.5, -1.0: 0.5} if by_order else {0.0: 1.0}
        shared = dict.fromkeys(TIES.tolist(), 0.5 / len(TIES))
        tolerances = {whose: share / 2 for whose, share in own.items()} | shared if large else own
        experts = list(itertools.product(range(len(ways) - 1), ERRORS, tolerances))
        likelihood, expected = [], []
        for one in experts:
            chance, astray = tolerances[one[2]] / len(ERRORS), 0.0
            chance *= BY_HABIT if one[0] == 1 else (1 - BY_HABIT) / (len(ways) - 2)
            for s in asked:
                by_wish = (1 - MISJUDGED * by_order) * float(np.mean([p for p, _ in told[*one, s]]))
                by_habit = MISJUDGED * by_order * habitually(counts, s, tried[s], one[1], common)
                lost = float(np.average([n for _, n in told[*one, s]], weights=[p for p, _ in told[*one, s]]))
                given = int(counts.answers[:, s, tried[s]].sum())
                chance *= by_wish + by_habit
                astray += (by_wish * lost + by_habit * given) / (by_wish + by_habit)
            likelihood.append(chance)
            expected.append(astray)
        logs.append(log(sum(likelihood)))
        missed.append(float(np.average(expected, weights=likelihood)))
    return logs, missed


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("by_order", [True, False])
@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_fast_likelihood_is_the_plain_one(seed: int, stationary: bool, by_order: bool, large: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(2, 6)), int(rng.integers(3, 6)), int(rng.integers(2, 4)))
    end = shape[1] - 1 if seed % 2 else -1
    counts = walked(rng, shape, 10, stationary=stationary, end=end)
    tried = np.asarray(counts.visits.any(axis=0))
    replies = {}
    for place in itertools.product(range(shape[0]), range(shape[1])):
        options = np.flatnonzero(tried[place[1]])
        if len(options) and rng.random() < 0.7:
            replies[place] = rng.choice(options, int(rng.integers(1, 3))).tolist()
    counts, terminal = answered(counts, replies), np.array([end] if end >= 0 else [], dtype=np.int64)
    dynamics, wishes = DrawnDynamics.drawn(counts, 4, rng), rewards(rng, 15, shape)
    given = GivenAnswers.of(counts, terminal)
    fast, unexplained = judged(wishes, dynamics, given, terminal, by_order=by_order, large=large)
    plain, missed = plainly_judged(wishes, dynamics, counts, set(terminal.tolist()), by_order, large)
    np.testing.assert_allclose(fast, plain, rtol=1e-9)
    np.testing.assert_allclose(unexplained, missed, rtol=1e-9, atol=1e-12)
    assert unexplained.max() > 0.1, "some of these rewards are wrong"


@pytest.mark.parametrize("by_order", [True, False])
def test_many_rewards_are_judged_as_each_alone(by_order: bool) -> None:
    rng, shape = np.random.default_rng(4), (6, 4, 3)
    replies = {place: [int(rng.integers(3))] for place in itertools.product(range(6), range(4))}
    counts = answered(walked(rng, shape, 30), replies)
    dynamics, wishes, told = (
        DrawnDynamics.drawn(counts, 3, rng),
        rewards(rng, 70, shape),
        GivenAnswers.of(counts, NO_END),
    )
    alone = [Rewards(*(part[i : i + 1] for part in vars(wishes).values())) for i in range(70)]
    together = np.array(judged(wishes, dynamics, told, NO_END, by_order=by_order))
    each = [judged(one, dynamics, told, NO_END, by_order=by_order) for one in alone]
    np.testing.assert_allclose(together, np.transpose(each, (1, 2, 0)).reshape(2, 70), rtol=1e-9, atol=1e-12)


def test_the_likelihood_is_compiled_once_for_drawn_and_estimated_dynamics() -> None:
    rng, shape = np.random.default_rng(4), (3, 3, 2)
    counts = answered(walked(rng, shape, 20), {(0, 0): [1], (1, 1): [0]})
    told, wishes = GivenAnswers.of(counts, NO_END), rewards(rng, 3, shape)
    for dynamics in (DrawnDynamics.drawn(counts, 3, rng), DrawnDynamics.estimated(estimated(counts).mdp)):
        judged(wishes, dynamics, told, NO_END)
    assert len(judge.signatures) == 1  # type: ignore[attr-defined]


def test_only_the_first_draws_are_judged_by_if_so_asked() -> None:
    rng, shape = np.random.default_rng(3), (3, 4, 2)
    counts = answered(walked(rng, shape, 15), {(0, 0): [1], (1, 1): [0], (2, 2): [1]})
    dynamics, wishes = DrawnDynamics.drawn(counts, 6, rng), rewards(rng, 5, shape)
    told = GivenAnswers.of(counts, NO_END)
    two = DrawnDynamics(dynamics.indptr, dynamics.successors, dynamics.probabilities[:2].copy(), dynamics.stride, 1.0)
    some, _ = judged(wishes, dynamics, told, NO_END, 2)
    np.testing.assert_array_equal(some, judged(wishes, two, told, NO_END)[0])
    assert (some != judged(wishes, dynamics, told, NO_END)[0]).any()


def test_answers_that_cannot_be_compared_do_not_count() -> None:
    """Nothing else was tried in state 1, the answer in state 0 was never tried, and state 2 is an end."""
    moves = [(0, 0, 0, 1), (1, 1, 0, 2)], [(0, 0, 1, 2)], [(0, 2, 0, 2), (1, 2, 1, 2)]
    counts = Counts.of_walks([0, 0, 2], moves, (2, 3, 3), stationary=True)
    told = GivenAnswers.of(answered(counts, {(0, 0): [1, 1, 2], (1, 1): [0], (0, 2): [1], (1, 0): [0]}), np.array([2]))
    assert list(zip(told.step, told.state, told.action, told.times, strict=True)) == [(0, 0, 1, 2), (1, 0, 0, 1)]
    assert (told.number, told.options.tolist()) == (3, [2, 1, 2])
    late = GivenAnswers.of(answered(counts, {(0, 0): [1], (1, 0): [0]}), np.array([2]), slice(1, None))
    assert (late.step.tolist(), late.action.tolist()) == ([1], [0])


def without_chance(rows: list[list[float]]) -> list[float]:
    """How probably each row leads to one place only, by the rule of Bayes in plain loops: a row's counts, of as many
    successors as are possible, are those of an urn, or all of one place; any share of such rows is as likely before."""
    shares, odds = [(i + 0.5) / 200 for i in range(200)], []
    for row in rows:
        urn, drawn = 1.0, 0.0
        for number in row:
            for k in range(int(number)):
                urn *= (k + PSEUDO_COUNT / len(row)) / (drawn + PSEUDO_COUNT)
                drawn += 1
        odds.append((1 / len(row) if max(row) == sum(row) else 0.0) / urn)
    told = [prod(1 - share + share * one for one in odds) for share in shares]
    each = [[share * one / (1 - share + share * one) for share in shares] for one in odds]
    return [sum(p * w for p, w in zip(row, told, strict=True)) / sum(told) for row in each]


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("certain", [True, False])
def test_draws_of_the_dynamics_are_around_what_was_counted(stationary: bool, certain: bool) -> None:
    shape = (2, 4, 3)
    horizon, n_states, n_actions = shape
    walk = np.random.default_rng(5)
    counts = walked(walk, shape, 9, stationary=stationary)
    if certain:
        moves = [[(h, s, a, (s + a) % 4) for h in range(2) for s in range(4)] for a in (0, 1, 1, 0)]
        counts = Counts.of_walks([0] * 4, moves, shape, stationary=stationary)
    drawn = DrawnDynamics.drawn(counts, 20_000, np.random.default_rng(0))
    seen = np.zeros((1 if stationary else horizon, n_states, n_actions, n_states))
    np.add.at(seen.reshape(-1), counts.move_keys, counts.move_counts)
    assert drawn.stride == (0 if stationary else n_states * n_actions)
    tried = [row for row in range(len(drawn.indptr) - 1) if seen.reshape(-1, n_states)[row].any()]
    assert len(tried) < len(drawn.indptr) - 1
    assert all(drawn.indptr[r] == drawn.indptr[r + 1] for r in set(range(len(drawn.indptr) - 1)) - set(tried)), (
        "nothing is known of a row that was never tried"
    )
    pools = [np.flatnonzero(seen.reshape(-1, n_actions, n_states)[row // n_actions].any(axis=0)) for row in tried]
    counted = [seen.reshape(-1, n_states)[row][pool].tolist() for row, pool in zip(tried, pools, strict=True)]
    surely = without_chance(counted)
    for row, pool, own, sure in zip(tried, pools, counted, surely, strict=True):
        entries = slice(drawn.indptr[row], drawn.indptr[row + 1])
        assert drawn.successors[entries].tolist() == pool.tolist(), "wherever any action in its state has led"
        probabilities = drawn.probabilities[:, entries]
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
        n = sum(own)
        by_chance = (np.array(own) + PSEUDO_COUNT / len(pool)) / (n + PSEUDO_COUNT)
        expected = (1 - sure) * by_chance + sure * np.array(own) / n
        # Each draw has its own share of such rows, so these are drawn together: six deviations of what is in [0, 1].
        assert (np.abs(probabilities.mean(axis=0) - expected) <= 6 * 0.5 / np.sqrt(20_000)).all()
    several = [sure for sure, pool in zip(surely, pools, strict=True) if len(pool) > 1]
    assert abs(drawn.by_chance - 1 + np.mean(several)) < 6 * 0.5 / np.sqrt(20_000)
    assert (drawn.by_chance < 0.2) == certain


def paying(
    early: dict[int, float],
    later: dict[int, float] | None = None,
    change: int = 9,
    actions: tuple[float, float] = (0.0, 0.0),
    step_cost: float = 0.0,
    decay: float = 1.0,
) -> Rewards:
    """One reward of four places and two actions."""
    places = np.zeros((2, 1, 4))
    for half, worth in enumerate((early, early if later is None else later)):
        places[half, 0, list(worth)] = list(worth.values())
    first, second = places
    return Rewards(first, second, np.array([change]), np.array([actions]), np.array([step_cost]), np.array([decay]))


def told_likelihood(right: float) -> float:
    """Of one preference, by hand: the mean over the error rates."""
    return log(sum((1 - error) * right + error / 3 for error in ERRORS) / len(ERRORS))


LONG: tuple[Move, ...] = ((0, 0, 0, 1), (1, 1, 1, 1))
SHORT: tuple[Move, ...] = ((0, 0, 1, 3),)


@pytest.mark.parametrize(
    ("reward", "returns"),
    [
        (paying({1: 1.0}), (1.0, 0.0)),
        (paying({3: 1.0}), (0.0, 1.0)),  # an end pays on arrival
        (paying({1: 1.0, 3: 1.0}), (1.0, 1.0)),
        (paying({0: 1.0, 3: 0.05}), (1.0, 1.05)),
        (paying({0: 1.0, 3: 0.05}, step_cost=0.2), (0.6, 0.85)),
        (paying({1: 1.0, 3: 1.0}, decay=0.75), (0.75, 1.0)),
        (paying({1: 1.0}, {1: -1.0}, change=1), (-1.0, 0.0)),
        (paying({}, actions=(0.3, 0.1)), (0.4, 0.1)),
    ],
)
def test_preferences_by_hand(reward: Rewards, returns: tuple[float, float]) -> None:
    first, second = returns
    ends = np.array([3])
    total = 0.0
    for equal, one, other in ((False, LONG, SHORT), (False, SHORT, LONG), (True, LONG, SHORT)):
        gap = first - second if one is LONG else second - first
        better = 0.5 if abs(gap) < 1e-9 else float(gap > 0)
        close = float(abs(gap) <= EQUAL * max(abs(first), abs(second)) + 1e-12)
        right = close / 2 if equal else better * (1 - close / 2)
        logs, contradicted = preferred(reward, [Preference(one, other, equal)], ends)
        assert logs[0] == pytest.approx(told_likelihood(right))
        assert contradicted.tolist() == [int(right == 0)]
        total += np.exp(logs[0])
    assert total == pytest.approx(1), "one of the three is said"


def test_several_preferences_share_one_error_rate() -> None:
    told = [Preference(LONG, SHORT), Preference(SHORT, LONG)]
    logs, contradicted = preferred(paying({1: 1.0}), told, np.array([3]))
    assert logs[0] == pytest.approx(log(np.mean((1 - ERRORS * 2 / 3) * ERRORS / 3)))
    assert contradicted.tolist() == [1]


@pytest.mark.parametrize(("n_states", "n_actions"), [(2, 2), (3, 5), (4, 2)])
def test_the_weights_of_all_hypotheses_sum_to_less_than_one(n_states: int, n_actions: int) -> None:
    """So what an expert with a habit gains by luck is bounded by the evidence that is asked for."""
    rng = np.random.default_rng(0)
    counts = walked(rng, (8, n_states, n_actions), 60, end=n_states - 1)
    search = Search(estimated(counts, ends=(n_states - 1,)), rng)
    found, new = set(), {*search._simple(), *search._changing()}
    while new:
        found |= new
        new = {more for one in new for more in search._composed(one)} - found
    weights = [np.exp(one.log_prior(n_states, n_actions)) for one in found]
    assert len(found) > 100
    assert 0.3 < sum(weights) < 1


A, B, C, D, E = (Claim("wants", place) for place in range(5))


@pytest.mark.parametrize(
    ("weights", "kind", "named"),
    [
        ({(A,): 0.96, (B,): 0.04}, "bold", {A: 0.96}),
        ({(A, B): 0.96, (B,): 0.03}, "bold", {B: 0.99, A: 0.96}),
        # Each is sure, both together are not: the likelier one is said.
        ({(A, B): 0.93, (A,): 0.035, (B,): 0.03}, "bold", {A: 0.965}),
        ({(A,): 0.6, (B,): 0.36, (C,): 0.04}, "set", {A: 0.6, B: 0.36}),
        # What only goes with A adds nothing to a set that has A.
        ({(A, B): 0.6, (C,): 0.2, (D,): 0.2}, "set", {A: 0.6, C: 0.2, D: 0.2}),
        ({(A,): 0.3, (B,): 0.25, (C,): 0.2, (D,): 0.15, (E,): 0.1}, "open", {}),
        # A hypothesis that claims nothing counts, and so does what is left for habits.
        ({(A,): 0.94, (): 0.06}, "open", {}),
        ({(A,): 0.94}, "open", {}),
        ({(): 1.0}, "open", {}),
    ],
)
def test_what_is_said_follows_from_probabilities(
    weights: dict[tuple[Claim, ...], float], kind: str, named: dict[Claim, float]
) -> None:
    told, names, probability = wish._said([frozenset(said) for said in weights], np.array(list(weights.values())))
    assert told == kind
    assert (probability >= wish.SURE) == (told != "open")
    assert [one.claim for one in names] == list(named)
    assert [one.probability for one in names] == pytest.approx(list(named.values()))


def test_what_a_hypothesis_claims() -> None:
    avoids = Hypothesis(((1, -1.0),))
    assert avoids.claims == {Claim("avoids", 1)}
    assert Hypothesis(((0, 1.0), (1, -0.7))).claims == {A}, "what is avoided only rounds it off"
    both = Hypothesis(((0, 1.0),), later=((2, 1.0),), change=3, decay=0.9)
    assert both.claims == {A, C, Claim("step", 3), Claim("hurry")}
    assert Hypothesis(actions=((1, -1.0),), step_cost=0.1).claims == {Claim("action", 1), Claim("hurry")}
    assert not Hypothesis().claims


def wish_in(family: str, seed: int, samples: int | None = 2000) -> tuple[Wish, bool]:
    """What a run of a family says, and whether it is true."""
    drawn = case(family, seed)
    result = ActiveIRL(seed=seed, max_samples=samples).fit(drawn.problem)
    found = result.turn.wish
    return found, drawn.holds(found.kind, [(one.claim.what, one.claim.where) for one in found.named])


@pytest.mark.parametrize(
    ("family", "seed"), [("two unequal goals", 0), ("door and key", 0), ("RiverSwim", 0), ("one goal", 0)]
)
def test_a_wish_that_the_answers_show_is_named(family: str, seed: int) -> None:
    found, true = wish_in(family, seed)
    assert found.kind == "bold"
    assert true
    assert found.evidence > wish.ENOUGH
    assert all(one.probability >= wish.SURE for one in found.named)


@pytest.mark.parametrize(
    "family",
    [
        "no effect, one action",
        "no effect, an action a step",
        "no effect, an action a state",
        "nobody can move",
        "random answers",
    ],
)
def test_nothing_is_named_where_there_is_no_wish(family: str) -> None:
    found, _ = wish_in(family, 0, 1000)
    assert (found.kind, found.named) == ("open", ())


def test_one_end_and_no_other() -> None:
    """It is paid on arrival; what is said is the end that is wanted."""
    one = Hypothesis(((2, 1.0),), step_cost=0.02, other_ends=-1.0)
    assert one.claims == {C, Claim("hurry")}
    moves = [(0, 0, 0, 1.0), (0, 1, 2, 1.0), (0, 2, 3, 1.0), *((s, a, s, 1.0) for s in (1, 2, 3) for a in range(3))]
    mdp = from_moves(moves, n_states=4, n_actions=3, horizon=2, initial=np.eye(4)[0])
    pays = paid(one, mdp, np.array([2, 3]))
    assert pays[0].tolist() == [pytest.approx([-0.02, 0.98, -1.02]), pytest.approx([-0.02] * 3), [0.0] * 3, [0.0] * 3]
    plain = Hypothesis(((2, 1.0),), step_cost=0.02)
    assert one.log_prior(4, 3) == pytest.approx(plain.log_prior(4, 3) + log(0.3))


def test_a_delivery_beside_accidents_is_named() -> None:
    drawn = case("ends: deliveries beside accidents", 11)
    result = drawn.fitted(ActiveIRL(seed=11, certify="goal", max_samples=3000))
    assert (result.wish.kind, drawn.claims(result.wish)) == ("bold", [("wants", 27)])
    assert drawn.wanted == {27}
    assert result.turn.wish.is_known


@pytest.mark.parametrize(
    ("kind", "what", "unexplained", "known"),
    [
        ("bold", "wants", 1.0, True),
        ("bold", "wants", 1.1, False),
        ("bold", "hurry", 0.0, False),
        ("set", "wants", 0.0, False),
    ],
)
def test_a_run_stops_on_what_names_something_and_leaves_little_unexplained(
    kind: Kind, what: str, unexplained: float, known: bool
) -> None:
    named = (Named(Claim(what, 0), 0.99),)
    assert Wish(kind, named, 9.0, "anything", 100, unexplained, 0.99, ((Hypothesis(), 1.0),)).is_known == known


def test_the_same_seed_gives_the_same_wish() -> None:
    drawn = case("one goal", 1)
    estimate = ActiveIRL(seed=1, max_samples=600).fit(drawn.problem).turn.belief.estimate
    first = wish.wish_of(estimate, 4)
    assert first == wish.wish_of(estimate, 4)
    assert first.evidence != wish.wish_of(estimate, 5).evidence, "other dynamics are drawn"


def test_without_answers_nothing_is_known() -> None:
    found = wish.wish_of(estimated(walked(np.random.default_rng(0), (3, 3, 2), 5)))
    assert (found.kind, found.named, found.answers) == ("open", (), 0)


def test_preferences_alone_may_name_a_wish() -> None:
    """Whoever always prefers the walk that ends in place 2 wants to be there."""
    counts = walked(np.random.default_rng(1), (3, 4, 2), 12)
    walks = [
        tuple((h, s, 0, after) for h, (s, after) in enumerate(itertools.pairwise(path)))
        for path in itertools.product(range(4), repeat=4)
    ]
    rng = np.random.default_rng(0)
    told: list[Preference] = []
    while len(told) < 60:
        one, other = (walks[int(i)] for i in rng.integers(len(walks), size=2))
        gap = sum(s == 2 for _, s, _, _ in one) - sum(s == 2 for _, s, _, _ in other)
        if gap:
            told.append(Preference(one, other) if gap > 0 else Preference(other, one))
    found = wish.wish_of(estimated(counts, tuple(told)))
    assert (found.kind, [one.claim for one in found.named], found.answers) == ("bold", [C], 60)
    assert found.named == (Named(C, found.named[0].probability),)


def test_what_is_denied_counts_as_bayes_has_it() -> None:
    """The probabilities with a denial are those without, reweighted by how likely each wish makes it."""
    estimate = ActiveIRL(seed=1, max_samples=100).fit(case("one goal", 1).problem).turn.belief.estimate
    before = {one.claim: one.probability for one in wish.wish_of(estimate).rivals}
    place = next(iter(before))
    said = Denied(frozenset({place}))
    plain, told = (Search(estimate, np.random.default_rng(3), denied=one).found for one in ((), (said,)))
    priors = dict(zip(plain.hypotheses, plain.log_prior, strict=True))
    shared = [(one, prior) for one, prior in zip(told.hypotheses, told.log_prior, strict=True) if one in priors]
    assert len(shared) > 5
    for one, prior in shared:
        assert prior == pytest.approx(priors[one] + log(0.05 if place in one.claims else 0.95))
    after = {one.claim: one.probability for one in wish.wish_of(estimate, denied=[said]).rivals}
    assert after.get(place, 0.0) < before[place]


def corridor(length: int, often: int = 20) -> Counts:
    """A corridor in which one goes left or right, or stays; each was tried `often` everywhere."""
    horizon = length + 2
    starts, walks = [], []
    for state, action in itertools.product(range(length), range(3)):
        there = min(length - 1, max(0, state + action - 1))
        starts += [state] * often
        walks += [[(0, state, action, there)]] * often
    return Counts.of_walks(starts, walks, (horizon, length, 3), stationary=True)


def test_whoever_answers_at_random_seldom_agrees_with_what_they_say() -> None:
    """Over all that can be answered, each as likely, at most one in twenty agrees with a given wish: it would be twenty
    times likelier under it. Somebody who wants the place does agree, and with the other end it contradicts."""
    counts, length = corridor(5), 5
    asked = [(0, state) for state in range(length)]
    stated = {"the end": Claim("wants", 4), "not there": Claim("avoids", 2)}
    bearings: dict[str, list[str]] = {name: [] for name in stated}
    for replies in every_reply(counts, asked):
        estimate = estimated(answered(counts, replies))
        for name, claim in stated.items():
            found = agreement(estimate, {claim})
            assert found is not None
            bearings[name].append(found.bearing)
    for name, said in bearings.items():
        assert len(said) == 3**length
        assert said.count("agree") <= len(said) / 20, name
    assert "agree" in bearings["the end"]
    right = estimated(answered(counts, {place: [2] for place in asked}))
    found, other = (agreement(right, {Claim("wants", place)}) for place in (4, 0))
    assert found is not None
    assert (found.bearing, found.answers, found.habit) == ("agree", 5, "the same action everywhere")
    assert found.unexplained < 0.01
    assert other is not None
    assert other.bearing == "contradict"


def test_the_places_that_agree_as_well_are_those_that_would_agree_if_stated() -> None:
    counts = corridor(7)
    replies = {(0, state): [1 + int(np.sign(4 - state))] for state in range(6)}
    estimate = estimated(answered(counts, replies))
    alone = {place: agreement(estimate, {Claim("wants", place)}) for place in range(7)}
    agreeing = {place for place, found in alone.items() if found is not None and found.bearing == "agree"}
    assert 4 in agreeing
    for place, found in alone.items():
        assert found is not None
        assert set(found.others) == agreeing - {place}


def test_several_places_are_one_wish_and_what_is_no_place_is_not_tested() -> None:
    """Whoever keeps away from the whole left half agrees with that, and not with keeping away from one of its cells."""
    counts = corridor(8)
    replies = {(0, state): [2] for state in range(8)}
    estimate = estimated(answered(counts, replies))
    several = agreement(estimate, {Claim("avoids", place) for place in range(4)})
    one = agreement(estimate, {Claim("avoids", 7)})
    assert several is not None
    assert one is not None
    assert several.unexplained < 0.2
    assert (several.bearing == "contradict", one.bearing) == (False, "contradict")
    assert agreement(estimate, {Claim("hurry")}) is None
    assert agreement(estimate, ()) is None

"""The feasible reward set: two descriptions that must agree, and answers that no member may beat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pytest

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.irl import FeasiblePoint, MaxCausalEntropy, reproducing_answers
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import evaluate, occupancy, optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray, Transitions, steps_left
from aceirl.rewards import (
    EmptySetError,
    FeasibleRewardSet,
    Norm,
    compatible,
    contains,
    error_propagation,
    expert_loss,
    extreme,
    from_parameters,
    interval,
    intervals,
    least_slack,
    matched,
    matched_loss,
    project,
    projected,
    recall,
    recall_of,
    sample,
    to_parameters,
)
from aceirl.rewards.polytope import polished, programme
from aceirl.rewards.programme import nearest_by_largest, nearest_by_sum
from aceirl.rewards.recovered import infeasibility

NORMS: tuple[Norm, Norm] = ("l1", "linf")
NEAREST = {"l1": nearest_by_sum, "linf": nearest_by_largest}


@dataclass(frozen=True, eq=False)
class Small:
    """A random problem, its reward and the exact feasible set."""

    mdp: MDP
    reward: FloatArray
    exact: FeasibleRewardSet


def random_mdp(rng: np.random.Generator, shape: tuple[int, int, int]) -> MDP:
    horizon, n_states, n_actions = shape
    lead = () if rng.random() < 0.5 else (horizon,)
    weights = rng.random((*lead, n_states, n_actions, n_states)) * (rng.random((*lead, 1, 1, n_states)) < 0.7)
    weights[..., 0] += 1e-3
    transitions = weights / weights.sum(axis=-1, keepdims=True)
    return MDP.from_dense(transitions, initial=rng.dirichlet(np.ones(n_states)), horizon=horizon)


def random_small(rng: np.random.Generator) -> Small:
    """Half of the rewards are zeros and ones, so that the expert has ties; it then takes all that is best."""
    shape = (int(rng.integers(1, 4)), int(rng.integers(2, 5)), int(rng.integers(2, 4)))
    mdp = random_mdp(rng, shape)
    reward = rng.random(shape) if rng.random() < 0.5 else (rng.random(shape) < 0.3).astype(np.float64)
    q, v = optimal_values(mdp, reward)
    best = (q >= v[:, :, None] - 1e-12).astype(np.float64)
    expert = best / best.sum(axis=2, keepdims=True) if rng.random() < 0.5 else np.eye(shape[2])[best.argmax(axis=2)]
    return Small(mdp, reward, FeasibleRewardSet.of_problem(mdp, expert, 1.0))


@pytest.fixture(scope="module")
def problems() -> list[Small]:
    rng = np.random.default_rng(4)
    return [random_small(rng) for _ in range(500)]


def implicit(problem: FeasibleRewardSet, reward: FloatArray) -> bool:
    """The paper's implicit description, by the advantages of the expert's own policy."""
    q, v = evaluate(problem.mdp, reward, problem.expert_policy)
    advantage = q - v[:, :, None]
    return bool((np.abs(advantage[problem.uses]) < 1e-9).all() and (advantage[~problem.uses] < 1e-9).all())


def observed(
    rng: np.random.Generator, shape: tuple[int, int, int], episodes: int, *, asked: float
) -> tuple[Small, Estimate]:
    """What a few episodes of a random problem tell, with the expert asked in a share of the states visited."""
    mdp = random_mdp(rng, shape)
    reward = rng.random(shape)
    expert = np.eye(shape[2])[optimal_values(mdp, reward)[0].argmax(axis=2)]
    moves = Simulator(mdp).rollout(np.full(shape, 1 / shape[2]), episodes, rng)
    counts = Counts.of_moves(moves, shape)
    questions = (counts.visits.sum(axis=2) > 0) & (rng.random(shape[:2]) < asked)
    counts = counts.with_answers(questions[:, :, None] * expert.astype(np.int64))
    estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=mdp.initial)
    return Small(mdp, reward, FeasibleRewardSet.of_problem(mdp, expert, 1.0)), estimate


def test_the_true_reward_is_a_member_of_every_exact_set(problems: list[Small]) -> None:
    assert all(contains(p.exact, p.reward) for p in problems)
    assert sum((p.exact.uses.sum(axis=2) > 1).any() for p in problems) > 50, "too few experts with ties"


def test_implicit_and_explicit_descriptions_agree(problems: list[Small]) -> None:
    rng = np.random.default_rng(0)
    outside = 0
    for p in problems:
        advantage, values = rng.exponential(size=p.mdp.shape), rng.normal(size=p.mdp.shape[:2])
        made = from_parameters(p.exact, advantage, values)
        assert implicit(p.exact, made)
        found, found_values = to_parameters(p.exact, made)
        np.testing.assert_allclose(found, np.where(p.exact.uses, 0.0, advantage), atol=1e-12)
        np.testing.assert_allclose(found_values, values, atol=1e-12)

        behind, found_values = to_parameters(p.exact, p.reward)
        assert (behind >= 0).all()
        np.testing.assert_allclose(from_parameters(p.exact, behind, found_values), p.reward, atol=1e-12)

        anything = rng.random(p.mdp.shape)
        assert bool(contains(p.exact, anything, 1e-9)) == implicit(p.exact, anything)
        if not contains(p.exact, anything):
            outside += 1
            with pytest.raises(InputError, match="the expert's action"):
                to_parameters(p.exact, anything)
    assert outside > 100


def test_the_sign_the_paper_prints_describes_other_rewards() -> None:
    problem = random_small(np.random.default_rng(7))
    mdp, exact = problem.mdp, problem.exact
    values = np.random.default_rng(1).random(mdp.shape[:2])
    printed = 2 * values[:, :, None] - from_parameters(exact, np.zeros(mdp.shape), values)
    assert not implicit(exact, printed)


@pytest.mark.parametrize("norm", NORMS)
def test_projections_are_idempotent_and_no_member_is_nearer(problems: list[Small], norm: Norm) -> None:
    rng = np.random.default_rng(1)
    moved = 0
    for p in problems:
        target = rng.uniform(-0.2, 1.2, p.mdp.shape)
        member = project(p.exact, target, norm)
        assert contains(p.exact, member.reward, 1e-7), str(member.membership)
        assert member.gap < 1e-7
        moved += member.value > 1e-3
        assert (project(p.exact, member.reward, norm).reward == member.reward).all()
        # Not only because a member is handed back: the linear programme itself finds nothing nearer than 0.
        assert NEAREST[norm](programme(p.exact, np.zeros(p.mdp.shape)), member.reward).objective < 1e-7
        others = [p.reward, np.full(p.mdp.shape, 0.5), *sample(p.exact, rng, 2)]
        # A step from the member towards another member stays in the set, so it cannot be nearer either.
        others += [0.95 * member.reward + 0.05 * other for other in others]
        change = np.abs(np.array(others) - target).reshape(len(others), -1)
        assert (change.sum(axis=1) if norm == "l1" else change.max(axis=1)).min() >= member.value - 1e-7
    assert moved > 400


def test_error_propagation_bounds_the_difference_of_matched_rewards(problems: list[Small]) -> None:
    rng = np.random.default_rng(3)
    tight = 0
    for p in problems:
        other = FeasibleRewardSet.of_problem(
            random_mdp(rng, p.mdp.shape), rng.integers(p.mdp.n_actions, size=p.mdp.shape[:2]), 1.0
        )
        for reward in (p.reward, *sample(p.exact, rng, 1)):
            match = matched(p.exact, other, reward)
            bound = error_propagation(p.exact, other, reward)
            assert implicit(other, match)
            assert (np.abs(reward - match) <= bound + 1e-9).all()
            assert (bound <= 3 * p.mdp.horizon).all(), "A and V are at most H·Rmax, and |P - P̂| at most 2"
            tight += bool((bound > 1e-6).any())
    assert tight > 900


def test_the_printed_error_propagation_fails_for_stochastic_experts() -> None:
    """`πᴱ = (1, 0)`, `π̂ᴱ = (0.9, 0.1)`, one state, one step: `r = (1, 0)` is `(½, ½)` away from all of `r̂ = (x, x)`."""
    mdp = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=1)
    exact = FeasibleRewardSet.of_problem(mdp, [[[1.0, 0.0]]], 1.0)
    other = FeasibleRewardSet.of_problem(mdp, [[[0.9, 0.1]]], 1.0)
    reward = np.array([[[1.0, 0.0]]])
    advantage, _ = to_parameters(exact, reward)
    printed = (advantage * np.abs(exact.expert_policy - other.expert_policy)).max()
    assert project(other, reward, "linf").bound == pytest.approx(0.5)
    assert printed == pytest.approx(0.1)
    assert error_propagation(exact, other, reward).max() == pytest.approx(1.0)


def test_what_a_solver_leaves_unsatisfied_is_polished_away(problems: list[Small]) -> None:
    rng = np.random.default_rng(17)
    broken = 0
    for p in problems[:50]:
        values = 0.5 * steps_left(p.mdp.horizon)[:, None] + 0.1 * rng.random(p.mdp.shape[:2])
        inside = from_parameters(p.exact, np.zeros(p.mdp.shape), values)
        exactly = np.concatenate([inside.ravel(), values.ravel(), [p.exact.unknown_step_reward]])
        nearly = exactly + 1e-7 * rng.uniform(-1, 1, exactly.size)
        broken += contains(p.exact, nearly[: inside.size].reshape(inside.shape)).violation > 1e-9
        assert contains(p.exact, polished(p.exact, nearly)).violation < 1e-13
    assert broken > 40


def test_membership_names_the_constraint_that_fails(problems: list[Small]) -> None:
    rng = np.random.default_rng(5)
    for p in problems[:200]:
        horizon, n_states, _ = p.mdp.shape
        h, s = int(rng.integers(horizon)), int(rng.integers(n_states))
        strict = np.where(p.exact.uses, 0.75, 0.25)
        beaten = strict.copy()
        unused = np.flatnonzero(~p.exact.uses[h, s])
        if not unused.size:
            continue
        beaten[h, s, unused[0]] += 0.6
        # The rival's successors may be better or worse than the expert's by what they can still earn: nothing here,
        # since every state earns 0.75 a step.
        verdict = contains(p.exact, beaten)
        assert not verdict
        assert verdict.constraint == "optimality"
        assert verdict.entry is not None
        assert verdict.entry[:2] == (h, s)
        assert p.exact.uses[verdict.entry]
        assert verdict.better == unused[0]
        assert verdict.violation == pytest.approx(0.1)

        low = strict.copy()
        low[h, s, unused[0]] = -0.5
        assert (contains(p.exact, low).constraint, contains(p.exact, low).entry) == ("lower", (h, s, unused[0]))
        high = np.where(p.exact.uses, 1.0, 0.0)
        high[h, s, p.exact.uses[h, s]] = 1.5
        assert contains(p.exact, high).constraint == "upper"
        assert contains(p.exact, high).violation == pytest.approx(0.5)
    assert str(contains(p.exact, np.full(p.mdp.shape, 0.5))) == "in the set"


def vertices(exact: FeasibleRewardSet) -> FloatArray:
    """All vertices `[n, H·S·A]`, from halfspaces in `r` alone: bounds, and advantages of the expert's own policy."""
    n = exact.uses.size
    advantages = []
    for unit in np.eye(n):
        q, v = evaluate(exact.mdp, unit.reshape(exact.mdp.shape), exact.expert_policy)
        advantages.append((q - v[:, :, None]).ravel())
    behind = np.array(advantages).T[~exact.uses.ravel()]
    rows = np.vstack([behind, np.eye(n), -np.eye(n)])
    limits = np.concatenate([np.zeros(len(behind)), exact.upper.ravel(), -exact.lower.ravel()])
    chosen = np.array([c for c in combinations(range(len(rows)), n) if _no_opposites(c, len(behind), n)])
    systems = rows[chosen]
    regular = np.abs(np.linalg.det(systems)) > 1e-9
    points = np.linalg.solve(systems[regular], limits[chosen[regular]][:, :, None])[:, :, 0]
    return points[(points @ rows.T <= limits + 1e-9).all(axis=1)]


def _no_opposites(chosen: tuple[int, ...], first: int, n: int) -> bool:
    bounds = [(k - first) % n for k in chosen if k >= first]
    return len(bounds) == len(set(bounds))


@pytest.mark.parametrize("seed", range(4))
def test_extremes_and_intervals_are_those_of_all_vertices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (2, 2, 2))
    exact = FeasibleRewardSet.of_problem(mdp, rng.integers(2, size=(2, 2)), 1.0)
    exact = exact.restricted(lower=0.3 * rng.random(mdp.shape), upper=1 - 0.3 * rng.random(mdp.shape))
    corners = vertices(exact)
    for _ in range(20):
        direction = rng.normal(size=mdp.shape)
        member = extreme(exact, direction)
        assert member.membership
        assert member.value == pytest.approx((corners @ direction.ravel()).max(), abs=1e-7)
        assert member.bound == pytest.approx(member.value, abs=1e-7)
    entries = list(np.ndindex(*mdp.shape))
    expected = np.column_stack([corners.min(axis=0), corners.max(axis=0)])
    np.testing.assert_allclose(intervals(exact, entries), expected, atol=1e-7)
    plain = FeasibleRewardSet.of_problem(mdp, exact.expert_policy, 1.0)
    np.testing.assert_allclose(intervals(plain, entries), np.tile([0.0, 1.0], (8, 1)), atol=1e-9)


def test_an_expert_may_err_within_its_slack(problems: list[Small]) -> None:
    rng = np.random.default_rng(6)
    for p in problems[:60]:
        erring = FeasibleRewardSet.of_problem(p.mdp, rng.integers(p.mdp.n_actions, size=p.mdp.shape[:2]), 1.0)
        best = optimal_values(p.mdp, p.reward)[1][0]
        own = evaluate(p.mdp, p.reward, erring.expert_policy)[1][0]
        loss = float(p.mdp.initial @ (best - own))
        assert expert_loss(erring, p.reward) == pytest.approx(loss, abs=1e-12)
        assert compatible(erring, p.reward, loss + 1e-9)
        if loss < 1e-3:
            continue
        refused = compatible(erring, p.reward, loss / 2)
        assert not refused
        assert refused.constraint == "slack"
        assert refused.violation == pytest.approx(loss / 2)
        distances = []
        for slack in (0.0, loss / 2, 0.9 * loss, loss):
            member = project(erring.with_slack(slack), p.reward)
            assert expert_loss(erring, member.reward) <= slack + 1e-6
            assert member.gap < 1e-6
            distances.append(member.value)
        assert (np.diff(distances) <= 1e-9).all()
        assert distances[0] <= project(erring, p.reward).value + 1e-7, "off its path the expert need not be right"
        assert distances[-1] < 1e-6


def test_an_empty_set_is_named_with_the_slack_it_needs() -> None:
    mdp = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=2)
    exact = FeasibleRewardSet.of_problem(mdp, np.array([[0], [0]]), 1.0)
    bounded = exact.restricted(lower=[[0.0, 0.75]], upper=[[0.5, 1.0]])
    for ask in (
        lambda: project(bounded, np.zeros(mdp.shape)),
        lambda: extreme(bounded, np.ones(mdp.shape)),
        lambda: interval(bounded, 0, 0, 0),
        lambda: sample(bounded, np.random.default_rng(0), 1),
    ):
        with pytest.raises(EmptySetError, match=r"empty.*0\.5 or more"):
            ask()
    assert least_slack(bounded) == pytest.approx(0.5)
    enough = bounded.with_slack(0.5)
    assert project(enough, np.zeros(mdp.shape)).membership
    assert extreme(enough, np.ones(mdp.shape)).value == pytest.approx(2.5)


def test_bounds_without_an_inside_are_named() -> None:
    mdp = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=1)
    exact = FeasibleRewardSet.of_problem(mdp, np.array([[0]]), 1.0)
    pinned = exact.restricted(lower=[[0.5, 0.0]], upper=[[0.5, 1.0]])
    assert interval(pinned, 0, 0, 1) == pytest.approx((0.0, 0.5))
    with pytest.raises(InputError, match="with an interior, and these bounds leave none"):
        sample(pinned, np.random.default_rng(0), 1)


def test_samples_are_uniform_over_the_set() -> None:
    """Against draws from the cube that are kept if feasible. 24 means, each within 6 standard errors: P < 1e-7."""
    rng = np.random.default_rng(8)
    mdp = random_mdp(rng, (2, 2, 2))
    exact = FeasibleRewardSet.of_problem(mdp, np.array([[0, 1], [1, 1]]), 1.0)
    drawn = rng.random((60_000, *mdp.shape))
    kept = np.array([r for r in drawn if not exact.losses(r)[exact.uses].any()])
    chains = sample(exact, rng, 2000)
    assert len(kept) > 2000
    for moment in (lambda r: r, np.square, lambda r: r * r.mean(axis=(1, 2, 3), keepdims=True)):
        ours, theirs = moment(chains), moment(kept)
        error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
        assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 6 * error).all()


def test_samples_are_uniform_where_the_expert_is_not_known() -> None:
    """What is best in a state where nobody was asked comes up as often as it takes up volume.

    Two actions lead to two other states, and one of these pays at most a fifth: to go there is best in 14 % of the set.
    Against draws from the box that are kept if feasible; 26 means, each within 6 standard errors: P < 1e-7.
    """
    rng = np.random.default_rng(12)
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 1] = transitions[0, 1, 2] = transitions[1, :, 1] = transitions[2, :, 2] = 1.0
    mdp = MDP.from_dense(transitions, initial=0, horizon=2)
    known = np.array([[False, True, True], [True, False, True]])
    upper = np.ones(mdp.shape)
    upper[1, 2] = 0.2
    first = np.eye(2)[np.zeros((2, 3), dtype=np.int64)]
    unasked = replace(FeasibleRewardSet.of_problem(mdp, first, 1.0), known=known, upper=upper)
    drawn = upper * rng.random((60_000, *mdp.shape))
    kept = np.array([r for r in drawn if not unasked.losses(r)[unasked.uses].any()])
    chains = sample(unasked, rng, 3000)
    assert len(kept) > 3000

    def moments(rewards: FloatArray) -> FloatArray:
        best = [unasked.action_values(r).argmax(axis=2)[~known] for r in rewards]
        flat = rewards.reshape(len(rewards), -1)
        return np.concatenate((np.array(best), flat, flat * flat.mean(axis=1, keepdims=True)), axis=1)

    ours, theirs = moments(chains), moments(kept)
    assert 0.1 < theirs[:, 0].mean() < 0.2, "the case at hand"
    error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 6 * error).all()


def test_samples_are_members_and_spread(problems: list[Small]) -> None:
    rng = np.random.default_rng(9)
    for p in problems[:100]:
        samples = sample(p.exact, rng, 3)
        assert all(contains(p.exact, r, 1e-9) for r in samples)
        assert samples.std(axis=0).mean() > 0.05
    bounded = p.exact.restricted(upper=np.full(p.mdp.shape, 0.4), lower=np.where(p.exact.uses, 0.2, 0.0))
    assert all(contains(bounded, r, 1e-9) for r in sample(bounded, rng, 5))


def test_a_successor_listed_with_probability_zero_changes_no_sample() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    listed = Transitions(2, 2, np.arange(0, 9, 2), np.tile([0, 1], 4), rows.ravel())
    sparse = MDP.from_dense(rows.reshape(2, 2, 2), initial=0, horizon=3)
    lean, full = (
        sample(FeasibleRewardSet.of_problem(mdp, np.zeros((3, 2), dtype=np.int64), 1.0), np.random.default_rng(0), 2)
        for mdp in (sparse, replace(sparse, transitions=listed))
    )
    np.testing.assert_array_equal(lean, full)


@pytest.mark.parametrize("unknown_step_reward", [0.0, 0.3, 1.0])
def test_what_is_unknown_asks_nothing(unknown_step_reward: float) -> None:
    rng = np.random.default_rng(10)
    unknown_rows = unknown_experts = 0
    for _ in range(40):
        _, estimate = observed(rng, (3, 4, 3), episodes=3, asked=0.7)
        recovered = FeasibleRewardSet.of_estimate(estimate, 1.0, unknown_step_reward)
        unknown_rows += not estimate.mdp.known.all()
        unknown_experts += not recovered.known.all()
        assert contains(recovered, np.full(estimate.mdp.shape, unknown_step_reward))
        members = sample(recovered, rng, 3)
        assert all(contains(recovered, r, 1e-9) for r in members)
        target = rng.random(estimate.mdp.shape)
        for norm in NORMS:
            member = project(recovered, target, norm)
            assert member.membership
            assert infeasibility(estimate, member.reward, unknown_step_reward) <= 1e-6
            assert member.value >= member.bound - 1e-7
            change = np.abs(members - target)
            nearest = change.sum(axis=(1, 2, 3)).min() if norm == "l1" else change.max(axis=(1, 2, 3)).min()
            assert nearest >= member.bound - 1e-7
    assert unknown_rows > 20
    assert unknown_experts == 40


def test_the_plain_feasible_point_is_a_member_of_what_it_was_made_from() -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        _, estimate = observed(rng, (3, 4, 2), episodes=4, asked=0.8)
        assert contains(FeasibleRewardSet.of_estimate(estimate, 2.0), FeasiblePoint()(estimate, 2.0).reward)


def test_answers_lie_between_all_completions_and_the_bound() -> None:
    """Every way the expert might act where it is unknown, one polytope each: the best of them is the truth."""
    rng = np.random.default_rng(12)
    exactly = 0
    for _ in range(15):
        mdp = random_mdp(rng, (2, 3, 2))
        known = np.ones((2, 3), dtype=np.bool_)
        known.ravel()[rng.choice(6, size=3, replace=False)] = False
        whole = FeasibleRewardSet.of_problem(mdp, rng.integers(2, size=(2, 3)), 1.0)
        partial = replace(whole, known=known)
        direction = rng.normal(size=mdp.shape)
        pieces = []
        for guess in product(range(2), repeat=3):
            actions = np.zeros((2, 3), dtype=np.int64)
            actions[~known] = guess
            pieces.append(extreme(partial.completed(actions), direction).value)
        member = extreme(partial, direction)
        assert member.membership
        assert member.value <= max(pieces) + 1e-7 <= member.bound + 2e-7
        exactly += member.value > max(pieces) - 1e-7
    assert exactly >= 10


def test_recall_is_the_worst_member_and_the_second_condition_says_nothing() -> None:
    rng = np.random.default_rng(13)
    positive = 0
    for _ in range(30):
        mdp = replace(random_mdp(rng, (3, 3, 2)), initial=np.array([1.0, 0.0, 0.0]))
        exact = FeasibleRewardSet.of_problem(mdp, rng.integers(2, size=(3, 3)), 1.0)
        other = FeasibleRewardSet.of_problem(random_mdp(rng, (3, 3, 2)), rng.integers(2, size=(3, 3)), 1.0)
        worst = recall(exact, other)
        assert worst.high - worst.low < 1e-6
        policies = exact.expert_policy, other.expert_policy
        by_action = []
        for first in np.eye(2)[:, None, None]:
            expert, rival = (
                occupancy(mdp, np.concatenate([np.broadcast_to(first, (1, 3, 2)), policy[1:]])) for policy in policies
            )
            by_action.append(extreme(exact, expert - rival).value)
        assert worst.high == pytest.approx(max(by_action), abs=1e-6)
        assert recall_of(exact, other, worst.reward) == pytest.approx(worst.low)
        positive += worst.low > 0.1
        for reward in (*sample(exact, rng, 3), extreme(exact, rng.normal(size=mdp.shape)).reward):
            assert recall_of(exact, other, reward) <= worst.high + 1e-7
            assert matched_loss(exact, exact, reward) < 1e-5
        assert recall_of(exact, other, np.zeros(exact.mdp.shape)) == 0.0, "nobody can lose on the zero reward"
    assert positive > 20


def test_recall_of_a_partly_known_expert_is_bounded_on_both_sides() -> None:
    rng = np.random.default_rng(14)
    for _ in range(15):
        problem, estimate = observed(rng, (3, 3, 2), episodes=5, asked=0.8)
        recovered = FeasibleRewardSet.of_estimate(estimate, 1.0)
        found = recall(problem.exact, recovered)
        assert 0 <= found.low <= found.high
        assert recall_of(problem.exact, recovered, found.reward) == pytest.approx(found.low)
        for reward in sample(problem.exact, rng, 5):
            assert recall_of(problem.exact, recovered, reward) <= found.high + 1e-9


def test_a_matched_reward_loses_little_in_a_similar_problem_and_much_in_another() -> None:
    """The literal criterion looks at the expert's actions alone; a matched pair feels the dynamics as well."""
    rng = np.random.default_rng(15)
    near, far = [], []
    for _ in range(30):
        mdp = random_mdp(rng, (3, 4, 3))
        exact = FeasibleRewardSet.of_problem(mdp, rng.integers(3, size=(3, 4)), 1.0)
        mixed = 0.999 * _per_step(mdp) + 0.001 * _per_step(random_mdp(rng, (3, 4, 3)))
        other = MDP.from_dense(mixed, initial=mdp.initial)
        close = FeasibleRewardSet.of_problem(other, exact.expert_policy, 1.0)
        stranger = FeasibleRewardSet.of_problem(other, rng.integers(3, size=(3, 4)), 1.0)
        reward = sample(exact, rng, 1)[0]
        near.append(matched_loss(exact, close, reward))
        far.append(matched_loss(exact, stranger, reward))
    assert max(near) < 0.02
    assert np.mean(far) > 0.1


def _per_step(mdp: MDP) -> FloatArray:
    dense = mdp.transitions.dense()
    return np.broadcast_to(dense, (mdp.horizon, *dense.shape[-3:]))


def test_a_projection_changes_less_than_a_blend() -> None:
    rng = np.random.default_rng(16)
    changed = 0
    for _ in range(20):
        _, estimate = observed(rng, (4, 4, 3), episodes=6, asked=0.9)
        recovered = MaxCausalEntropy(reproduce_answers=False)(estimate, 1.0)
        for norm in NORMS:
            moved = projected(estimate, recovered, 1.0, norm)
            assert moved.infeasibility <= 1e-6
            assert moved.unknown_step_reward == recovered.unknown_step_reward
        if recovered.infeasibility > 1e-3:
            changed += 1
            blended = reproducing_answers(estimate, recovered, 1.0)
            moved = projected(estimate, recovered, 1.0)
            assert np.abs(moved.reward - recovered.reward).sum() <= np.abs(blended.reward - recovered.reward).sum()
    assert changed > 5


def test_four_paths_answers_are_members() -> None:
    problem = make("four-paths", 0)
    exact = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, problem.rmax)
    target = np.random.default_rng(0).random(problem.mdp.shape)
    assert contains(exact, problem.reward)
    for member in (project(exact, target), project(exact, target, "linf"), extreme(exact, target - 0.5)):
        assert member.membership
        assert member.gap < 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rmax": 0.0}, "rmax must be a positive number, got 0"),
        ({"unknown_step_reward": 2.0}, "unknown_step_reward must be between 0 and rmax = 1, got 2"),
        ({"slack": -1.0}, "slack must be a number of at least 0, got -1"),
        ({"known": np.ones(3)}, r"known must have shape \[1, 1\], got \[3\]"),
        ({"lower": np.full((1, 1, 2), 2.0)}, r"bounds\[0, 0, 0\] are 2 to 1, not an interval in 0 to 1"),
        ({"expert_policy": np.ones((1, 1, 2))}, "expert_policy.* not a distribution"),
    ],
)
def test_a_set_that_makes_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    mdp = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=1)
    exact = FeasibleRewardSet.of_problem(mdp, np.array([[0]]), 1.0)
    with pytest.raises(InputError, match=message):
        replace(exact, **change)  # type: ignore[arg-type]


def test_questions_that_make_no_sense_are_refused() -> None:
    mdp = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=1)
    exact = FeasibleRewardSet.of_problem(mdp, np.array([[0]]), 1.0)
    longer = FeasibleRewardSet.of_problem(replace(mdp, horizon=2), np.array([[0], [0]]), 1.0)
    rng = np.random.default_rng(0)
    for ask, message in (
        (lambda: project(exact, np.zeros((1, 1, 2)), "l2"), "norm must be 'l1' or 'linf', got 'l2'"),  # type: ignore[arg-type]
        (lambda: interval(exact, 0, 0, 2), r"entry \[0, 0, 2\] is outside rewards of shape \[1, 1, 2\]"),
        (lambda: interval(exact, 0, 0, -1), r"entry \[0, 0, -1\] is outside"),
        (lambda: sample(exact, rng, 0), "n must be a whole number of at least 1, got 0"),
        (lambda: sample(exact.with_slack(0.1), rng, 1), "without a slack; leave slack out"),
        (lambda: matched(exact, longer, np.zeros((1, 1, 2))), r"other is a problem of shape \[2, 1, 2\]"),
        (lambda: from_parameters(exact, np.full((1, 1, 2), -1.0), np.zeros((1, 1))), r"advantage\[0, 0, 0\] is -1"),
        (lambda: from_parameters(exact, np.zeros((1, 1, 2)), np.zeros(3)), r"values must be finite, of shape \[1, 1\]"),
        (lambda: recall(exact, longer), "recovered is a problem of shape"),
        (lambda: recall_of(exact, exact, np.array([[[0.0, 1.0]]])), "not in the exact set"),
    ):
        with pytest.raises(InputError, match=message):
            ask()

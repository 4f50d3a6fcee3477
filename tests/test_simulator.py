"""The simulator plays the law of its process, however the episodes are drawn, and shows nothing else of it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from strategies import SEEDS, mdps, policies, random_mdp, random_policy

from aceirl.envs import make
from aceirl.envs.simulator import WALKED_EPISODES, Simulator
from aceirl.errors import AnswerError, InputError
from aceirl.experts import FunctionExpert, PolicyExpert
from aceirl.irl.belief import Belief, Plan
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.protocols import BatchedEnvironment, GenerativeModel, Moves, Question
from studies.collecting import collected

COLUMNS = ("step", "state", "action", "successor", "count")
LEVEL = 1e-8  # the probability that one chi-square test of a right simulator fails


def table(moves: Moves, mdp: MDP) -> IntArray:
    """`[H, S, A, S]`: how often each move was made."""
    result = np.zeros((*mdp.shape, mdp.n_states), dtype=np.int64)
    np.add.at(result, (moves.step, moves.state, moves.action, moves.successor), moves.count)
    return result


def assert_drawn_from(counted: IntArray, chances: FloatArray) -> None:
    """Chi-square test of counts against a distribution of the same shape; what cannot happen must not have."""
    counted, chances = counted.ravel(), chances.ravel()
    total = counted.sum()
    assert (counted[chances == 0] == 0).all()
    # Cells that expect few are put together, as the approximation wants.
    rare = chances * total < 10
    observed = np.append(counted[~rare], counted[rare].sum())
    expected = np.append(chances[~rare], chances[rare].sum()) * total
    observed, expected = observed[expected > 0], expected[expected > 0]
    if len(expected) > 1 and expected.min() >= 5:
        statistic = ((observed - expected) ** 2 / expected).sum()
        assert statistic <= chi2.isf(LEVEL, len(expected) - 1), statistic


def walked(mdp: MDP, policy: FloatArray, episodes: int, rng: np.random.Generator) -> Moves:
    """Episodes taken one step at a time through `reset` and `step`."""
    simulator = Simulator(mdp)
    path, starts = [], np.zeros(mdp.n_states, dtype=np.int64)
    for _ in range(episodes):
        state = simulator.reset(rng)
        starts[state] += 1
        for h in range(mdp.horizon):
            action = int(rng.choice(mdp.n_actions, p=policy[h, state]))
            successor, _ = simulator.step(action)
            path.append((h, state, action, successor))
            state = successor
    step, state_, action_, successor_ = np.array(path).T
    return Moves(step, state_, action_, successor_, np.ones_like(step), starts)


def in_small_batches(mdp: MDP, policy: FloatArray, episodes: int, rng: np.random.Generator) -> Moves:
    """Many calls, each small enough to be walked."""
    simulator = Simulator(mdp)
    parts = [simulator.rollout(policy, 100, rng) for _ in range(episodes // 100)]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    return Moves(**columns, starts=np.sum([part.starts for part in parts], axis=0))


def at_once(mdp: MDP, policy: FloatArray, episodes: int, rng: np.random.Generator) -> Moves:
    return Simulator(mdp).rollout(policy, episodes, rng)


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize(
    ("play", "episodes"), [(walked, 3000), (in_small_batches, 50_000), (at_once, 50_000), (at_once, 10**9)]
)
def test_moves_follow_the_law_of_the_process(play: Any, episodes: int, stationary: bool) -> None:
    rng = np.random.default_rng(episodes + stationary)
    mdp = random_mdp(rng, (3, 4, 3), stationary=stationary, stored_zeros=True)
    policy = random_policy(rng, mdp.shape, "sparse")
    moves = play(mdp, policy, episodes, rng)
    P = oracles.unrolled(mdp)[0]
    law = oracles.occupancy(P, mdp.initial, policy)[..., None] * P
    counted = table(moves, mdp)
    assert_drawn_from(moves.starts, mdp.initial)
    for h in range(mdp.horizon):
        assert counted[h].sum() == episodes
        assert_drawn_from(counted[h], law[h])
    # Every row by itself as well: the sharper test of the dynamics.
    for h, s, a in np.argwhere(counted.sum(axis=3) > 0):
        assert_drawn_from(counted[h, s, a], P[h, s, a])


@pytest.mark.parametrize("episodes", [WALKED_EPISODES // 20, WALKED_EPISODES + 1])
def test_steps_of_one_batch_hang_together_as_those_of_real_episodes(episodes: int) -> None:
    """All covariances of the visits `[H, S, A]` of a batch, against the sum over all paths."""
    rng = np.random.default_rng(7)
    mdp = random_mdp(rng, (3, 2, 2), stationary=False, sparsity=0.0)
    policy = random_policy(rng, mdp.shape)
    P = oracles.unrolled(mdp)[0]
    together = np.zeros((12, 12))
    for path in itertools.product(range(2), repeat=6):
        states, actions = path[:3], path[3:]
        chance = mdp.initial[states[0]] * np.prod([policy[h, states[h], actions[h]] for h in range(3)])
        chance *= np.prod([P[h, states[h], actions[h], states[h + 1]] for h in range(2)])
        visited = np.zeros(mdp.shape)
        visited[range(3), states, actions] = 1.0
        together += chance * np.outer(visited, visited)
    mean = oracles.occupancy(P, mdp.initial, policy).ravel()
    expected = episodes * (together - np.outer(mean, mean))

    simulator, batches = Simulator(mdp), 2000
    visits = np.array(
        [table(simulator.rollout(policy, episodes, rng), mdp).sum(axis=3).ravel() for _ in range(batches)]
    )
    products = (visits - episodes * mean)[:, :, None] * (visits - episodes * mean)[:, None, :]
    error = products.std(axis=0) / np.sqrt(batches)
    # 6.5 standard errors, 144 entries: 1e-8.
    assert (np.abs(products.mean(axis=0) - expected) <= 6.5 * error).all()
    independent = np.abs(expected[:4, 4:8]) <= 6.5 * error[:4, 4:8]
    assert not independent.all()  # drawing each step by itself would be noticed


@pytest.mark.parametrize("episodes", [100, 20_000])
def test_episodes_deviate_from_watched_actions_when_they_should(episodes: int) -> None:
    """The law of the step at which an episode first deviates from known actions, walked and drawn together."""
    rng = np.random.default_rng(8)
    mdp = random_mdp(rng, (4, 4, 2), sparsity=0.3)
    policy = random_policy(rng, mdp.shape)
    reference = rng.integers(-1, 2, size=mdp.shape[:2])
    reference[0] = np.maximum(reference[0], 0)
    P = oracles.unrolled(mdp)[0]
    law, following = np.zeros(5), mdp.initial.copy()
    for h in range(4):
        law[h] += following[reference[h] < 0].sum()
        following[reference[h] < 0] = 0.0
        kept = following[:, None] * policy[h] * (np.arange(2) == reference[h][:, None])
        law[h + 1] += following.sum() - kept.sum()
        following = np.einsum("sa,sat->t", kept, P[h])
    law[4] += following.sum()
    simulator = Simulator(mdp)
    total = np.zeros(5, dtype=np.int64)
    for _ in range(20_000 // episodes):
        first = simulator.rollout(policy, episodes, rng, reference).first_deviations
        assert first is not None
        total += first
    assert total.sum() == 20_000
    assert_drawn_from(total, law)


def test_a_billion_episodes_are_counted_exactly() -> None:
    problem = make("double-chain", seed=0)
    mdp, episodes = problem.mdp, 10**9
    moves = Simulator(mdp).rollout(problem.expert, episodes, np.random.default_rng(0))
    counted = table(moves, mdp)
    assert moves.starts.sum() == episodes
    np.testing.assert_array_equal(counted.sum(axis=(1, 2, 3)), episodes)
    np.testing.assert_array_equal(counted[0].sum(axis=(1, 2)), moves.starts)
    for h in range(mdp.horizon - 1):
        np.testing.assert_array_equal(counted[h].sum(axis=(0, 1)), counted[h + 1].sum(axis=(1, 2)))


@given(st.data(), mdps(complete=True), SEEDS)
def test_what_arrives_leaves_again(data: st.DataObject, mdp: MDP, seed: int) -> None:
    policy = data.draw(policies(mdp.shape))
    episodes = data.draw(st.sampled_from([0, 1, WALKED_EPISODES, WALKED_EPISODES + 1, 10**6]))
    moves = Simulator(mdp).rollout(policy, episodes, np.random.default_rng(seed))
    counted = table(moves, mdp)
    assert moves.starts.sum() == episodes
    np.testing.assert_array_equal(counted[0].sum(axis=(1, 2)), moves.starts)
    for h in range(mdp.horizon - 1):
        np.testing.assert_array_equal(counted[h].sum(axis=(0, 1)), counted[h + 1].sum(axis=(1, 2)))
    P = oracles.unrolled(mdp)[0]
    assert (counted[P == 0] == 0).all()
    assert (counted.sum(axis=3)[policy == 0] == 0).all()


def test_the_impossible_does_not_happen_in_any_number_of_episodes() -> None:
    # Rounding leaves a share of 1e-16 over, which a plain multinomial gives to whatever comes last.
    rng = np.random.default_rng(2)
    chances = np.append(rng.dirichlet(np.full(5, 0.3), size=100), np.zeros((100, 2)), axis=1)
    chances /= chances.sum(axis=1, keepdims=True)
    assert rng.multinomial(10**15, chances)[:, 5:].any()  # numpy alone does let it happen
    rows = np.zeros((100, 1, 100))
    rows[:, 0, :7] = chances
    mdp = MDP.from_dense(rows, initial=np.full(100, 0.01), horizon=2)
    moves = Simulator(mdp).rollout(np.ones(mdp.shape), 10**17, rng)
    assert moves.count.sum() == 2 * 10**17
    assert moves.successor.max() < 5
    sampled = Simulator(mdp).sample_many(np.full(mdp.shape, 10**15), rng)
    assert sampled.successor.max() < 5


@given(mdps(complete=True), SEEDS)
def test_the_same_seed_plays_the_same_episodes(mdp: MDP, seed: int) -> None:
    policy = np.full(mdp.shape, 1 / mdp.n_actions)
    for episodes in (20, 2000):
        one, two = (Simulator(mdp).rollout(policy, episodes, np.random.default_rng(seed)) for _ in range(2))
        for name in (*COLUMNS, "starts"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("stationary", [True, False])
def test_samples_of_the_generative_model_follow_the_law(stationary: bool) -> None:
    rng = np.random.default_rng(4)
    mdp = random_mdp(rng, (2, 3, 2), stationary=stationary)
    simulator, P = Simulator(mdp), oracles.unrolled(mdp)[0]
    allocation = rng.integers(0, 3, size=mdp.shape) * 10_000
    moves = simulator.sample_many(allocation, rng)
    counted = table(moves, mdp)
    np.testing.assert_array_equal(counted.sum(axis=3), allocation)
    assert moves.starts.tolist() == [0, 0, 0]
    for h, s, a in np.argwhere(allocation):
        assert_drawn_from(counted[h, s, a], P[h, s, a])
    single = np.bincount([simulator.sample(1, 2, 1, rng) for _ in range(5000)], minlength=3)
    assert_drawn_from(single, P[1, 2, 1])


def test_nothing_public_shows_the_process() -> None:
    problem = make("chain", seed=0)
    told, hidden = Simulator(problem.mdp), Simulator(problem.mdp, hide_start=True)
    for simulator in (told, hidden):
        public = {name: getattr(simulator, name) for name in dir(simulator) if not name.startswith("_")}
        values = {name: value for name, value in public.items() if not callable(value)}
        assert set(values) == {"n_states", "n_actions", "horizon", "initial", "fields", "stationary_dynamics"}
    np.testing.assert_array_equal(told.initial, problem.mdp.initial)
    assert hidden.initial is None
    assert isinstance(told, BatchedEnvironment)
    assert isinstance(told, GenerativeModel)


def test_wrong_calls_are_named() -> None:
    simulator = Simulator(random_mdp(np.random.default_rng(0), (2, 3, 2)))
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="reset first"):
        simulator.step(0)
    simulator.reset(rng)
    for action in (-1, 2):
        with pytest.raises(InputError, match=f"action {action} "):
            simulator.step(action)
    simulator.step(0)
    simulator.step(1)
    with pytest.raises(InputError, match="reset first"):
        simulator.step(0)
    for place, named in (((2, 0, 0), "step 2"), ((0, 3, 0), "state 3"), ((0, 0, 2), "action 2")):
        with pytest.raises(InputError, match=named):
            simulator.sample(*place, rng)


def test_a_process_with_unknown_rows_cannot_be_played() -> None:
    with pytest.raises(InputError, match="sum to 0"):
        Simulator(random_mdp(np.random.default_rng(0), (2, 3, 2), unknown=1.0))


class Listener:
    """An expert's function that remembers what it was asked."""

    def __init__(self, actions: IntArray) -> None:
        self.actions, self.asked = actions, list[tuple[int, int]]()

    def __call__(self, step: int, state: int) -> int:
        self.asked.append((step, state))
        return int(self.actions[step, state])


@pytest.fixture
def mdp() -> MDP:
    return random_mdp(np.random.default_rng(11), (4, 5, 3), sparsity=0.3)


def collect(*arguments: Any, **more: Any) -> Counts:
    """The new counts alone."""
    return collected(*arguments, **more).counts


def uniform(mdp: MDP, **more: Any) -> Plan:
    return Plan(policy=np.full(mdp.shape, 1 / mdp.n_actions), **more)


class Fixed:
    """A strategy that has one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        return self._plan


@pytest.mark.parametrize("stationary", [True, False])
def test_a_deterministic_expert_is_never_asked_twice(mdp: MDP, stationary: bool) -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=mdp.shape[:2])
    actions = np.repeat(actions[:1], 4, axis=0) if stationary else actions
    listener = Listener(actions)
    by_function = FunctionExpert(listener, stationary=stationary, ask_again=0)
    by_table = PolicyExpert(actions, mdp.shape, stationary=stationary)
    for expert in (by_function, by_table):
        total = Counts.empty(mdp.shape)
        for episodes in (2, 30, 30):
            seen = collect(Simulator(mdp), expert, uniform(mdp), episodes, total, rng)
            assert seen.samples == 4 * episodes
            assert seen.starts.sum() == episodes
            total = total + seen
        asked = total.answers.sum(axis=2)
        assert asked.max() == 1
        if stationary:
            asked = asked.sum(axis=0)
            assert asked.max() == 1
            np.testing.assert_array_equal(asked > 0, total.visits.sum(axis=(0, 2)) > 0)
        else:
            np.testing.assert_array_equal(asked > 0, total.visits.sum(axis=2) > 0)
        np.testing.assert_array_equal(total.answers > 0, (total.answers > 0) & (np.eye(3)[actions] > 0))
        if expert is by_function:
            assert len(listener.asked) == len(set(listener.asked)) == total.questions


@pytest.mark.parametrize("expert_kind", ["function", "table"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_the_expert_is_followed_where_the_plan_says_so(mdp: MDP, expert_kind: str, deterministic: bool) -> None:
    rng = np.random.default_rng(1)
    advice = rng.integers(1, 3, size=mdp.shape[:2])  # never action 0, which the plan takes
    follow = rng.random(mdp.shape[:2]) < 0.5
    plan = Plan(policy=np.eye(3)[np.zeros_like(advice)], follow=follow.astype(np.float64))
    stochastic = np.full(mdp.shape, [0.0, 0.3, 0.7])
    expert: Any
    if expert_kind == "table":
        expert = PolicyExpert(advice if deterministic else stochastic, mdp.shape)
    elif deterministic:
        expert = FunctionExpert(lambda h, s: int(advice[h, s]))
    else:
        expert = FunctionExpert(lambda h, s: int(rng.choice(3, p=[0, 0.3, 0.7])), deterministic=False)
    seen = collect(Simulator(mdp), expert, plan, 300, Counts.empty(mdp.shape), rng)
    visits = seen.visits
    assert visits[follow].sum() > 0
    assert visits[~follow].sum() > 0
    assert visits[~follow][:, 1:].sum() == 0
    assert visits[follow][:, 0].sum() == 0
    if deterministic:
        np.testing.assert_array_equal(visits[follow] > 0, (visits[follow] > 0) & (np.eye(3)[advice][follow] > 0))
    else:
        # What a stochastic expert did when it was followed is what it answered.
        np.testing.assert_array_equal(seen.answers[follow], visits[follow])
        np.testing.assert_array_equal(seen.answers.sum(axis=2), visits.sum(axis=2))
        assert_drawn_from(seen.answers[~follow].sum(axis=0), stochastic[0, 0])


@pytest.mark.parametrize("kind", ["episodes", "step by step", "samples"])
def test_a_stochastic_expert_answers_every_question_from_its_own_law(mdp: MDP, kind: str) -> None:
    rng = np.random.default_rng(2)
    law = random_policy(rng, mdp.shape, "sparse")
    expert: Any = PolicyExpert(law, mdp.shape)
    plan, episodes = uniform(mdp), 20_000
    if kind == "step by step":
        expert, episodes = FunctionExpert(lambda h, s: int(rng.choice(3, p=law[h, s])), deterministic=False), 1500
    elif kind == "samples":
        plan = Plan(allocation=np.full(mdp.shape, 1000))
    seen = collect(Simulator(mdp), expert, plan, episodes, Counts.empty(mdp.shape), rng)
    np.testing.assert_array_equal(seen.answers.sum(axis=2), seen.visits.sum(axis=2))
    for h, s in np.argwhere(seen.answers.any(axis=2)):
        assert_drawn_from(seen.answers[h, s], law[h, s])


@pytest.mark.parametrize("stationary", [True, False])
def test_step_by_step_and_batched_give_the_same_counts_where_chance_has_no_say(stationary: bool) -> None:
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, (4, 5, 3), stationary=stationary, sparsity=1.0, start="point")
    actions = rng.integers(3, size=mdp.shape[:2])
    plan = Plan(
        policy=random_policy(rng, mdp.shape, "deterministic"),
        follow=(rng.random(mdp.shape[:2]) < 0.5).astype(np.float64),
    )
    so_far = Counts.empty(mdp.shape, stationary=stationary)
    batched = collect(Simulator(mdp), PolicyExpert(actions, mdp.shape), plan, 7, so_far, rng)
    many = collect(Simulator(mdp), PolicyExpert(actions, mdp.shape), plan, 700, so_far, rng)
    stepped = collect(Simulator(mdp), FunctionExpert(Listener(actions)), plan, 7, so_far, rng)
    for name in ("visits", "answers", "starts", "move_keys", "move_counts"):
        np.testing.assert_array_equal(getattr(batched, name), getattr(stepped, name))
        factor = 1 if name in ("answers", "move_keys") else 100
        np.testing.assert_array_equal(getattr(many, name), factor * getattr(stepped, name))
    assert stepped.stationary == stationary


def test_step_by_step_follows_the_same_law(mdp: MDP) -> None:
    rng = np.random.default_rng(5)
    policy = random_policy(rng, mdp.shape, "sparse")
    expert = FunctionExpert(lambda h, s: 0)
    seen = collect(Simulator(mdp), expert, Plan(policy=policy), 3000, Counts.empty(mdp.shape), rng)
    mu = oracles.occupancy(oracles.unrolled(mdp)[0], mdp.initial, policy)
    for h in range(mdp.horizon):
        assert_drawn_from(seen.visits[h], mu[h])


def test_samples_are_collected_where_the_plan_puts_them(mdp: MDP) -> None:
    rng = np.random.default_rng(6)
    allocation = rng.integers(0, 3, size=mdp.shape)
    listener = Listener(np.zeros(mdp.shape[:2], dtype=np.int64))
    for expert in (FunctionExpert(listener), PolicyExpert(listener.actions, mdp.shape)):
        seen = collect(Simulator(mdp), expert, Plan(allocation=allocation), 1, Counts.empty(mdp.shape), rng)
        np.testing.assert_array_equal(seen.visits, allocation)
        np.testing.assert_array_equal(seen.answers.sum(axis=2), allocation.any(axis=2))
        assert seen.starts.sum() == 0


def test_samples_need_a_generative_model(mdp: MDP) -> None:
    class Episodes:
        n_states, n_actions, horizon, initial = 5, 3, 4, None

        def reset(self, rng: np.random.Generator) -> int:
            return 0

        def step(self, action: int) -> tuple[int, bool]:
            return 0, False

    plan = Plan(allocation=np.ones(mdp.shape, dtype=np.int64))
    with pytest.raises(InputError, match="generative model"):
        collect(Episodes(), FunctionExpert(lambda h, s: 0), plan, 1, Counts.empty(mdp.shape), np.random.default_rng(0))


@pytest.mark.parametrize("answer", [-1, 3, 1.0, "left", True])
@pytest.mark.parametrize("plan", ["episodes", "samples"])
def test_an_answer_that_is_no_action_is_named(mdp: MDP, answer: Any, plan: str) -> None:
    start = int(np.argmax(mdp.initial))
    allocation = np.zeros(mdp.shape, dtype=np.int64)
    allocation[2, start, 0] = 1
    expert = FunctionExpert(lambda h, s: answer if (h, s) == (2, start) or plan == "episodes" else 0)
    chosen = uniform(mdp) if plan == "episodes" else Plan(allocation=allocation)
    with pytest.raises(AnswerError) as caught:
        next(learn(Simulator(mdp), expert, Settings(strategy=Fixed(chosen), certify=None)))
    step, state = (0, None) if plan == "episodes" else (2, start)
    message = str(caught.value)
    assert repr(answer) in message
    assert f"at step {step}" in message
    assert "in state" in message if state is None else f"in state {state} " in message
    assert "0 to 2" in message


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_expert_with_nothing_to_say_leaves_no_answer(mdp: MDP, deterministic: bool) -> None:
    says: Any = {2: 1}.get
    expert = FunctionExpert(lambda h, s: says(s), deterministic=deterministic)
    plan = Plan(policy=np.full(mdp.shape, [1.0, 0.0, 0.0]), follow=np.ones(mdp.shape[:2], dtype=np.bool_))
    seen = collect(Simulator(mdp), expert, plan, 50, Counts.empty(mdp.shape), np.random.default_rng(0))
    assert seen.answers[:, 2, 1].sum() == seen.questions > 0
    assert (seen.visits[:, 2, 1] == seen.visits[:, 2].sum(axis=1)).all()
    others = np.arange(5) != 2
    assert (seen.visits[:, others, 0] == seen.visits[:, others].sum(axis=2)).all()


def test_an_expert_that_fails_is_named(mdp: MDP) -> None:
    def fails(step: int, state: int) -> int:
        if step == 1:
            raise KeyError("no idea")
        return 0

    with pytest.raises(AnswerError, match=r"in state \d at step 1: KeyError: 'no idea'"):
        next(learn(Simulator(mdp), FunctionExpert(fails), Settings(strategy=Fixed(uniform(mdp)), certify=None)))


def test_a_table_expert_is_read_off_its_table_and_checked() -> None:
    shape = (2, 2, 2)
    assert PolicyExpert([0, 1], shape).deterministic
    assert not PolicyExpert(np.full(shape, 0.5), shape).deterministic
    assert not PolicyExpert([0, 1], shape).stationary  # only if declared
    with pytest.raises(InputError, match="steps 0 and 1"):
        PolicyExpert([[0, 1], [0, 0]], shape, stationary=True)
    with pytest.raises(InputError, match=r"expert policy\[1\] is 2"):
        PolicyExpert([0, 2], shape)
    rng = np.random.default_rng(0)
    answers = [PolicyExpert(np.full(shape, [0.2, 0.8]), shape).answer(Question(1, 0, (), rng)) for _ in range(5000)]
    assert_drawn_from(np.bincount(answers, minlength=2), np.array([0.2, 0.8]))

"""How often a certificate's promise is broken, against the truth, on processes made to break it.

Every run is followed through many times at which one might look; a promise broken at any of them is broken. A kind
passes if its broken promises are no more than `δ` allows, by a one-sided binomial test. `benchmarks/coverage.py` prints
the table, the tests run a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from aceirl.belief import Belief, Inference, Knowledge, Plan, Target
from aceirl.certificates import transfer_certificate, transfer_policy
from aceirl.certificates.e_process import EProcess
from aceirl.certificates.reward import Reward
from aceirl.certificates.reward_set import RewardSet
from aceirl.confidence import FAMILIES, Family, Radii
from aceirl.counts import Counts, Estimate, ExpertKind
from aceirl.dynamic_programming import evaluate, greedy_actions, optimal_values
from aceirl.engine import Engine
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.irl import reproducing_answers
from aceirl.loop import answers_of
from aceirl.mdp import MDP, BoolArray, FloatArray, IntArray
from aceirl.rewards import Recovered, action_values
from aceirl.settings import Settings
from aceirl.turns import Turn
from studies.collecting import collected, watched_actions

DELTA = 0.1
PROMISES = ("rows", "set", "reward", "transfer")
CHANGES = 15
EPISODES = 150
LOOKS = (3, 10, 30, 100, 300, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)


@dataclass(frozen=True, eq=False)
class Case:
    """A process and an expert: a deterministic one takes `actions [H, S]`.

    A stochastic one draws from `policy [H, S, A]`, in which `actions` are some of those it uses, each with at least the
    probability `least`.
    """

    mdp: MDP
    actions: IntArray
    policy: FloatArray | None = None
    least: float | None = None

    @property
    def expert(self) -> PolicyExpert:
        return PolicyExpert(self.actions if self.policy is None else self.policy, self.mdp.shape)

    @property
    def kind(self) -> ExpertKind:
        return ExpertKind(deterministic=self.policy is None, least_probability=self.least)

    @property
    def used(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert takes."""
        return np.eye(self.mdp.n_actions)[self.actions] > 0 if self.policy is None else self.policy > 0


def random_case(rng: np.random.Generator) -> Case:
    """Dense rows; the expert is optimal for some reward, so it depends on the step."""
    mdp = MDP.from_dense(rng.dirichlet(np.ones(5), (5, 2)), initial=rng.dirichlet(np.ones(5)), horizon=5)
    return Case(mdp, greedy_actions(optimal_values(mdp, rng.random(mdp.shape))[0], rng))


def near_deterministic_case(rng: np.random.Generator) -> Case:
    """One successor has almost all the mass, and some rows have all of it on one."""
    slip = rng.choice([0.0, 0.001, 0.01, 0.05], (5, 2, 1))
    rows = (1 - slip) * np.eye(5)[rng.integers(5, size=(5, 2))] + slip * rng.dirichlet(np.full(5, 0.3), (5, 2))
    mdp = MDP.from_dense(rows, initial=0, horizon=6)
    return Case(mdp, rng.integers(2, size=(6, 5)))


def rare_branch_case(rng: np.random.Generator) -> Case:
    """From the start one goes to a branch with a chance just above what is to be certified; all is decided there."""
    chance = 0.1 * rng.uniform(1.25, 1.6)
    rows = np.zeros((4, 2, 4))
    rows[0, :] = [0, 1 - chance, chance, 0]
    rows[1, :, 1] = 1
    rows[2:, 0, 2], rows[2:, 1, 3] = 1, 1
    return Case(MDP.from_dense(rows, initial=0, horizon=5), rng.integers(2, size=(5, 4)))


def many_branches_case(rng: np.random.Generator) -> Case:
    """Many rare branches: one is always left over."""
    weights = np.append(np.full(8, 0.03), 0.76)
    rows = np.zeros((10, 2, 10))
    rows[0, :, 1:] = weights
    rows[np.arange(1, 10), :, np.arange(1, 10)] = 1
    return Case(MDP.from_dense(rows, initial=0, horizon=4), rng.integers(2, size=(4, 10)))


def tied_case(rng: np.random.Generator) -> Case:
    """All actions do the same, so the expert's choices are arbitrary, and so are anyone else's."""
    rows = np.repeat(rng.dirichlet(np.full(4, 0.5), (4, 1)), 3, axis=1)
    mdp = MDP.from_dense(rows, initial=rng.dirichlet(np.ones(4)), horizon=4)
    return Case(mdp, rng.integers(3, size=(4, 4)))


def stochastic_case(rng: np.random.Generator) -> Case:
    """A stochastic expert with one, two or three actions, the least likely just as likely as it says."""
    mdp = MDP.from_dense(rng.dirichlet(np.ones(3), (3, 3)), initial=rng.dirichlet(np.ones(3)), horizon=3)
    least, ranks = 0.2, rng.permuted(np.broadcast_to(np.arange(3), mdp.shape), axis=2)
    width = rng.integers(1, 4, mdp.shape[:2])[:, :, None]
    used = ranks < width
    policy = np.where(used, least, 0.0) + (ranks == 0) * (1 - least * width)
    return Case(mdp, policy.argmax(axis=2), policy, least)


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "random": random_case,
    "near-deterministic": near_deterministic_case,
    "rare branch": rare_branch_case,
    "many rare branches": many_branches_case,
    "ties": tied_case,
    "stochastic expert": stochastic_case,
}


def lost_share(case: Case, watched: IntArray) -> float:
    """Exactly what an episode that follows known actions loses on average, as a share of it: the certified quantity."""
    dense, here, lost = case.mdp.transitions.dense(), case.mdp.initial, 0.0
    for h in range(case.mdp.horizon):
        outside = watched[h] < 0
        lost += here[outside].sum() * (1 - h / case.mdp.horizon)
        here = np.where(outside, 0.0, here)
        here = here @ dense[np.arange(case.mdp.n_states), np.maximum(watched[h], 0)]
    return lost


def broken_wagers(case: Case, kind: str, rng: np.random.Generator, *, batch: int) -> tuple[bool, int]:
    """Whether `policy` or `criterion` ever promised too much, and the samples until it fired (0 if it never did)."""
    horizon, _, n_actions = case.mdp.shape
    processes = 1 if kind == "policy" else n_actions
    settings = Settings(
        strategy="advice",
        irl="feasible-point",
        certify=kind,
        delta=DELTA,
        episodes_per_iteration=batch,
        max_samples=EPISODES * processes // batch * batch * horizon,
        seed=int(rng.integers(2**62)),
    )
    engine, broken = Engine(Simulator(case.mdp), answers_of(case.expert, settings), settings), False
    while True:
        turn = engine.ask()
        assert isinstance(turn, Turn)
        for first_action, process in e_processes(turn.belief, kind).items():
            promised = process.certified(DELTA / processes)
            if promised < 1:
                watched = watched_actions(case.kind, turn.counts, first_action)
                assert watched is not None
                broken |= lost_share(case, watched) > promised + 1e-9
        if turn.stopped:
            return broken, turn.counts.samples if turn.stopped == "certificate" else 0


def e_processes(belief: Belief, kind: str) -> dict[int | None, EProcess]:
    """What became of the wagers of a run, by the first action that was imposed (None for `policy`)."""
    memory = belief.evidence.get(kind, {})
    if kind == "policy":
        return {None: EProcess(**memory)} if memory else {}
    imposed = {int(name.partition(".")[0]) for name in memory}
    return {
        action: EProcess(*(memory[f"{action}.{name}"] for name in ("levels", "now", "peak")))
        for action in sorted(imposed)
    }


def belief_of(
    known: Estimate, family: Family, recovered: Recovered | None = None, target: Target | None = None, episodes: int = 1
) -> Belief:
    """What is believed outside a run: an estimate, radii for it and a reward, if one was recovered."""
    target = target or Target(0.1 * known.mdp.horizon, DELTA, 1.0)
    knowledge = Knowledge(known, family, target.rmax, target.delta)
    inference = Inference.of(recovered or Recovered.nothing(known.mdp.shape), knowledge.bound.value)
    return Belief(knowledge, inference, target, episodes)


def explored(case: Case, rng: np.random.Generator) -> Iterator[Estimate]:
    """What is known at every look, after that many episodes in all of a random policy."""
    counts, shape = Counts.empty(case.mdp.shape), case.mdp.shape
    environment, expert = Simulator(case.mdp), case.expert
    before = 0
    for look in LOOKS:
        plan = Plan(policy=rng.dirichlet(np.full(shape[2], 0.7), shape[:2]))
        counts = counts + collected(environment, expert, plan, look - before, counts, rng).counts
        before = look
        yield Estimate.of(counts, kind=case.kind, delta=DELTA / 3, initial=case.mdp.initial)


def event_broken(case: Case, known: Estimate, radii: Radii) -> bool:
    """Whether some row is further from its estimate than its radius, or the expert's actions are wrongly called known.

    Every proof rests on this not happening.
    """
    truth, guess = case.mdp.transitions.dense(), known.mdp.transitions.dense()
    seen = known.row_visits[0] > 0
    distance = np.abs(truth - guess).sum(axis=2) / 2
    missing = np.where(guess > 0, 0.0, truth).sum(axis=2)
    mistaken = known.expert_known & ((known.expert_policy > 0) != case.used).any(axis=2)
    outside = (distance > radii.tv_radius[0] + 1e-9) | (missing > radii.unseen_mass[0] + 1e-9)
    return bool(mistaken.any() or (seen & outside).any())


def set_gap(case: Case, known: Estimate, rng: np.random.Generator) -> float:
    """The largest gap found between the values of a policy under a reward of the expert's and under its match."""
    reward = np.where(case.used, 1.0, rng.choice([0.0, rng.random()], case.mdp.shape))
    true_q, true_v = optimal_values(case.mdp, reward)
    advantage = true_v[:, :, None] - true_q
    believed = np.where(known.expert_known[:, :, None] & (known.expert_policy > 0), 0.0, advantage)
    return _disagreement(case, known, advantage, believed, np.inf, rng)


def recovered_reward(known: Estimate, rng: np.random.Generator) -> Recovered:
    """A random reward that reproduces the answers, as an IRL algorithm might return it."""
    return reproducing_answers(known, Recovered(rng.random(known.mdp.shape), 0.5, 0.0), 1.0)


def matched_reward(case: Case, known: Estimate, recovered: Recovered) -> tuple[FloatArray, FloatArray, FloatArray]:
    """`(reward, advantage, believed advantage)`: the true match of a recovered reward, and how both see an action."""
    q = action_values(known, recovered.reward, recovered.unknown_step_reward)
    v = q.max(axis=2)
    believed = v[:, :, None] - q
    advantage = np.where(case.used, 0.0, believed)
    later = np.vstack((v[1:], np.zeros((1, v.shape[1]))))
    reward = v[:, :, None] - advantage - np.einsum("san,hn->hsa", case.mdp.transitions.dense(), later)
    return reward, advantage, believed


def reward_gap(case: Case, known: Estimate, recovered: Recovered, slack: float, rng: np.random.Generator) -> float:
    """As `set_gap`, for the recovered reward and its match, over the policies it calls good."""
    _, advantage, believed = matched_reward(case, known, recovered)
    return _disagreement(case, known, advantage, believed, slack, rng)


def transfer_regret(case: Case, known: Estimate, recovered: Recovered, target: MDP) -> float:
    """Exactly what planning with the recovered reward loses in a target, under its match."""
    reward, _, _ = matched_reward(case, known, recovered)
    planned = np.eye(target.n_actions)[transfer_policy(recovered, target)]
    best, own = optimal_values(target, reward)[1][0], evaluate(target, reward, planned)[1][0]
    return float(target.initial @ (best - own))


def _disagreement(
    case: Case, known: Estimate, advantage: FloatArray, believed: FloatArray, slack: float, rng: np.random.Generator
) -> float:
    """The largest gap found between what a policy loses in the true and in the estimated process.

    Changes one choice at a time while that helps, among policies that lose at most `slack` in the estimated one.
    """
    horizon, n_states, n_actions = case.mdp.shape
    start = case.mdp.initial

    def losses(actions: IntArray) -> tuple[float, float]:
        policy = np.eye(n_actions)[actions]
        true = evaluate(case.mdp, advantage, policy)[1][0] @ start
        return float(true), float(evaluate(known.mdp, believed, policy)[1][0] @ start)

    begins = (case.actions, believed.argmax(axis=2), believed.argmin(axis=2))
    actions = np.array(begins[rng.integers(3)])
    true, guess = losses(actions)
    best = abs(true - guess) if guess <= slack else 0.0
    for entry in rng.permutation(horizon * n_states)[:CHANGES]:
        h, s = divmod(int(entry), n_states)
        kept = actions[h, s]
        for a in range(n_actions):
            actions[h, s] = a
            true, guess = losses(actions)
            if guess <= slack and abs(true - guess) > best:
                best, kept = abs(true - guess), a
        actions[h, s] = kept
    return best


def radii_run(case: Case, rng: np.random.Generator) -> dict[tuple[str, str], bool]:
    """Which promises made of radii were broken at any look, by promise and family."""
    rows = rng.dirichlet(np.ones(case.mdp.n_states), case.mdp.shape[1:])
    target = MDP.from_dense(rows, initial=case.mdp.initial, horizon=case.mdp.horizon)
    slack = 0.1 * case.mdp.horizon
    broken = {(promise, family): False for family in FAMILIES for promise in PROMISES}
    for known in explored(case, rng):
        recovered = recovered_reward(known, rng)
        gaps = set_gap(case, known, rng), reward_gap(case, known, recovered, slack, rng)
        regret = transfer_regret(case, known, recovered, target)
        for family in FAMILIES:
            belief = belief_of(known, FAMILIES[family], recovered)
            promised = (
                RewardSet().value(belief),
                Reward().value(belief),
                transfer_certificate(belief, target).value,
            )
            broken["rows", family] |= event_broken(case, known, belief.radii)
            for promise, found, value in zip(PROMISES[1:], (*gaps, regret), promised, strict=True):
                broken[promise, family] |= found > value + 1e-9
    return broken


WAGERS = {"policy": ("policy", 1), "policy, N_E = 20": ("policy", 20), "criterion": ("criterion", 1)}


def broken_promises(name: str, seed: int) -> dict[tuple[str, str], bool]:
    """One run of a case: which promises were broken, by promise and family."""
    streams = iter(np.random.default_rng([seed, list(CASES).index(name)]).spawn(1 + len(WAGERS)))
    broken = {}
    for label, (kind, batch) in WAGERS.items():
        rng = next(streams)
        case = CASES[name](rng)
        if case.kind.deterministic:  # a stochastic expert has no known actions to promise
            broken[label, "–"] = broken_wagers(case, kind, rng, batch=batch)[0]
    rng = next(streams)
    return broken | radii_run(CASES[name](rng), rng)


def p_value(broken: int, runs: int) -> float:
    """How likely that many broken promises or more are, if each is broken with probability `δ`."""
    return float(binom.sf(broken - 1, runs, DELTA))


@dataclass(frozen=True)
class Tally:
    """How often a promise was broken with a family of radii, in so many runs of each case."""

    promise: str
    family: str
    runs: int
    broken: dict[str, int]

    @property
    def worst(self) -> str:
        """The case in which it was broken most often."""
        return max(self.broken, key=lambda name: self.broken[name])

    @property
    def p_value(self) -> float:
        """That of the worst case."""
        return p_value(self.broken[self.worst], self.runs)

    @property
    def verdict(self) -> str:
        """Whether the promise is kept as often as it says."""
        return "not guaranteed" if self.family == "hoeffding" else "passes" if self.p_value > 0.01 else "FAILS"


def tallies(runs: int, workers: int) -> list[Tally]:
    """All promises, `runs` times on each of the cases."""
    names = [name for name in CASES for _ in range(runs)]
    with ProcessPoolExecutor(workers) as pool:
        outcomes = list(pool.map(broken_promises, names, list(range(runs)) * len(CASES), chunksize=5))
    found = []
    for promise, family in outcomes[0]:
        broken = {
            name: sum(outcome[promise, family] for outcome in outcomes[n * runs : (n + 1) * runs])
            for n, name in enumerate(CASES)
            if (promise, family) in outcomes[n * runs]
        }
        found.append(Tally(promise, family, runs, broken))
    return found

"""How often a certificate's promise is broken, against the truth, on processes made to break it.

Every run is followed through many times at which one might look; a promise broken at any of them is broken. A kind
passes if its broken promises are no more than `δ` allows, by a one-sided binomial test. `benchmarks/soundness.py`
prints the tables, the tests run a part of it. A case is a function of a seed that says what became of each promise, so
any study of promises can be counted by `tallies`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import rel_entr
from scipy.stats import binom

from aceirl.certificates import transfer_certificate, transfer_policy
from aceirl.certificates.criterion import with_first
from aceirl.certificates.dynamics import Dynamics
from aceirl.certificates.reward import Reward
from aceirl.certificates.reward_set import RewardSet
from aceirl.envs.simulator import Simulator
from aceirl.experts import FunctionExpert
from aceirl.irl import reproducing_answers
from aceirl.irl.belief import Belief, Inference, Plan, Target
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.confidence import FAMILIES, Family, Radii
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import evaluate, greedy_actions, occupancy, optimal_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.models.tabular.model import TabularModel
from aceirl.protocols import Environment, Expert
from aceirl.rewards import Recovered, action_values
from studies.adversaries import CASES, UNMET, Case, Numbered
from studies.collecting import collected

DELTAS = (0.1, 0.5)
DELTA = DELTAS[0]
SIGNIFICANT = 1e-6
ROUNDING = 1e-9


class Promise(NamedTuple):
    """A kind of promise, how it was come by, and how often it may be broken."""

    kind: str
    where: str
    delta: float


Outcome = dict[Promise, bool | None]
"""Which promises were broken in a run; None if nothing was promised all along."""


def looked(outcome: Outcome, promise: Promise, found: float, promised: float, trivial: float) -> None:
    """Enter what was `found` where at most so much was `promised`; a promise says nothing from `trivial` on."""
    broken = found > promised + ROUNDING
    if broken or promised < trivial - ROUNDING:
        outcome[promise] = bool(outcome[promise]) or broken


# Promises made of wagers, in the loop that people run.


@dataclass(frozen=True)
class Way:
    """How a run is made: what it stops on, how it explores, in batches of how many `episodes`, on which of the cases.

    It asks for the `share` of what an episode can lose, within so many turns; the truth pays by `reward`, a space.
    """

    kind: str
    strategy: str
    episodes: int
    share: float
    turns: int
    max_return: float | None = None
    reward: str = "auto"
    only: frozenset[str] = frozenset(CASES)

    def __str__(self) -> str:
        limit = "" if self.max_return is None else f", G = {self.max_return:g}"
        space = "" if self.reward == "auto" else f", {self.reward}"
        return f"{self.strategy}, N_E = {self.episodes}{limit}{space}"


NUMBERED = frozenset({"growing", "early endings"})
WAYS = (
    Way("policy", "guided", 50, 0.05, 8),
    Way("policy", "advice", 8, 0.1, 12),
    Way("policy", "guided", 1, 0.25, 35, only=frozenset({"rare branch", "combination lock"})),
    Way("policy", "advice", 1, 0.25, 35, only=NUMBERED | {"rare branch", "against the stream", "one step"}),
    Way("policy", "advice", 8, 0.25, 12, max_return=1.0, only=NUMBERED | {"many rare branches", "combination lock"}),
    Way(
        "policy",
        "advice",
        8,
        0.1,
        12,
        reward="state",
        only=frozenset({"random sparse", "rare branch", "many rare branches", "combination lock", "ties"}),
    ),
    Way(
        "criterion",
        "advice",
        8,
        0.25,
        40,
        only=frozenset({"random", "rare successors", "combination lock", "ties", "early endings"}),
    ),
)


UNMET_WAYS = (Way("policy", "advice", 1, 0.25, 35), Way("policy", "advice", 8, 0.1, 12))


def lost_share(case: Case, reference: IntArray, losses: FloatArray | None = None) -> float:
    """Exactly what an episode that follows known actions loses on average: the mean of `Z`.

    `losses [H+1]` are what it loses by leaving them at each step; a share of an episode, by default.
    """
    dense, here, lost = case.rows, case.mdp.initial, 0.0
    losses = 1 - np.arange(case.mdp.horizon + 1) / case.mdp.horizon if losses is None else losses
    for h in range(case.mdp.horizon):
        outside = reference[h] < 0
        lost += here[outside].sum() * losses[h]
        here = np.where(outside, 0.0, here)
        here = here @ dense[np.arange(case.mdp.n_states), np.maximum(reference[h], 0)]
    return float(lost)


def worst_regret(
    case: Case, actions: IntArray, first_action: int | None = None, *, once: bool = False, by_state: bool = False
) -> float:
    """What a policy `actions [H, S]` loses against the expert under the worst reward in `[0, 1]`; exactly.

    Both may have to take the same first action. The expert's occupancy less the policy's, where that is positive, is
    what a reward can make of it; that of states, if it pays `by_state`. If only one step of an episode pays, and so
    an episode `once` at most: the worst step.
    """
    both = (np.eye(case.mdp.n_actions)[_imposed(chosen, first_action)] for chosen in (case.actions, actions))
    expert, policy = (occupancy(case.mdp, chosen) for chosen in both)
    missed = (expert - policy).sum(axis=2) if by_state else (expert - policy).reshape(len(actions), -1)
    by_step = np.maximum(0.0, missed).sum(axis=1)
    return float(by_step.max() if once else by_step.sum())


def loop_run(case: Case, way: Way, seed: int) -> tuple[Outcome, str | None]:
    """Which promises of the loop were broken at any turn, at either level, and why the run stopped.

    Looked at after every turn is the mean of `Z`, which bounds what any policy loses that does what the expert is known
    or imputed to do, and is what is wagered on; and, where that is more than was promised and at the end, what the
    run's own policy loses.
    """
    horizon = case.mdp.horizon
    possible = min(float(horizon), way.max_return or np.inf)
    settings = Settings(
        strategy=way.strategy,
        irl="feasible-point" if way.reward == "auto" else "sparse-likelihood",
        reward=way.reward,
        certify=way.kind,
        epsilon=way.share * possible,
        delta=min(DELTAS),
        max_return=way.max_return,
        episodes_per_iteration=way.episodes,
        max_samples=way.turns * way.episodes * horizon,
        infer_after_growth=10.0,  # most turns are not asked for their policy
        seed=seed,
    )
    environment, expert = played(case)
    engine = Engine(environment, answers_of(expert, settings), settings)
    first_actions = [None] if way.kind == "policy" else list(range(case.mdp.n_actions))
    mean = f"{way.kind}, E[Z]"
    outcome: Outcome = {Promise(kind, str(way), delta): None for kind in (way.kind, mean) for delta in DELTAS}
    for turn in turns(engine, expert):
        promised = {delta: certified_value(turn.belief, way.kind, delta) for delta in DELTAS}
        least = min(promised.values())
        if least >= possible - ROUNDING:
            continue
        order = environment.order if isinstance(environment, Numbered) else list(range(case.mdp.n_states))
        imputed, losses = turn.belief.imputed_actions, turn.belief.target.losses(horizon) * possible
        assert imputed is not None
        reference = _in_truth(case, imputed, order, np.full_like(case.actions, -1))
        reference = np.where(reference == case.actions, reference, -1)
        lost = max(lost_share(case, _imposed(reference, first), losses) for first in first_actions)
        for delta, value in promised.items():
            looked(outcome, Promise(mean, str(way), delta), lost, value, possible)
        if lost > least + ROUNDING or turn.stopped:
            policy = _in_truth(case, turn.policy, order, (case.actions + 1) % case.mdp.n_actions)
            once = way.max_return is not None
            by_state = turn.belief.target.by_state
            regret = max(worst_regret(case, policy, first, once=once, by_state=by_state) for first in first_actions)
            for delta, value in promised.items():
                looked(outcome, Promise(way.kind, str(way), delta), regret, value, possible)
    return outcome, turn.stopped


def _imposed(actions: IntArray, first: int | None) -> IntArray:
    return actions if first is None else with_first(actions, first)


def _in_truth(case: Case, actions: IntArray, order: list[int], elsewhere: IntArray) -> IntArray:
    """`[H, S]`: actions by the numbers of states as actions by state; `elsewhere [H, S]` where none has a number."""
    found = elsewhere.copy()
    found[:, order] = actions
    over = sorted(case.terminal)
    found[:, over] = case.actions[:, over]  # nobody acts there
    return found


def turns(engine: Engine, expert: Expert) -> Iterator[Turn]:
    """A run, turn by turn; unlike those of `learn`, its turns work out nothing that is not asked for."""
    while True:
        step = engine.ask()
        if not isinstance(step, Turn):
            action = expert.answer(step)
            assert action is not None
            engine.tell(action)
            continue
        yield step
        if step.stopped:
            return


def certified_value(belief: Belief, kind: str, delta: float) -> float:
    """What a kind certifies with another confidence; the wagers do not depend on it."""
    return belief.certificates[kind].value(replace(belief, target=replace(belief.target, delta=delta)))


def played(case: Case) -> tuple[Environment, Expert]:
    """The process of a case to act in, and its expert, who knows the states by their numbers."""
    actions = case.actions.tolist()
    if not case.numbered:
        simulator = Simulator(case.mdp, hide_start=case.hidden_start)
        return simulator, FunctionExpert(
            lambda step, state: actions[step][state]
        ) if case.asked_everywhere else case.expert
    environment = Numbered(case)
    return environment, FunctionExpert(lambda step, number: actions[step][environment.order[number]], ask_again=0.0)


def mixing_run(seed: int) -> Outcome:
    """An expert who draws among actions that are all best, asked once at each step and state: what its reward loses."""
    rng = np.random.default_rng([seed, 17])
    horizon, n_states, n_actions, share = 5, 8, 3, 0.1
    chance = share * rng.uniform(1.25, 1.6)
    rows = rng.dirichlet(np.full(n_states, 0.2), (n_states, n_actions))
    rows[0] = (1 - chance) * np.eye(n_states)[1] + chance * np.eye(n_states)[2 + rng.integers(6, size=n_actions)]
    rows[1, :, :] = np.eye(n_states)[1]
    mdp = MDP.from_dense(rows, initial=0, horizon=horizon)
    # All actions lead to different states and are best, but for some that forgo the reward of a step.
    best = rng.random(mdp.shape) < 0.5
    np.put_along_axis(best, rng.integers(n_actions, size=(horizon, n_states, 1)), True, axis=2)
    policy = best / best.sum(axis=2, keepdims=True)
    reward = best.astype(np.float64)

    def drawn(step: int, state: int) -> int:
        return int(rng.choice(n_actions, p=policy[step, state]))

    expert = FunctionExpert(drawn, deterministic=True, ask_again=0.0)
    outcome: Outcome = {Promise("policy", "advice, N_E = 1, mixing", delta): None for delta in DELTAS}
    settings = Settings(
        strategy="advice",
        irl="feasible-point",
        epsilon=share * horizon,
        delta=min(DELTAS),
        max_samples=80 * horizon,
        infer_after_growth=10.0,
        seed=seed,
    )
    for turn in turns(Engine(Simulator(mdp), answers_of(expert, settings), settings), expert):
        promised = {delta: certified_value(turn.belief, "policy", delta) for delta in DELTAS}
        if min(promised.values()) >= horizon - ROUNDING or (turn.iteration % 20 and not turn.stopped):
            continue
        values = [evaluate(mdp, reward, one)[1][0] for one in (policy, np.eye(n_actions)[turn.policy])]
        lost = float(mdp.initial @ (values[0] - values[1]))
        for delta, value in promised.items():
            looked(outcome, Promise("policy", "advice, N_E = 1, mixing", delta), lost, value, horizon)
    return outcome


# Promises made of radii, after episodes of random policies.

FAMILY = "adaptive"
"""The tightest radii; the event that all proofs rest on is looked at for all that guarantee anything."""

EVENT, DIVERGENCE = "rows", "rows, KL(P̂‖P)"
KINDS = ("set", "reward", "dynamics", "transfer")
LOOKS = (10, 300, 100_000)
CHANGES, REWARDS = 60, 3


def belief_of(
    known: Estimate,
    family: Family,
    recovered: Recovered | None = None,
    target: Target | None = None,
    episodes: int = 1,
) -> Belief:
    """What is believed outside a run: an estimate, radii for it and a reward, if one was recovered."""
    target = target or Target(0.1 * known.mdp.horizon, DELTA, 1.0, discount=known.discount)
    model = TabularModel(known, family, target.rmax, target.delta)
    inference = Inference.of(recovered or Recovered.nothing(known.mdp.shape), model.bound.value)
    return Belief(model, inference, target, episodes)


def explored(case: Case, rng: np.random.Generator) -> Iterator[Counts]:
    """What was counted by every look, after that many episodes in all of random policies; nothing after an end."""
    counts, shape = Counts.empty(case.mdp.shape), case.mdp.shape
    environment, expert = Simulator(case.mdp), case.expert
    before = 0
    for look in LOOKS:
        plan = Plan(policy=rng.dirichlet(np.full(shape[2], 0.7), shape[:2]))
        counts = counts + collected(environment, expert, plan, look - before, counts, rng).counts
        before = look
        yield as_met(counts, np.arange(shape[1]), case.terminal)


def as_met(counts: Counts, order: IntArray, terminal: frozenset[int]) -> Counts:
    """The same counts with `order[i]` as the state of number `i`, without those that are not in it; nothing after an
    end, where nobody acts or is asked."""
    _, n_states, n_actions = counts.shape
    number = np.full(n_states, -1)
    number[order] = np.arange(len(order))
    open_states = np.ones(n_states, dtype=np.int64)
    open_states[sorted(terminal)] = 0
    row, successor = np.divmod(counts.move_keys, n_states)
    state, action = np.divmod(row, n_actions)
    keys = (number[state] * n_actions + action) * len(order) + number[successor]
    kept = np.flatnonzero(open_states[state])
    kept = kept[np.argsort(keys[kept])]
    visits, answers = (array * open_states[:, None] for array in (counts.visits, counts.answers))
    return Counts.of_arrays(
        counts.stationary,
        visits[:, order],
        answers[:, order],
        counts.starts[order],
        keys[kept],
        counts.move_counts[kept],
    )


def estimate(case: Case, counts: Counts, delta: float = DELTA) -> Estimate:
    """What is known of a case; the counts may have met a part of its states only."""
    return Estimate.of(
        counts,
        kind=case.kind,
        delta=delta / 3,
        initial=None if case.hidden_start else case.mdp.initial,
        terminal=frozenset(state for state in case.terminal if state < counts.shape[1]),
        possible_states=case.mdp.n_states,
        discount=case.mdp.discount,
    )


def event_broken(case: Case, known: Estimate, radii: Radii) -> bool:
    """Whether a row or the start is further from its estimate than its radius, or the expert wrongly called known.

    Every proof rests on this not happening. `known` and `radii` may have met a part of the states of the case only,
    those that come first.
    """
    horizon, met, _ = known.mdp.shape
    truth, guess = case.rows[:met], known.mdp.transitions.dense()
    guess = np.pad(guess, ((0, 0), (0, 0), (0, case.mdp.n_states - met)))
    seen = known.row_visits[0] > 0
    distance = np.abs(truth - guess).sum(axis=2) / 2
    missing = np.where(guess > 0, 0.0, truth).sum(axis=2)
    mistaken = known.expert_known & ((known.expert_policy > 0) != case.used[:, :met]).any(axis=2)
    outside = (distance > radii.tv_radius[0] + ROUNDING) | (missing > radii.unseen_mass[0] + ROUNDING)
    start = np.pad(known.mdp.initial, (0, case.mdp.n_states - met))
    moved = horizon * np.abs(case.mdp.initial - start).sum() / 2 > radii.start + ROUNDING
    return bool(mistaken.any() or (seen & outside).any() or moved)


def divergence_broken(case: Case, known: Estimate, radii: Radii) -> bool:
    """As `event_broken`, for the divergence of the rows, on which `transfer` rests."""
    met = known.mdp.n_states
    guess = np.pad(known.mdp.transitions.dense(), ((0, 0), (0, 0), (0, case.mdp.n_states - met)))
    divergence = rel_entr(guess, np.where(guess > 0, case.rows[:met], 0.0)).sum(axis=2)
    return bool((divergence > radii.divergence[0] + ROUNDING)[known.row_visits[0] > 0].any())


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
    reward = v[:, :, None] - advantage - case.mdp.discount * np.einsum("san,hn->hsa", case.rows, later)
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


def dynamics_regret(case: Case, known: Estimate, rng: np.random.Generator) -> float:
    """The most that planning in the estimated process was found to lose, over a few rewards that pay here and there."""
    found = 0.0
    for _ in range(REWARDS):
        reward = (rng.random(case.mdp.shape) < rng.choice([0.1, 0.3, 0.6])).astype(np.float64)
        planned = np.eye(case.mdp.n_actions)[greedy_actions(optimal_values(known.mdp, reward)[0], rng)]
        best, own = optimal_values(case.mdp, reward)[1][0], evaluate(case.mdp, reward, planned)[1][0]
        found = max(found, float(case.mdp.initial @ (best - own)))
    return found


def _disagreement(
    case: Case, known: Estimate, advantage: FloatArray, believed: FloatArray, slack: float, rng: np.random.Generator
) -> float:
    """The largest gap found between what a policy loses in the true and in the estimated process.

    Changes one choice at a time while that helps, among policies that lose at most `slack` in the estimated one.
    """
    begins = (case.actions, believed.argmax(axis=2), believed.argmin(axis=2))
    entries = rng.integers(case.actions.size, size=CHANGES)
    rows = case.mdp.discount * case.rows, known.mdp.backup.dense()
    starts = case.mdp.initial, known.mdp.initial
    actions = np.array(begins[rng.integers(3)], dtype=np.int64)
    return float(_search(*rows, *starts, advantage, believed, slack, entries, actions))


@compiled
def _search(
    truth: FloatArray,
    guess: FloatArray,
    start: FloatArray,
    guessed_start: FloatArray,
    advantage: FloatArray,
    believed: FloatArray,
    slack: float,
    entries: IntArray,
    actions: IntArray,
) -> float:
    """Rows are `[S, A, S]`, advantages `[H, S, A]`; `actions [H, S]` are changed at the `entries` where that helps."""
    n_states, n_actions = advantage.shape[1:]
    guessed = _lost(guess, guessed_start, believed, actions)
    best = abs(_lost(truth, start, advantage, actions) - guessed) if guessed <= slack else 0.0
    for entry in entries:
        h, s = entry // n_states, entry % n_states
        kept = actions[h, s]
        for a in range(n_actions):
            actions[h, s] = a
            guessed = _lost(guess, guessed_start, believed, actions)
            if guessed <= slack:
                gap = abs(_lost(truth, start, advantage, actions) - guessed)
                if gap > best:
                    best, kept = gap, a
        actions[h, s] = kept
    return best


@compiled
def _lost(rows: FloatArray, start: FloatArray, advantage: FloatArray, actions: IntArray) -> float:
    """What a policy loses: the advantages `[H, S, A]` that it meets."""
    horizon, n_states = actions.shape
    here, lost = start.copy(), 0.0
    for h in range(horizon):
        after = np.zeros(n_states)
        for s in range(n_states):
            if here[s] > 0.0:
                lost += here[s] * advantage[h, s, actions[h, s]]
                for n in range(n_states):
                    after[n] += here[s] * rows[s, actions[h, s], n]
        here = after
    return lost


def radii_run(case: Case, rng: np.random.Generator) -> Outcome:
    """Which promises made of radii were broken at any look, by promise and family."""
    horizon, n_states, n_actions = case.mdp.shape
    rows = rng.dirichlet(np.ones(n_states), (n_states, n_actions))
    target = MDP.from_dense(rows, initial=case.mdp.initial, horizon=horizon)
    families = [name for name in FAMILIES if name != "hoeffding"]
    kinds = KINDS[:-1] if case.numbered else KINDS  # a target would have to name states that were never met
    events = {EVENT: event_broken, DIVERGENCE: divergence_broken}
    outcome: Outcome = {Promise(event, name, delta): None for event in events for name in families for delta in DELTAS}
    outcome |= {Promise(kind, FAMILY, delta): None for kind in kinds for delta in DELTAS}
    for counts in explored(case, rng):
        true, met = as_numbered(case, counts) if case.numbered else (case, counts)
        recovered = recovered_reward(estimate(true, met), rng)
        found: dict[str, float] = {}
        for delta in DELTAS:
            if not found or not case.kind.deterministic:
                known = estimate(true, met, delta)
                whole = known if met is counts else estimate(true, met.grown(n_states), delta)
                found["set"] = set_gap(true, whole, rng)
                found["reward"] = reward_gap(true, whole, recovered.grown(n_states), 0.1 * horizon, rng)
                found["dynamics"] = dynamics_regret(true, whole, rng)
                if "transfer" in kinds:
                    found["transfer"] = transfer_regret(true, whole, recovered, target)
            for name in families:
                belief = belief_of(known, FAMILIES[name], recovered, Target(0.1 * horizon, delta, 1.0))
                for event, broken in events.items():
                    promise = Promise(event, name, delta)
                    outcome[promise] = bool(outcome[promise]) or broken(true, known, belief.radii)
                if name != FAMILY:
                    continue
                promised = {kind.name: kind.value(belief) for kind in (RewardSet(), Reward(), Dynamics())}
                if "transfer" in kinds:
                    promised["transfer"] = transfer_certificate(belief, target).value
                for kind, value in promised.items():
                    looked(outcome, Promise(kind, FAMILY, delta), found[kind], value, horizon)
    return outcome


def as_numbered(case: Case, counts: Counts) -> tuple[Case, Counts]:
    """The case with the states that were met first, and the counts of these alone."""
    n_states = case.mdp.n_states
    seen = counts.starts > 0
    seen[counts.move_keys % n_states] = True
    seen[0] = True
    order = np.argsort(~seen, kind="stable")
    return case.renumbered(order), as_met(counts, order[: int(seen.sum())], case.terminal)


# Counting.


def run_case(name: str, seed: int) -> Outcome:
    """One run of a case: what became of every promise that can be made about it."""
    streams = iter(np.random.default_rng([seed, list(CASES).index(name)]).spawn(1 + len(WAYS)))
    outcome: Outcome = {}
    for way in WAYS:
        rng = next(streams)
        case = CASES[name](rng, way.share)
        if name in way.only and case.kind.deterministic:  # a stochastic expert has no known actions to promise
            outcome |= loop_run(case, way, int(rng.integers(2**62)))[0]
    rng = next(streams)
    return outcome | radii_run(CASES[name](rng, DELTA), rng)


def unmet_run(name: str, seed: int) -> Outcome:
    """One run of a case of `UNMET`, with promises about the policy alone."""
    streams = iter(np.random.default_rng([seed, list(UNMET).index(name), 23]).spawn(len(UNMET_WAYS)))
    outcome: Outcome = {}
    for way, rng in zip(UNMET_WAYS, streams, strict=True):
        outcome |= loop_run(UNMET[name](rng, way.share), way, int(rng.integers(2**62)))[0]
    return outcome


RUNS: dict[str, Callable[[int], Outcome]] = {name: partial(run_case, name) for name in CASES}
RUNS["mixes best actions"] = mixing_run
"""What is counted, by name: a run for each seed."""


def p_value(broken: int, runs: int, delta: float = DELTA) -> float:
    """How likely that many broken promises or more are, if each is broken with probability `delta`."""
    return float(binom.sf(broken - 1, runs, delta))


@dataclass(frozen=True)
class Tally:
    """How often a promise was broken in so many runs of a case, and in how many of them anything was promised."""

    case: str
    promise: Promise
    runs: int
    made: int
    broken: int

    @property
    def share(self) -> float:
        """The share of runs in which it was broken."""
        return self.broken / self.runs

    @property
    def p_value(self) -> float:
        """How likely as many are, or more, if it is broken as often as it may be."""
        return p_value(self.broken, self.runs, self.promise.delta)

    @property
    def passes(self) -> bool:
        """Whether the promise is kept as often as it says."""
        return self.p_value > SIGNIFICANT


def tallies(runs_of: Mapping[str, Callable[[int], Outcome]], runs: int, workers: int = 1) -> Iterator[Tally]:
    """All promises of all cases, with the seeds from zero on; those of a case as soon as it is done."""
    with ProcessPoolExecutor(workers) as pool:
        for name, run in runs_of.items():
            outcomes = list(pool.map(run, range(runs), chunksize=max(1, min(20, runs // workers))))
            for promise in outcomes[0]:
                found = [outcome[promise] for outcome in outcomes]
                yield Tally(name, promise, runs, sum(broken is not None for broken in found), sum(map(bool, found)))

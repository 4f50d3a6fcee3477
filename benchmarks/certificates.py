"""How many samples a certificate needs, at ε = 0.1·H·Rmax and δ = 0.1.

    python benchmarks/certificates.py [--only policy criterion imitation set transfer] [--runs N]

policy      follow the expert, and by default, N_E = 1; also with a stationary expert and with a reward of states
criterion   the same, with the first action imposed in turn
imitation   of an expert who errs: until doing as it does is good enough, which only the benchmark can see
set         explore for all policies, in batches that grow geometrically
transfer    train in an environment, promise for another; also by total variation alone
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import _frame as frame
import numpy as np

from aceirl.certificates import transfer_certificate, transfer_policy
from aceirl.certificates.base import same_to_expert
from aceirl.certificates.reward_set import RewardSet
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.explore import STRATEGIES
from aceirl.irl import MaxCausalEntropy
from aceirl.irl.belief import Belief, Memory, Plan, Target
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of
from aceirl.learner.settings import Settings
from aceirl.models.tabular.confidence import FAMILIES
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import occupancy, optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, steps_after
from aceirl.rewards import action_values
from studies.adversaries import Case
from studies.collecting import collected
from studies.soundness import ROUNDING, belief_of, transfer_regret, turns

ENVIRONMENTS = ("random-mdp", "gridworld", "chain", "double-chain", "four-paths")
PAGE = "certificates.md"
DELTA = 0.1


def samples_until(
    kind: str, name: str, seed: int, *, strategy: str = "advice", stationary: bool = False, by_state: bool = False
) -> int:
    """Samples that the loop spends until the certificate of a kind stops it."""
    problem = make(name, seed)
    # What the expert would do at the first step, it then does at every step; that makes it stationary.
    actions = problem.expert[0] if stationary else problem.expert
    expert = PolicyExpert(actions, problem.mdp.shape, stationary=stationary)
    # The reward is not looked at; what is said of it is.
    said = {"reward": "state", "infer_after_growth": 10.0} if by_state else {"irl": "feasible-point"}
    settings = Settings(strategy=strategy, certify=kind, seed=seed, max_samples=10**6, **said)
    *_, last = turns(Engine(Simulator(problem.mdp), answers_of(expert, settings), settings), expert)
    assert last.stopped == "certificate"
    return last.counts.samples


def policy_table(report: frame.Report, seeds: int) -> None:
    """The price of `policy`: following the expert, and by default; with what may be said of expert and reward."""
    table = report.table(
        "certificates-policy",
        frame.Column("environment"),
        frame.Column(f"`advice`: samples to `policy`, mean ± s.e. of {seeds}"),
        frame.Column("largest"),
        frame.Column("a reward of states, declared so"),
        frame.Column("a stationary expert, declared so"),
        frame.Column("`guided`, the default"),
        frame.Column("`guided`, a stationary expert"),
        page=PAGE,
    )
    for name in ENVIRONMENTS:
        of_states = not np.ptp(make(name, 0).reward, axis=2).any()

        def price(name: str = name, **said: Any) -> list[int]:
            return [samples_until("policy", name, seed, **said) for seed in range(seeds)]

        plain = price()
        table.add(
            name,
            frame.Mean.of(plain),
            max(plain),
            frame.Mean.of(price(by_state=True)) if of_states else None,
            frame.Mean.of(price(stationary=True)),
            frame.Mean.of(price(strategy="guided")),
            frame.Mean.of(price(strategy="guided", stationary=True)),
        )


def criterion_table(report: frame.Report, seeds: int) -> None:
    """The price of `criterion`."""
    table = report.table(
        "certificates-criterion",
        frame.Column("environment"),
        frame.Column("actions"),
        frame.Column(f"samples to `criterion`, mean ± s.e. of {seeds}"),
        frame.Column("times `policy`", "{:.2f}"),
        page=PAGE,
    )
    for name in ENVIRONMENTS:
        literal = [samples_until("criterion", name, seed) for seed in range(seeds)]
        plain = [samples_until("policy", name, seed) for seed in range(seeds)]
        table.add(name, make(name, 0).mdp.n_actions, frame.Mean.of(literal), np.mean(literal) / np.mean(plain))


GROWTH = 1.05
"""How much larger all that was seen is after each batch."""


def samples_to_set(name: str, family: str, seed: int, explorer: str = "greedy") -> int:
    """Samples until (EB1) certifies, exploring in batches that grow with what was seen."""
    problem = make(name, seed)
    environment, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    horizon = problem.mdp.horizon
    target, episodes, rng = Target(0.1 * horizon, DELTA, 1.0), 50, np.random.default_rng(seed)
    counts, strategy = Counts.empty(problem.mdp.shape), STRATEGIES[explorer]()
    memory: Memory = {}
    while True:
        known = Estimate.of(counts, kind=ExpertKind(), delta=DELTA / 3, initial=problem.mdp.initial)
        batch = max(episodes, int((GROWTH - 1) * counts.samples / horizon))
        belief = replace(belief_of(known, FAMILIES[family], target=target, episodes=batch), memory=memory)
        if RewardSet().value(belief) <= target.epsilon:
            return counts.samples
        plan = strategy.plan(belief, rng)
        memory = plan.memory
        counts = counts + collected(environment, expert, plan, batch, counts, rng).counts


def set_table(report: frame.Report, seeds: int) -> None:
    """The price of `set`; the dear ones, which hardly vary, in a few runs only."""
    few = max(1, seeds // 25)
    families = {
        f"paper (`hoeffding`, 4·EB1), mean of {few}": ("hoeffding", few),
        f"`kl`, mean of {few}": ("kl", few),
        f"`adaptive`, mean ± s.e. of {seeds}": ("adaptive", seeds),
    }
    table = report.table(
        "certificates-set",
        frame.Column("environment"),
        *(frame.Column(head) for head in families),
        frame.Column("largest", "{:.3g}"),
        frame.Column("times fewer than `kl`", "{:.0f}"),
        page=PAGE,
    )
    for name in ENVIRONMENTS:
        runs = {family: [samples_to_set(name, family, seed) for seed in range(n)] for family, n in families.values()}
        ratio = np.mean(runs["kl"]) / np.mean(runs["adaptive"])
        *dear, ours = (frame.Mean.of(numbers) for numbers in runs.values())
        table.add(name, *(f"{one.mean:.3g}" for one in dear), ours, max(runs["adaptive"]), ratio)


def samples_to_imitate(name: str, seed: int, any_action: float) -> int:
    """Samples until doing as an expert did that sometimes takes any action loses at most ε under the worst reward."""
    problem, rng = make(name, seed), np.random.default_rng(seed)
    mdp, n_actions = problem.mdp, problem.mdp.n_actions
    policy = (1 - any_action) * problem.expert + any_action / n_actions
    expert, visits, episodes = occupancy(mdp, policy), np.zeros(mdp.shape), 0
    while True:
        batch = max(5, episodes // 20)
        visits += Counts.of_moves(Simulator(mdp).rollout(policy, batch, rng), mdp.shape).visits
        episodes += batch
        met = visits.sum(axis=2, keepdims=True)
        imitation = np.where(met > 0, visits / np.maximum(1, met), 1 / n_actions)
        if np.abs(expert - occupancy(mdp, imitation)).sum() / 2 <= 0.1 * mdp.horizon:
            return episodes * mdp.horizon


def imitation_table(report: frame.Report, seeds: int) -> None:
    """What it takes to do as an expert does who errs, if one could see when that is reached."""
    shares = 0.1, 0.5
    table = report.table(
        "certificates-imitation",
        frame.Column("environment"),
        *(frame.Column(f"{share:.0%} any action: samples, mean ± s.e. of {seeds}") for share in shares),
        page=PAGE,
    )
    for name in ENVIRONMENTS:
        runs = ([samples_to_imitate(name, seed, share) for seed in range(seeds)] for share in shares)
        table.add(name, *(frame.Mean.of(one) for one in runs))


ELSEWHERE: dict[str, tuple[str, dict[str, float]]] = {
    "gridworld": ("without the obstacle", {"obstacle": 0.0}),
    "double-chain": ("slips three times as often", {"slip": 0.3}),
    "four-paths": ("never fails", {"max_failure": 0.0}),
}
"""Where a reward is taken, in words and as parameters."""


def transfer_table(report: frame.Report, runs: int) -> None:
    """Train in an environment, promise for another; compare with the truth and with a bound that knows no values."""
    table = report.table(
        "certificates-transfer",
        frame.Column("trained in, promised for"),
        frame.Column("episodes explored", "{:.0e}"),
        frame.Column("by total variation (mean)", "{:.3g}"),
        frame.Column("promised regret (mean)", "{:.3g}"),
        frame.Column("ratio", "{:.2f}"),
        frame.Column("regret (mean)", "{:.2g}"),
        frame.Column("largest regret / promise", "{:.2g}"),
        frame.Column("exceeded"),
        page=PAGE,
    )
    sizes = (100, 10_000, 1_000_000, 100_000_000)
    for name, (words, _) in ELSEWHERE.items():
        for episodes in sizes:
            seeds = range(max(1, runs // len(sizes)))
            before, promised, lost = np.array([transfer_run(name, episodes, seed) for seed in seeds]).T
            table.add(
                f"{name}, {words}",
                episodes,
                before.mean(),
                promised.mean(),
                promised.mean() / before.mean(),
                lost.mean(),
                (lost / np.maximum(promised, ROUNDING)).max(),
                int((lost > promised + ROUNDING).sum()),
            )


def transfer_run(name: str, episodes: int, seed: int) -> tuple[float, float, float]:
    """`(bound by total variation, promised regret, regret)` of planning with the recovered reward elsewhere."""
    problem, process = make(name, seed), make(name, seed, **ELSEWHERE[name][1]).mdp
    expert, shape, rng = PolicyExpert(problem.expert, problem.mdp.shape), problem.mdp.shape, np.random.default_rng(seed)
    plan = Plan(policy=np.full(shape, 1 / shape[2]))
    counts = collected(Simulator(problem.mdp), expert, plan, episodes, Counts.empty(shape), rng).counts
    known = Estimate.of(counts, kind=ExpertKind(), delta=DELTA / 3, initial=problem.mdp.initial)
    belief = belief_of(known, FAMILIES["adaptive"], MaxCausalEntropy()(known, 1.0))
    case = Case(problem.mdp, problem.expert.argmax(axis=2))
    promise = transfer_certificate(belief, process).value
    return by_total_variation(belief, process), promise, transfer_regret(case, known, belief.recovered, process)


def by_total_variation(belief: Belief, process: MDP) -> float:
    """What would be promised if of a row only its total variation were known: that, times how far values lie apart."""
    known, recovered = belief.estimate, belief.recovered
    q = action_values(known, recovered.reward, recovered.unknown_step_reward)
    v = q.max(axis=2)
    later = np.vstack((v[1:], np.zeros((1, v.shape[1]))))
    guess = recovered.unknown_step_reward * steps_after(len(v))
    of_unknown = np.maximum(later.max(axis=1) - guess, guess - later.min(axis=1))
    span = np.ptp(later, axis=1)[:, None, None]
    dynamics = np.where(known.mdp.known, belief.radii.tv_radius * span, of_unknown[:, None, None])
    not_ruled_out = ~known.expert_known[:, :, None] | same_to_expert(known)
    against = dynamics + np.where(not_ruled_out, v[:, :, None] - q, 0.0)
    planned = np.eye(process.n_actions)[transfer_policy(recovered, process)]
    best = float(process.initial @ optimal_values(process, against)[1][0])
    return best + float((occupancy(process, planned) * dynamics).sum())


SECTIONS: dict[str, tuple[Callable[[frame.Report, int], None], int]] = {
    "policy": (policy_table, 50),
    "criterion": (criterion_table, 20),
    "imitation": (imitation_table, 20),
    "set": (set_table, 50),
    "transfer": (transfer_table, 1000),
}


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """The sections asked for."""
    for section in options.only or SECTIONS:
        table, runs = SECTIONS[section]
        table(report, options.runs or runs)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--only", nargs="+", choices=SECTIONS, help="tables; by default all"),
        frame.argument("--runs", type=int, help="of each figure; by default 50, 20, 20, 50 and 1000"),
    )

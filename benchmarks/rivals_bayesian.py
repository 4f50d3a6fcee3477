"""What the papers of the Bayesian rivals claim, in their own setting: known dynamics, and any state may be asked about.

    python benchmarks/rivals_bayesian.py [--seeds N] [--draws N] [--rewards N] [--seed N]

First table: answers are asked for one at a time, about the state that an acquisition function likes best or one drawn
at random, in a grid world whose cells are of a few kinds; a reward is a value for each kind, and the expert is a
Boltzmann one. What the apprentice loses after so many answers, as a share of what the worst policy loses, and how much
less than by asking at random, in pairs of the same reward and world; mean and standard error. Claimed by Lopes et al.,
Brown et al. and Bajgar et al.: fewer answers than at random.

Second table: how often the true loss is within the value at risk, whose level Brown et al. say it is.

Third table: how many entries of the mean of random feasible rewards are within two standard errors of the reward
centroid of Lazzati and Metelli, which should be about 95.4 % of them; and whether planning with the centroid repeats
the expert of their 10 x 10 grid.

Fourth table: processor time of a plan in the paper's environments, after a run of 30 episodes.
"""

from __future__ import annotations

import argparse
import time

import _frame as frame
import numpy as np

from aceirl.bench.rivals.active_var import ActiveVaR, value_at_risk
from aceirl.bench.rivals.pac_eig import PacEIG
from aceirl.bench.rivals.policy_entropy import PolicyEntropy
from aceirl.bench.rivals.querying import PosteriorDraws, Querying
from aceirl.bench.rivals.reward_centroid import RewardCentroid
from aceirl.bench.rivals.reward_eig import RewardEIG
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.irl.boltzmann import Boltzmann, Choices
from aceirl.irl.posterior import Prior, sample
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import (
    boltzmann_policy,
    evaluate,
    greedy_actions,
    occupancy,
    optimal_values,
)
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import FeatureReward
from studies.bayesian import PADDING_STATE, SCENES

RIVALS: dict[str, Querying] = {
    "policy entropy": PolicyEntropy(),
    "ActiveVaR": ActiveVaR(),
    "Reward-EIG": RewardEIG(),
    "PAC-EIG": PacEIG(),
}
SIDE, KINDS, HORIZON, BETA = 6, 8, 12, 10.0
AFTER = (4, 8, 12)
LEVELS = (0.9, 0.95)


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """All four tables."""
    fewer_answers(options, report)
    value_at_risk_holds(options, report)
    centroid_is_the_mean(options, report)
    time_of_a_plan(report)


def grid(side: int, moves: int = 4) -> FloatArray:
    """`[S, A, S]`: right, left, up, down and perhaps stay, on a grid with walls around it."""
    cells = np.indices((side, side)).reshape(2, -1)
    rows = np.zeros((side * side, moves, side * side))
    for a, step in enumerate(((0, 1), (0, -1), (-1, 0), (1, 0), (0, 0))[:moves]):
        y, x = np.clip(cells + np.array(step)[:, None], 0, side - 1)
        rows[np.arange(side * side), a, y * side + x] = 1.0
    return rows


def fewer_answers(options: argparse.Namespace, report: frame.Report) -> None:
    """The first table."""
    table = report.table(
        "rivals-answers",
        frame.Column("asks by"),
        *(frame.number(f"loss after {n}", str) for n in AFTER),
        *(frame.number(f"less than at random after {n}", str) for n in AFTER),
        page="posterior.md",
    )
    losses = {name: [] for name in ("random", *RIVALS)}  # type: dict[str, list[FloatArray]]
    for seed in range(options.seeds):
        for name, found in losses.items():
            found.append(asked_by(RIVALS.get(name), seed))
    at_random = np.array(losses["random"])
    for name, found in losses.items():
        lost = np.array(found)
        saved = [None if name == "random" else frame.Mean.of((at_random - lost)[:, k].tolist()) for k in range(3)]
        table.add(name, *(frame.Mean.of(lost[:, k].tolist()) for k in range(3)), *saved)


def asked_by(rival: Querying | None, seed: int) -> FloatArray:
    """`[3]`: the apprentice's loss from a uniform start after so many answers; None asks at random."""
    rng, world = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    mdp = MDP.from_dense(grid(SIDE), initial=np.full(SIDE**2, 1 / SIDE**2), horizon=HORIZON)
    design = FeatureReward(np.eye(KINDS)[world.integers(KINDS, size=SIDE**2)]).design_matrix(mdp, PADDING_STATE)
    theta = world.uniform(-1, 1, size=KINDS)
    expert, truth = boltzmann_policy(mdp, design.table(theta), BETA), Truth(mdp, design.table(theta))
    answers, found, last = np.zeros(mdp.shape, dtype=np.int64), [], None
    for number in range(1, max(AFTER) + 1):
        likelihood = Boltzmann(mdp, design, BETA, Choices.of_answers(answers))
        state = int(rng.integers(mdp.n_states))
        if rival is not None:
            warm = 30 if last is None else 6
            drawn = sample(likelihood, Prior(), rng, chains=12, draws=8, burn_in=warm, start=last)
            worth, last = rival.acquisition(PosteriorDraws(likelihood, drawn.all))[0], drawn.last
            state = int(rng.choice(np.flatnonzero(worth >= worth.max() - 1e-12)))
        answers[0, state, rng.choice(mdp.n_actions, p=expert[0, state])] += 1
        if number in AFTER:
            after = Boltzmann(mdp, design, BETA, Choices.of_answers(answers))
            mean = sample(after, Prior(), rng, chains=12, draws=20, burn_in=40).mean
            best = greedy_actions(optimal_values(mdp, design.table(mean))[0], rng)
            found.append(truth.regret(np.eye(mdp.n_actions)[best]))
    return np.array(found)


def value_at_risk_holds(options: argparse.Namespace, report: frame.Report) -> None:
    """The second table."""
    table = report.table(
        "rivals-var",
        frame.Column("problem"),
        frame.number("level", "{:.0%}"),
        frame.number("held", "{:.1%}"),
        frame.number("standard error", "{:.1%}"),
        page="posterior.md",
    )
    for make_scene in SCENES:
        scene, rng = make_scene(options.seed), np.random.default_rng([options.seed, 3])
        held = []
        for _ in range(options.draws):
            theta, likelihood = scene.drawn(rng)
            drawn = PosteriorDraws(likelihood, scene.posterior(likelihood, rng).all)
            table_of = scene.design.table(theta)
            policy = np.eye(scene.mdp.n_actions)[drawn.apprentice]
            lost = (optimal_values(scene.mdp, table_of)[1] - evaluate(scene.mdp, table_of, policy)[1])[0]
            start = int(rng.choice(scene.mdp.n_states, p=scene.mdp.initial))
            at_risk = [value_at_risk(drawn.losses[:, 0, start], level) for level in LEVELS]
            held.append([lost[start] <= bound + 1e-12 for bound in at_risk])
        for level, share in zip(LEVELS, np.mean(held, axis=0), strict=True):
            table.add(scene.name, level, share, float(np.sqrt(share * (1 - share) / options.draws)))


def centroid_is_the_mean(options: argparse.Namespace, report: frame.Report) -> None:
    """The third table."""
    table = report.table(
        "rivals-centroid",
        frame.Column("claim"),
        frame.number("measured", "{:.1%}"),
        frame.number("expected", "{:.1%}"),
        page="posterior.md",
    )
    rng, bound = np.random.default_rng(options.seed), 0.5
    mdp = make("gridworld", options.seed).mdp
    actions, asked = rng.integers(4, size=mdp.shape[:2]), rng.integers(2, size=mdp.shape[:2])
    best = np.where(asked == 1, actions, rng.integers(4, size=(options.rewards, *mdp.shape[:2])))
    advantage = rng.uniform(0, bound, size=(*best.shape, 4)) * (1 - np.eye(4)[best])
    values = rng.uniform(-1, 1, size=(options.rewards, mdp.horizon + 1, mdp.n_states))
    values[:, -1] = 0.0
    rewards = values[:, :-1, :, None] - (values[:, 1:] @ mdp.transitions.matrix.toarray().T).reshape(advantage.shape)
    rewards -= advantage
    centroid = RewardCentroid()(informed(mdp, actions, asked), 1.0).reward
    scaled = 1 + rewards / (bound / 2)
    error = scaled.std(axis=0, ddof=1) / np.sqrt(options.rewards)
    table.add(
        "mean of feasible rewards within two errors",
        float((np.abs(scaled.mean(axis=0) - centroid) < 2 * error).mean()),
        0.954,
    )
    table.add("steps of the authors' expert repeated", repeated(), 1.0)


def informed(mdp: MDP, actions: IntArray, asked: IntArray) -> Estimate:
    """The process as it is, and what the expert does where it was asked."""
    answers = (np.eye(mdp.n_actions)[actions] * asked[:, :, None]).astype(np.int64)
    counts = Counts.empty(mdp.shape).with_answers(answers)
    found = Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=mdp.initial)
    vars(found).update(mdp=mdp)
    return found


def repeated() -> float:
    """The share of steps in which the centroid's policy does as the expert: right three times, up once, then stay."""
    side, start = 10, (4, 3)
    mdp = MDP.from_dense(grid(side, moves=5), initial=start[0] * side + start[1], horizon=30)
    actions = np.full(mdp.shape[:2], -1)
    actions[:, [43, 44, 45]], actions[:, 46], actions[:, 36] = 0, 2, 4
    estimate = informed(mdp, np.maximum(actions, 0), (actions >= 0).astype(np.int64))
    centroid = RewardCentroid()(estimate, 1.0)
    best = optimal_values(mdp, centroid.reward)[0].argmax(axis=2)
    visits = occupancy(mdp, np.eye(5)[best]).sum(axis=2)
    return float((visits * (best == actions)).sum() / mdp.horizon)


def time_of_a_plan(report: frame.Report) -> None:
    """The fourth table."""
    names = ("gridworld", "four-paths")
    problems = {name: make(name, 0) for name in names}
    shapes = {name: "H={}, S={}, A={}".format(*problem.mdp.shape) for name, problem in problems.items()}
    table = report.table(
        "rivals-time",
        frame.Column("plan of"),
        *(frame.number(f"{name}, {shapes[name]}", frame.seconds) for name in names),
        page="posterior.md",
    )
    for name, rival in RIVALS.items():
        table.add(name, *(seconds_of_a_plan(rival, problems[one].mdp, problems[one].expert) for one in names))


def seconds_of_a_plan(rival: Querying, mdp: MDP, expert: FloatArray) -> float:
    """Of the processor, with chains that are taken up again."""
    samples = 30 * mdp.horizon
    settings = Settings(strategy=rival, irl="feasible-point", certify=None, max_samples=samples)
    *_, last = learn(Simulator(mdp), PolicyExpert(expert, mdp.shape), settings)
    began, rng, rounds = time.process_time(), np.random.default_rng(0), 20
    for _ in range(rounds):
        rival.plan(last.belief, rng)
    return (time.process_time() - began) / rounds


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=60, help="worlds in which answers are asked for"),
        frame.argument("--draws", type=int, default=400, help="rewards whose loss is compared with the value at risk"),
        frame.argument("--rewards", type=int, default=4000, help="feasible rewards that are averaged"),
        frame.argument("--seed", type=int, default=0),
    )

"""What the recovered reward says of the expert: is it the truth, what does it lose, and what did it cost?

    python benchmarks/goals.py [--seeds N] [--erring] [--wishes]

A default run to the policy certificate in each of the paper's environments, for each seed. "Right" is a goal that is
the place of the largest true reward; on Chain, an avoided place that is that of the smallest; on random MDPs, whose
reward depends on the step, that no goal is named. "Training" is what an agent loses that is optimal for the recovered
reward in the true process, "transfer" the same from a uniform start; both are shares of what lies between the best and
the worst policy. With `--erring`: the transfer regret by experts that err, after budgets of samples. With `--wishes`:
what is said of the wish at the end of a default run, in seven environments that people know.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import _frame as frame
import numpy as np
from joblib import Parallel, delayed

from aceirl.envs import Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.experts.tasks import Source, open_source
from aceirl.explain.wish import said_wish
from aceirl.irl import SparseLikelihood
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.dynamic_programming import evaluate, optimal_values
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.rewards import StateReward

ENVIRONMENTS = {"random-mdp": 720, "gridworld": 1050, "chain": 828, "double-chain": 1918, "four-paths": 1720}
"""With the samples that the policy certificate took before rewards were about places."""

ERRING = {"5 % wrong": 1000, "15 % wrong": 2000, "Boltzmann": 2000}
"""Experts that err, and after how many samples they are judged."""


@dataclass(frozen=True)
class Known:
    """An environment in which the wish is known: a word in the names of the places that are wanted, unless those are
    the places that pay most, and whether the expert is in a hurry; `told` is what the run is told."""

    wanted: str = ""
    hurry: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, claim: Mapping[str, Any], problem: Problem | None) -> bool:
        """Whether something that is named is true."""
        if claim["what"] == "hurry":
            return self.hurry
        if problem is not None:
            pays = problem.reward.mean(axis=(0, 2))
            return claim["what"] == "wants" and bool(pays[claim["where"]] >= pays.max() - 1e-9)
        return claim["what"] == "wants" and self.wanted in claim["name"]


SEVEN = {
    "four-paths": Known(),
    "double-chain": Known(),
    "gridworld": Known(),
    "FrozenLake-v1": Known("the flag", told={"stationary_expert": True, "expert": "optimal"}),
    "CliffWalking-v1": Known("the goal", hurry=True, told={"horizon": 30, "expert": "optimal"}),
    "MiniGrid-Empty-5x5-v0": Known("the goal", hurry=True, told={"horizon": 30, "expert": "optimal"}),
    "Taxi-v4": Known("delivered", hurry=True, told={"stationary_expert": True, "expert": "optimal"}),
}


@dataclass(frozen=True)
class Found:
    """One run: what it said, cost and lost."""

    right: bool
    space: str
    evidence: float
    samples: int
    training: float
    transfer: float


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """All environments, or all experts that err."""
    seeds = range(options.seeds)
    if options.erring:
        _erring(report, options.seeds)
        return
    if options.wishes:
        _wishes(report, options.seeds)
        return
    table = report.table(
        "goals",
        frame.Column("environment"),
        frame.Column("right"),
        frame.Column("spaces"),
        frame.Column("evidence for `state`, 5 % to 95 %"),
        frame.number("samples", "{:,.0f}"),
        frame.number("to before", "{:.2f}"),
        frame.number("training regret", "{:.4f}"),
        frame.number("largest", "{:.4f}"),
        frame.number("transfer regret", "{:.4f}"),
        page="rewards.md",
    )
    for name, before in ENVIRONMENTS.items():
        runs = _all(delayed(_found)(name, seed) for seed in seeds)
        spaces = {space: sum(run.space == space for run in runs) for space in ("state", "state-action", "any")}
        low, high = np.quantile([run.evidence for run in runs], [0.05, 0.95])
        samples = float(np.mean([run.samples for run in runs]))
        training = [run.training for run in runs]
        table.add(
            name,
            f"{sum(run.right for run in runs)} of {len(runs)}",
            ", ".join(f"{space} {n}" for space, n in spaces.items() if n),
            f"{low:.1f} to {high:.1f}",
            samples,
            samples / before,
            float(np.mean(training)),
            max(training),
            float(np.mean([run.transfer for run in runs])),
        )


def _erring(report: frame.Report, seeds: int) -> None:
    table = report.table(
        "erring",
        frame.Column("environment"),
        frame.Column("expert"),
        frame.number("samples"),
        frame.number("transfer regret", "{:.4f}"),
        frame.number("largest", "{:.4f}"),
        frame.Column("right"),
        page="rewards.md",
    )
    for name in ENVIRONMENTS:
        if name != "random-mdp":
            for expert, samples in ERRING.items():
                runs = _all(delayed(_found)(name, seed, expert, samples) for seed in range(seeds))
                lost = [run.transfer for run in runs]
                right = f"{sum(run.right for run in runs)} of {seeds}"
                table.add(name, expert, samples, float(np.mean(lost)), max(lost), right)


def _wishes(report: frame.Report, seeds: int) -> None:
    table = report.table(
        "known-environments",
        frame.Column("environment"),
        frame.number("runs"),
        frame.number("bold and right"),
        frame.number("bold and false"),
        frame.number("sets that hold"),
        frame.number("sets that do not"),
        frame.number("open"),
        frame.number("samples", "{:,.0f}"),
        frame.Column("most often"),
        page="sentences.md",
    )
    for name, known in SEVEN.items():
        runs: list[Said] = Parallel(n_jobs=-1)(delayed(_said)(name, seed, known) for seed in range(seeds))
        counted = [
            sum(run.kind == kind and run.true == true for run in runs)
            for kind in ("bold", "set")
            for true in (True, False)
        ]
        table.add(
            name,
            len(runs),
            *counted,
            len(runs) - sum(counted),
            float(np.median([run.samples for run in runs])),
            Counter(run.sentence for run in runs).most_common(1)[0][0],
        )


@dataclass(frozen=True)
class Said:
    """What one run said of the wish, whether it is true, and after how many samples."""

    kind: str
    true: bool
    sentence: str
    samples: int


def _said(name: str, seed: int, known: Known) -> Said:
    with open_source(Source(name, {}, seed=seed, **known.told)) as task:
        turn = [*learn(task.environment, task.expert, Settings(seed=seed))][-1]
        wish = said_wish(turn, task.world.state_names(turn.names), [str(a) for a in range(turn.belief.shape[2])])
    problem = make(name, seed) if name in ENVIRONMENTS else None
    holds = [known.holds(claim, problem) for claim in wish.named]
    return Said(wish.kind, all(holds) if wish.kind == "bold" else any(holds), wish.sentence, turn.counts.samples)


def _all(jobs: object) -> list[Found]:
    found: list[Found] = Parallel(n_jobs=-1)(jobs)
    return found


def _found(name: str, seed: int, expert: str | None = None, samples: int | None = None) -> Found:
    problem = make(name, seed)
    settings = Settings(seed=seed) if samples is None else Settings(seed=seed, max_samples=samples, certify=None)
    answers = PolicyExpert(problem.expert if expert is None else _in_error(problem, expert, seed), problem.mdp.shape)
    turn = [*learn(Simulator(problem.mdp), answers, settings)][-1]
    explanation, everywhere = turn.explanation, np.full(problem.mdp.n_states, 1 / problem.mdp.n_states)
    assert explanation is not None
    return Found(
        right=right(problem, turn),
        space=explanation.space,
        evidence=_evidence_for_places(turn),
        samples=turn.counts.samples,
        training=regret(problem, turn, problem.mdp.initial),
        transfer=regret(problem, turn, everywhere),
    )


def _evidence_for_places(turn: Turn) -> float:
    """The evidence for a reward of places, whichever space was chosen."""
    found = SparseLikelihood()(turn.belief.estimate, 1.0, None, StateReward()).explanation
    assert found is not None
    return found.evidence


def _in_error(problem: Problem, expert: str, seed: int) -> IntArray:
    """`[H, S]`: answers that err: any action in a share of the entries, or one drawn by `exp(10·Q)`."""
    rng = np.random.default_rng([seed, 7])
    actions: IntArray = problem.expert.argmax(axis=2)
    if expert == "Boltzmann":
        q = optimal_values(problem.mdp, problem.reward)[0]
        share = np.exp(10 * (q - q.max(axis=2, keepdims=True)))
        share /= share.sum(axis=2, keepdims=True)
        chosen: IntArray = (share.cumsum(axis=2) < rng.random(actions.shape)[:, :, None]).sum(axis=2)
        return chosen
    wrong = rng.random(actions.shape) < float(expert.partition(" ")[0]) / 100
    return np.where(wrong, rng.integers(problem.mdp.n_actions, size=actions.shape), actions)


def right(problem: Problem, turn: Turn) -> bool:
    """Whether the goal, or what is avoided, is that of the true reward."""
    explanation, by_state = turn.explanation, problem.reward.mean(axis=(0, 2))
    assert explanation is not None
    if problem.name == "random-mdp":
        return not explanation.goals
    if problem.name == "chain":
        return explanation.avoided[:1] == [int(by_state.argmin())]
    return explanation.goals == np.flatnonzero(by_state >= by_state.max() - 1e-9).tolist()


def regret(problem: Problem, turn: Turn, start: FloatArray) -> float:
    """What planning with the recovered reward in the true process loses, as a share, ties broken at random."""
    mdp, reward = problem.mdp, problem.reward
    q = optimal_values(mdp, turn.belief.recovered.reward)[0]
    best = q >= q.max(axis=2, keepdims=True) - 1e-9
    policy = best / best.sum(axis=2, keepdims=True)
    value = evaluate(mdp, reward, policy)[1][0]
    high, low = optimal_values(mdp, reward)[1][0], -optimal_values(mdp, -reward)[1][0]
    return float(start @ (high - value) / (start @ (high - low)))


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=50),
        frame.argument("--erring", action="store_true", help="experts that err"),
        frame.argument("--wishes", action="store_true", help="what is said of the wish in known environments"),
    )

"""How good a recovered reward is elsewhere: where it is taken, and what else might be planned with there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from aceirl.envs import Problem, make
from aceirl.irl import FeasiblePoint, MaxCausalEntropy, SparseLikelihood
from aceirl.learner.transfer import KnownProcess, best_actions, carried_reward, same_states
from aceirl.learner.turns import Turn
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import AnyReward, Recovered, StateReward

Dynamics = Literal["estimated", "known"]
"""What a reward that is taken elsewhere was inferred with."""

# Seeds of other dynamics, far from those of the runs.
OTHER_SEEDS = 1_000

# What is different elsewhere. In Four Paths, GARNET, the lock and the deep sea another seed draws other dynamics; what
# the expert wants stays where it is. In Chain the last action is the worst one then, and any other the best.
ELSEWHERE: dict[str, dict[str, dict[str, Any]]] = {
    "four-paths": {"other dynamics": {}},
    "double-chain": {"other dynamics": {"slip": 0.3}},
    "chain": {
        "other dynamics": {"advance": 0.3, "advance_other": 0.7, "recover": 0.01, "recover_other": 0.05},
    },
    "gridworld": {"other dynamics": {"failure": 0.1}, "obstacle moved": {"obstacle_up": 1}},
    "deep-sea": {"other dynamics": {}},
    "combination-lock": {"other code": {}},
    "rooms": {"other dynamics": {"failure": 0.3}, "door closed": {"closed": 2}},
    "garnet": {"other dynamics": {}},
    "small-taxi": {"other dynamics": {"failure": 0.3}},
    "frozen-lake": {"other dynamics": {"slip": 0.6}},
    "cliff-walking": {"other dynamics": {"failure": 0.3}},
}

# As good as certain: what each row of a known process counts as having been seen.
CERTAIN = 10**9

# What is planned with, and what people call it.
PLANS = {
    "reward": "the recovered reward",
    "any": "a reward of the space `any` (maximum causal entropy)",
    "point": "the plain feasible point",
    "answers": "copying the answers",
    "occupancy": "maximum causal entropy in states, given the expert's occupancy",
}


def targets(environment: str, seed: int, parameters: dict[str, Any]) -> dict[str, KnownProcess]:
    """Where the reward of a run is taken, by name; from every start, and with what the run's expert wants as truth."""
    home = KnownProcess.of(make(environment, seed, **parameters))
    found = {"every start": home}
    for name, changed in ELSEWHERE.get(environment, {}).items():
        there = make(environment, seed + OTHER_SEEDS, **(parameters | changed))
        found[name] = KnownProcess.of(there).valued_as(home)
    return {name: target.starting("uniform") for name, target in found.items()}


def planning_regret(recovered: Recovered, names: Sequence[str], n_states: int, target: KnownProcess) -> float:
    """What planning in a target with a recovered reward loses by the truth; `names` are those of the run's states."""
    assert target.reward is not None
    numbers = same_states(names, n_states, target)
    policy, _ = best_actions(target.mdp, carried_reward(recovered, target, numbers))
    return Truth(target.mdp, target.reward).regret(policy)


def transfer_regrets(
    environment: str, parameters: dict[str, Any], dynamics: Dynamics, turn: Turn
) -> dict[tuple[str, str], float]:
    """The regret of each plan in each target, after the last turn of a run."""
    seed = turn.settings.seed
    problem = make(environment, seed, **parameters)
    rewards = _with_known_dynamics(problem, turn) if dynamics == "known" else _with_estimates(turn)
    answers = turn.belief.estimate.expert_policy
    found: dict[tuple[str, str], float] = {}
    names, n_states = problem.layout.state_names, problem.mdp.n_states
    for name, target in targets(environment, seed, parameters).items():
        for plan, recovered in rewards.items():
            found[plan, name] = planning_regret(recovered, names, n_states, target)
        if dynamics == "estimated":
            assert target.reward is not None
            numbers = same_states(names, n_states, target)
            found["answers", name] = Truth(target.mdp, target.reward).regret(np.ascontiguousarray(answers[:, numbers]))
    return found


def _with_estimates(turn: Turn) -> dict[str, Recovered]:
    """Rewards inferred in the estimated process."""
    estimate, rmax = turn.belief.estimate, turn.settings.rmax
    return {
        "reward": turn.belief.recovered,
        "any": MaxCausalEntropy()(estimate, rmax, {}, AnyReward()),
        "point": FeasiblePoint()(estimate, rmax),
    }


def _with_known_dynamics(problem: Problem, turn: Turn) -> dict[str, Recovered]:
    """Rewards inferred in the true process: from the answers of the run, and from all that the expert does."""
    rmax, everything = turn.settings.rmax, (problem.expert > 0).astype(np.int64)
    return {
        "reward": turn.settings.irl(known_estimate(problem, turn.counts.answers), rmax, {}, turn.space)
        if isinstance(turn.settings.irl, SparseLikelihood)
        else turn.belief.recovered,
        "occupancy": MaxCausalEntropy(reproduce_answers=False)(
            known_estimate(problem, everything), rmax, {}, StateReward()
        ),
    }


def known_estimate(problem: Problem, answers: IntArray) -> Estimate:
    """What is known of a process whose dynamics are known, and whose expert gave these answers `[H, S, A]`.

    As if every row had been seen so often that nothing is left to chance.
    """
    mdp = problem.mdp
    rows = mdp.transitions
    row = np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr))
    times: FloatArray = np.rint(rows.probabilities * CERTAIN)
    seen = times > 0
    counts = Counts.of_arrays(
        stationary=mdp.stationary,
        visits=np.full(mdp.shape, CERTAIN),
        answers=answers,
        starts=np.zeros(mdp.n_states, dtype=np.int64),
        move_keys=(row * mdp.n_states + rows.successors)[seen],
        move_counts=times[seen].astype(np.int64),
    )
    return Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=mdp.initial)
